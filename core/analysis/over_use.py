"""Compares what ended jobs used with what they asked for: memory, CPUs and time. Pure.

The words and forms of `to_json` are those of Torc's check-resource-utilization, which scripts read.
"""

from __future__ import annotations

from jobtop.core.model import Status
from jobtop.core.record import record, replace
from jobtop.core.units import format_bytes, format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from jobtop.core.model import Job

GIBIBYTE = 2**30
HALF_UP = 1e-9
LEAST_PERCENT = 1.0  # over what was asked for: less is within the accuracy of sampling
MEMORY, CPU, RUNTIME = "Memory", "CPU", "Runtime"
FLAGS = {MEMORY: "over_memory", CPU: "over_cpus", RUNTIME: "over_runtime"}


@record
class Use:
    """What a job asked for of one resource, and what it used of it at most: bytes, CPUs or seconds."""

    resource: str
    asked: float
    used: float

    @property
    def over_percent(self) -> float:
        """By how much it used more; negative if it used less."""
        return 100 * (self.used / self.asked - 1)

    @property
    def over_text(self) -> str:
        """Such as `+31.3%`; halves are rounded up, as in Torc's own example."""
        return f"{self.over_percent + HALF_UP:+.1f}%"

    def text(self, amount: float) -> str:
        """An amount as Torc prints it: `8.00 GB` (of 2^30 bytes), `350.0%`, `2h 45m 0s`."""
        if self.resource == MEMORY:
            return f"{amount / GIBIBYTE:.2f} GB"
        if self.resource == CPU:
            return f"{100 * amount:.1f}%"
        hours, rest = divmod(round(amount), 3600)
        minutes, seconds = divmod(rest, 60)
        if hours:
            return f"{hours}h {minutes}m {seconds}s"
        return f"{minutes}m {seconds}s" if minutes else f"{seconds}s"

    @property
    def sentence(self) -> str:
        """For people, such as `31.3 % more memory than it asked for: 10.5 GiB of 8.0 GiB`."""
        if self.resource == MEMORY:
            what, used, asked = "memory", format_bytes(self.used), format_bytes(self.asked)
        elif self.resource == CPU:
            what, used, asked = "CPU", f"{self.used:.2f}", f"{self.asked:g} CPUs"
        else:
            what, used, asked = "time", format_duration(self.used), format_duration(self.asked)
        return f"{self.over_percent:.1f} % more {what} than it asked for: {used} of {asked}"

    def to_json(self, job: Job) -> dict[str, Any]:
        return {
            "job_id": job.seq,
            "job_name": job.name,
            "resource_type": self.resource,
            "specified": self.text(self.asked),
            "peak_used": self.text(self.used),
            "over_utilization": self.over_text,
        }


def uses(job: Job) -> list[Use]:
    """What a job used of everything that it asked for; what is not known is left out."""
    asked, used = job.limits, job.usage
    peak_cpus = None if used.cpu_percent_peak is None else used.cpu_percent_peak / 100
    if peak_cpus is None and used.cpu_percent_mean is not None:
        peak_cpus = used.cpu_percent_mean / 100  # a job without samples used at least its mean
    pairs = (
        (MEMORY, asked.memory_bytes, used.memory_peak_bytes),
        (CPU, asked.cpus, peak_cpus),
        (RUNTIME, asked.runtime_seconds, job.duration_seconds),
    )
    return [Use(name, wanted, found) for name, wanted, found in pairs if wanted and found is not None]


def over_uses(job: Job, least_percent: float = LEAST_PERCENT) -> list[Use]:
    """Of what the job used more than it asked for, by more than this."""
    return [use for use in uses(job) if use.over_percent > least_percent]


def flagged(job: Job) -> Job:
    """The record of an ended job with a flag for each resource of which it used more than it asked for.

    Enforced limits have flags of their own; a process may hold mapped files that no limit counts.
    """
    if job.status in (Status.ERROR, Status.LOST) or not job.status.ended:
        return job
    flags = {FLAGS[use.resource] for use in over_uses(job) if use.resource == RUNTIME or not job.limits.enforced}
    return replace(job, flags=tuple(sorted({*job.flags, *flags}))) if flags - set(job.flags) else job


def is_checked(job: Job, with_failed: bool) -> bool:
    """Whether the use of a job says what it needs: a job that failed early may have needed more."""
    return job.status is Status.SUCCESS or (with_failed and job.status in (Status.FAILED, Status.TIMEOUT))


def report(jobs: Iterable[Job], least_percent: float, with_all: bool) -> tuple[list[tuple[Job, Use]], int]:
    """What is over (or, with `with_all`, all that was asked for), and how many jobs had asked for anything."""
    rows: list[tuple[Job, Use]] = []
    asking = 0
    for job in jobs:
        known = uses(job)
        asking += bool(known)
        rows += [(job, use) for use in known if with_all or use.over_percent > least_percent]
    return rows, asking
