"""`jobtop stats`: totals and percentiles of jobs, overall and by group."""

from collections.abc import Iterator, Sequence

import click

from jobtop.cli.app import App
from jobtop.cli.selection import filter_argument, parse_words
from jobtop.cli.text.tables import TableColumn, format_options, print_records, table, truncate
from jobtop.cli.values import PastMoment
from jobtop.cli.verbs.history import NO_PRICE, empty_message
from jobtop.core.analysis.statistics import Distribution, Statistics, Summary, group_json, statistics
from jobtop.core.model import SCHEMA_VERSION
from jobtop.core.query.filter import LANGUAGE
from jobtop.core.text.cost_text import co2_text, energy_text, money_text
from jobtop.core.units import ABSENT, format_bytes, format_duration, format_percent, printable
from jobtop.store.figures import PARAM_PREFIX, TAG_PREFIX, grouping
from jobtop.store.jobs import Query

WIDEST_LABEL = 24
NO_VALUE = "(no value)"  # of a tag such as nightly
NUMBER_TITLES = (
    "JOBS",
    "OK",
    "FAILED",
    "SUCCESS",
    "CPU",
    "CPU P50",
    "CPU P95",
    "CPU %",
    "EFFICIENCY",
    "TIME",
    "TIME P50",
    "TIME P95",
    "MEM P50",
    "MEM P95",
)

COST_TITLES = {"ENERGY": "with_energy", "CO2": "with_energy", "COST": "with_money"}


@click.command(epilog=LANGUAGE)
@filter_argument
@click.option("--since", type=PastMoment(), help="Only jobs started since then, such as 7d or 2026-11-15.")
@click.option(
    "--by",
    default="tool",
    metavar="tool|name|host|user|month|day|limited|tag:K|param:K",
    help="What to group by; tool by default.",
)
@format_options
@click.pass_obj
def stats(app: App, style: str, words: tuple[str, ...], since: float | None, by: str) -> int:
    """Summarise jobs: how many, how they ended, what they used and cost, overall and by group.

    With a FILTER, such as tag:nightly since:7d, only the matching jobs.
    """
    by, wanted = grouping(by), parse_words(app, words)
    if Query(filter=wanted).needs_prices and not app.prices.has_price:
        app.warn(NO_PRICE)
    result = statistics(app.fleet.figures(since, by, wanted, app.prices) if app.has_history() else [])
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
    if overall.cpu_efficiency is not None:
        efficiency = f"{format_percent(overall.cpu_efficiency)} of the CPUs that they had"
        yield f"         {efficiency}{known_text(overall.with_efficiency, ended)}"
    peaks = f"p50 {peak_text(memory, memory.p50)}, p95 {peak_text(memory, memory.p95)}"
    yield f"memory   {peaks}{coverage_text(memory, ended)}"
    cost = overall.cost
    if cost.with_energy:
        energy, co2 = energy_text(cost.joules, bool(cost.estimated)), co2_text(cost.co2_grams, bool(cost.estimated))
        yield f"energy   {energy}, {co2}{known_text(cost.with_energy, ended)}"
    if cost.with_money:
        money = money_text(cost.money, cost.currency, bool(cost.estimated_money))
        yield f"cost     {money}{known_text(cost.with_money, ended)}"


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
    return known_text(values.known, ended)


def known_text(known: int, ended: int) -> str:
    return "" if known == ended else f" (from {known} of {ended} ended jobs)"


def groups_table(result: Statistics, by: str) -> str:
    """Return a row per group, with columns of energy and cost if they are known of any job."""
    is_pair = by.startswith((TAG_PREFIX, PARAM_PREFIX))
    title = truncate(printable(by), WIDEST_LABEL) if is_pair else by.upper()
    cost = result.overall.cost
    more = [name for name, known in COST_TITLES.items() if getattr(cost, known)]
    titles = (*NUMBER_TITLES, *more)
    columns = [TableColumn(title, widest=WIDEST_LABEL), *(TableColumn(number, right=True) for number in titles)]
    return table(
        columns, ((*group_row(label, group), *cost_cells(group, more)) for label, group in result.groups.items())
    )


def cost_cells(group: Summary, titles: Sequence[str]) -> list[str]:
    cost, is_estimate = group.cost, bool(group.cost.estimated)
    has_energy = cost.with_energy > 0
    cells = {
        "ENERGY": energy_text(cost.joules if has_energy else None, is_estimate).partition(" (")[0],
        "CO2": co2_text(cost.co2_grams if has_energy else None, is_estimate).removesuffix(" CO₂"),
        "COST": money_text(cost.money if cost.with_money else None, cost.currency, bool(cost.estimated_money)),
    }
    return [cells[title] for title in titles]


def group_row(label: str | None, group: Summary) -> tuple[str, ...]:
    return (
        ABSENT if label is None else label or NO_VALUE,
        str(group.jobs),
        str(group.successful),
        str(group.failed),
        format_percent(group.success_rate),
        *(format_duration(value) for value in (group.cpu.total, group.cpu.p50, group.cpu.p95)),
        format_percent(None if group.cpu_percent_mean is None else group.cpu_percent_mean / 100),
        format_percent(group.cpu_efficiency),
        *(format_duration(value) for value in (group.duration.total, group.duration.p50, group.duration.p95)),
        peak_text(group.memory, group.memory.p50),
        peak_text(group.memory, group.memory.p95),
    )
