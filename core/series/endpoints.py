"""The two samples of a job that are not measured: zero usage at its start, and the record's totals at its end."""

from __future__ import annotations

from jobtop.core.measure.collectors.jobs import never_falling
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Sample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SAMPLED = "sampled"  # the source of totals that are those of the last sample
# Counters that start at 0, and the field of the record that has the total.
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
FIRST_SAMPLE = Sample(0.0, tuple(0 if key in TOTALS else None for key in JOB_COLUMNS))


def never_below(newest: Mapping[str, float | int | None], last: Sample) -> dict[str, float | int]:
    """Return the values of the last sample, none below the newest measured value; absent totals stay absent."""
    before = {key: value for key, value in newest.items() if value is not None}
    after = {key: value for key, value in zip(JOB_COLUMNS, last.values, strict=True) if value is not None}
    return never_falling(before, after, TOTALS.keys() & after.keys())


def end_sample_after(newest: Sample | None, job: Job) -> Sample | None:
    """Return the sample at a job's end, never lower or earlier than the newest measured one; None if it has no end."""
    last = end_sample(job)
    if last is None or newest is None:
        return last
    values = never_below(dict(zip(JOB_COLUMNS, newest.values, strict=True)), last)
    return Sample(max(last.elapsed, newest.elapsed), tuple(map(values.get, JOB_COLUMNS)))


def end_sample(job: Job) -> Sample | None:
    """Return the totals at a job's end; None while it runs, or if the totals include later usage."""
    if not job.status.ended or job.duration_seconds is None or "left_running" in job.flags:
        return None
    if job.sources.get("cpu") == SAMPLED:
        return None
    totals = (getattr(job.usage, TOTALS[key]) if key in TOTALS else None for key in JOB_COLUMNS)
    return Sample(job.duration_seconds, tuple(totals))
