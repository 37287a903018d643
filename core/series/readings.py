"""The samples of a job as they are printed and exported: what was counted, how fast it grew, and the peak so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from jobtop.core.clock import iso
from jobtop.core.errors import BadValue, did_you_mean
from jobtop.core.measure.derive import Number, derive
from jobtop.core.metrics import DERIVED, JOB_COLUMNS, Metric, Scope, find_metric, metrics_of, steps
from jobtop.core.model import SCHEMA_VERSION, Job, Minute, Sample
from jobtop.core.record import record
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KEYS = tuple(metric.key for metric in metrics_of(Scope.JOB))
DIGITS = {key: len(str(steps(key))) - 1 for key in KEYS}
STORED_DIGITS = tuple(DIGITS[key] for key in JOB_COLUMNS)
MEMORY = JOB_COLUMNS.index("mem.used")


@record
class Reading:
    """One sample: `values` as they stood, `rates` as `derive` gives them; the peak is of `mem.used`, until then."""

    elapsed: float
    values: dict[str, Number | None]
    rates: dict[str, Number | None]
    seconds_since: float | None
    memory_peak: Number | None
    minute: Minute | None = None


class Reader:
    """Makes readings of samples that come bit by bit."""

    def __init__(self) -> None:
        self._before: Sample | None = None
        self._peak: Number | None = None

    def read(self, samples: Iterable[Sample]) -> Iterator[Reading]:
        """The next samples of the job, in their order; one by one, for a reading takes some 5 KB."""
        return map(self._read, samples)

    def _read(self, sample: Sample) -> Reading:
        sample = resolved(sample)
        before, self._before = self._before, sample
        minute = sample.minute
        used = sample.values[MEMORY] if minute is None else minute.greatest.get("mem.used", sample.values[MEMORY])
        if used is not None:
            self._peak = used if self._peak is None else max(self._peak, used)
        rates = derive(before, sample).values
        values = dict(zip(JOB_COLUMNS, sample.values, strict=True))
        for key in DERIVED[Scope.JOB]:
            value = rates[key]
            values[key] = None if value is None else round(value, DIGITS[key])
        since = None if before is None else sample.elapsed - before.elapsed
        return Reading(sample.elapsed, values, rates, since, self._peak, minute)


def job_metrics(keys: Sequence[str]) -> tuple[Metric, ...]:
    """The rows of keys that a job has; BadValue names the nearest for another."""
    for key in keys:
        if key not in KEYS:
            raise BadValue(
                f'a job has no metric "{printable(key)}"{did_you_mean(key, KEYS)}; docs/metrics.md lists all'
            )
    return tuple(find_metric(key) for key in dict.fromkeys(keys))


def row(job: Job, reading: Reading, keys: Sequence[str]) -> list[Any]:
    """`timestamp`, `elapsed` and the values of the keys, as in a line of CSV."""
    return [moment(job, reading), reading.elapsed, *(reading.values[key] for key in keys)]


def to_json(job: Job, reading: Reading, keys: Sequence[str] = KEYS) -> dict[str, Any]:
    """The contract: nested at the dots of the keys, which only get added; counters as they stood."""
    timestamp, elapsed, *values = row(job, reading, keys)
    shape: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "job_id": job.id}
    shape |= {"elapsed": elapsed, "timestamp": timestamp}
    for key, value in zip(keys, values, strict=True):
        group, _, name = key.partition(".")
        shape.setdefault(group, {})[name] = value
    return shape if reading.minute is None else shape | {"minute": _minute(reading.minute, keys)}


def _minute(minute: Minute, keys: Sequence[str]) -> dict[str, Any]:
    """Gauges and rates of the samples that a line stands for; what was the same throughout is only in the line."""
    parts = {"min": minute.least, "max": minute.greatest, "last": minute.last}
    return {"samples": minute.samples} | {
        name: {key: values[key] for key in keys if key in values} for name, values in parts.items()
    }


def moment(job: Job, reading: Reading) -> str | None:
    return None if job.start_time is None else iso(job.start_time + reading.elapsed)


def resolved(sample: Sample) -> Sample:
    """A sample to what is kept of it in a block, so that it reads the same before and after it is sealed."""
    values = (
        round(value, digits or None) if isinstance(value, float) else value
        for value, digits in zip(sample.values, STORED_DIGITS, strict=True)
    )
    return Sample(round(sample.elapsed, 3), tuple(values), sample.minute)
