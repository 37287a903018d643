"""`jobtop submit`: queues a job and makes sure that an agent starts it. Does not use click: see options.py."""

from __future__ import annotations

import gc
import os
import time

from jobtop.cli.app import App
from jobtop.cli.failure import run_reporting_errors
from jobtop.cli.run.launch import (
    check_options,
    make_request,
    monitor_settings,
    print_job_id,
    warn_of_misplaced_option,
    with_called_tool,
)
from jobtop.cli.run.options import RUN, Option, parse_arguments, unset_value
from jobtop.core.errors import BadValue, ExitCode
from jobtop.core.model import Status
from jobtop.core.run import outcome
from jobtop.core.run.request import count, group_name, whole_number
from jobtop.lifecycle.sampling_budget import shortage_beside_others
from jobtop.lifecycle.submit import QueueOptions, submit_all, submit_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from jobtop.core.model import Job
    from jobtop.core.run.request import Request
    from jobtop.lifecycle.queue import Queue

FOREGROUND_ONLY = (
    "--no-ui",
    "--detach",
    "--pty",
    "--no-pty",
    "--report",
    "--fail-on",
    "--quiet",
    "--record",
    "--verbose",
)


def parse_start_time(text: str) -> float:
    """Parse the time before which a job must not start."""
    from jobtop.core.query.moments import parse_moment

    return parse_moment(text, time.time())


def parse_array(text: str) -> tuple[int, ...]:
    """Parse the numbers of an array."""
    from jobtop.core.run.sweep import array_numbers

    return array_numbers(text)


def parse_sweep(text: str) -> tuple[str, tuple[str, ...]]:
    """Parse the name and the values of a sweep."""
    from jobtop.core.run.sweep import sweep_values

    return sweep_values(text)


SUBMIT = (
    *(option for option in RUN if option.name not in FOREGROUND_ONLY),
    Option("--after", "Start only after this job has succeeded; may be repeated.", "ID", repeated=True),
    Option("--priority", "Higher starts sooner; 0 by default, may be negative.", "N", whole_number),
    Option("--group", "The job's group: jobtop group limits how many of a group run at once.", "G", group_name),
    Option("--at", "Do not start before this time: 14:30, or ISO 8601.", "TIME", parse_start_time),
    Option("--array", "A job for each number: {index} in arguments, JOBTOP_ARRAY_INDEX.", "1-30", parse_array),
    Option(
        "--sweep",
        "A job for each value (lr=0.1,0.2 or seed=1..5): {lr}, JOBTOP_PARAM_LR; may be repeated.",
        "K=VALUES",
        parse_sweep,
        repeated=True,
    ),
    Option("--retries", "Retry up to N times if it fails, after 1s, 2s, 4s … 5m.", "N", count),
    Option("--force", "Queue it even if its command does not exist or it needs more than this host has."),
    Option("--wait", "Wait until its last attempt has ended; the exit code is that of run."),
)


def fast_submit(arguments: Sequence[str]) -> int | None:
    """Return the exit code of `submit`; None if click has to parse these arguments."""
    gc.disable()
    return run_reporting_errors(lambda: submit_from_arguments(arguments))


def submit_from_arguments(arguments: Sequence[str]) -> int | None:
    parsed = parse_arguments(SUBMIT, arguments)
    return None if parsed is None else submit(App((), False, "auto", os.environ), parsed[1], parsed[0])


def submit(app: App, command: tuple[str, ...], options: dict[str, Any]) -> int:
    """Queue the command and print its id; with --wait, return the job's exit code."""
    if not command and options["like"] is None and options["image"] is None:
        raise BadValue("no command given: jobtop submit [OPTIONS] -- COMMAND [ARGUMENT…]")
    options = {option.key: unset_value(option) for option in RUN} | options
    app.sets = (*app.sets, *monitor_settings(options))
    options = with_called_tool(app, SUBMIT, command, options)
    check_options(command, options)
    warn_of_misplaced_option(app, command, options)
    wish = QueueOptions(
        after=options["after"],
        priority=options["priority"] or 0,
        group=options["group"],
        not_before=options["at"],
        retries=options["retries"] or 0,
        is_forced=options["force"],
    )
    request = make_request(app, command, options)
    if options["array"] is not None or options["sweep"]:
        return submit_array(app, request, wish, options)
    queue = open_queue(app)
    job = submit_to(queue, app.config, request, wish)
    shortage = shortage_beside_others(app.config, queue.jobs, job.id)
    try:
        print_job_id(job.id)
    finally:  # the job is queued even if its id cannot be printed
        call_agent(app, queue)
    if shortage is not None:
        app.warn(shortage)
    return wait_for_end(app, queue, job) if options["wait"] else ExitCode.OK


def submit_array(app: App, request: Request, wish: QueueOptions, options: dict[str, Any]) -> int:
    """Queue a job for each value, all or none, and print the word that means them all, such as `array:3f8a21b2`."""
    from jobtop.core.run.supervisor import new_id
    from jobtop.core.run.sweep import ARRAY, requests_of

    requests = requests_of(request, options["array"] or (), options["sweep"], str(new_id())[:8])
    queue = open_queue(app)
    jobs = submit_all(queue, app.config, requests, wish, is_sequence=False)
    try:
        print(f"{ARRAY}:{jobs[0].tags[ARRAY]}", flush=True)
    finally:  # the jobs are queued even if the word cannot be printed
        call_agent(app, queue)
    return wait_for_array(app, queue, jobs) if options["wait"] else ExitCode.OK


def wait_for_array(app: App, queue: Queue, jobs: Sequence[Job]) -> int:
    """Wait until the last attempt at each job has ended; return 1 if one did not succeed."""
    from jobtop.core.text.job_text import ending_text
    from jobtop.lifecycle.wait import await_ends

    gc.enable()
    failed = [job for job in await_ends(queue, jobs, warn=app.warn) if job.status is not Status.SUCCESS]
    for job in failed:
        app.warn(ending_text(job))
    return ExitCode.BAD_ANSWER if failed else ExitCode.OK


def open_queue(app: App) -> Queue:
    """Open the queue of this host's store for writing."""
    from jobtop.lifecycle.queue import Queue
    from jobtop.store.jobs import Jobs

    return Queue(Jobs(app.store_to_write()), app.paths)


def call_agent(app: App, queue: Queue) -> None:
    """Make sure that an agent starts queued jobs; warn if none can be started."""
    why = queue.call_agent(app.environ)
    if why is not None:
        app.warn(why)


def wait_for_end(app: App, queue: Queue, job: Job) -> int:
    """Wait until the last attempt at a job has ended; return the exit code that `run` would have."""
    from jobtop.core.text.job_text import ending_text
    from jobtop.lifecycle.wait import await_ends

    gc.enable()
    (job,) = await_ends(queue, [job], warn=app.warn)
    if job.status is Status.ERROR or job.start_time is None:
        app.warn(f"job {job.id[:8]} was not run: {job.reason}")
    elif job.status is not Status.SUCCESS:
        app.warn(ending_text(job))
    return outcome.exit_code(job)
