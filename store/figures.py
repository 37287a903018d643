"""The columns of jobs that statistics are made of, with a label to group them by."""

from __future__ import annotations

from jobtop.core.analysis.cost import COST_COLUMNS, NO_COST, Used, cost_of_use
from jobtop.core.errors import BadValue, RowDamaged, did_you_mean
from jobtop.core.job_id import are_job_ids
from jobtop.core.model import Status
from jobtop.core.query.conditions import as_text
from jobtop.core.units import printable
from jobtop.store.jobs import Query
from jobtop.store.query_sql import columns_of_jobs, querying, tuple_cursor
from jobtop.store.rows import RowChecker, are_numbers, check_partial_row, parse_mapping, parse_status, tags_or_empty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from jobtop.core.analysis.cost import Prices
    from jobtop.core.analysis.statistics import JobFigures
    from jobtop.core.query.conditions import Filter
    from jobtop.store.database import Database

GROUPINGS = ("tool", "name", "host", "user", "month", "day", "limited")
COLUMNS = {"limited": "limited_by"}  # of groupings that have another name
TAG_PREFIX, PARAM_PREFIX = "tag:", "param:"
PAIRS = {TAG_PREFIX: "tags", PARAM_PREFIX: "params"}
LABEL_TYPES = frozenset((str, type(None)))
EFFICIENCY = "cpu_efficiency"
IS_UPPER_BOUND = "coalesce(instr(sources, 'rusage_floor') > 0, 0)"  # the memory peak of a very short job
# Years that a calendar can have: a moment of a damaged row may be any number.
CALENDAR = {
    name: f"CASE WHEN start_time BETWEEN 0 AND 2e11 THEN strftime('{date}', start_time, 'unixepoch', 'localtime') END"
    for name, date in (("month", "%Y-%m"), ("day", "%Y-%m-%d"))
}


def grouping(word: str) -> str:
    """The word, if jobs can be grouped by it; BadValue for any other."""
    if word not in GROUPINGS and (not word.startswith(tuple(PAIRS)) or word in PAIRS):
        hint = did_you_mean(word, GROUPINGS)
        words = f"{', '.join(GROUPINGS)}, {TAG_PREFIX}KEY, {PARAM_PREFIX}KEY"
        raise BadValue(f'--by: "{printable(word)}" is not a grouping{hint}; use {words}')
    return word


def read_figures(
    database: Database,
    since: float | None,
    by: str,
    wanted: Filter | None = None,
    seen: set[str] | None = None,
    prices: Prices | None = None,
) -> list[JobFigures]:
    """The figures of every job that began since a moment, the oldest first, labelled by a grouping.

    Jobs with ids in `seen` are left out; the ids of the others are added to it. With prices, what each job costs.
    """
    prefix, _, key = by.partition(":")
    column = PAIRS.get(f"{prefix}:", COLUMNS.get(by, by))
    more = () if prices is None else COST_COLUMNS[3:]
    names = ("seq", "id", column, "status", *COST_COLUMNS[:3], *more)
    with querying(database, Query(since=since, filter=wanted)) as (connection, where, values):
        stored = columns_of_jobs(connection)
        selected = [CALENDAR.get(name) or (name if name in stored else "NULL") for name in names]
        efficiency = EFFICIENCY if EFFICIENCY in stored else "NULL"
        sql = f"SELECT {', '.join(selected)}, {IS_UPPER_BOUND}, {efficiency} FROM jobs {where} ORDER BY start_time"
        rows = tuple_cursor(connection).execute(sql, values).fetchall()
    if not _are_valid(rows):
        checker = RowChecker(tuple("tool" if name in CALENDAR else name for name in names))
        rows = database.decode_rows(rows, lambda row: _checked(checker, row))
    if seen is not None:
        rows = [row for row in rows if row[1] not in seen]
        seen.update(row[1] for row in rows)
    rows = [row[2:] for row in rows]
    if column in PAIRS.values():
        labels = {text: _label(text, column, key) for text in {row[0] for row in rows}}
        rows = [(labels[text], *numbers) for text, *numbers in rows]
    return rows if prices is None else _with_cost(rows, prices)


def _label(text: object, column: str, key: str) -> str | None:
    """The value of a tag or parameter; None for a job without it."""
    if column == "tags":
        return tags_or_empty(text).get(key)
    try:
        parameters = parse_mapping(text, column)
    except RowDamaged:
        return None
    return as_text(parameters[key]) if key in parameters else None


def _with_cost(rows: list[tuple[Any, ...]], prices: Prices) -> list[JobFigures]:
    """The figures of each row, and the cost; most jobs of most stores have none."""
    if prices.has_price or prices.watts_per_core > 0:
        return [(*row[:5], *row[-2:], cost_of_use(Used(*row[2:-2]), prices)) for row in rows]
    return [
        (*row[:5], *row[-2:], NO_COST if row[5] is None and row[6] is None else cost_of_use(Used(*row[2:-2]), prices))
        for row in rows
    ]


def valid_figures(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows that are a label, a status and numbers; fast if all are."""
    if not rows or _are_valid_columns(list(zip(*rows, strict=True))):
        return rows
    return [row for row in rows if type(row[0]) in LABEL_TYPES and row[1] in set(Status) and are_numbers(row[2:])]


def _are_valid(rows: list[tuple[Any, ...]]) -> bool:
    """Whether every row is a number, a job id, a label, a status and numbers; checks whole columns, for speed."""
    if not rows:
        return True
    _, ids, *others = zip(*rows, strict=True)
    return are_job_ids(ids) and _are_valid_columns(others)


def _are_valid_columns(columns: Sequence[Sequence[Any]]) -> bool:
    labels, statuses, *numbers = columns
    known = LABEL_TYPES.issuperset(map(type, labels)) and set(Status).issuperset(statuses)
    return known and all(map(are_numbers, numbers))


def _checked(checker: RowChecker, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The row, if it is valid; RowDamaged says what is wrong with any other."""
    check_partial_row(checker, row[:-2])
    try:
        parse_status(row[3])
    except RowDamaged as error:
        raise RowDamaged(f"job {row[0]}: {error}") from None
    return row if are_numbers(row[-1:]) else (*row[:-1], None)
