"""`jobtop stats`: what the jobs of the store add up to, overall and by group."""

import time
from collections.abc import Iterator

import click

from jobtop.cli.app import App
from jobtop.cli.text.tables import Column, cut, format_options, print_shapes, table
from jobtop.cli.values import Duration
from jobtop.cli.verbs.history import nothing
from jobtop.core.analysis.statistics import Spread, Statistics, Summary, group_shape, statistics
from jobtop.core.model import SCHEMA_VERSION
from jobtop.core.units import ABSENT, format_bytes, format_duration, format_percent, printable
from jobtop.store.figures import TAG_PREFIX, grouping
from jobtop.store.jobs import Query

WIDEST_LABEL = 24
NUMBERS = (
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


@click.command()
@click.option("--since", "within", type=Duration(), help="Only jobs begun within this time, such as 7d.")
@click.option("--by", default="tool", metavar="tool|name|host|tag:K", help="What makes a group; tool by default.")
@format_options
@click.pass_obj
def stats(app: App, style: str, within: float | None, by: str) -> int:
    """Add jobs up: how many, how they ended, and the CPU time, duration and memory they used, overall and by group."""
    by = grouping(by)
    since = None if within is None else time.time() - within
    found = statistics(app.fleet.figures(since, by) if app.has_history() else [])
    if style == "csv":
        print_shapes(
            style,
            [{"schema_version": SCHEMA_VERSION, by: name} | group_shape(group) for name, group in found.groups.items()],
        )
    elif style != "table":
        print_shapes(style, [found.to_json(by, since)], single=True)
    elif found.overall.jobs:
        print("\n".join(headline(found.overall)))
        print()
        print(groups_table(found, by))
    else:
        print(nothing(app, Query(since=since)))
    return 0


def headline(overall: Summary) -> Iterator[str]:
    """How all of them ended and what they used, a line each."""
    ends = [
        f"{count} {word}"
        for word in ("successful", "failed", "cancelled", "unknown", "running")
        if (count := getattr(overall, word))
    ]
    time_words = f"{total(overall.duration)}, {format_duration(overall.duration.mean)} on average"
    memory, ended = overall.memory, overall.ended
    yield f"jobs     {overall.jobs}: {', '.join(ends)}"
    yield f"success  {format_percent(overall.success_rate)}"
    yield f"time     {time_words}, {percentiles(overall.duration)}{coverage(overall.duration, ended)}"
    yield f"cpu      {total(overall.cpu)}, {percentiles(overall.cpu)}{coverage(overall.cpu, ended)}"
    yield f"memory   p50 {format_bytes(memory.p50)}, p95 {format_bytes(memory.p95)}{coverage(memory, ended)}"


def total(seconds: Spread) -> str:
    return f"{format_duration(seconds.total)} in total"


def percentiles(seconds: Spread) -> str:
    return f"p50 {format_duration(seconds.p50)}, p95 {format_duration(seconds.p95)}"


def coverage(values: Spread, ended: int) -> str:
    """Of how many jobs the number is known, where not of all."""
    return "" if values.known == ended else f" (known of {values.known} of {ended} ended jobs)"


def groups_table(found: Statistics, by: str) -> str:
    title = cut(printable(by), WIDEST_LABEL) if by.startswith(TAG_PREFIX) else by.upper()
    columns = [Column(title, widest=WIDEST_LABEL), *(Column(number, right=True) for number in NUMBERS)]
    return table(columns, (row(label, group) for label, group in found.groups.items()))


def row(label: str | None, group: Summary) -> tuple[str, ...]:
    return (
        ABSENT if label is None else label,
        str(group.jobs),
        str(group.successful),
        str(group.failed),
        format_percent(group.success_rate),
        *(format_duration(value) for value in (group.cpu.total, group.cpu.p50, group.cpu.p95)),
        *(format_duration(value) for value in (group.duration.total, group.duration.p50, group.duration.p95)),
        format_bytes(group.memory.p50),
        format_bytes(group.memory.p95),
    )
