"""Data on standard output: a table for people, JSON, JSON Lines and CSV for programs."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click

from jobtop.core.record import record
from jobtop.core.units import cell_width, printable

FORMATS = ("table", "json", "jsonl", "csv")


def format_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb `--format` and its short form `--json`, as the one argument `style`."""

    def chosen(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            ctx.params["style"] = "json"

    command = click.option(
        "--json", is_flag=True, expose_value=False, callback=chosen, help="Short for --format json."
    )(command)
    return click.option("--format", "style", type=click.Choice(FORMATS), default="table", help="How to print it.")(
        command
    )


@record
class Column:
    """One column of a table; text of the job's own is made harmless here."""

    title: str
    right: bool = False
    widest: int = 40


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> str:
    """Aligned text, a row a line, whatever the cells hold."""
    cells = [[cut(printable(cell), column.widest) for column, cell in zip(columns, row, strict=True)] for row in rows]
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


def cut(text: str, widest: int) -> str:
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


def print_shapes(
    style: str, shapes: Sequence[Mapping[str, Any]], single: bool = False, empty: Mapping[str, Any] | None = None
) -> None:
    """JSON, JSON Lines or CSV of whole records."""
    if style == "json":
        print(json.dumps(shapes[0] if single else list(shapes), indent=2))
    elif style == "jsonl":
        for shape in shapes:
            print(json.dumps(shape))
    else:
        print_csv(shapes, empty or {})


def print_csv(shapes: Sequence[Mapping[str, Any]], empty: Mapping[str, Any]) -> None:
    """One line a record; nested keys joined by dots, lists and free mappings as JSON; `empty` heads none."""
    import csv

    flat = [dict(flattened(shape)) for shape in shapes]
    writer = csv.DictWriter(sys.stdout, list(flat[0] if flat else dict(flattened(empty))), lineterminator="\n")
    if writer.fieldnames:
        writer.writeheader()
        writer.writerows(flat)


FREE = ("params", "tags", "sources")


def flattened(shape: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in shape.items():
        if isinstance(value, Mapping) and key not in FREE:
            yield from flattened(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple | Mapping):
            yield prefix + key, json.dumps(value)
        else:
            yield prefix + key, value
