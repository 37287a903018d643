"""Tables for people; JSON, JSON Lines and CSV for programs."""

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import click
import pytest

from jobtop.cli.text.tables import TableColumn, flattened, format_options, print_csv, print_records, table, truncate
from jobtop.core.units import cell_width
from records import HOSTILE_TEXTS, holds_controls, made_job

JOBS = [made_job(name=text, tags={text: text}, note=text, command=(text,)) for text in HOSTILE_TEXTS.values()]
SHAPES: list[dict[str, Any]] = [job.to_json() for job in JOBS]


def test_columns_line_up_whatever_the_cells_hold() -> None:
    columns = (TableColumn("NAME"), TableColumn("N", right=True), TableColumn("END"))
    rows = [("abc", "1", "|"), ("日本語", "1000", "|"), ("e\u0301", "22", "|"), ("\x1b[1m", "3", "|"), ("", "", "|")]
    lines = table(columns, rows).split("\n")
    assert len(lines) == 6
    assert len({cell_width(line.split("|")[0]) for line in lines[1:]}) == 1
    assert lines[0] == "NAME        N  END"
    assert lines[2] == "日本語   1000  |"


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_a_table_is_harmless_and_has_a_line_a_row(text: str) -> None:
    shown = table((TableColumn("A"), TableColumn("B", widest=10)), [(text, text)])
    assert shown.count("\n") == 1
    assert not holds_controls(shown)
    assert max(map(cell_width, shown.split("\n"))) <= 40 + 2 + 10


@pytest.mark.parametrize(
    ("text", "widest", "shown"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("日本語", 4, "日…"), ("", 1, ""), ("日", 1, "…")],
)
def test_what_is_too_wide_is_cut_and_says_so(text: str, widest: int, shown: str) -> None:
    assert truncate(text, widest) == shown


def test_an_empty_table_is_its_titles() -> None:
    assert table((TableColumn("A"), TableColumn("B")), []) == "A  B"


def printed(style: str, shapes: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], single: bool = False) -> str:
    print_records(style, shapes, single)
    return capsys.readouterr().out


def test_json_comes_back_as_it_went_in(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed("json", SHAPES, capsys)) == SHAPES
    assert json.loads(printed("json", SHAPES[:1], capsys, single=True)) == SHAPES[0]
    assert json.loads(printed("json", [], capsys)) == []


def test_json_lines_are_a_record_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed("jsonl", SHAPES, capsys).splitlines()
    assert [json.loads(line) for line in lines] == SHAPES
    assert printed("jsonl", [], capsys) == ""


def test_csv_has_the_columns_of_all_records(capsys: pytest.CaptureFixture[str]) -> None:
    print_csv([{"id": 1, "metrics": {}}, {"id": 2, "metrics": {"cpu": {"peak": 3}}}], {})
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split(",")[-1] == "metrics.cpu.peak"
    assert (first.split(",")[-1], second.split(",")[-1]) == ("", "3")


def test_csv_has_a_record_a_row_with_nested_keys_at_dots(capsys: pytest.CaptureFixture[str]) -> None:
    shapes = [shape for shape in SHAPES if "\udce9" not in shape["name"] and "\r" not in shape["name"]]
    rows = list(csv.DictReader(io.StringIO(printed("csv", shapes, capsys), newline="")))
    assert len(rows) == len(shapes)
    for row, shape in zip(rows, shapes, strict=True):
        assert (row["id"], row["name"], row["note"]) == (shape["id"], shape["name"], shape["note"])
        assert json.loads(row["tags"]) == shape["tags"]
        assert json.loads(row["command"]) == shape["command"]
        assert row["limits.memory_bytes"] == row["resource_usage.cpu_total_seconds"] == ""
        assert None not in row


def test_a_nested_record_is_flat_but_for_what_a_user_named() -> None:
    shape = {"a": 1, "b": {"c": None, "d": {"e": 2}}, "tags": {"x.y": "z"}, "list": [1]}
    assert dict(flattened(shape)) == {"a": 1, "b.c": None, "b.d.e": 2, "tags": '{"x.y": "z"}', "list": "[1]"}


@pytest.fixture
def chosen() -> Callable[..., str]:
    """The format a verb with these arguments would print."""
    heard: list[str] = []

    @click.command()
    @format_options
    def verb(style: str) -> None:
        heard.append(style)

    def choose(*args: str) -> str:
        verb.main(args, standalone_mode=False)
        return heard.pop()

    return choose


@pytest.mark.parametrize(
    ("args", "style"),
    [
        ((), "table"),
        (("--json",), "json"),
        (("--format", "json"), "json"),
        (("--format", "jsonl"), "jsonl"),
        (("--format", "csv"), "csv"),
        (("--format", "table"), "table"),
        (("--format", "table", "--json"), "json"),
        (("--json", "--format", "json"), "json"),
    ],
)
def test_the_format_is_chosen_by_option(chosen: Callable[..., str], args: tuple[str, ...], style: str) -> None:
    assert chosen(*args) == style
