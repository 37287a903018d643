"""Check that jobtop created a file, and limit what a file from another source can do."""

from __future__ import annotations

from jobtop.core.errors import StoreForeign
from jobtop.store.database import APPLICATION_ID, check_version
from jobtop.store.schema import TABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

MOST_VALUE_BYTES, MOST_SQL_BYTES = 64 * 1024 * 1024, 1024 * 1024


def defend(connection: sqlite3.Connection) -> None:
    """Limit what a file from another source can do: no functions in its schema, bounded values."""
    import sqlite3

    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, MOST_SQL_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1)


def check_ours(path: str, connection: sqlite3.Connection) -> int:
    """The version of a store; StoreForeign for a database that jobtop did not make, StoreTooNew for a later one."""
    version = check_version(path, connection)
    if _is_foreign(connection, version):
        raise StoreForeign(f"{path}: it is a database of another program, not a store of jobtop")
    if (wrong := _fake_table(connection)) is not None:
        raise StoreForeign(f"{path}: {wrong}, which jobtop never makes; it is not read")
    return version


def check_origin(path: str, connection: sqlite3.Connection, version: int) -> None:
    """Raise StoreForeign for a database that must not be written, since jobtop did not make it."""
    if _is_foreign(connection, version):
        raise StoreForeign(f"{path}: it is a database of another program; move it away or set JOBTOP_HOME")


def _is_foreign(connection: sqlite3.Connection, version: int) -> bool:
    """Whether the file is a database that jobtop did not make: not empty, and without jobtop's mark or tables."""
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if version == 0:
        return bool(tables)
    mark = connection.execute("PRAGMA application_id").fetchone()[0]
    return mark not in (0, APPLICATION_ID) or "log_marks" not in tables


def _fake_table(connection: sqlite3.Connection) -> str | None:
    """A view or virtual table with the name of one of jobtop's tables: it would run code of the file; None if none."""
    marks = ", ".join("?" * len(TABLES))
    rows = connection.execute(f"SELECT type, name, sql FROM sqlite_master WHERE lower(name) IN ({marks})", TABLES)
    for kind, name, sql in rows.fetchall():
        if kind != "table":
            return f"{name} is a {kind}"
        if str(sql).split()[:2] != ["CREATE", "TABLE"]:
            return f"{name} is a virtual table"
        hidden = connection.execute("SELECT count(*) FROM pragma_table_xinfo(?) WHERE hidden <> 0", (name,))
        if hidden.fetchone()[0]:
            return f"{name} has generated columns"
    return None
