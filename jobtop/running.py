"""`jobtop.run` and `jobtop.submit`: run a command as a job from Python."""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import TYPE_CHECKING, Literal, Unpack, overload

from jobtop.context import Context, with_ready_image
from jobtop.detached import DetachedJob
from jobtop.log_lines import warn
from jobtop.options import JobOptions, request_of, settings_of
from jobtop.records import JobFailed, record_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from jobtop.core.model import Job
    from jobtop.core.paths import StatePaths
    from jobtop.core.run.request import Request
    from jobtop.options import Text
    from jobtop.records import JobRecord


@overload
def run(
    command: str | Sequence[Text],
    *,
    check: bool = False,
    capture_output: bool = False,
    detach: Literal[False] = False,
    **options: Unpack[JobOptions],
) -> JobRecord: ...
@overload
def run(command: str | Sequence[Text], *, detach: Literal[True], **options: Unpack[JobOptions]) -> DetachedJob: ...
def run(
    command: str | Sequence[Text],
    *,
    check: bool = False,
    capture_output: bool = False,
    detach: bool = False,
    **options: Unpack[JobOptions],
) -> JobRecord | DetachedJob:
    """Run a command as a job, wait for its end and return its record.

    Its output passes through, and `KeyboardInterrupt` stops it, as with `jobtop run --no-ui`. With `capture_output`
    the output is in `stdout` and `stderr` of the record instead. With `check`, a job that does not succeed raises
    `JobFailed`. With `detach` it is started in the background: it outlives this program, and `run` returns at once.
    A command that cannot be started raises `StartError`.
    """
    request = request_of("run", command, options, detached=detach)
    if detach and (check or capture_output):
        name = "check" if check else "capture_output"
        raise TypeError(f"{name} has no effect with detach: wait(check=True) and open_store().logs(job) are for that")
    context = Context(settings_of(options))
    request = with_ready_image(request)
    if detach:
        return start_detached(context, request)
    from jobtop.attended import run_attended

    job = run_attended(context, request, capture_output)
    output = captured(context.paths, job) if capture_output else (None, None)
    record = record_of(job, *output)
    if check and not record.ok:
        raise JobFailed(record)
    return record


def submit(
    command: str | Sequence[Text],
    *,
    after: Iterable[str | JobRecord | DetachedJob] = (),
    priority: int = 0,
    group: str | None = None,
    at: datetime | str | None = None,
    retries: int = 0,
    force: bool = False,
    **options: Unpack[JobOptions],
) -> DetachedJob:
    """Queue a command: it starts when enough CPUs, memory and GPUs are free.

    `after` are jobs that have to succeed first; `group`, `priority`, `at`, `retries` and `force` are those of
    `jobtop submit`.
    """
    request = request_of("submit", command, options, detached=True)
    context = Context(settings_of(options))
    from jobtop.core.query.moments import parse_moment
    from jobtop.lifecycle.queue import Queue
    from jobtop.lifecycle.submit import QueueOptions, submit_to
    from jobtop.store.database import open_to_write
    from jobtop.store.jobs import Jobs

    moment = parse_moment(at, time.time()) if isinstance(at, str) else None if at is None else at.timestamp()
    wish = QueueOptions(
        after=[job if isinstance(job, str) else job.id for job in after],
        priority=priority,
        group=group,
        not_before=moment,
        retries=retries,
        is_forced=force,
    )
    with closing(open_to_write(context.paths, context.config.switch("store.network"))) as database:
        queue = Queue(Jobs(database), context.paths)
        job = submit_to(queue, context.config, request, wish)
        if (why := queue.call_agent(os.environ)) is not None:
            warn(why)
    return DetachedJob(job.id, job.name, context)


def start_detached(context: Context, request: Request) -> DetachedJob:
    """Start a job in the background; an agent samples and records it."""
    from jobtop.attended import start_error
    from jobtop.lifecycle.start import start_and_stay

    job, shim_report = start_and_stay(context.paths, context.config, request, warn)
    if shim_report is None or "exec_error" in shim_report:
        raise start_error(job)
    return DetachedJob(job.id, job.name, context)


def captured(paths: StatePaths, job: Job) -> tuple[str, str]:
    """Return what a job has written to its standard output and its standard error."""
    from jobtop.store.output.whole import read_output

    directory = paths.job(job.id)
    out, err = (read_output(directory, (stream,)).decode("utf-8", "replace") for stream in (0, 1))
    return out, err
