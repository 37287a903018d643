"""What `jobtop submit` does: a job into the queue, and an agent to start it. Without click: see options.py."""

from __future__ import annotations

import gc
import os
import time

from jobtop.cli.app import App
from jobtop.cli.failure import guarded
from jobtop.cli.run.launch import asked, check, monitor_sets, say
from jobtop.cli.run.options import RUN, Option, nothing_said, read_words
from jobtop.core.errors import BadValue, ExitCode
from jobtop.core.model import Status
from jobtop.core.run import outcome
from jobtop.core.run.request import count, group_name, whole_number
from jobtop.lifecycle.submit import QueueOptions, submit_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from jobtop.core.model import Job
    from jobtop.lifecycle.queue import Queue

NO_ATTENDANT = ("--no-ui", "--detach", "--pty", "--report", "--quiet", "--record", "--verbose")


def moment(text: str) -> float:
    """When a job may begin."""
    from jobtop.core.query.moments import parse_moment

    return parse_moment(text, time.time())


SUBMIT = (
    *(option for option in RUN if option.name not in NO_ATTENDANT),
    Option("--after", "Only once this job has succeeded; may be repeated.", "ID", repeated=True),
    Option("--priority", "The higher the sooner; 0 by default, may be below.", "N", whole_number),
    Option("--group", "Which group it is of: jobtop group gives one slots.", "G", group_name),
    Option("--at", "Not before then: 14:30, or ISO 8601.", "TIME", moment),
    Option("--retries", "Try that often again if it fails, after 1s, 2s, 4s … 5m.", "N", count),
    Option("--force", "Queue it even if this host will never have what it asks for."),
    Option("--wait", "Wait until its last attempt has ended; exit as run would."),
)


def quick_submit(words: Sequence[str]) -> int | None:
    """The exit code of `submit` with these words; None if click has to explain something."""
    gc.disable()
    return guarded(lambda: submit_words(words))


def submit_words(words: Sequence[str]) -> int | None:
    read = read_words(SUBMIT, words)
    return None if read is None else submit(App((), False, "auto", os.environ), read[1], read[0])


def submit(app: App, command: tuple[str, ...], options: dict[str, Any]) -> int:
    """Queue the command and say its id; with --wait, its exit code."""
    if not command:
        raise BadValue("what is to be run? jobtop submit [OPTIONS] -- COMMAND [ARGUMENT…]")
    options = {option.key: nothing_said(option) for option in RUN} | options
    check(command, options)
    app.sets = (*app.sets, *monitor_sets(options))
    wish = QueueOptions(
        after=options["after"],
        priority=options["priority"] or 0,
        group=options["group"],
        not_before=options["at"],
        retries=options["retries"] or 0,
        is_forced=options["force"],
    )
    queue = opened(app)
    job = submit_to(queue, app.config, asked(app, command, options), wish)
    try:
        say(job.id)
    finally:  # it waits, whoever reads that
        call_agent(app, queue)
    return wait_for(app, queue, job) if options["wait"] else ExitCode.OK


def opened(app: App) -> Queue:
    from jobtop.lifecycle.queue import Queue
    from jobtop.store.jobs import Jobs

    return Queue(Jobs(app.store_to_write()), app.paths)


def call_agent(app: App, queue: Queue) -> None:
    """See to it that somebody starts what waits."""
    from jobtop.lifecycle.queue import NO_AGENT

    if not queue.call_agent(app.environ):
        app.warn(NO_AGENT)


def wait_for(app: App, queue: Queue, job: Job) -> int:
    """Until the last attempt at a job has ended; the exit code `run` would have."""
    from jobtop.lifecycle.wait import await_ends

    gc.enable()
    (job,) = await_ends(queue, [job], warn=app.warn)
    if job.status is Status.ERROR or job.start_time is None:
        app.warn(f"job {job.id[:8]} was not run: {job.reason}")
    elif job.reason and (job.signal is not None or job.status is not Status.FAILED):
        app.warn(f"job {job.id[:8]} {job.status}: {job.reason}")
    return outcome.exit_code(job)
