"""The two samples of a job that need no looking: nothing used at its start, and at its end what its record says."""

from __future__ import annotations

from jobtop.core.measure.collectors.jobs import never_falling
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Sample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SAMPLED = "sampled"  # the source of totals that are those of the last sample
# What a job has counted from nothing, and where its record keeps the total.
TOTALS = {
    "cpu.user": "cpu_user_seconds",
    "cpu.system": "cpu_system_seconds",
    "mem.faults_minor": "faults_minor",
    "mem.faults_major": "faults_major",
    "mem.oom_kills": "oom_kills",
    "io.read_bytes": "io_read_bytes",
    "io.write_bytes": "io_write_bytes",
    "io.read_chars": "io_read_chars",
    "io.write_chars": "io_write_chars",
    "proc.switches_voluntary": "switches_voluntary",
    "proc.switches_involuntary": "switches_involuntary",
}
FIRST = Sample(0.0, tuple(0 if key in TOTALS else None for key in JOB_COLUMNS))


def held(newest: Mapping[str, float | int | None], last: Sample) -> dict[str, float | int]:
    """The values of the last sample; what was seen higher stays there, what the record does not have is absent."""
    before = {key: value for key, value in newest.items() if value is not None}
    after = {key: value for key, value in zip(JOB_COLUMNS, last.values, strict=True) if value is not None}
    return never_falling(before, after, TOTALS.keys() & after.keys())


def last_after(newest: Sample | None, job: Job) -> Sample | None:
    """The sample at the end of a job, not less and not before the newest that was taken; None if there is no end."""
    last = last_sample(job)
    if last is None or newest is None:
        return last
    values = held(dict(zip(JOB_COLUMNS, newest.values, strict=True)), last)
    return Sample(max(last.elapsed, newest.elapsed), tuple(map(values.get, JOB_COLUMNS)))


def last_sample(job: Job) -> Sample | None:
    """The totals at the moment of the end; None while it runs, or where they are not those of that moment."""
    if not job.status.ended or job.duration_seconds is None or "left_running" in job.flags:
        return None
    if job.sources.get("cpu") == SAMPLED:
        return None
    totals = (getattr(job.usage, TOTALS[key]) if key in TOTALS else None for key in JOB_COLUMNS)
    return Sample(job.duration_seconds, tuple(totals))
