"""Makes a job from a container that runs already: its first process is the root, and its engine knows how it ends."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from jobtop.core.clock import BOOTTIME
from jobtop.core.errors import AlreadyAttached, EngineError, UnknownJob, UsageError
from jobtop.core.job_id import is_job_id
from jobtop.core.measure.collectors import cgroup
from jobtop.core.measure.collectors.docker.cgroup_paths import container_cgroups
from jobtop.core.measure.collectors.members import START, TICK_SECONDS
from jobtop.core.model import Identity, Job, Limits, Monitor, Status, Usage
from jobtop.core.procfs import boot_id, read_text, start_ticks, stat_fields, value_in
from jobtop.core.record import record, replace
from jobtop.core.redact import redact_command
from jobtop.core.run.containers.end import ContainerEnd, ended
from jobtop.core.run.containers.facts import FINDING
from jobtop.core.run.request import script_of, user_name
from jobtop.core.run.supervisor import new_id
from jobtop.core.units import printable
from jobtop.lifecycle.attach import refuse_known
from jobtop.lifecycle.containers.attached_ends import container_id_of, read_evidence, started_at_of
from jobtop.lifecycle.kinds.registry import ATTACHED, CONTAINER
from jobtop.lifecycle.kinds.started import create_started
from jobtop.store.jobs import Event, event, stored_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from jobtop.core.config import Config
    from jobtop.core.measure.collectors.docker.client import Engine
    from jobtop.core.measure.collectors.docker.model import Container, Endpoint
    from jobtop.core.paths import StatePaths
    from jobtop.store.jobs import Jobs

SAME_START_SECONDS = 0.1  # an engine tells of a start a moment later, and starts no container again so soon
NEAR_SECONDS = 5.0  # a process that started so close to the start of a container, on the same machine, is its first


@record
class FirstProcess:
    """The first process of a container: its identity, its start, and its memory peak so far."""

    identity: Identity
    start_time: float
    start_boottime: float
    cgroups: tuple[str, ...]
    high_bytes: int | None


def attach_container(
    jobs: Jobs,
    paths: StatePaths,
    config: Config,
    endpoint: Endpoint,
    container: Container,
    options: Mapping[str, Any],
    digest: str | None = None,
) -> Job:
    """Make a job from a running container; `options` has name, tool, tags and note, which may all be missing.

    UsageError, with the remedy, if it does not run, does not run on this machine, or is a job already.
    """
    refuse_idle(container)
    refuse_started_by_job(jobs, container)
    process = first_process(endpoint, container)
    job = new_record(process, endpoint, container, paths.host, config, options, digest)
    with jobs.database.writing():  # so that no other process makes a job from it meanwhile
        refuse_attached(jobs, paths, process.identity)
        refuse_known(jobs, paths, process.identity.pid)
        create_started(paths, job.id, process.identity, process.start_time, process.start_boottime)
        started = Event(process.start_time, "started", {"pid": process.identity.pid})
        return jobs.insert(job, started, event("attached"))


def digest_of(engine: Engine, container: Container) -> str | None:
    """The digest of the image of a container, if it came from a registry and the engine answers."""
    with suppress(EngineError):
        image = engine.image(container.image_id) if container.image_id else None
        return None if image is None else image.digest
    return None


def refuse_idle(container: Container) -> None:
    name = printable(container.name)
    if container.state == "restarting":
        raise UsageError(f"container {name} is just being restarted: try again in a moment")
    if not container.is_alive:
        follow = "to have each start of it recorded: jobtop attach --label KEY=VALUE"
        raise UsageError(f"container {name} does not run ({container.state}): start it first; {follow}")


def refuse_started_by_job(jobs: Jobs, container: Container) -> None:
    job_id = container.job_id
    if job_id is None or not is_job_id(job_id):
        return
    try:
        job = jobs.find(job_id)
    except UnknownJob:
        return
    words = f"container {printable(container.name)} is job {job.id[:8]} already"
    raise AlreadyAttached(f"{words}: jobtop show {job.id[:8]}")


def refuse_attached(jobs: Jobs, paths: StatePaths, identity: Identity) -> None:
    for job in jobs.unsettled(paths.host):
        if job.shim == identity:
            raise AlreadyAttached(f"it is job {job.id[:8]} ({printable(job.name)}) already: jobtop show {job.id[:8]}")


def first_process(endpoint: Endpoint, container: Container, proc: str = "/proc") -> FirstProcess:
    """The first process of a container; UsageError if it is not a process of this machine.

    The pid that an engine tells is one of the machine, and the pid namespace, of the engine.
    """
    pid, name = container.pid or 0, printable(container.name)
    fields = stat_fields(pid) if pid else []
    directories = container_cgroups(pid, container.id, proc) if pid else ()
    if len(fields) > START:
        start = int(fields[START])
        began = start * TICK_SECONDS
        start_time = time.time() - (time.clock_gettime(BOOTTIME) - began)
        near = container.started_at is not None and abs(container.started_at - start_time) < NEAR_SECONDS
        is_here = container.id in read_text(f"{proc}/{pid}/cgroup") or (near and endpoint.url.startswith("unix://"))
        if is_here and start_ticks(pid) == start:
            high = value_in(read_text(f"{proc}/{pid}/status"), "VmHWM:") * 1024
            return FirstProcess(Identity(boot_id(), pid, start), start_time, began, directories, high or None)
        if is_here:
            raise UsageError(f"container {name} has just ended")
    raise UsageError(
        f"container {name} of {endpoint.name} ({printable(endpoint.url)}) has its processes on another machine or in"
        " another pid namespace: run jobtop where the engine runs (jobtop containers shows it from here)"
    )


def new_record(
    process: FirstProcess,
    endpoint: Endpoint,
    container: Container,
    host: str,
    config: Config,
    options: Mapping[str, Any],
    digest: str | None,
) -> Job:
    """The record of a job made from a running container."""
    counted, cpus = cgroup.reading(read_evidence(process.cgroups)), container.limits.cpus
    high = process.high_bytes
    job = described(endpoint, container, host, config, options, digest)
    return replace(
        job,
        cwd=_directory_of(process.identity.pid) or "/",
        status=Status.PAUSED if container.state == "paused" else Status.RUNNING,
        pid=process.identity.pid,
        start_time=process.start_time,
        start_boottime=process.start_boottime,
        usage=Usage(
            cpus_allowed=min(cpus or 1e9, float(os.cpu_count() or 1)),
            memory_peak_bytes=high,
            memory_cgroup_peak_bytes=counted.memory_peak_bytes,
        ),
        sources=job.sources | ({} if high is None else {"memory_peak": "vmhwm"}),
        shim=process.identity,
    )


def described(
    endpoint: Endpoint,
    container: Container,
    host: str,
    config: Config,
    options: Mapping[str, Any],
    digest: str | None = None,
) -> Job:
    """What the engine says about a container, as the beginning of a record."""
    shown = tuple(redact_command(list(map(printable, container.command)), config.texts("run.redact")))
    asked = container.limits
    limits = Limits(cpus=asked.cpus, memory_bytes=asked.memory_bytes, pids=asked.pids)
    is_limited = limits != Limits()
    return Job(
        id=new_id(),
        name=options.get("name") or printable(container.name),
        command=shown or (printable(container.image or container.name),),
        host=host,
        user=user_name(),
        cwd="/",
        status=Status.RUNNING,
        tool=options.get("tool") or tool_of(container),
        script=script_of(shown) if shown else None,
        tags=compose_tags(container) | (options.get("tags") or {}),
        note=options.get("note"),
        kind=CONTAINER,
        flags=(ATTACHED,),
        submitted_at=time.time(),
        limits=replace(limits, enforced=is_limited),
        sources={"limits": "cgroup"} if is_limited else {},
        monitor=Monitor(interval_seconds=config.interval("monitor.interval") or 1.0),
        grace_seconds=config.duration("run.grace"),
        findings={FINDING: facts_of(endpoint, container, options, digest)},
    )


def facts_of(
    endpoint: Endpoint, container: Container, options: Mapping[str, Any], digest: str | None
) -> dict[str, object]:
    """`findings["container"]`: what is known is in it."""
    facts: dict[str, object] = {
        "engine": endpoint.url,
        "engine_name": endpoint.name,
        "id": container.id,
        "name": printable(container.name),
        "image": None if container.image is None else printable(container.image),
        "image_id": container.image_id,
        "digest": digest,
        "project": None if container.project is None else printable(container.project),
        "service": None if container.service is None else printable(container.service),
        "restarts": container.restarts,
        "health": container.health,
        "started_at": container.started_at,
        "follow": options.get("follow"),
    }
    return {key: value for key, value in facts.items() if value is not None}


def tool_of(container: Container) -> str:
    """The name of the image without registry, tag and digest; else the program."""
    image = (container.image or "").partition("@")[0].rpartition("/")[2].partition(":")[0]
    program = os.path.basename(container.command[0]) if container.command else "container"
    return printable(image or program)


def compose_tags(container: Container) -> dict[str, str]:
    found = {"project": container.project, "service": container.service}
    return {key: printable(value) for key, value in found.items() if value}


def record_missed(
    jobs: Jobs,
    paths: StatePaths,
    config: Config,
    endpoint: Endpoint,
    container: Container,
    end: ContainerEnd,
    options: Mapping[str, Any],
) -> Job | None:
    """Record a container that ended before a job could be made from it; None if it is a job already."""
    if container.started_at is None or container.job_id is not None or is_recorded(jobs, container, options):
        return None
    job = described(endpoint, container, paths.host, config, options)
    job = ended(replace(job, start_time=container.started_at), end, None)
    job = replace(job, submitted_at=container.started_at)
    started = Event(container.started_at, "started", {})
    exited = {"status": str(job.status), "reason": job.reason}
    return jobs.insert(job, started, Event(job.end_time or time.time(), "exited", exited))


def is_recorded(jobs: Jobs, container: Container, options: Mapping[str, Any]) -> bool:
    """Whether a job was made from this start of a container."""
    name, began = options.get("name") or printable(container.name), container.started_at or 0.0
    condition = "name = CAST(? AS TEXT) AND start_time > ? AND start_time < ?"
    near = jobs.read_where(condition, (stored_text(name), began - NEAR_SECONDS, began + NEAR_SECONDS))
    same = (job for job in near if container_id_of(job) == container.id)
    return any(abs(started_at_of(job) - began) < SAME_START_SECONDS for job in same)


def _directory_of(pid: int) -> str | None:
    """The working directory inside the container; None if that of another user's process cannot be read."""
    with suppress(OSError):
        return printable(os.readlink(f"/proc/{pid}/cwd"))
    return None


def attach_by_name(
    jobs: Jobs,
    paths: StatePaths,
    config: Config,
    environ: Mapping[str, str],
    reference: str,
    options: Mapping[str, Any],
    engine: str | None = None,
) -> Job:
    """Make a job from the container that a user means by its name, the beginning of its id, or ENGINE/NAME."""
    from jobtop.core.measure.collectors.docker.finding import close_engines, find_container, open_engines

    engines = open_engines(environ, engine)
    try:
        found, listed = find_container(engines, reference)
        container = found.inspect(listed.id)
        digest = digest_of(found, container)
        return attach_container(jobs, paths, config, found.endpoint, container, options, digest)
    finally:
        close_engines(engines)
