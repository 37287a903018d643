"""`jobtop check`: whether jobs used more than they asked for."""

from __future__ import annotations

import click

from jobtop.cli.app import App
from jobtop.cli.selection import JOBS_HELP, filter_option, find_selected, jobs_argument, selection_of
from jobtop.cli.text.tables import TableColumn, format_options, print_records, table
from jobtop.cli.values import Count
from jobtop.cli.workflow_jobs import workflow_jobs
from jobtop.core.analysis.over_use import LEAST_PERCENT, Use, is_checked, report
from jobtop.core.errors import ExitCode, UsageError
from jobtop.core.model import SCHEMA_VERSION, Job
from jobtop.core.units import number_of, printable

COLUMNS = (
    TableColumn("JOB", right=True),
    TableColumn("ID"),
    TableColumn("NAME", widest=32),
    TableColumn("RESOURCE"),
    TableColumn("ASKED FOR", right=True),
    TableColumn("PEAK", right=True),
    TableColumn("OVER", right=True),
)


@click.command(epilog=JOBS_HELP)
@jobs_argument
@filter_option
@click.option("--all", "with_all", is_flag=True, help="List all that was asked for, also where jobs used less.")
@click.option("--include-failed", is_flag=True, help="Check jobs that failed or timed out too.")
@click.option(
    "--min-over",
    type=click.FloatRange(min=0.0),
    default=LEAST_PERCENT,
    metavar="PERCENT",
    show_default=True,
    help="What is over by at most this does not count.",
)
@click.option("--run-id", type=Count(1, 1_000_000_000), metavar="N", help="This run of a workflow, not its last one.")
@format_options
@click.pass_obj
def check(
    app: App,
    style: str,
    words: tuple[str, ...],
    filters: tuple[str, ...],
    run_id: int | None,
    with_all: bool,
    include_failed: bool,
    min_over: float,
) -> int:
    """Check whether jobs used more memory, CPUs or time than they asked for; exit code 1 if one did.

    Jobs ask by --memory, --cpus and --runtime, or in a workflow file. The number or the name of a workflow means the
    jobs of its last run. Only jobs that succeeded are checked, unless --include-failed is given.
    """
    workflow = None if filters else workflow_jobs(app, words, run_id)
    if workflow is None and run_id is not None:
        raise UsageError("--run-id needs the number or the name of a workflow: jobtop workflow list")
    workflow_id, chosen = workflow or (None, find_selected(app, selection_of(words, filters)))
    found = [job for _, job in chosen]
    checked = [job for job in found if is_checked(job, include_failed)]
    rows, asking = report(checked, min_over, with_all)
    over = sum(use.over_percent > min_over for _, use in rows)
    if style in ("json", "jsonl"):
        print_records(style, [shape(checked, rows, over, workflow_id, run_id)], single=True)
    elif style == "csv":
        print_records(style, [{"schema_version": SCHEMA_VERSION} | use.to_json(job) for job, use in rows])
    else:
        print_table(found, checked, asking, rows, over)
    return ExitCode.BAD_ANSWER if over else ExitCode.OK


def shape(
    checked: list[Job], rows: list[tuple[Job, Use]], over: int, workflow_id: int | None, run_id: int | None
) -> dict[str, object]:
    """Return the answer in the form of Torc's check-resource-utilization."""
    return {
        "schema_version": SCHEMA_VERSION,
        "workflow_id": workflow_id,
        "run_id": run_id,
        "total_results": len(checked),
        "over_utilization_count": over,
        "violations": [use.to_json(job) for job, use in rows],
    }


def print_table(found: list[Job], checked: list[Job], asking: int, rows: list[tuple[Job, Use]], over: int) -> None:
    """Print the rows, and a line that says what was checked."""
    if rows:
        print(table(COLUMNS, (cells(job, use) for job, use in rows)))
        print()
    left_out = len(found) - len(checked)
    without = f" ({left_out} left out: not ended, or not successful; --include-failed)" if left_out else ""
    if not asking:
        print(f"{number_of(len(checked), 'job')} checked{without}: none asked for --memory, --cpus or --runtime")
        return
    verdict = f"{over} over what was asked for" if over else "all within what they asked for"
    print(f"{number_of(len(checked), 'job')} checked{without}, {asking} with requests: {verdict}")


def cells(job: Job, use: Use) -> tuple[str, ...]:
    return (
        str(job.seq),
        job.id[:8],
        printable(job.name),
        use.resource,
        use.text(use.asked),
        use.text(use.used),
        use.over_text,
    )
