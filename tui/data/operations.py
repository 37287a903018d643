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
from jobtop.core.errors import JobtopError, StoreUnavailable, UsageError
from jobtop.core.model import Job
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.record import record, replace
from jobtop.core.run.request import Request
from jobtop.lifecycle.control import POLL_SECONDS, Control, Ending, elsewhere
from jobtop.lifecycle.queue import NO_AGENT, Queue
from jobtop.lifecycle.start import request_again, start_and_stay
from jobtop.lifecycle.submit import Wish, submit_to
from jobtop.store.database import Database, open_to_read, open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.upkeep.retention import set_pinned
from jobtop.tui.data.view import JobRow

if TYPE_CHECKING:
    from jobtop.tui.app import Options

BY = "jobtop console"
STORE_SECONDS = 5.0


@record
class Deed:
    """An operation on jobs: its title, the word for it when done, its meaning for the user, and its function."""

    title: str
    done: str
    meaning: str
    do: Callable[[Control, Job], None]
    ends: bool = False
    by_force: bool = False


STOP = Deed(
    "Stop",
    "stopped",
    "TERM to all processes; what is left of them after the grace is killed.",
    lambda control, job: control.stop(job, BY),
    ends=True,
)
KILL = Deed(
    "Kill",
    "killed",
    "KILL to all processes, at once: nothing of the work can be saved.",
    lambda control, job: control.kill(job, BY),
    ends=True,
    by_force=True,
)
PAUSE = Deed("Pause", "paused", "STOP to all processes, which stand still until they are resumed.", Control.pause)
RESUME = Deed("Resume", "resumed", "CONT to all processes, which go on.", Control.resume)


@record
class Outcome:
    """The result of an operation: the job, or the reason why it was refused; and warnings."""

    job: Job | None = None
    refusal: str | None = None
    warnings: tuple[str, ...] = ()


def refusal(row: JobRow, deed: Deed) -> str | None:
    """The reason why an operation cannot be done to a job; None if it can."""
    try:
        with controlling(row, []) as (control, job):
            return _refusal(control, job, deed)
    except (JobtopError, OSError) as error:
        return str(error)


def carry_out(row: JobRow, deed: Deed) -> Outcome:
    """Do an operation to a job; refuse if the job has changed and it is no longer possible."""
    warnings: list[str] = []
    try:
        with controlling(row, warnings) as (control, job):
            if (why := _refusal(control, job, deed)) is not None:
                return Outcome(refusal=why)
            if deed.ends and control.has_survivors(job):
                control.end_survivors(job)
            else:
                deed.do(control, job)
            return Outcome(job, warnings=tuple(warnings))
    except (JobtopError, OSError) as error:
        return Outcome(refusal=str(error), warnings=tuple(warnings))


async def end_of(row: JobRow, job: Job, deed: Deed) -> Job | None:
    """Wait until no process of the job is left, and return its record; None if processes remain after the grace."""
    deadline = time.monotonic() + patience(job, deed.by_force)
    while not is_gone(job):
        if time.monotonic() > deadline:
            return None
        await asyncio.sleep(POLL_SECONDS)
    return await asyncio.to_thread(_settled, row, job)


Begin = Callable[["Options", JobRow], tuple[Job, list[str]]]


@record
class Asked:
    """A job to start, or to queue if `wish` is given. Without an interval, the settings decide."""

    request: Request
    interval: float | None = None
    wish: Wish | None = None


def start(options: Options, asked: Asked) -> tuple[Job, list[str]]:
    """Start or queue a job in this host's store; it keeps running when the console closes."""
    if options.own is None:
        raise UsageError("this console has no store of its own to run jobs in")
    config = settings(options)
    if asked.interval is not None:
        config = replace(config, values={**config.values, "monitor.interval": asked.interval})
    warnings: list[str] = []
    if asked.wish is not None:
        with queueing(options.own, warnings) as queue:
            return submit_to(queue, config, asked.request, asked.wish), warnings
    request = replace(asked.request, parent_id=os.environ.get("JOBTOP_JOB_ID"))
    return start_and_stay(options.own, config, request, warnings.append)[0], warnings


def start_again(options: Options, row: JobRow) -> tuple[Job, list[str]]:
    """Start a job's command again, with the same options."""
    return start(options, Asked(request_again(StatePaths(row.store.parent, row.job.host), row.job)))


def queue_again(options: Options, row: JobRow) -> tuple[Job, list[str]]:
    """Queue a job's command again, as another attempt of the same job."""
    if options.own is None or row.store != options.own.store:
        raise UsageError(only_looked_at(row))
    warnings: list[str] = []
    with queueing(options.own, warnings) as queue:
        return queue.retry(queue.jobs.find(row.job.id), time.time(), by_hand=True), warnings


def pin(row: JobRow, pinned: bool) -> str | None:
    """Protect a job's samples from being deleted with age, or stop that; return the reason if it failed."""
    paths = StatePaths(row.store.parent, hostname())
    if row.store != paths.store:
        return only_looked_at(row)
    try:
        database = open_to_write(paths, patience=STORE_SECONDS)
        try:
            set_pinned(database, [Jobs(database).find(row.job.id)], pinned)
        finally:
            database.close()
    except (JobtopError, OSError) as error:
        return str(error)
    return None


def only_looked_at(row: JobRow) -> str:
    return f"job {row.job.id[:8]} is in {row.store}, which is only looked at here"


@contextmanager
def queueing(paths: StatePaths, warnings: list[str]) -> Iterator[Queue]:
    """The queue of a store; makes sure afterwards that an agent runs, and warns if none could be started."""
    database = open_to_write(paths, patience=STORE_SECONDS)
    try:
        queue = Queue(Jobs(database), paths)
        yield queue
        if not queue.call_agent(os.environ):
            warnings.append(NO_AGENT)
    finally:
        database.close()


def settings(options: Options) -> Config:
    return options.config or load((), os.environ, Path.cwd())


@contextmanager
def controlling(row: JobRow, warnings: list[str]) -> Iterator[tuple[Control, Job]]:
    """The control of a row's job in the store that the row comes from, and the job's current record."""
    paths = StatePaths(row.store.parent, hostname())
    why = elsewhere(row.job, paths.host)
    if why is None and row.store.name != paths.store.name:
        why = only_looked_at(row)
    if why is not None:
        raise UsageError(why)
    database = _opened(paths)
    try:
        control = Control(Jobs(database), paths, warnings.append)
        yield control, control.find(row.job.id)
    finally:
        database.close()


def _opened(paths: StatePaths) -> Database:
    """The store, opened to write if possible, else to read: a job can be controlled either way."""
    try:
        return open_to_write(paths, patience=STORE_SECONDS)
    except StoreUnavailable:
        return open_to_read(paths.store)


def _refusal(control: Control, job: Job, deed: Deed) -> str | None:
    return None if deed.ends and control.has_survivors(job) else control.refusal(job)


def _settled(row: JobRow, job: Job) -> Job:
    try:
        with controlling(row, []) as (control, _):
            return control.finished(job)
    except (JobtopError, OSError):
        return job
