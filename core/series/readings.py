"""Samples of a job as they are printed and exported: values, rates, and the memory peak so far."""

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
MEMORY_COLUMN = JOB_COLUMNS.index("mem.used")


@record
class SampleReading:
    """One sample with its `values`, its `rates` as `derive` computes them, and the peak of `mem.used` up to it."""

    elapsed: float
    values: dict[str, Number | None]
    rates: dict[str, Number | None]
    seconds_since: float | None
    memory_peak: Number | None
    minute: Minute | None = None


class SampleReader:
    """Turns samples that arrive in batches into readings."""

    def __init__(self) -> None:
        self._before: Sample | None = None
        self._peak: Number | None = None

    def read(self, samples: Iterable[Sample]) -> Iterator[SampleReading]:
        """Return an iterator over readings of the next samples; not a list, because a reading takes about 5 KB."""
        return map(self._read, samples)

    def _read(self, sample: Sample) -> SampleReading:
        sample = rounded_sample(sample)
        before, self._before = self._before, sample
        minute = sample.minute
        used = (
            sample.values[MEMORY_COLUMN]
            if minute is None
            else minute.greatest.get("mem.used", sample.values[MEMORY_COLUMN])
        )
        if used is not None:
            self._peak = used if self._peak is None else max(self._peak, used)
        rates = derive(before, sample).values
        values = dict(zip(JOB_COLUMNS, sample.values, strict=True))
        for key in DERIVED[Scope.JOB]:
            value = rates[key]
            values[key] = None if value is None else round(value, DIGITS[key])
        since = None if before is None else sample.elapsed - before.elapsed
        return SampleReading(sample.elapsed, values, rates, since, self._peak, minute)


def job_metrics(keys: Sequence[str]) -> tuple[Metric, ...]:
    """Return the catalogue rows of these keys; BadValue if a job has no such metric."""
    for key in keys:
        if key not in KEYS:
            raise BadValue(
                f'a job has no metric "{printable(key)}"{did_you_mean(key, KEYS)}; docs/metrics.md lists all'
            )
    return tuple(find_metric(key) for key in dict.fromkeys(keys))


def csv_row(job: Job, reading: SampleReading, keys: Sequence[str]) -> list[Any]:
    """Return `timestamp`, `elapsed` and the values of the keys, as a row of CSV."""
    return [timestamp(job, reading), reading.elapsed, *(reading.values[key] for key in keys)]


def sample_json(job: Job, reading: SampleReading, keys: Sequence[str] = KEYS) -> dict[str, Any]:
    """Return a sample as JSON, nested at the dots of the keys; counters are totals. A contract: keys only get added."""
    timestamp, elapsed, *values = csv_row(job, reading, keys)
    result: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "job_id": job.id}
    result |= {"elapsed": elapsed, "timestamp": timestamp}
    for key, value in zip(keys, values, strict=True):
        group, _, name = key.partition(".")
        result.setdefault(group, {})[name] = value
    return result if reading.minute is None else result | {"minute": minute_json(reading.minute, keys)}


def minute_json(minute: Minute, keys: Sequence[str]) -> dict[str, Any]:
    """Return minimum, maximum and last values of the samples of a minute; constant values are left out."""
    parts = {"min": minute.least, "max": minute.greatest, "last": minute.last}
    return {"samples": minute.samples} | {
        name: {key: values[key] for key in keys if key in values} for name, values in parts.items()
    }


def timestamp(job: Job, reading: SampleReading) -> str | None:
    return None if job.start_time is None else iso(job.start_time + reading.elapsed)


def rounded_sample(sample: Sample) -> Sample:
    """Round a sample to the digits that a block keeps, so that it is the same before and after it is sealed."""
    values = (
        round(value, digits or None) if isinstance(value, float) else value
        for value, digits in zip(sample.values, STORED_DIGITS, strict=True)
    )
    return Sample(round(sample.elapsed, 3), tuple(values), sample.minute)
