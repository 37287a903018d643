"""`jobtop history`: lists jobs as a table or as data."""

from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.selection import filter_argument, parse_words
from jobtop.cli.text.history_columns import (
    COLUMNS,
    NO_RECORD,
    HistoryColumn,
    alert_counts,
    columns_text,
    default_columns,
    parse_columns,
    table_of,
)
from jobtop.cli.text.stale import job_json
from jobtop.cli.text.tables import TableColumn, format_options, print_records, table
from jobtop.cli.values import Count, PastMoment, Statuses
from jobtop.core.errors import UsageError, did_you_mean
from jobtop.core.model import Status
from jobtop.core.query.conditions import HasAlert, IsOneOf
from jobtop.core.query.filter import LANGUAGE
from jobtop.core.units import printable
from jobtop.store.jobs import Query
from jobtop.store.ordering import shown_keys, sort_key

HOST = TableColumn("HOST", widest=24)
DEFAULT_LIMIT = 10
LONG_ALIAS = "job-history"  # the verb of Keystone, which prints some lines for each job
NO_PRICE = "no price is set, so no job has a cost (--set cost.kwh=0.32, or [cost] in config.toml, sets one)"


def complete_status(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [str(status) for status in Status if status.startswith(incomplete)]


def complete_columns(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    before, comma, begin = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in COLUMNS if name.startswith(begin)]


def complete_sort_key(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [key for key in shown_keys() if key.startswith(incomplete)]


@click.command(epilog=LANGUAGE)
@filter_argument
@click.option("--limit", type=Count(1, 10**9), metavar="N", help=f"List at most N jobs; {DEFAULT_LIMIT} by default.")
@click.option("--all", "everything", is_flag=True, help="List all jobs.")
@click.option("--tool", metavar="T", help="Only jobs of this tool.")
@click.option(
    "--status",
    "statuses",
    metavar="S",
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
    default="newest",
    metavar="KEY",
    shell_complete=complete_sort_key,
    help="Sort by newest (the default), seq, start, end, duration, cpu, efficiency, memory, energy, cost, name, …",
)
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@click.option(
    "--columns",
    metavar="NAME,…",
    shell_complete=complete_columns,
    help="The columns of the table or the CSV, such as name,params,time,mem (--columns help lists all).",
)
@click.option(
    "--long",
    "is_long",
    is_flag=True,
    help="A few lines for each job: tool, script, CPU time in parts, error; job-history does it without being asked.",
)
@click.option("--page-after", metavar="ID", help="Continue a list after this job: print the jobs below it.")
@format_options
@click.pass_context
def history(
    ctx: click.Context, /, style: str, everything: bool, is_long: bool, words: tuple[str, ...], **options: Any
) -> int:
    """List past and present jobs, newest first.

    Only those that match every word of the FILTER, such as: status:failed,timeout tag:nightly since:7d mem:4G.. solver
    """
    app: App = ctx.obj
    limit = options["limit"]
    if options["columns"] == "help":
        print(columns_text())
        return 0
    columns = [] if options["columns"] is None else parse_columns(options["columns"])
    if columns and style not in ("table", "csv"):
        raise UsageError("--columns is for the table and for --format csv; JSON has every key")
    if is_long and (columns or style != "table"):
        raise UsageError("--long is a layout of its own: leave out --columns and --format")
    is_long = is_long or (ctx.info_name == LONG_ALIAS and not columns)
    query = Query(
        tool=options["tool"],
        statuses=tuple(status for several in options["statuses"] for status in several),
        name_glob=options["name"],
        tag=options["tag"],
        since=options["since"],
        filter=parse_words(app, words),
        sort=sort_key(options["sort"]),
        prices=app.prices,
        reverse=options["reverse"],
        limit=None if everything else limit or DEFAULT_LIMIT,
    )
    if query.needs_prices and not app.prices.has_price:
        app.warn(NO_PRICE)
    page_after = options["page_after"]
    found = app.fleet.select(query, page_after) if app.has_history() or page_after is not None else []
    if columns and style == "csv":
        rows = [job_json(app, store, job) for store, job in found]
        if any(one.name == "alerts" for one in columns):
            counts = [alert_counts(store, job) for store, job in found]
            rows = [
                row | {"alerts": 0 if count is None else count.fired} for row, count in zip(rows, counts, strict=True)
            ]
        print_records(style, [{one.name: one.value(row) for one in columns} for row in rows], empty=names_of(columns))
    elif style != "table":
        print_records(style, [job_json(app, store, job) for store, job in found], empty=NO_RECORD)
    elif not found:
        print(empty_message(app, query, page_after is not None))
    elif is_long:
        from jobtop.cli.text.long_history import long_text

        print(long_text(app, found))
    else:
        shown = columns or default_columns(app.fleet.has_several)
        print(table([one.column for one in shown], table_of(shown, app, found)))
    if (
        limit is None
        and page_after is None
        and len(found) == query.limit
        and (total := app.fleet.count(query)) > len(found)
    ):
        app.warn(f"{len(found)} of {total} jobs; --all lists all, --limit N lists N")
    return 0


def names_of(columns: list[HistoryColumn]) -> dict[str, None]:
    return dict.fromkeys(one.name for one in columns)


def empty_message(app: App, query: Query, is_last_page: bool = False) -> str:
    """Return the message for an empty list."""
    several = f"the {len(app.stores)} stores that were named"
    place = several if len(app.stores) > 1 else str([*app.stores, app.paths.store][0])
    if is_last_page:
        return f"No more matching jobs in {place}."
    if not query.has_conditions:
        return f"No jobs in {place}. To record one: jobtop run -- COMMAND"
    return f"No matching jobs in {place}; jobtop history --all lists all.{rule_hint(app, query)}"


def rule_hint(app: App, query: Query) -> str:
    """Return the nearest rule for a word after `alert:` that is none; it may be of a rule that is gone."""
    conditions = () if query.filter is None else query.filter.conditions
    tests = [test for one in conditions if not one.negated for _, test in one.parts]
    chosen = [test.rule for test in tests if isinstance(test, HasAlert)]
    words = [word for rule in chosen if isinstance(rule, IsOneOf) for word in rule.words]
    if not words:
        return ""
    from jobtop.core.alerts.rule_set import load_rule_set

    rules = [rule.name for rule in load_rule_set(app.config).rules]
    hints = {word: did_you_mean(word, rules) for word in words if word not in rules}
    return "".join(f' No rule is named "{printable(word)}"{hint}.' for word, hint in hints.items() if hint)
