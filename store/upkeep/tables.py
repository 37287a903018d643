"""Whether the tables of a store are those that jobtop makes, and whether their values have the types of their columns.

The tables of jobtop are STRICT. A file from elsewhere, or one that was edited, may have any tables and any values.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing

from jobtop.core.record import record
from jobtop.store.rows import LARGEST
from jobtop.store.samples.head import HOSTS, JOBS, column
from jobtop.store.schema import MIGRATIONS

NUMBER = f"(typeof({{0}}) IN ('integer', 'real') AND {{0}} BETWEEN -{LARGEST} AND {LARGEST})"
CONDITIONS = {
    "INTEGER": "typeof({0}) = 'integer'",
    "REAL": NUMBER,
    "ANY": NUMBER,  # a sample, as it was measured
    "TEXT": "typeof({0}) = 'text'",
    "BLOB": "typeof({0}) = 'blob'",
}
WORDS = {"INTEGER": "whole number", "REAL": "finite number", "ANY": "finite number", "TEXT": "text", "BLOB": "blob"}


@record
class ColumnType:
    """The type of a column, and whether a value may be absent."""

    kind: str
    is_needed: bool


Columns = Mapping[str, ColumnType]


def expected_tables(version: int) -> dict[str, Columns]:
    """The columns of each table in a store of this version."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for step in MIGRATIONS[:version]:
            connection.executescript(step)
        return {table: _columns(connection, table) for table in _tables(connection)}


def wrong_tables(connection: sqlite3.Connection, expected: Mapping[str, Columns]) -> Iterator[tuple[str, str]]:
    """Tables that are missing or lack columns, and what each lacks."""
    there = _tables(connection)
    for table, columns in expected.items():
        if table not in there:
            yield table, "the table is missing"
            continue
        missing = columns.keys() - _columns(connection, table).keys()
        if missing:
            yield table, f"it lacks the columns {', '.join(sorted(missing))}"


def triggers(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """The table and the name of each trigger; jobtop makes none."""
    return connection.execute("SELECT tbl_name, name FROM sqlite_master WHERE type = 'trigger'").fetchall()


def wrong_values(connection: sqlite3.Connection, table: str, columns: Columns) -> Iterator[str]:
    """The columns of a table that have values of another type, with the number of such rows."""
    checked = dict(columns)
    for layout in (JOBS, HOSTS):
        if layout.head == table:
            there = _columns(connection, table)
            checked |= {name: ColumnType("ANY", False) for name in map(column, layout.keys) if name in there}
    counts = ", ".join(f"total(NOT {_condition(name, kind)})" for name, kind in checked.items())
    row = connection.execute(f"SELECT {counts} FROM {table}").fetchone()
    for (name, of), count in zip(checked.items(), row, strict=True):
        if count:
            yield f"{name} is no {WORDS[of.kind]} in {count:.0f} row{'' if count == 1 else 's'}"


def _condition(name: str, of: ColumnType) -> str:
    is_right = CONDITIONS[of.kind].format(name)
    return f"({is_right})" if of.is_needed else f"({is_right} OR {name} IS NULL)"


def _tables(connection: sqlite3.Connection) -> list[str]:
    sql = "SELECT lower(name) FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    return [row[0] for row in connection.execute(sql)]


def _columns(connection: sqlite3.Connection, table: str) -> dict[str, ColumnType]:
    rows = connection.execute(f"PRAGMA table_info({table})").fetchall()
    return {name.lower(): ColumnType(kind, bool(needed or key)) for _, name, kind, needed, _, key in rows}
