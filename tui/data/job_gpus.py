"""What jobs use of single GPUs, from the store: now, at a moment, or the peaks of a run that is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobtop.core.measure.device import Device
from jobtop.core.measure.job_gpus import MEMORY, PERCENT, devices_in, parse_series, series_name
from jobtop.core.metrics import VALUE
from jobtop.core.model import Job
from jobtop.core.record import fresh, record
from jobtop.store.database import Database
from jobtop.store.jobs import Event
from jobtop.store.samples.devices import DeviceRecord
from jobtop.store.samples.named import NamedRecord

Number = float | int
Use = tuple[Number | None, Number | None]  # the percentage and the bytes of a GPU that a job uses
DEVICE_KEYS = (
    *("gpu.util", "gpu.mem_used", "gpu.mem_total", "gpu.temp", "gpu.power", "gpu.power_limit"),
    "gpu.throttled",
)
FRESH_SECONDS = 15.0  # older values are of a GPU that did not answer any more
MOST_POINTS = 400  # of which the peaks are kept


@record
class JobGpu:
    """One GPU of a job: what the job uses of it, and the gauges of the device; `are_peaks`: each the highest."""

    name: str
    percent: Number | None = None
    memory_bytes: Number | None = None
    device: Mapping[str, Number | None] = fresh(default_factory=dict)
    product: str | None = None
    are_peaks: bool = False


def uses_now(database: Database, job: Job, until: float = float("inf")) -> dict[str, Use]:
    """What a job used last of each GPU; nothing of a GPU that was not read for some seconds."""
    newest = NamedRecord(database).newest(job, until)
    read = {parsed: found for name, found in newest.items() if (parsed := parse_series(name)) is not None}
    last = max((at for at, _ in read.values()), default=0.0)
    since = (last if until == float("inf") else until) - FRESH_SECONDS
    values = {parsed: value for parsed, (at, value) in read.items() if at >= since}
    names = devices_in(newest)
    return {name: (values.get((PERCENT, name)), values.get((MEMORY, name))) for name in names}


def read_job_gpus(database: Database, job: Job, events: Sequence[Event], moment: float | None) -> tuple[JobGpu, ...]:
    """The GPUs that a job has used, in the order in which it began to: now, at a moment, or their peaks."""
    names = devices_in(NamedRecord(database).names(job))
    if not names:
        return ()
    products = {event.detail.get("gpu"): event.detail.get("product") for event in events if event.kind == "gpu_used"}
    are_peaks = job.status.ended and moment is None
    if are_peaks:
        uses = {name: _peak_use(database, job, name) for name in names}
    else:
        uses = uses_now(database, job, float("inf") if moment is None else moment)
    devices = DeviceRecord(database)
    return tuple(
        JobGpu(name, *use, _device_values(devices, job, name, moment, are_peaks), _text(products.get(name)), are_peaks)
        for name, use in uses.items()
    )


def _peak_use(database: Database, job: Job, name: str) -> Use:
    record = NamedRecord(database)
    found = [record.series(job, series_name(key, name), max_points=MOST_POINTS) for key in (PERCENT, MEMORY)]
    percent, memory = (_greatest(series.values[VALUE]) for series in found)
    return percent, memory


def _device_values(
    devices: DeviceRecord, job: Job, name: str, moment: float | None, are_peaks: bool
) -> dict[str, Number | None]:
    """The gauges of a GPU: the last ones before a moment, or the highest of a run."""
    device = Device("gpu", name)
    if are_peaks:
        series = devices.around(job, device, DEVICE_KEYS, max_points=MOST_POINTS)
        return {key: _greatest(series.values[key]) for key in DEVICE_KEYS}
    if moment is None:
        return devices.last_around(job, device, DEVICE_KEYS)
    return devices.last_around(job, device, DEVICE_KEYS, moment, FRESH_SECONDS)


def _greatest(values: Sequence[Number | None]) -> Number | None:
    return max((value for value in values if value is not None), default=None)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
