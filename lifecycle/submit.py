"""Adds a job to the queue; refuses a job that this host can never run."""

from __future__ import annotations

import os

from jobtop.core.errors import UsageError
from jobtop.core.model import Queued
from jobtop.core.record import record, replace
from jobtop.core.run.request import prepare
from jobtop.core.run.supervisor import new_id
from jobtop.core.units import printable

PROCESS = "process"  # the kind of job that is a command on this host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobtop.core.config import Config
    from jobtop.core.model import Job, JobSpec, Limits
    from jobtop.core.run.request import Request
    from jobtop.lifecycle.queue import Queue


@record
class QueueOptions:
    """The options of `submit`; `after` may name jobs in any way that verbs accept."""

    after: Sequence[str] = ()
    priority: int = 0
    group: str | None = None
    not_before: float | None = None
    retries: int = 0
    is_forced: bool = False


def submit_to(queue: Queue, config: Config, request: Request, options: QueueOptions) -> Job:
    """Queue a job; the caller makes sure that there is an agent."""
    job, spec, queued = prepared(queue, config, request, options)
    return queue.submit(job, spec, queued)


def submit_all(
    queue: Queue, config: Config, requests: Sequence[Request], options: QueueOptions, is_sequence: bool
) -> list[Job]:
    """Queue several jobs, or none if one is refused; each one of a sequence starts when the one before has succeeded.

    The caller makes sure that there is an agent.
    """
    ready = [prepared(queue, config, request, options) for request in requests]
    if is_sequence:
        befores = [(), *((job.id,) for job, _, _ in ready)]
        ready = [
            (job, spec, replace(queued, after=(*queued.after, *before)))
            for (job, spec, queued), before in zip(ready, befores, strict=False)
        ]
    return queue.submit_all(ready)


def prepared(queue: Queue, config: Config, request: Request, options: QueueOptions) -> tuple[Job, JobSpec, Queued]:
    """The record, the spec and the queue entry of a new job; UsageError if it could never run."""
    if not options.is_forced:
        refuse_impossible(request.limits)
    queued = Queued(
        priority=options.priority,
        group=options.group,
        after=dependencies(queue, options.after),
        not_before=options.not_before,
        retries=options.retries,
        is_forced=options.is_forced,
    )
    # A job that is submitted from inside another one is not a child of it.
    request = replace(request, detached=True, parent_id=None)
    job, spec = prepare(request, new_id(), queue.paths.host, config)
    if job.kind == PROCESS and not options.is_forced:
        refuse_missing(spec)
    return job, spec, queued


def refuse_impossible(limits: Limits) -> None:
    """Raise UsageError if the job asks for more than this host has."""
    if not (limits.cpus or limits.memory_bytes or limits.gpus):
        return
    from jobtop.core.run.capacity import capacity
    from jobtop.core.run.scheduling import impossible

    why = impossible(limits, capacity(with_gpus=bool(limits.gpus)))
    if why is not None:
        raise UsageError(f"the job {why}, so it would never start (--force queues it anyway)")


def refuse_missing(spec: JobSpec) -> None:
    """Raise UsageError if the program of a job does not exist or is not executable."""
    name = spec.command[0]
    directories = [""] if "/" in name else spec.env.get("PATH", os.defpath).split(":")
    paths = [os.path.join(spec.cwd, directory, name) for directory in directories]
    if any(os.access(path, os.X_OK) and not os.path.isdir(path) for path in paths):
        return
    is_there = any(os.path.isfile(path) for path in paths)
    why = "is not executable (chmod +x)" if is_there else "was not found" + ("" if "/" in name else " in PATH")
    raise UsageError(f'"{printable(name)}" {why}; --force queues it anyway')


def dependencies(queue: Queue, references: Sequence[str]) -> tuple[str, ...]:
    """The ids of the jobs that have to succeed first; UsageError if one of them has failed for good."""
    from jobtop.core.run.scheduling import ENDED

    found = {job.id: reference for reference in references for job in (queue.jobs.find(reference),)}
    outcomes = queue.outcomes(found) if found else {}
    for job_id, reference in found.items():
        if (status := outcomes[job_id]) in ENDED:
            why = f"that job {ENDED[status]}, so this job would never start"
            raise UsageError(f"--after {printable(reference)}: {why}")
    return tuple(found)
