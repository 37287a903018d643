"""Samples of other programs as jobtop's: in the order of time, since the start, by the keys of the catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobtop.core.measure.observation import seen_in
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Sample
from jobtop.core.record import replace
from jobtop.core.series.endpoints import TOTALS
from jobtop.store.transfer.values import Taken, row_of

Number = float | int
Point = tuple[float, dict[str, Number | None]]  # a moment, and values by key
PERCENT = "cpu.percent"
ONLY_PERCENT = "cpu.user, cpu.system: only percentages were kept; the time they add up to stands as cpu.user"
RSS_SUMMED = "memory: resident sizes of all processes added up, so that shared pages count in each"
NO_END = "end_time, duration_seconds: from the first sample to the last"


def samples_from(points: Iterable[Point], start: float) -> list[Sample]:
    """Those not before the start, in order. A percentage is taken to be of the time since the sample before."""
    samples: list[Sample] = []
    before, cpu = start, 0.0
    for at, values in sorted(points, key=_moment):
        if at < start:
            continue
        percent = values.get(PERCENT)
        times: dict[str, Number | None] = {}
        if percent is not None:
            cpu += max(0, percent) / 100 * (at - before)
            times = {"cpu.user": cpu, "cpu.system": 0.0}
        before = at
        samples.append(Sample(at - start, tuple(map((values | times).get, JOB_COLUMNS))))
    return samples


def sampled(job: Job, points: Sequence[Point]) -> Taken:
    """A job of which there is nothing but samples: it begins with the first, and ends with the last."""
    if not points:
        return Taken(row_of(job))
    start, end = min(map(_moment, points)), max(map(_moment, points))
    samples = samples_from(points, start)
    length = end - start or None  # of a single one nothing is known
    job = replace(job, start_time=start, end_time=None if length is None else end, duration_seconds=length)
    return observed(_with_totals(job, samples, _has_percentages(points)), samples, points, NO_END)


def observed(job: Job, samples: Sequence[Sample], points: Sequence[Point], *incomplete: str) -> Taken:
    """A job with what its samples say of it, and of what that is not to be trusted."""
    if not samples:
        return Taken(row_of(job))
    doubts = [*job.incomplete, *incomplete]
    if _has_percentages(points):
        doubts.append(ONLY_PERCENT)
    if any(
        (values.get("proc.count") or 0) > 1 and values.get("mem.used") == values.get("mem.rss") for _, values in points
    ):
        doubts.append(RSS_SUMMED)
    job = seen_in(samples).of(replace(job, incomplete=tuple(doubts)))
    if job.usage.cpu_percent_mean is None and PERCENT in job.metrics:
        job = replace(job, usage=replace(job.usage, cpu_percent_mean=job.metrics[PERCENT]["mean"]))
    return Taken(row_of(job), samples)


def _with_totals(job: Job, samples: Sequence[Sample], is_of_percentages: bool) -> Job:
    """Where the counters stood at the last sample."""
    last = dict(zip(JOB_COLUMNS, samples[-1].values, strict=True))
    totals: dict[str, Number | None] = {TOTALS[key]: last[key] for key in TOTALS if last[key] is not None}
    user, system = totals.get("cpu_user_seconds"), totals.get("cpu_system_seconds")
    if user is not None and system is not None:
        totals["cpu_total_seconds"] = user + system
    if is_of_percentages:
        totals |= {"cpu_user_seconds": None, "cpu_system_seconds": None}
        if job.duration_seconds is None:  # of a single sample: nobody knows how long it was at that
            totals["cpu_total_seconds"] = None
        job = replace(job, sources=job.sources | {"cpu": "sampled percentages"})
    return replace(job, usage=replace(job.usage, **totals))


def _has_percentages(points: Iterable[Point]) -> bool:
    return any(values.get(PERCENT) is not None for _, values in points)


def _moment(point: Point) -> float:
    return point[0]
