"""How far a run of a workflow is: counts, the critical path, the speed-up. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from jobtop.core.model import LIVE, Status
from jobtop.core.record import record
from jobtop.core.workflow.plan import JOB

GIB = 1 << 30


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
    will_retry: bool = False  # it has failed, and the next attempt is not queued yet

    @property
    def is_live(self) -> bool:
        return self.status in LIVE

    def seconds(self, now: float) -> float | None:
        """How long it has run; None if it has not started."""
        if self.start_time is None:
            return None
        return max(0.0, (now if self.end_time is None else self.end_time) - self.start_time)


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
    path, seconds = critical_path(ran, now)
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
    """`running` while a job can still run; then the worst of the ends of its jobs."""
    found = {job.status for job in own}
    if not is_over:
        return Status.QUEUED if found == {Status.QUEUED} else Status.RUNNING
    if found <= {Status.SUCCESS, None}:
        return Status.SUCCESS
    if found <= {Status.SUCCESS, Status.CANCELLED, None}:
        return Status.CANCELLED
    return Status.FAILED


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
