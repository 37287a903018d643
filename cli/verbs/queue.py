"""queue, retry, group: what waits and why, ended jobs once more, how many of a group run at once."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.run.submission import call_agent, opened
from jobtop.cli.text.tables import Column, format_options, print_shapes, table
from jobtop.cli.verbs.control import references
from jobtop.cli.verbs.history import HOST
from jobtop.core.errors import BadValue, ExitCode, UsageError
from jobtop.core.job_id import NO_ID
from jobtop.core.model import SCHEMA_VERSION, Job, Limits, Queued, Status
from jobtop.core.paths import StatePaths
from jobtop.core.run.capacity import capacity
from jobtop.core.run.request import group_name
from jobtop.core.run.scheduling import amount_words, failure
from jobtop.core.units import ABSENT, format_duration
from jobtop.lifecycle.agent_lock import is_attended
from jobtop.lifecycle.control import elsewhere
from jobtop.lifecycle.queue import Queue, check_retry
from jobtop.lifecycle.queue_plan import Lineup
from jobtop.lifecycle.wait import was_called
from jobtop.store.agents import registered
from jobtop.store.jobs import Jobs, Query

QUEUE_COLUMNS = (
    Column("#", right=True),
    Column("ID"),
    Column("NAME", widest=24),
    Column("PRIORITY", right=True),
    Column("GROUP", widest=16),
    Column("ASKS FOR", widest=40),
    Column("WAITING", right=True),
    Column("WHY", widest=100),
)
GROUP_COLUMNS = (
    Column("GROUP", widest=40),
    Column("SLOTS", right=True),
    Column("RUNNING", right=True),
    Column("WAITING", right=True),
)
QUEUE_SINCE_VERSION = 4
WAITING = Query(statuses=(Status.QUEUED, Status.PAUSED), limit=None)
NO_JOB = Job(NO_ID, "", (), "", "", "", Status.QUEUED, queue=Queued())
NO_GROUP = {"schema_version": SCHEMA_VERSION, "name": "", "slots": None, "running": 0, "waiting": 0}


@click.command()
@format_options
@click.pass_obj
def queue(app: App, /, style: str) -> int:
    """List the jobs that wait for their turn, in order, and why each of them does."""
    waiting = everywhere(app) if app.has_history() else []
    if style != "table":
        shapes = [job.to_json() | {"position": place, "waits_for": why} for place, job, why in waiting]
        print_shapes(style, shapes, empty=NO_JOB.to_json() | {"position": 0, "waits_for": ""})
    elif waiting and app.fleet.has_several:
        columns = (*QUEUE_COLUMNS[:3], HOST, *QUEUE_COLUMNS[3:])
        print(table(columns, ((*(cells := row(*item))[:3], item[1].host, *cells[3:]) for item in waiting)))
    elif waiting:
        print(table(QUEUE_COLUMNS, (row(*item) for item in waiting)))
    else:
        print("No job waits. To queue one: jobtop submit -- COMMAND")
    for jobs in app.fleet.stores if waiting else ():
        own = [job for _, job, _ in waiting if job.host == app.paths.host]
        if jobs.database.path == app.paths.store and own and not is_coming(jobs, app.paths, own):
            app.warn("there is no agent: nothing that waits here starts until there is one (jobtop agent start)")
    return ExitCode.OK


def everywhere(app: App) -> list[tuple[int, Job, str]]:
    """What waits in every store; what another host waits for is its own to say."""

    def asked(jobs: Jobs) -> list[tuple[int, Job, str]]:
        if jobs.database.path == app.paths.store:
            return list(in_order(jobs, app.paths))
        found = [job for job in jobs.select(WAITING) if job.queue is not None and job.shim is None]
        found.sort(key=lambda job: (-job.queue.priority if job.queue else 0, job.seq))
        return [(place, job, f"its turn is decided on {job.host}") for place, job in enumerate(found, 1)]

    return [item for _, items in app.fleet.each(asked) for item in items]


def in_order(jobs: Jobs, paths: StatePaths) -> Iterator[tuple[int, Job, str]]:
    """Every job of this host that waits: its place, and why it does."""
    if jobs.database.check() < QUEUE_SINCE_VERSION:  # where an older store can only be read, nobody waits
        return
    line = Queue(jobs, paths)
    lineup = Lineup(line)
    lineup.refresh()
    plan = lineup.plan(capacity(lineup.needs_gpus), time.time())
    live = [job for job in jobs.select(WAITING) if job.id in lineup.waiting]
    turn = "its turn has come"
    if plan.start and registered(jobs.database) is None:
        is_called = is_coming(jobs, paths, live)
        turn += ": the agent is starting" if is_called else ", but there is no agent: jobtop agent start"
    why = plan.waits | dict.fromkeys((start.id for start in plan.start), turn)
    why |= {job_id: f"it will be cancelled: {reason}" for job_id, reason in plan.cancel.items()}
    live = [job for job in live if job.id in why]
    for place, job in enumerate(sorted(live, key=lambda job: lineup.waiting[job.id].turn), 1):
        yield place, job, why[job.id]


def is_coming(jobs: Jobs, paths: StatePaths, waiting: Sequence[Job]) -> bool:
    """Whether an agent is there, or on its way: who submits a job calls one."""
    return was_called(waiting) or is_attended(jobs.database, paths)


def row(place: int, job: Job, why: str) -> tuple[str, ...]:
    queued = job.queue or Queued()
    waited = None if job.submitted_at is None else max(0.0, time.time() - job.submitted_at)
    return (
        str(place),
        job.id[:8],
        job.name,
        str(queued.priority),
        queued.group or ABSENT,
        asked_words(job.limits),
        format_duration(waited),
        why,
    )


def asked_words(limits: Limits) -> str:
    """2 CPUs, 8.0 GiB, 1 GPU."""
    amounts = (limits.cpus, limits.memory_bytes, limits.gpus)
    said = [amount_words(index, amount) for index, amount in enumerate(amounts) if amount is not None]
    return ", ".join(said).replace(" of memory", "") or ABSENT


@click.command()
@references
@click.pass_obj
def retry(app: App, references: tuple[str, ...]) -> int:
    """Queue ended jobs once more, each as it was: a new job, whose id is printed."""
    jobs, named = app.to_act_on(references)
    line = Queue(jobs, app.paths)
    targets = sorted({job.id: job for job in named}.values(), key=lambda job: job.seq or 0)
    for job in targets:
        check_again(line, job, {other.id for other in targets})
    for job in targets:
        print(line.retry(job, time.time(), by_hand=True).id, flush=True)
    call_agent(app, line)
    return ExitCode.OK


def check_again(line: Queue, job: Job, others: set[str]) -> None:
    """Say before anything is done why a job cannot be queued anew."""
    if (why := elsewhere(job, line.paths.host)) is not None:
        raise UsageError(why)
    check_retry(job, by_hand=True)
    line.spec(job)
    after = job.queue.after if job.queue is not None and job.start_time is None else ()
    outcomes = line.outcomes(after) | dict.fromkeys(others, Status.QUEUED)
    if (why := failure(after, outcomes)) is not None:
        raise UsageError(f"job {job.id[:8]} cannot be retried alone: {why}; retry that too")


@click.command()
@click.argument("name", required=False)
@click.option("--slots", type=click.IntRange(0, 1_000_000), metavar="N", help="Let at most N of its jobs run at once.")
@click.option("--unlimited", is_flag=True, help="Let as many of its jobs run as there is room for.")
@format_options
@click.pass_obj
def group(app: App, /, style: str, name: str | None, slots: int | None, unlimited: bool) -> int:
    """Give the group NAME slots: that many of its jobs run at once, whatever CPUs are free. Or list groups.

    In a group with slots a job that does not declare --cpus counts as none: the slots decide.
    """
    if slots is not None and unlimited:
        raise BadValue("--slots and --unlimited: one of them")
    if slots is not None or unlimited:
        if name is None:
            raise BadValue("which group? jobtop group NAME --slots N")
        opened(app).set_slots(group_name(name), slots)
        return ExitCode.OK
    shapes = list(groups(app)) if app.has_store() else []
    if name is not None and not (shapes := [shape for shape in shapes if shape["name"] == name]):
        raise UsageError(f'no group "{name}" has slots or live jobs: jobtop group {name} --slots N gives it some')
    if style != "table":
        print_shapes(style, shapes, empty=NO_GROUP)
    elif shapes:
        print(table(GROUP_COLUMNS, map(group_row, shapes)))
    else:
        print("No group has slots. To give one some: jobtop group NAME --slots N")
    return ExitCode.OK


def groups(app: App) -> Iterator[dict[str, Any]]:
    """Every group with slots or jobs that have not ended."""
    lineup = Lineup(Queue(app.jobs(), app.paths))
    lineup.refresh()
    running = [job.group for job in lineup.running.values()]
    waiting = [job.group for job in lineup.waiting.values()]
    for name in sorted({*lineup.groups, *running, *waiting} - {None}, key=str):
        counts = {"running": running.count(name), "waiting": waiting.count(name)}
        yield NO_GROUP | {"name": name, "slots": lineup.groups.get(name or "")} | counts


def group_row(shape: Mapping[str, Any]) -> tuple[str, ...]:
    slots = ABSENT if shape["slots"] is None else str(shape["slots"])
    return shape["name"], slots, str(shape["running"]), str(shape["waiting"])
