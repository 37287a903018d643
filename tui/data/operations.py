"""Operations on jobs: stop, pause, start, queue, pin. They run in threads, so that keys never wait for a store."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from jobtop.core.config import Config, load
from jobtop.core.errors import EngineError, JobtopError, StoreUnavailable, UsageError
from jobtop.core.model import Job
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.record import record, replace
from jobtop.core.run.request import Request
from jobtop.lifecycle.control import POLL_SECONDS, Control, Ending, elsewhere
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.start import request_again, start_and_stay
from jobtop.lifecycle.submit import QueueOptions, submit_to
from jobtop.store.database import Database, open_to_read, open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.upkeep.retention import set_pinned
from jobtop.tui.data.view import JobRow

if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.model import PullStep
    from jobtop.lifecycle.containers.images import OnPull
    from jobtop.tui.app import Options

REQUESTED_BY = "jobtop console"
STORE_PATIENCE_SECONDS = 5.0


@record
class Operation:
    """An operation on jobs: its title, the word for it when done, its meaning for the user, and its function."""

    title: str
    done: str
    meaning: str
    apply: Callable[[Control, Job], object]
    ends_job: bool = False
    is_forced: bool = False


STOP = Operation(
    "Stop",
    "stopped",
    "All processes get SIGTERM. Processes still alive after {grace} are killed.",
    lambda control, job: control.stop(job, REQUESTED_BY),
    ends_job=True,
)
KILL = Operation(
    "Kill",
    "killed",
    "All processes get SIGKILL at once. They cannot save their work.",
    lambda control, job: control.kill(job, REQUESTED_BY),
    ends_job=True,
    is_forced=True,
)
PAUSE = Operation(
    "Pause", "paused", "All processes get SIGSTOP. They are suspended until you resume them.", Control.pause
)
RESUME = Operation("Resume", "resumed", "All processes get SIGCONT and run again.", Control.resume)


def stop_words(grace_seconds: float | None) -> str:
    """What a stop does to a job; None if several jobs have different grace periods."""
    grace = "their grace period" if grace_seconds is None else f"{grace_seconds:g} s"
    return STOP.meaning.format(grace=grace)


@record
class OperationResult:
    """The result of an operation: the job, or the reason why it was refused; and warnings."""

    job: Job | None = None
    refusal: str | None = None
    warnings: tuple[str, ...] = ()


def refusal(row: JobRow, operation: Operation) -> str | None:
    """The reason why an operation cannot be done to a job; None if it can."""
    try:
        with open_control(row, []) as (control, job):
            return _refusal(control, job, operation)
    except (JobtopError, OSError) as error:
        return str(error)


def carry_out(row: JobRow, operation: Operation) -> OperationResult:
    """Do an operation to a job; refuse if the job has changed and it is no longer possible."""
    warnings: list[str] = []
    try:
        with open_control(row, warnings) as (control, job):
            if (why := _refusal(control, job, operation)) is not None:
                return OperationResult(refusal=why)
            if operation.ends_job and control.has_survivors(job):
                control.end_survivors(job)
            else:
                operation.apply(control, job)
            return OperationResult(job, warnings=tuple(warnings))
    except (JobtopError, OSError) as error:
        return OperationResult(refusal=str(error), warnings=tuple(warnings))


async def wait_for_end(row: JobRow, job: Job, operation: Operation) -> Job | None:
    """Wait until no process of the job is left, and return its record; None if processes remain after the grace."""
    ending = Ending((job,), operation.is_forced)
    while ending.left():
        if ending.is_late:
            return None
        await asyncio.sleep(POLL_SECONDS)
    return await asyncio.to_thread(_finished_record, row, job)


StartFunction = Callable[["Options", JobRow], tuple[Job, list[str]]]


@record
class NewJob:
    """A job to start, or to queue if it has queue options. Without an interval, the settings decide."""

    request: Request
    interval: float | None = None
    queue_options: QueueOptions | None = None


def unseen_pull() -> Callable[[PullStep], None]:
    return lambda _: None


def start(
    options: Options, new_job: NewJob, on_pull: OnPull = unseen_pull, is_wanted: Callable[[], bool] = lambda: True
) -> tuple[Job, list[str]]:
    """Start or queue a job in this host's store; it keeps running when the console closes.

    The image of a container is pulled before the job starts, if it is still wanted then; EngineError says why it cannot
    be had. A queued job pulls it when it starts.
    """
    if options.own is None:
        raise UsageError("This console shows only other stores: it cannot run jobs")
    config = settings(options)
    if new_job.interval is not None:
        config = replace(config, values={**config.values, "monitor.interval": new_job.interval})
    warnings: list[str] = []
    if new_job.queue_options is not None:
        with open_queue(options.own, warnings) as queue:
            return submit_to(queue, config, new_job.request, new_job.queue_options), warnings
    has_terminal = config.text("run.pty") != "never"
    request = replace(new_job.request, parent_id=os.environ.get("JOBTOP_JOB_ID"), pty=has_terminal)
    if request.container is not None:
        from jobtop.lifecycle.containers.images import with_ready_image

        request = replace(request, container=with_ready_image(request.container, os.environ, on_pull))
        if not is_wanted():
            raise EngineError("the job is not wanted any more")
    return start_and_stay(options.own, config, request, warnings.append)[0], warnings


def start_again(options: Options, row: JobRow) -> tuple[Job, list[str]]:
    """Start a job's command again, with the same options."""
    return start(options, NewJob(request_again(StatePaths(row.store.parent, row.job.host), row.job)))


def queue_again(options: Options, row: JobRow) -> tuple[Job, list[str]]:
    """Queue a job's command again, as another attempt of the same job."""
    if options.own is None or row.store != options.own.store:
        raise UsageError(elsewhere_words(row))
    warnings: list[str] = []
    with open_queue(options.own, warnings) as queue:
        return queue.retry(queue.jobs.find(row.job.id), time.time(), by_hand=True), warnings


def pin(row: JobRow, pinned: bool) -> str | None:
    """Protect a job's samples from being deleted with age, or stop that; return the reason if it failed."""
    paths = StatePaths(row.store.parent, hostname())
    if row.store != paths.store:
        return elsewhere_words(row)
    try:
        database = open_to_write(paths, patience=STORE_PATIENCE_SECONDS)
        try:
            set_pinned(database, [Jobs(database).find(row.job.id)], pinned)
        finally:
            database.close()
    except (JobtopError, OSError) as error:
        return str(error)
    return None


def change_priority(row: JobRow, step: int) -> str | None:
    """Change the priority of a queued job; return the reason if it failed."""
    paths = StatePaths(row.store.parent, hostname())
    if row.store != paths.store:
        return elsewhere_words(row)
    try:
        database = open_to_write(paths, patience=STORE_PATIENCE_SECONDS)
        try:
            if not Queue(Jobs(database), paths).change_priority(row.job.id, step):
                return f"job {row.job.id[:8]} does not wait any more"
        finally:
            database.close()
    except (JobtopError, OSError) as error:
        return str(error)
    return None


def elsewhere_words(row: JobRow) -> str:
    return f"job {row.job.id[:8]} is in {row.store}, which this console only reads"


@contextmanager
def open_queue(paths: StatePaths, warnings: list[str]) -> Iterator[Queue]:
    """The queue of a store; makes sure afterwards that an agent runs, and warns if none could be started."""
    database = open_to_write(paths, patience=STORE_PATIENCE_SECONDS)
    try:
        queue = Queue(Jobs(database), paths)
        yield queue
        if (why := queue.call_agent(os.environ)) is not None:
            warnings.append(why)
    finally:
        database.close()


def settings(options: Options) -> Config:
    return options.config or load((), os.environ, Path.cwd())


@contextmanager
def open_control(row: JobRow, warnings: list[str]) -> Iterator[tuple[Control, Job]]:
    """The control of a row's job in the store that the row comes from, and the job's current record."""
    paths = StatePaths(row.store.parent, hostname())
    why = elsewhere(row.job, paths.host)
    if why is None and row.store.name != paths.store.name:
        why = elsewhere_words(row)
    if why is not None:
        raise UsageError(why)
    database = _open_store(paths)
    try:
        control = Control(Jobs(database), paths, warnings.append)
        yield control, control.find(row.job.id)
    finally:
        database.close()


def _open_store(paths: StatePaths) -> Database:
    """The store, opened to write if possible, else to read: a job can be controlled either way."""
    try:
        return open_to_write(paths, patience=STORE_PATIENCE_SECONDS)
    except StoreUnavailable:
        return open_to_read(paths.store)


def _refusal(control: Control, job: Job, operation: Operation) -> str | None:
    return None if operation.ends_job and control.has_survivors(job) else control.refusal(job)


def _finished_record(row: JobRow, job: Job) -> Job:
    try:
        with open_control(row, []) as (control, _):
            return control.finished(job)
    except (JobtopError, OSError):
        return job
