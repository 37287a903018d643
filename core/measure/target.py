"""What is sampled of one job; every kind of job gives one of these to the engine."""

from __future__ import annotations

from jobtop.core.model import Identity
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.model import Job, Limits
    from jobtop.core.run.facts import Started


@record
class Target:
    """The processes below a root process, and the cgroups that count them."""

    root: Identity
    start_boottime: float
    includes_root: bool = False  # True: the root is a process of the job itself; False: it is the shim above the job
    cgroups: tuple[str, ...] = ()
    memory_limit_bytes: int | None = None  # the sampler stops the job above this
    main: Identity | None = None  # the job ends when this process exits; None if it is not known
    declared: Limits | None = None  # what the job asked for; None if that is not known


def target_in(directory: object, job: Job) -> Target | None:
    """What to sample of a job, by the facts in its directory or, if damaged, by its record; None: not started."""
    from jobtop.core.run.facts import read_started

    started = read_started(directory)
    if started is not None:
        return target_of(started, job.limits)
    if job.shim is None:
        return None
    return Target(job.shim, job.start_boottime or 0.0, includes_root=job.shim.pid == job.pid, declared=job.limits)


def target_of(started: Started, declared: Limits | None = None) -> Target:
    """What to sample of a job that started; where no shim is above it, its main process is the root."""
    return Target(
        started.shim,
        started.start_boottime,
        started.shim == started.main,
        started.cgroups,
        started.memory_limit,
        started.main,
        declared,
    )
