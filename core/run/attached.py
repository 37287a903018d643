"""Derives the record of an exited job that jobtop did not start: its exit status is unknown. Pure."""

from __future__ import annotations

from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Sample, Status
from jobtop.core.record import replace
from jobtop.core.series.endpoints import SAMPLED, TOTALS
from jobtop.core.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.observation import Observation

NOT_KNOWN = "its exit status is not known, since jobtop did not start it"
AFTER_LAST_SAMPLE = "what came after the last sample is not counted"
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


def with_missing_totals(job: Job, newest: Sample, high_bytes: int | None) -> Job:
    """The record of a container with the totals that its cgroups do not have from the last sample.

    The memory peak is at least that of its largest process.
    """
    values = dict(zip(JOB_COLUMNS, newest.values, strict=True))
    known = (key for key in TOTALS if values[key] is not None and key not in UNKNOWN_OF_EXITED)
    totals = {TOTALS[key]: values[key] for key in known if getattr(job.usage, TOTALS[key]) is None}
    usage, sources, incomplete = replace(job.usage, **totals), job.sources, job.incomplete
    if "cpu_user_seconds" in totals:
        total, seconds = (usage.cpu_user_seconds or 0) + (usage.cpu_system_seconds or 0), newest.elapsed
        usage, sources = replace(usage, cpu_total_seconds=total), sources | {"cpu": SAMPLED}
        if seconds > 0:
            cpus = job.limits.cpus or usage.cpus_allowed
            efficiency = total / seconds / cpus if cpus else None
            usage = replace(usage, cpu_percent_mean=100 * total / seconds, cpu_efficiency=efficiency)
    for what, name in (("io", "io_read_bytes"), ("io_chars", "io_read_chars")):
        if name in totals:
            sources = sources | {what: SAMPLED}
            incomplete = (*incomplete, f"{what}: {AFTER_LAST_SAMPLE}")
    if (high_bytes or 0) > (usage.memory_peak_bytes or 0):
        usage, sources = replace(usage, memory_peak_bytes=high_bytes), sources | {"memory_peak": "vmhwm"}
    return replace(job, usage=usage, sources=sources, incomplete=incomplete)


def _with_missing_end(job: Job, seen_seconds: float) -> Job:
    """The record with an entry in `incomplete` for the time after the last sample."""
    unseen = (job.duration_seconds or 0.0) - seen_seconds
    if unseen > 0:
        return replace(job, incomplete=(f"all: what it did in its last {format_duration(unseen)} was not seen",))
    seconds = round(seen_seconds, 6)
    job = replace(job, duration_seconds=seconds, end_time=(job.start_time or 0.0) + seconds)
    return replace(job, incomplete=("all: what it did after its last sample was not seen",))
