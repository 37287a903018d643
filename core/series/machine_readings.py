"""Samples of the host and its devices as they are printed and exported: values, and rates with the latency of disks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from jobtop.core.clock import iso
from jobtop.core.errors import BadValue, did_you_mean
from jobtop.core.measure.derive import derive_keys
from jobtop.core.metrics import Fold as MetricFold
from jobtop.core.metrics import Kind, Metric, Scope, Unit, find_metric, metrics_of, steps
from jobtop.core.model import SCHEMA_VERSION, Sample
from jobtop.core.record import record
from jobtop.core.series.readings import minute_json
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from jobtop.core.measure.device import Device
    from jobtop.core.model import Minute

    Number = int | float

# Made of the times and operations of a disk when it is shown; not stored.
LATENCY = Metric(
    "disk.latency", "mean time of an operation of the disk", Unit.SECONDS, Kind.GAUGE, (Scope.DISK,), MetricFold.NONE
)
MOST_KEYS = 6  # in a message
KEY_LIKENESS = 0.75  # of a key that was meant; many keys begin alike
LATENCY_PARTS = ("disk.read_time", "disk.write_time", "disk.read_ops", "disk.write_ops")


@record
class MachineReading:
    """One sample of the host or of a device, `elapsed` seconds after the boot at `boot_time`."""

    boot_time: float
    elapsed: float
    values: dict[str, Number | None]
    rates: dict[str, Number | None]
    minute: Minute | None = None

    @property
    def at(self) -> float:
        """Seconds since the epoch."""
        return self.boot_time + self.elapsed


class MachineReader:
    """Turns samples of one owner that arrive in batches into readings."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = keys
        self._digits = tuple(len(str(steps(key))) - 1 for key in keys)
        self._before: tuple[float, Sample] | None = None

    def read(self, boot_time: float, samples: Iterable[Sample]) -> Iterator[MachineReading]:
        """Return an iterator over the readings of the next samples of a boot; rates do not reach across boots."""
        for sample in samples:
            rounded = self._rounded(sample)
            before = self._before[1] if self._before is not None and self._before[0] == boot_time else None
            self._before = boot_time, rounded
            rates = derive_keys(before, rounded, self.keys).values
            if LATENCY_PARTS[0] in rates:
                rates[LATENCY.key] = latency(rates)
            values = dict(zip(self.keys, rounded.values, strict=True))
            yield MachineReading(boot_time, rounded.elapsed, values, rates, sample.minute)

    def _rounded(self, sample: Sample) -> Sample:
        """Round a sample to the digits that a block keeps, so that it is the same before and after it is sealed."""
        values = (
            round(value, digits or None) if isinstance(value, float) else value
            for value, digits in zip(sample.values, self._digits, strict=True)
        )
        return Sample(round(sample.elapsed, 3), tuple(values), sample.minute)


def latency(rates: Mapping[str, Number | None]) -> float | None:
    """The mean seconds of an operation of a disk, from its rates; None if there was none, or a part is not known."""
    known = [value for key in LATENCY_PARTS if (value := rates.get(key)) is not None]
    if len(known) < len(LATENCY_PARTS):
        return None
    operations = known[2] + known[3]
    return (known[0] + known[1]) / operations if operations > 0 else None


def _meant(key: str, known: Iterable[str]) -> str:
    """Return the key of this owner that was meant, else some of those that it has."""
    names = sorted(known)
    same_group = [name for name in names if name.partition(".")[0] == key.partition(".")[0]]
    some = ", ".join((same_group or names)[:MOST_KEYS])
    return did_you_mean(key, names, KEY_LIKENESS) or f" (it has {some}{', …' if len(names) > MOST_KEYS else ''})"


def machine_metrics(scopes: Sequence[Scope], keys: Sequence[str]) -> tuple[Metric, ...]:
    """Return the catalogue rows of these keys; BadValue if neither the host nor the chosen devices have such a one."""
    known = {metric.key for scope in scopes for metric in metrics_of(scope)}
    for key in keys:
        if key not in known:
            owners = " or ".join(scope.value for scope in scopes)
            raise BadValue(f'{owners} has no metric "{printable(key)}"{_meant(key, known)}')
    return tuple(find_metric(key) for key in dict.fromkeys(keys))


def machine_row(host: str, device: Device | None, reading: MachineReading, keys: Sequence[str]) -> list[Any]:
    """Return the time, the device and the values of the keys, as a row of CSV."""
    kind, name = (None, None) if device is None else (device.kind, device.name)
    return [iso(reading.at), reading.elapsed, host, kind, name, *(reading.values.get(key) for key in keys)]


def machine_json(host: str, device: Device | None, reading: MachineReading, keys: Sequence[str]) -> dict[str, Any]:
    """Return a sample as JSON, nested at the dots of the keys; counters are since the boot. Keys only get added."""
    named = None if device is None else {"kind": device.kind, "name": device.name}
    result: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "host": host, "device": named}
    result |= {"elapsed": reading.elapsed, "timestamp": iso(reading.at)}
    for key in keys:
        if key in reading.values:
            group, dot, name = key.partition(".")
            if dot:
                result.setdefault(group, {})[name] = reading.values[key]
            else:
                result[key] = reading.values[key]
    return result if reading.minute is None else result | {"minute": minute_json(reading.minute, keys)}
