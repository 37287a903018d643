"""Prints data to standard output: as a table for people, as JSON, JSON Lines or CSV for programs."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click

from jobtop.core.record import record
from jobtop.core.units import cell_width, printable

FORMATS = ("table", "json", "jsonl", "csv")


STREAM = "stream"  # --json of a verb that can follow: JSON Lines if it does


def format_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--format` and its short form `--json` to a verb, as the argument `style`."""
    return _format_options(command, "json", "Short for --format json.")


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--json` to a verb that changes something, as the argument `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")(command)


def stream_format_options(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The same for a verb that can follow: there `--json` makes the argument `style` STREAM."""
    return lambda command: _format_options(command, STREAM, text)


def _format_options(command: Callable[..., Any], short_form: str, text: str) -> Callable[..., Any]:
    def choose_json(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            ctx.params["style"] = short_form

    command = click.option("--json", is_flag=True, expose_value=False, callback=choose_json, help=text)(command)
    return click.option("--format", "style", type=click.Choice(FORMATS), default="table", help="The output format.")(
        command
    )


@record
class TableColumn:
    """One column of a table."""

    title: str
    right: bool = False
    widest: int = 40


def table(columns: Sequence[TableColumn], rows: Iterable[Sequence[str]]) -> str:
    """Return an aligned table, one line per row; control characters in cells are escaped."""
    cells = [
        [truncate(printable(cell), column.widest) for column, cell in zip(columns, row, strict=True)] for row in rows
    ]
    widths = [
        max([cell_width(column.title), *(cell_width(row[index]) for row in cells)])
        for index, column in enumerate(columns)
    ]
    lines = []
    for row in [[column.title for column in columns], *cells]:
        padded = [
            " " * (width - cell_width(cell)) + cell if column.right else cell + " " * (width - cell_width(cell))
            for column, cell, width in zip(columns, row, widths, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def truncate(text: str, widest: int) -> str:
    if len(text) <= widest and cell_width(text) <= widest:
        return text
    kept: list[str] = []
    width = 0
    for character in text:
        width += cell_width(character)
        if width > widest:
            while kept and cell_width("".join(kept)) > widest - 1:
                kept.pop()
            return "".join(kept) + "…"
        kept.append(character)
    return text


def print_records(
    style: str, records: Sequence[Mapping[str, Any]], single: bool = False, empty: Mapping[str, Any] | None = None
) -> None:
    """Print records as JSON, JSON Lines or CSV; `empty` gives the CSV columns if there are no records."""
    if style == "json":
        print(json.dumps(records[0] if single else list(records), indent=2))
    elif style == "jsonl":
        for row in records:
            print(json.dumps(row))
    else:
        print_csv(records, empty or {})


def print_csv(records: Sequence[Mapping[str, Any]], empty: Mapping[str, Any]) -> None:
    """Print a line per record; nested keys are joined by dots, lists and free mappings are JSON.

    Records may have different keys, such as the metrics of a job that was sampled: all of them are columns.
    """
    import csv

    flat = [dict(flattened(row)) for row in records]
    names = list(dict.fromkeys(name for row in flat or [dict(flattened(empty))] for name in row))
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    if names:
        writer.writeheader()
        writer.writerows(flat)


JSON_COLUMNS = ("params", "tags", "sources")


def flattened(row: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in row.items():
        if isinstance(value, Mapping) and key not in JSON_COLUMNS:
            yield from flattened(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple | Mapping):
            yield prefix + key, json.dumps(value)
        else:
            yield prefix + key, value
