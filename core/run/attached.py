"""Derives the record of an exited job that jobtop did not start: its exit status is unknown. Pure."""

from __future__ import annotations

from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Status
from jobtop.core.record import replace
from jobtop.core.series.endpoints import SAMPLED, TOTALS
from jobtop.core.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.observation import Observation

NOT_KNOWN = "its exit status is not known, since jobtop did not start it"
NEVER_SEEN = "all: it ended before it was sampled"
# Exited processes report context switches only to their parent.
UNKNOWN_OF_EXITED = ("proc.switches_voluntary", "proc.switches_involuntary")


def ended(job: Job, elapsed: float | None) -> Job:
    """The record of a job that ended `elapsed` seconds after its start; None if that is not known."""
    asked, start = job.stop_request, job.start_time or 0.0
    status, how = (Status.UNKNOWN, "it ended") if asked is None else (Status.CANCELLED, f"stopped by {asked.by}")
    if elapsed is None:
        elapsed = max(0.0, (job.submitted_at or 0.0) - start)
    job = replace(job, status=status, reason=f"{how}; {NOT_KNOWN}", settled=True, incomplete=(NEVER_SEEN,))
    return replace(job, duration_seconds=round(elapsed, 6), end_time=start + round(elapsed, 6))


def with_sampled_totals(job: Job, observation: Observation) -> Job:
    """The record with the totals of the last sample, and the memory peak of its largest process if that is higher."""
    tally, high_bytes = observation.tally, observation.high_bytes
    if tally.samples < 2:
        return job
    last = tally.last
    values = dict(zip(JOB_COLUMNS, last.values, strict=True))
    known = {key: name for key, name in TOTALS.items() if values[key] is not None and key not in UNKNOWN_OF_EXITED}
    totals = {name: values[key] for key, name in known.items()}
    usage = replace(job.usage, **totals)
    user, system, cpus = usage.cpu_user_seconds, usage.cpu_system_seconds, job.limits.cpus or usage.cpus_allowed
    if user is not None and system is not None and last.elapsed > 0:
        mean = (user + system) / last.elapsed
        efficiency = mean / cpus if cpus else None
        usage = replace(usage, cpu_total_seconds=user + system, cpu_percent_mean=100 * mean, cpu_efficiency=efficiency)
    sources = job.sources | dict.fromkeys(("cpu", "io", "io_chars", "processes"), SAMPLED)
    if (high_bytes or 0) > (usage.memory_peak_bytes or 0):
        usage, sources = replace(usage, memory_peak_bytes=high_bytes), sources | {"memory_peak": "vmhwm"}
    return _with_missing_end(replace(job, usage=usage, sources=sources), last.elapsed)


def _with_missing_end(job: Job, seen_seconds: float) -> Job:
    """The record with an entry in `incomplete` for the time after the last sample."""
    unseen = (job.duration_seconds or 0.0) - seen_seconds
    if unseen > 0:
        return replace(job, incomplete=(f"all: what it did in its last {format_duration(unseen)} was not seen",))
    seconds = round(seen_seconds, 6)
    job = replace(job, duration_seconds=seconds, end_time=(job.start_time or 0.0) + seconds)
    return replace(job, incomplete=("all: what it did after its last sample was not seen",))
