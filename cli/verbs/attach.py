"""`jobtop attach`: records a running process and its descendants, or containers, as jobs."""

from collections.abc import Sequence
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.run.submission import open_queue
from jobtop.cli.text.tables import TableColumn, format_options, print_records, table
from jobtop.cli.values import Count
from jobtop.core.clock import iso, local
from jobtop.core.errors import ExitCode, UsageError
from jobtop.core.model import SCHEMA_VERSION, Job, Status
from jobtop.core.run.request import tag
from jobtop.core.units import ABSENT, printable
from jobtop.lifecycle.agent_lock import is_attended
from jobtop.lifecycle.attach import attach as make_job
from jobtop.lifecycle.attach import call_agent
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.wait import await_ends
from jobtop.store.follows import Follow, Follows

COLUMNS = (
    TableColumn("LABEL", widest=60),
    TableColumn("ENGINE", widest=24),
    TableColumn("SINCE"),
    TableColumn("RUNNING", right=True),
    TableColumn("NAME", widest=24),
    TableColumn("TAGS", widest=40),
)
NO_FOLLOW = Follow("", "", "")
NOT_MONITORED = (
    "it is not monitored yet: no agent runs, and a job cannot start one (outside the job: jobtop agent start)"
)

WAIT = "Wait until it has ended; exit code 1 if it did not succeed, or that is not known."


@click.command()
@click.argument("pid", type=Count(1), metavar="[PID]", required=False)
@click.option("--container", metavar="NAME|ID", help="Attach to this container instead; ENGINE/NAME names its engine.")
@click.option("--label", metavar="K[=V]", help="Attach to all containers with this label, each time that one starts.")
@click.option("--stop", is_flag=True, help="Follow --label no longer; its jobs that run go on.")
@click.option("--follows", is_flag=True, help="List the labels that are followed.")
@click.option("--engine", metavar="E", help="Only containers of this engine (jobtop containers names them).")
@click.option("--name", metavar="N", help="The job's name; by default the script or the program, or the container's.")
@click.option("--tool", metavar="T", help="The kind of job; by default the program, or the image.")
@click.option("--tag", "tags", metavar="K[=V]", multiple=True, help="A tag to find the job by; may be repeated.")
@click.option("--note", metavar="TEXT", help="A note to read later.")
@click.option("--wait", is_flag=True, help=WAIT)
@format_options
@click.pass_obj
def attach(
    app: App,
    /,
    pid: int | None,
    container: str | None,
    label: str | None,
    stop: bool,
    follows: bool,
    engine: str | None,
    style: str,
    wait: bool,
    tags: tuple[str, ...],
    **details: str | None,
) -> int:
    """Monitor the process PID and its descendants, or a container, as a job; print the job's id, and return.

    CPU time, faults, storage and the memory peak are counted from the start of the process. jobtop did not start it:
    its exit status stays unknown, its output is not kept, and what it uses after the last sample is missing. It can be
    stopped and paused like any job, and runs on without jobtop.

    A container counts from its own start, and its engine says how it ended. With --label the agent makes a job from
    each container that has the label now, and each time that one starts, until --stop.
    """
    check_choice(pid, container, label, follows, stop, wait, engine)
    options: dict[str, Any] = {**details, "tags": dict(map(tag, tags))}
    queue = open_queue(app)
    if follows:
        return print_follows(app, queue, Follows(queue.jobs.database, app.paths.host).all(), style)
    if label is not None:
        return follow_label(app, queue, label, engine, stop, options, style)
    if container is not None:
        from jobtop.lifecycle.containers.attach import attach_by_name

        job = attach_by_name(queue.jobs, app.paths, app.config, app.environ, container, options, engine)
    else:
        assert pid is not None
        job = make_job(queue.jobs, app.paths, app.config, pid, options)
    if style == "table":
        print(job.id, flush=True)
    else:
        print_records(style, [job.to_json()], single=True)
    if not call_agent(queue.jobs, app.paths, app.environ):
        app.warn(NOT_MONITORED)
    return wait_for_end(app, queue, job) if wait else ExitCode.OK


def check_choice(
    pid: int | None,
    container: str | None,
    label: str | None,
    follows: bool,
    stop: bool,
    wait: bool,
    engine: str | None,
) -> None:
    """UsageError unless exactly one thing is asked for."""
    chosen = [pid is not None, container is not None, label is not None, follows]
    if sum(chosen) != 1:
        what = "only one of PID, --container, --label and --follows" if any(chosen) else "PID, or --container NAME"
        raise UsageError(f"attach needs {what}")
    if stop and label is None:
        raise UsageError("--stop ends a follow: jobtop attach --label K=V --stop (to end a job: jobtop stop ID)")
    if wait and (follows or label is not None):
        raise UsageError("--wait is for one process or container: a label is followed until --stop")
    if engine is not None and (pid is not None or follows):
        raise UsageError("--engine is for --container and --label")


def wait_for_end(app: App, queue: Queue, job: Job) -> int:
    (job,) = await_ends(queue, [job])
    if job.status is Status.SUCCESS:
        return ExitCode.OK
    app.warn(f"job {job.id[:8]}: {job.reason}")
    return ExitCode.BAD_ANSWER


def follow_label(
    app: App, queue: Queue, label: str, engine: str | None, stop: bool, options: dict[str, Any], style: str
) -> int:
    """Begin or end to follow a label."""
    from jobtop.lifecycle.containers.following import begin_follows, checked_label, end_follows

    label = checked_label(label)
    if stop:
        changed = end_follows(queue.jobs, app.paths, label, engine)
    else:
        changed = begin_follows(queue.jobs, app.paths, app.environ, label, engine, options, app.warn)
    if style != "table":
        print_follows(app, queue, changed, style)
    elif not stop:
        for follow in changed:
            print(f"containers of {printable(follow.engine)} with the label {printable(label)} become jobs from now on")
    if not call_agent(queue.jobs, app.paths, app.environ) and not stop:
        app.warn(NOT_MONITORED)
    return ExitCode.OK


def print_follows(app: App, queue: Queue, follows: Sequence[Follow], style: str) -> int:
    from jobtop.lifecycle.containers.following import running_jobs

    running = running_jobs(queue.jobs, list(follows))
    if style != "table":
        records = [follow_json(follow, running[follow.url, follow.label]) for follow in follows]
        print_records(style, records, empty=follow_json(NO_FOLLOW, 0))
    elif not follows:
        print("No labels are followed. To follow one: jobtop attach --label KEY=VALUE")
    else:
        print(table(COLUMNS, (follow_row(follow, running[follow.url, follow.label]) for follow in follows)))
    if follows and style == "table" and not is_attended(queue.jobs.database, app.paths):
        app.warn("no agent is running: containers that start do not become jobs (jobtop agent start)")
    return ExitCode.OK


def follow_row(follow: Follow, running: int) -> tuple[str, ...]:
    tags = ", ".join(f"{key}={value}" if value else key for key, value in follow.tags.items())
    texts = follow.label, follow.engine, local(follow.at), str(running), follow.name or ABSENT, tags or ABSENT
    return tuple(map(printable, texts))


def follow_json(follow: Follow, running: int) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "label": follow.label,
        "engine": follow.engine,
        "url": follow.url,
        "since": iso(follow.at),
        "by": follow.by,
        "running": running,
        "name": follow.name,
        "tool": follow.tool,
        "tags": follow.tags,
        "note": follow.note,
    }
