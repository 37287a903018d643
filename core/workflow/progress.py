"""How far a run of a workflow is: counts, the critical path, the speed-up. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from jobtop.core.model import LIVE, Status
from jobtop.core.record import record, replace
from jobtop.core.workflow.plan import JOB, REPORT

GIB = 1 << 30
JOB_IN_REASON = re.compile(r"\bjob ([0-9a-f]{8})\b")


@record
class RunJob:
    """A job of a run, as the last attempt at it is now; without `status` it was deleted."""

    position: int
    name: str
    role: str
    first_id: str
    after: tuple[str, ...] = ()
    after_end: tuple[str, ...] = ()
    fingerprint: str = ""
    is_kept: bool = False  # an earlier run has done it
    id: str = ""
    seq: int | None = None
    status: Status | None = None
    attempt: int = 1
    start_time: float | None = None
    end_time: float | None = None
    exit_code: int | None = None
    reason: str | None = None
    peak_cpu_percent: float | None = None
    mean_cpu_percent: float | None = None
    peak_memory_bytes: int | None = None
    mean_memory_bytes: int | None = None
    is_peak_bound: bool = False  # the memory peak is only an upper bound, as of very short jobs
    will_retry: bool = False  # it has failed, and the next attempt is not queued yet

    @property
    def is_live(self) -> bool:
        return self.status in LIVE

    def seconds(self, now: float) -> float | None:
        """How long it has run; None if it has not started."""
        if self.start_time is None:
            return None
        return max(0.0, (now if self.end_time is None else self.end_time) - self.start_time)


def with_names(jobs: Sequence[RunJob]) -> list[RunJob]:
    """The jobs with the names of others in their reasons instead of ids."""
    names = {job_id[:8]: job.name for job in jobs for job_id in (job.first_id, job.id)}

    def named(match: re.Match[str]) -> str:
        name = names.get(match[1])
        return match[0] if name is None else f'job "{name}"'

    return [job if job.reason is None else replace(job, reason=JOB_IN_REASON.sub(named, job.reason)) for job in jobs]


@record
class RunSummary:
    """What is known of a whole run."""

    status: Status
    counts: dict[str, int]  # of its jobs, by status
    total: int
    done: int  # ended
    kept: int
    begin: float | None
    end: float | None
    busy_seconds: float  # the durations of all jobs
    elapsed_seconds: float | None
    critical_path: tuple[str, ...]
    critical_seconds: float

    @property
    def speed_up(self) -> float | None:
        """The durations of all jobs, divided by the time from the first start to the last end."""
        return self.busy_seconds / self.elapsed_seconds if self.elapsed_seconds else None


def summarize(jobs: Sequence[RunJob], now: float) -> RunSummary:
    """Sum up a run; its status is that of its jobs, actions do not count."""
    own = [job for job in jobs if job.role == JOB]
    ran = [job for job in own if not job.is_kept]
    started = [job for job in ran if job.start_time is not None]
    is_over = not any(job.is_live or job.will_retry for job in jobs)
    begin = min((job.start_time for job in started if job.start_time is not None), default=None)
    end = max((job.end_time for job in started if job.end_time is not None), default=None) if is_over else None
    path, seconds = critical_path([job for job in jobs if job.role != REPORT and not job.is_kept], now)
    return RunSummary(
        run_status(own, is_over),
        dict(Counter(str(job.status or "deleted") for job in own)),
        len(own),
        sum(not job.is_live for job in own),
        len(own) - len(ran),
        begin,
        end,
        sum(job.seconds(now) or 0.0 for job in started),
        None if begin is None else (now if end is None else end) - begin,
        path,
        seconds,
    )


def run_status(own: Iterable[RunJob], is_over: bool) -> Status:
    """`running` while a job can still run; then the worst end of a job, `unknown` if jobs were deleted."""
    found = {job.status for job in own}
    if not is_over:
        return Status.QUEUED if found == {Status.QUEUED} else Status.RUNNING
    if found <= {Status.SUCCESS}:
        return Status.SUCCESS
    if found - {Status.SUCCESS, Status.CANCELLED, None}:
        return Status.FAILED
    return Status.UNKNOWN if None in found else Status.CANCELLED


def critical_path(jobs: Iterable[RunJob], now: float) -> tuple[tuple[str, ...], float]:
    """The jobs one after the other that took longest together, and their seconds: the run could not be shorter."""
    known = {job.name: job for job in jobs if job.start_time is not None}
    best: dict[str, tuple[float, str | None]] = {}
    for job in sorted(known.values(), key=lambda job: job.start_time or 0.0):  # a job starts after those it needs
        before = [name for name in (*job.after, *job.after_end) if name in best]
        last = max(before, key=lambda name: best[name][0], default=None)
        earlier = 0.0 if last is None else best[last][0]
        best[job.name] = earlier + (job.seconds(now) or 0.0), last
    if not best:
        return (), 0.0
    name: str | None = max(best, key=lambda name: best[name][0])
    seconds, path = best[name or ""][0], []
    while name is not None:
        path.append(name)
        name = best[name][1]
    return tuple(reversed(path)), seconds


def results(job: RunJob) -> dict[str, float | None]:
    """The summary metrics of a job, by Torc's names; GB is 2^30 bytes."""
    peak, mean = job.peak_memory_bytes, job.mean_memory_bytes
    return {
        "peak_cpu_percent": job.peak_cpu_percent,
        "avg_cpu_percent": job.mean_cpu_percent,
        "peak_memory_gb": None if peak is None else peak / GIB,
        "avg_memory_gb": None if mean is None else mean / GIB,
    }
