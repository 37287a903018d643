"""`jobtop history`: lists jobs as a table or as data."""

import time
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.run.summary import GLYPHS, memory_peak
from jobtop.cli.selection import filter_argument, parse_words
from jobtop.cli.text.stale import job_json, status_text
from jobtop.cli.text.tables import TableColumn, format_options, print_records, table
from jobtop.cli.values import PastMoment, Statuses
from jobtop.core.clock import local
from jobtop.core.job_id import NO_ID
from jobtop.core.model import Job, Status
from jobtop.core.query.filter import LANGUAGE
from jobtop.core.units import format_duration
from jobtop.store.jobs import Jobs, Query
from jobtop.store.ordering import SORT_KEYS, sort_key

NO_JOB = Job(NO_ID, "", (), "", "", "", Status.UNKNOWN)
COLUMNS = (
    TableColumn("ID"),
    TableColumn("NAME", widest=32),
    TableColumn("STATUS", widest=60),
    TableColumn("STARTED"),
    TableColumn("TIME", right=True),
    TableColumn("CPU", right=True),
    TableColumn("MEMORY", right=True),
    TableColumn("EXIT", right=True),
)
HOST = TableColumn("HOST", widest=24)
DEFAULT_LIMIT = 10


def complete_status(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [str(status) for status in Status if status.startswith(incomplete)]


def complete_sort_key(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [key for key in SORT_KEYS if key.startswith(incomplete)]


@click.command(epilog=LANGUAGE)
@filter_argument
@click.option(
    "--limit", type=click.IntRange(1, 10**9), metavar="N", help=f"List at most N jobs; {DEFAULT_LIMIT} by default."
)
@click.option("--all", "everything", is_flag=True, help="List all jobs.")
@click.option("--tool", metavar="T", help="Only jobs of this tool.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=Statuses(),
    shell_complete=complete_status,
    help="Only jobs with this status, such as failed,timeout; may be repeated.",
)
@click.option("--name", metavar="GLOB", help="Only jobs with a matching name, such as 'train*'.")
@click.option("--tag", metavar="K[=V]", help="Only jobs with this tag.")
@click.option("--since", type=PastMoment(), help="Only jobs started since then, such as 7d or 2026-11-15.")
@click.option(
    "--sort",
    default="begun",
    metavar="KEY",
    shell_complete=complete_sort_key,
    help="begun seq start end duration cpu efficiency memory read write name …",
)
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@click.option("--page-after", metavar="ID", help="Only jobs that follow this one in the same order.")
@format_options
@click.pass_obj
def history(app: App, /, style: str, everything: bool, words: tuple[str, ...], **options: Any) -> int:
    """List past and present jobs, newest first.

    Only those that match every word of the FILTER, such as: status:failed,timeout tag:nightly since:7d mem:4G.. solver
    """
    limit = options["limit"]
    query = Query(
        tool=options["tool"],
        statuses=tuple(status for several in options["statuses"] for status in several),
        name_glob=options["name"],
        tag=options["tag"],
        since=options["since"],
        filter=parse_words(words),
        sort=sort_key(options["sort"]),
        reverse=options["reverse"],
        limit=None if everything else limit or DEFAULT_LIMIT,
    )
    page_after = options["page_after"]
    found = app.fleet.select(query, page_after) if app.has_history() or page_after is not None else []
    if style != "table":
        print_records(style, [job_json(app, store, job) for store, job in found], empty=NO_JOB.to_json())
    elif not found:
        print(empty_message(app, query, page_after is not None))
    elif app.fleet.has_several:
        print(
            table(
                (*COLUMNS[:2], HOST, *COLUMNS[2:]),
                (with_host(job, history_row(app, store, job)) for store, job in found),
            )
        )
    else:
        print(table(COLUMNS, (history_row(app, store, job) for store, job in found)))
    if (
        limit is None
        and page_after is None
        and len(found) == query.limit
        and (total := app.fleet.count(query)) > len(found)
    ):
        app.warn(f"{len(found)} of {total} jobs; --all lists all, --limit N lists N")
    return 0


def empty_message(app: App, query: Query, is_last_page: bool = False) -> str:
    """Return the message for an empty list."""
    several = f"the {len(app.stores)} stores that were named"
    place = several if len(app.stores) > 1 else str([*app.stores, app.paths.store][0])
    if is_last_page:
        return f"No more matching jobs in {place}."
    if query == Query(sort=query.sort, reverse=query.reverse, limit=query.limit):
        return f"No jobs in {place}. To record one: jobtop run -- COMMAND"
    return f"No matching jobs in {place}; jobtop history --all lists all."


def with_host(job: Job, cells: tuple[str, ...]) -> tuple[str, ...]:
    """Insert the job's host into its row, for lists of several hosts."""
    return *cells[:2], job.host, *cells[2:]


def history_row(app: App, store: Jobs, job: Job) -> tuple[str, ...]:
    ended = "" if job.exit_code is None and job.signal is None else str(job.exit_code)
    if job.signal is not None:
        from jobtop.core.run.outcome import signal_name

        ended = signal_name(job.signal)
    running = time.time() - job.start_time if job.start_time and not job.status.ended else None
    return (
        job.id[:8],
        job.name,
        f"{GLYPHS[job.status]} {status_text(app, store, job)}"
        + ("" if job.settled or "left_running" not in job.flags else " …"),
        local(job.start_time),
        format_duration(job.duration_seconds if running is None else running),
        format_duration(job.usage.cpu_total_seconds),
        memory_peak(job),
        ended or "–",
    )
