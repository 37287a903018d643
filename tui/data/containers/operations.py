"""Operations on containers: their questions and words, and recording a container as a job. They run in threads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobtop.core.errors import JobtopError, UsageError
from jobtop.core.record import record
from jobtop.core.units import printable
from jobtop.tui.data.containers.source import Act

if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.model import Container, Endpoint
    from jobtop.core.model import Job
    from jobtop.tui.app import Options
    from jobtop.tui.data.containers.source import ContainerSource


@record
class ContainerOperation:
    """An operation: its title, the word for it when done, and what it means for the user."""

    act: Act
    title: str
    done: str
    meaning: str


STOP = ContainerOperation(
    Act.STOP,
    "Stop",
    "stopped",
    "The first process gets SIGTERM, and SIGKILL after the container's grace period (10 s by default).",
)
KILL = ContainerOperation(Act.KILL, "Kill", "killed", "All processes get SIGKILL at once. They cannot save their work.")
RESTART = ContainerOperation(
    Act.RESTART, "Restart", "restarted", "It is stopped as with Stop, and started again with the same command."
)
PAUSE = ContainerOperation(Act.PAUSE, "Pause", "paused", "All processes are frozen until you resume the container.")
RESUME = ContainerOperation(Act.RESUME, "Resume", "resumed", "All processes run again.")


def refusal(container: Container, operation: ContainerOperation) -> str | None:
    """Why an operation has no effect on a container in its state; None if it may have one."""
    name, is_alive = printable(container.name), container.is_alive
    if operation.act is Act.RESTART or (is_alive and operation.act is not Act.RESUME):
        is_again = operation.act is Act.PAUSE and container.state == "paused"
        return f"{name} is paused already" if is_again else None
    if operation.act is Act.RESUME and container.state == "paused":
        return None
    return f"{name} is not paused" if is_alive else f"{name} does not run ({container.state})"


def carry_out(
    source: ContainerSource, endpoint: Endpoint, container: Container, operation: ContainerOperation
) -> str | None:
    """Do it; None, or the engine's reason against it."""
    try:
        source.act(endpoint, container, operation.act)
    except (JobtopError, OSError) as error:
        return f"{printable(container.name)} was not {operation.done}: {error}"
    return None


def record_as_job(options: Options, endpoint: Endpoint, container: Container) -> Job:
    """Make a job from a running container, and make sure that an agent samples it."""
    from jobtop.core.measure.collectors.docker.client import Engine
    from jobtop.lifecycle.agent_lock import ensure_agent
    from jobtop.lifecycle.containers.attach import attach_container, digest_of
    from jobtop.store.database import open_to_write
    from jobtop.store.jobs import Jobs
    from jobtop.tui.data.operations import STORE_PATIENCE_SECONDS, settings

    if options.own is None:
        raise UsageError("This console shows only other stores: it cannot record jobs")
    with Engine(endpoint) as engine:
        inspected = engine.inspect(container.id)
        digest = digest_of(engine, inspected)
    database = open_to_write(options.own, patience=STORE_PATIENCE_SECONDS)
    try:
        jobs = Jobs(database)
        job = attach_container(jobs, options.own, settings(options), endpoint, inspected, {}, digest)
        if "JOBTOP_JOB_ID" not in os.environ:  # an agent that is started here would belong to that job
            ensure_agent(database, options.own)
        return job
    finally:
        database.close()
