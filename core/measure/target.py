"""What is sampled of one job; every kind of job gives one of these to the engine."""

from __future__ import annotations

from jobtop.core.model import Identity
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.model import Job, Limits
    from jobtop.core.run.containers.file import ContainerFile
    from jobtop.core.run.facts import Started

CONTAINER = "container"  # a kind of jobs
ATTACHED = "attached"  # the flag of jobs that jobtop did not start


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
    awaited: Identity | None = None  # the end of the job is looked for when this process exits; None: the root
    engine: str | None = None  # the address of the engine that alone counts the job: its processes are not seen here
    container_id: str | None = None  # of that engine


def target_in(directory: object, job: Job) -> Target | None:
    """What to sample of a job, by the facts in its directory or, if damaged, by its record; None: not started."""
    from jobtop.core.run.facts import read_started

    if job.kind == CONTAINER:
        return target_of_container(directory, job)
    started = read_started(directory)
    if started is not None:
        return target_of(started, job.limits)
    if job.shim is None:
        return None
    return Target(job.shim, job.start_boottime or 0.0, includes_root=job.shim.pid == job.pid, declared=job.limits)


def live_target(directory: object, job: Job) -> Target:
    """The processes of a job that runs, to be looked at now; UsageError if they cannot be seen on this machine."""
    from jobtop.core.errors import UsageError

    target = target_in(directory, job)
    if target is None:
        raise UsageError(f"job {job.id[:8]}: its container has not started yet; try again in a moment")
    if target.engine is not None:
        raise UsageError(f"job {job.id[:8]}: its container runs on another machine, which shows no processes here")
    return target


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


def target_of_container(directory: object, job: Job) -> Target | None:
    """The processes of a container, without those around it; None if it has not started, or cannot be seen here."""
    from jobtop.core.measure.collectors.cgroup import mounted
    from jobtop.core.measure.collectors.proc import is_alive
    from jobtop.core.run.containers.file import read_container

    file = read_container(directory)
    if file is None and ATTACHED in job.flags:
        return target_of_attached(job)
    if file is None or file.init is None:
        return target_elsewhere(file, job)
    is_watched_over = job.shim is not None and job.shim != file.init and is_alive(job.shim)
    return Target(
        file.init,
        job.start_boottime or 0.0,
        includes_root=True,
        cgroups=mounted(file.cgroups),
        main=file.init,
        declared=job.limits,
        awaited=job.shim if is_watched_over else file.init,
    )


def target_of_attached(job: Job) -> Target | None:
    """The processes of a container that jobtop did not start; the first one is the root."""
    from jobtop.core.measure.collectors.docker.cgroup_paths import container_cgroups
    from jobtop.core.run.containers.facts import container_facts

    if job.shim is None:
        return None
    facts = container_facts(job)
    directories = container_cgroups(job.shim.pid, facts.id) if facts is not None and facts.id else ()
    return Target(job.shim, job.start_boottime or 0.0, True, directories, main=job.shim, declared=job.limits)


def target_elsewhere(file: ContainerFile | None, job: Job) -> Target | None:
    """A container that only its engine can count, as one of another machine; None if it has not started, or has ended.

    The root is its runner, which starts no processes.
    """
    if file is None or file.engine is None or file.id is None or file.runner is None:
        return None
    if file.started_at is None or file.told is not None:
        return None
    start = job.start_boottime or 0.0
    return Target(file.runner, start, declared=job.limits, awaited=job.shim, engine=file.engine, container_id=file.id)
