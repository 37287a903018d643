"""The ended jobs as Keystone's classes list them, and the figures of its statistics: columns only, for speed."""

from __future__ import annotations

from jobtop.core.model import ENDS
from jobtop.core.record import replace
from jobtop.core.track.keystone import PROFILER, Task
from jobtop.store.figures import valid_figures
from jobtop.store.jobs import Query, stored_text
from jobtop.store.ordering import order_of, page_conditions
from jobtop.store.query_sql import columns_of_jobs, querying, tuple_cursor
from jobtop.store.rows import RowChecker, check_partial_row, parse_mapping, parse_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    from jobtop.core.analysis.statistics import JobFigures
    from jobtop.store.database import Database

NAMES = (
    *("seq", "id", "external_id", "tool", "script", "params", "start_time", "end_time", "duration_seconds", "status"),
    *("exit_code", "signal", "error", "cpu_user_seconds", "cpu_system_seconds", "cpu_total_seconds"),
    *("memory_peak_bytes", "findings"),
)
CHECKER, STATUS = RowChecker(NAMES), NAMES.index("status")
ENDED = tuple(sorted(map(str, ENDS)))
IS_JOB = f"tool IS NOT '{PROFILER}'"


def read_tasks(database: Database, query: Query) -> list[Task]:
    """The ended jobs of a query in its order, without profiles."""
    query = _of_ended(query)
    rows: list[tuple[Any, ...]] = []
    with querying(database, query) as (connection, where, values):
        columns, order, cursor = _columns(connection), order_of(query, where), tuple_cursor(connection)
        for condition, condition_values in page_conditions(connection, query, where):
            limit = "" if query.limit is None else f"LIMIT {query.limit - len(rows):d}"
            both = " AND ".join(filter(None, (condition, where.removeprefix("WHERE "), IS_JOB)))
            # The inner query uses an index alone; only the selected rows of the table are read.
            wanted = f"seq IN (SELECT seq FROM jobs WHERE {both} {order} {limit})" if limit else both
            sql = f"SELECT {columns} FROM jobs WHERE {wanted} {order}"
            rows += cursor.execute(sql, (*condition_values, *values)).fetchall()
    return database.decode_rows(rows, _task)


def find_task(database: Database, task_id: str) -> Task | None:
    """The newest ended job that a caller gave this id, else the one that has it as its own."""
    for condition in ("external_id = CAST(? AS TEXT)", "id = ?"):
        with querying(database, Query(statuses=ENDED)) as (connection, where, values):
            sql = f"SELECT {_columns(connection)} FROM jobs {where} AND {condition} ORDER BY seq DESC LIMIT 1"
            rows = tuple_cursor(connection).execute(sql, (*values, stored_text(task_id))).fetchall()
        if found := database.decode_rows(rows, _task):
            return found[0]
    return None


def read_task_figures(database: Database, query: Query) -> list[JobFigures]:
    """Tool, status, duration, CPU time and memory peak of each ended job, without profiles."""
    with querying(database, _of_ended(query)) as (connection, where, values):
        sql = "SELECT tool, status, duration_seconds, cpu_total_seconds, memory_peak_bytes, 0"
        rows = tuple_cursor(connection).execute(f"{sql} FROM jobs {where} AND {IS_JOB}", values).fetchall()
    valid = set(valid_figures([row[:5] for row in rows]))
    return [row for row in rows if row[:5] in valid]


def _columns(connection: sqlite3.Connection) -> str:
    """All columns; a store of an older version, which is only read, has no findings."""
    known = columns_of_jobs(connection)
    return ", ".join(name if name in known else "'{}'" for name in NAMES)


def _of_ended(query: Query) -> Query:
    wanted = tuple(status for status in query.statuses if status in ENDED) if query.statuses else ENDED
    return replace(query, statuses=wanted or ("",))


def _task(row: tuple[Any, ...]) -> Task:
    check_partial_row(CHECKER, row)
    _, own, external, tool, script, params, *numbers, findings = row
    parse_status(row[STATUS])
    fields = (
        external or own,
        tool,
        script,
        parse_mapping(params, "params"),
        *numbers,
        parse_mapping(findings, "findings"),
    )
    return Task(*fields)
