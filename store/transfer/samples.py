"""Convert samples of other programs: sorted by time, in seconds since the start, by keys of the catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobtop.core.measure.observation import seen_in
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Sample
from jobtop.core.record import replace
from jobtop.core.series.endpoints import TOTALS
from jobtop.store.transfer.values import ImportedJob, job_columns

Number = float | int
Point = tuple[float, dict[str, Number | None]]  # seconds since the epoch, and values by key
PERCENT = "cpu.percent"
ONLY_PERCENT = "cpu.user, cpu.system: only percentages are known; the CPU time they add up to is stored as cpu.user"
RSS_SUMMED = "memory: resident sizes of all processes added up, so that shared pages count in each"
WHOLE_GPUS = "gpu: of whole devices, with all processes that used them"
NO_END = "end_time, duration_seconds: from the first sample to the last"


def samples_from(points: Iterable[Point], start: float) -> list[Sample]:
    """The samples from the start on, in order; a CPU percentage counts for the time since the previous sample."""
    samples: list[Sample] = []
    before, cpu_seconds = start, 0.0
    for at, values in sorted(points, key=_time):
        if at < start:
            continue
        percent = values.get(PERCENT)
        times: dict[str, Number | None] = {}
        if percent is not None:
            cpu_seconds += max(0, percent) / 100 * (at - before)
            times = {"cpu.user": cpu_seconds, "cpu.system": 0.0}
        before = at
        samples.append(Sample(at - start, tuple(map((values | times).get, JOB_COLUMNS))))
    return samples


def job_from_samples(job: Job, points: Sequence[Point]) -> ImportedJob:
    """A job of which only samples are known: it starts with the first sample and ends with the last."""
    if not points:
        return ImportedJob(job_columns(job))
    start, end = min(map(_time, points)), max(map(_time, points))
    samples = samples_from(points, start)
    length = end - start or None  # a single sample has no length
    job = replace(job, start_time=start, end_time=None if length is None else end, duration_seconds=length)
    return job_with_samples(_with_totals(job, samples, _has_percentages(points)), samples, points, NO_END)


def job_with_samples(job: Job, samples: Sequence[Sample], points: Sequence[Point], *incomplete: str) -> ImportedJob:
    """A job with the peaks and means of its samples, and notes on values that are not exact."""
    if not samples:
        return ImportedJob(job_columns(job))
    notes = [*job.incomplete, *incomplete]
    if _has_percentages(points):
        notes.append(ONLY_PERCENT)
    if any(
        (values.get("proc.count") or 0) > 1 and values.get("mem.used") == values.get("mem.rss") for _, values in points
    ):
        notes.append(RSS_SUMMED)
    job = seen_in(samples).of(replace(job, incomplete=tuple(notes)))
    if job.usage.cpu_percent_mean is None and PERCENT in job.metrics:
        job = replace(job, usage=replace(job.usage, cpu_percent_mean=job.metrics[PERCENT]["mean"]))
    return ImportedJob(job_columns(job), samples)


def _with_totals(job: Job, samples: Sequence[Sample], has_percentages: bool) -> Job:
    """The job with its counters at the last sample as totals."""
    last = dict(zip(JOB_COLUMNS, samples[-1].values, strict=True))
    totals: dict[str, Number | None] = {TOTALS[key]: last[key] for key in TOTALS if last[key] is not None}
    user, system = totals.get("cpu_user_seconds"), totals.get("cpu_system_seconds")
    if user is not None and system is not None:
        totals["cpu_total_seconds"] = user + system
    if has_percentages:
        totals |= {"cpu_user_seconds": None, "cpu_system_seconds": None}
        if job.duration_seconds is None:  # a single sample says nothing of the time before it
            totals["cpu_total_seconds"] = None
        job = replace(job, sources=job.sources | {"cpu": "sampled percentages"})
    return replace(job, usage=replace(job.usage, **totals))


def _has_percentages(points: Iterable[Point]) -> bool:
    return any(values.get(PERCENT) is not None for _, values in points)


def _time(point: Point) -> float:
    return point[0]
