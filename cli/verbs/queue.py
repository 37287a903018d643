"""`jobtop queue`, `retry` and `group`: lists queued jobs, queues ended jobs again, limits groups."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.run.submission import call_agent, open_queue
from jobtop.cli.selection import JOBS_HELP, action, changing_options, filter_argument, find_to_change, parse_words
from jobtop.cli.text.queue_watch import QueueEntry, watch_json_lines, watch_table
from jobtop.cli.text.tables import STREAM, TableColumn, format_options, print_records, stream_format_options, table
from jobtop.cli.values import Count
from jobtop.cli.verbs.history import HOST
from jobtop.core.errors import BadValue, ExitCode, UsageError
from jobtop.core.job_id import NO_ID
from jobtop.core.model import SCHEMA_VERSION, Job, Limits, Queued, Status
from jobtop.core.paths import StatePaths
from jobtop.core.query.filter import LANGUAGE
from jobtop.core.run.capacity import capacity
from jobtop.core.run.request import group_name
from jobtop.core.run.scheduling import amount_words, failure
from jobtop.core.units import ABSENT, format_duration, number_of, printable
from jobtop.lifecycle.control import elsewhere
from jobtop.lifecycle.queue import Queue, check_retry
from jobtop.lifecycle.queue_listing import groups_of, has_agent_soon, ordered
from jobtop.lifecycle.queue_plan import Lineup
from jobtop.store.jobs import Jobs, Query

QUEUE_COLUMNS = (
    TableColumn("#", right=True),
    TableColumn("ID"),
    TableColumn("NAME", widest=24),
    TableColumn("PRIORITY", right=True),
    TableColumn("GROUP", widest=16),
    TableColumn("NEEDS", widest=40),
    TableColumn("WAITING", right=True),
    TableColumn("WHY", widest=100),
)
GROUP_COLUMNS = (
    TableColumn("GROUP", widest=40),
    TableColumn("SLOTS", right=True),
    TableColumn("RUNNING", right=True),
    TableColumn("WAITING", right=True),
)
QUEUE_SINCE_VERSION = 4
WAITING = Query(statuses=(Status.QUEUED, Status.PAUSED), limit=None)
NO_JOB = Job(NO_ID, "", (), "", "", "", Status.QUEUED, queue=Queued())
NO_GROUP = {"schema_version": SCHEMA_VERSION, "name": "", "slots": None, "running": 0, "waiting": 0}


@click.command(epilog=LANGUAGE)
@filter_argument
@click.option("--watch", is_flag=True, help="Show the queue again when it changes, until Ctrl-C (or q).")
@stream_format_options("Short for --format json, with --watch for --format jsonl.")
@click.pass_obj
def queue(app: App, /, words: tuple[str, ...], style: str, watch: bool) -> int:
    """List queued jobs in start order, with the reason each one waits; with a filter, those that match."""
    style = ("jsonl" if watch else "json") if style == STREAM else style
    parse_words(app, words, in_memory=True)
    if watch:
        watch_queue(app, words, style)
        return ExitCode.OK
    waiting = read_queue(app, words)
    if style != "table":
        records = [job.to_json() | {"position": place, "waits_for": why} for place, job, why in waiting]
        print_records(style, records, empty=NO_JOB.to_json() | {"position": 0, "waits_for": ""})
    else:
        print(queue_table(app, waiting, words))
    for jobs in app.fleet.stores if waiting else ():
        own = [job for _, job, _ in waiting if job.host == app.paths.host]
        if jobs.database.path == app.paths.store and own and not has_agent_soon(jobs, app.paths, own):
            app.warn("no agent is running: queued jobs of this host do not start until one is (jobtop agent start)")
    return ExitCode.OK


def watch_queue(app: App, words: tuple[str, ...], style: str) -> None:
    """Show the queue, and its changes, until the user leaves."""
    if style in ("json", "csv"):
        raise UsageError(f"--watch needs the table or --format jsonl, not --format {style}")
    if style == "jsonl":
        watch_json_lines(lambda: read_queue(app, words), lambda job_id: app.find(job_id)[1])
    else:
        watch_table(lambda: read_queue(app, words), lambda waiting: queue_table(app, waiting, words))


def read_queue(app: App, words: tuple[str, ...]) -> list[QueueEntry]:
    """Return the queued jobs that match a filter, with their positions and reasons."""
    wanted = parse_words(app, words, in_memory=True)
    waiting = waiting_in_all_stores(app) if app.has_history() else []
    return [entry for entry in waiting if wanted is None or wanted.matches(entry[1])]


def queue_table(app: App, waiting: Sequence[QueueEntry], words: tuple[str, ...]) -> str:
    """Return the queue as a table, or the sentence that it is empty."""
    if not waiting:
        return "No matching queued jobs." if words else "No queued jobs. To queue one: jobtop submit -- COMMAND"
    if app.fleet.has_several:
        columns = (*QUEUE_COLUMNS[:3], HOST, *QUEUE_COLUMNS[3:])
        return table(columns, ((*(cells := queue_row(*item))[:3], item[1].host, *cells[3:]) for item in waiting))
    return table(QUEUE_COLUMNS, (queue_row(*item) for item in waiting))


def waiting_in_all_stores(app: App) -> list[QueueEntry]:
    """Return the queued jobs of every store; only the host itself knows why its jobs wait."""

    def waiting_in_store(jobs: Jobs) -> list[tuple[int, Job, str]]:
        if jobs.database.path == app.paths.store:
            return list(waiting_here(jobs, app.paths))
        found = [job for job in jobs.select(WAITING) if job.queue is not None and job.shim is None]
        found.sort(key=lambda job: (-job.queue.priority if job.queue else 0, job.seq))
        return [(place, job, f"it waits in the queue of {job.host}") for place, job in enumerate(found, 1)]

    return [item for _, items in app.fleet.each(waiting_in_store) for item in items]


def waiting_here(jobs: Jobs, paths: StatePaths) -> Iterator[tuple[int, Job, str]]:
    """Yield every queued job of this host with its position and the reason it waits."""
    if jobs.database.check() < QUEUE_SINCE_VERSION:  # an old store opened read-only has no queue
        return
    job_queue = Queue(jobs, paths)
    lineup = Lineup(job_queue)
    lineup.refresh()
    plan = lineup.plan(capacity(lineup.needs_gpus), time.time())
    queued_jobs = (job for job in jobs.select(WAITING) if job.id in lineup.waiting)
    yield from ordered(lineup, plan, queued_jobs, paths)


def queue_row(place: int, job: Job, why: str) -> tuple[str, ...]:
    queued = job.queue or Queued()
    waited = None if job.submitted_at is None else max(0.0, time.time() - job.submitted_at)
    return (
        str(place),
        job.id[:8],
        job.name,
        str(queued.priority),
        queued.group or ABSENT,
        requested_text(job.limits),
        format_duration(waited),
        why,
    )


def requested_text(limits: Limits) -> str:
    """Return what a job asks for, such as `2 CPUs, 8.0 GiB, 1 GPU`."""
    amounts = (limits.cpus, limits.memory_bytes, limits.gpus)
    parts = [amount_words(index, amount) for index, amount in enumerate(amounts) if amount is not None]
    return ", ".join(parts).replace(" of memory", "") or ABSENT


@click.command(epilog=JOBS_HELP)
@changing_options
@click.pass_obj
def retry(app: App, words: tuple[str, ...], filters: tuple[str, ...], yes: bool) -> int:
    """Queue ended jobs again with the same command and options; prints the id of each new job.

    A filter means all matching jobs that ended and were not retried yet: jobtop lists them and asks.
    """

    def can_retry(job: Job) -> bool:
        was_retried = job.queue is not None and job.queue.retried_by is not None
        return job.status.ended and not was_retried and job.host == app.paths.host

    jobs, named = find_to_change(app, words, filters, yes, action("retry", can_retry))
    job_queue = Queue(jobs, app.paths)
    targets = sorted({job.id: job for job in named}.values(), key=lambda job: job.seq or 0)
    for job in targets:
        check_retryable(job_queue, job, {other.id for other in targets})
    for job in targets:
        print(job_queue.retry(job, time.time(), by_hand=True).id, flush=True)
    call_agent(app, job_queue)
    return ExitCode.OK


def check_retryable(job_queue: Queue, job: Job, others: set[str]) -> None:
    """Raise UsageError if a job cannot be queued again, before anything is changed."""
    if (why := elsewhere(job, job_queue.paths.host)) is not None:
        raise UsageError(why)
    later = None if job.queue is None else job.queue.retried_by
    if later is not None and job_queue.outcomes([later])[later] is None:
        short = job.id[:8]
        raise UsageError(f"job {short} was already retried as {later[:8]}, which was deleted: jobtop rerun {short}")
    check_retry(job, by_hand=True)
    job_queue.spec(job)
    after = job.queue.after if job.queue is not None and job.start_time is None else ()
    outcomes = job_queue.outcomes(after) | dict.fromkeys(others, Status.QUEUED)
    if (why := failure(after, outcomes)) is not None:
        raise UsageError(f"job {job.id[:8]} cannot be retried alone: {why}; retry that too")


@click.command()
@click.argument("name", required=False)
@click.option("--slots", type=Count(0, 1_000_000), metavar="N", help="Run at most N jobs of the group at once.")
@click.option("--unlimited", is_flag=True, help="Remove the limit of the group.")
@format_options
@click.pass_obj
def group(app: App, /, style: str, name: str | None, slots: int | None, unlimited: bool) -> int:
    """Limit how many jobs of the group NAME run at once, by slots; or list groups.

    In a group with slots, a job that does not declare --cpus counts as no CPU: only the slots limit it.
    """
    if slots is not None and unlimited:
        raise BadValue("--slots and --unlimited cannot be combined")
    if slots is not None or unlimited:
        if name is None:
            raise BadValue("no group given: jobtop group NAME --slots N")
        open_queue(app).set_slots(group_name(name), slots)
        limit = "no limit" if slots is None else f"at most {number_of(slots, 'job')} at once"
        print(f"group {printable(name)}: {limit}")
        return ExitCode.OK
    records = list(group_records(app)) if app.has_store() else []
    if name is not None and not (records := [record for record in records if record["name"] == name]):
        raise UsageError(f'no group "{name}" has slots or live jobs: jobtop group {name} --slots N gives it some')
    if style != "table":
        print_records(style, records, empty=NO_GROUP)
    elif records:
        print(table(GROUP_COLUMNS, map(group_row, records)))
    else:
        print("No groups with slots. To make one: jobtop group NAME --slots N")
    return ExitCode.OK


def group_records(app: App) -> Iterator[dict[str, Any]]:
    """Yield every group that has slots or live jobs."""
    lineup = Lineup(Queue(app.jobs(), app.paths))
    lineup.refresh()
    for use in groups_of(lineup):
        yield NO_GROUP | {"name": use.name, "slots": use.slots, "running": use.running, "waiting": use.waiting}


def group_row(record: Mapping[str, Any]) -> tuple[str, ...]:
    slots = ABSENT if record["slots"] is None else str(record["slots"])
    return record["name"], slots, str(record["running"]), str(record["waiting"])
