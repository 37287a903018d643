"""`jobtop stats`: totals and percentiles of jobs, overall and by group."""

from collections.abc import Iterator

import click

from jobtop.cli.app import App
from jobtop.cli.selection import filter_argument, parse_words
from jobtop.cli.text.tables import TableColumn, format_options, print_records, table, truncate
from jobtop.cli.values import PastMoment
from jobtop.cli.verbs.history import empty_message
from jobtop.core.analysis.statistics import Distribution, Statistics, Summary, group_json, statistics
from jobtop.core.model import SCHEMA_VERSION
from jobtop.core.query.filter import LANGUAGE
from jobtop.core.units import ABSENT, format_bytes, format_duration, format_percent, printable
from jobtop.store.figures import TAG_PREFIX, grouping
from jobtop.store.jobs import Query

WIDEST_LABEL = 24
NUMBER_TITLES = (
    "JOBS",
    "OK",
    "FAILED",
    "SUCCESS",
    "CPU",
    "CPU P50",
    "CPU P95",
    "TIME",
    "TIME P50",
    "TIME P95",
    "MEM P50",
    "MEM P95",
)


@click.command(epilog=LANGUAGE)
@filter_argument
@click.option("--since", type=PastMoment(), help="Only jobs started since then, such as 7d or 2026-11-15.")
@click.option("--by", default="tool", metavar="tool|name|host|tag:K", help="What to group by; tool by default.")
@format_options
@click.pass_obj
def stats(app: App, style: str, words: tuple[str, ...], since: float | None, by: str) -> int:
    """Summarise jobs: how many, how they ended, and their CPU time, duration and memory, overall and by group.

    With a FILTER, such as tag:nightly since:7d, only the matching jobs.
    """
    by, wanted = grouping(by), parse_words(words)
    result = statistics(app.fleet.figures(since, by, wanted) if app.has_history() else [])
    if style == "csv":
        print_records(
            style,
            [{"schema_version": SCHEMA_VERSION, by: name} | group_json(group) for name, group in result.groups.items()],
        )
    elif style != "table":
        print_records(style, [result.to_json(by, since)], single=True)
    elif result.overall.jobs:
        print("\n".join(headline(result.overall)))
        print()
        print(groups_table(result, by))
    else:
        print(empty_message(app, Query(since=since, filter=wanted)))
    return 0


def headline(overall: Summary) -> Iterator[str]:
    """Yield the summary of all jobs, a line per number."""
    ends = [
        f"{count} {word}"
        for word in ("successful", "failed", "cancelled", "unknown", "running")
        if (count := getattr(overall, word))
    ]
    time_words = f"{total_text(overall.duration)}, {format_duration(overall.duration.mean)} on average"
    memory, ended = overall.memory, overall.ended
    yield f"jobs     {overall.jobs}: {', '.join(ends)}"
    yield f"success  {success_text(overall)}"
    yield f"time     {time_words}, {percentiles_text(overall.duration)}{coverage_text(overall.duration, ended)}"
    yield f"cpu      {total_text(overall.cpu)}, {percentiles_text(overall.cpu)}{coverage_text(overall.cpu, ended)}"
    peaks = f"p50 {peak_text(memory, memory.p50)}, p95 {peak_text(memory, memory.p95)}"
    yield f"memory   {peaks}{coverage_text(memory, ended)}"


def success_text(overall: Summary) -> str:
    """Return the success rate with the jobs that it counts, and the ended ones that it leaves out."""
    if overall.success_rate is None:
        return format_percent(None)
    left_out = [f"{count} {word}" for word in ("cancelled", "unknown") if (count := getattr(overall, word))]
    without = f", without {' and '.join(left_out)}" if left_out else ""
    counted = f"{overall.successful} of {overall.successful + overall.failed}"
    return f"{format_percent(overall.success_rate)} ({counted}{without})"


def total_text(seconds: Distribution) -> str:
    return f"{format_duration(seconds.total)} in total"


def percentiles_text(seconds: Distribution) -> str:
    return f"p50 {format_duration(seconds.p50)}, p95 {format_duration(seconds.p95)}"


def peak_text(memory: Distribution, percentile: float | None) -> str:
    """Return a percentile of memory peaks; `≤` in front if only an upper bound is known, as of very short jobs."""
    return f"{'≤ ' if memory.is_bound(percentile) else ''}{format_bytes(percentile)}"


def coverage_text(values: Distribution, ended: int) -> str:
    """Return for how many jobs the number is known; empty if for all."""
    return "" if values.known == ended else f" (from {values.known} of {ended} ended jobs)"


def groups_table(result: Statistics, by: str) -> str:
    title = truncate(printable(by), WIDEST_LABEL) if by.startswith(TAG_PREFIX) else by.upper()
    columns = [TableColumn(title, widest=WIDEST_LABEL), *(TableColumn(number, right=True) for number in NUMBER_TITLES)]
    return table(columns, (group_row(label, group) for label, group in result.groups.items()))


def group_row(label: str | None, group: Summary) -> tuple[str, ...]:
    return (
        ABSENT if label is None else label,
        str(group.jobs),
        str(group.successful),
        str(group.failed),
        format_percent(group.success_rate),
        *(format_duration(value) for value in (group.cpu.total, group.cpu.p50, group.cpu.p95)),
        *(format_duration(value) for value in (group.duration.total, group.duration.p50, group.duration.p95)),
        peak_text(group.memory, group.memory.p50),
        peak_text(group.memory, group.memory.p95),
    )
