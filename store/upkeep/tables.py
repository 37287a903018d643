"""Compare the tables of a store with those that jobtop creates, and their values with the types of their columns.

The tables of jobtop are STRICT. A file from another source, or an edited one, may have any tables and any values.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing

from jobtop.core.record import record
from jobtop.store.rows import LARGEST
from jobtop.store.samples.head import LAYOUTS, column
from jobtop.store.schema import MIGRATIONS

NUMBER = f"(typeof({{0}}) IN ('integer', 'real') AND {{0}} BETWEEN -{LARGEST} AND {LARGEST})"
CONDITIONS = {
    "INTEGER": "typeof({0}) = 'integer'",
    "REAL": NUMBER,
    "ANY": NUMBER,  # a measured value, an integer or not
    "TEXT": "typeof({0}) = 'text'",
    "BLOB": "typeof({0}) = 'blob'",
}
WORDS = {
    "INTEGER": "a whole number",
    "REAL": "a finite number",
    "ANY": "a finite number",
    "TEXT": "text",
    "BLOB": "a blob",
}


@record
class ColumnType:
    """The type of a column, and whether it needs a value."""

    kind: str
    is_required: bool


Columns = Mapping[str, ColumnType]


def expected_tables(version: int) -> dict[str, Columns]:
    """The columns of each table in a store of this version."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for step in MIGRATIONS[:version]:
            connection.executescript(step)
        return {table: _columns(connection, table) for table in _tables(connection)}


def wrong_tables(connection: sqlite3.Connection, expected: Mapping[str, Columns]) -> Iterator[tuple[str, str]]:
    """Tables that are missing or lack columns, and what each lacks."""
    present = _tables(connection)
    for table, columns in expected.items():
        if table not in present:
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
    for layout in LAYOUTS:
        if layout.head == table:
            present = _columns(connection, table)
            checked |= {name: ColumnType("ANY", False) for name in map(column, layout.keys) if name in present}
    counts = ", ".join(f"total(NOT {_condition(name, column_type)})" for name, column_type in checked.items())
    row = connection.execute(f"SELECT {counts} FROM {table}").fetchone()
    for (name, column_type), count in zip(checked.items(), row, strict=True):
        if count:
            yield f"{name} is not {WORDS[column_type.kind]} in {count:.0f} row{'' if count == 1 else 's'}"


def _condition(name: str, column_type: ColumnType) -> str:
    has_type = CONDITIONS[column_type.kind].format(name)
    return f"({has_type})" if column_type.is_required else f"({has_type} OR {name} IS NULL)"


def _tables(connection: sqlite3.Connection) -> list[str]:
    sql = "SELECT lower(name) FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    return [row[0] for row in connection.execute(sql)]


def _columns(connection: sqlite3.Connection, table: str) -> dict[str, ColumnType]:
    rows = connection.execute(f"PRAGMA table_info({table})").fetchall()
    return {name.lower(): ColumnType(kind, bool(not_null or key)) for _, name, kind, not_null, _, key in rows}
