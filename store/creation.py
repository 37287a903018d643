"""Create the file of a store, and migrate an old one. Imported only when that is needed."""

from __future__ import annotations

import os

from jobtop.store.database import APPLICATION_ID, choose_journal, locked
from jobtop.store.files import remove_journals
from jobtop.store.newest_schema import SCRIPT, SCRIPT_VERSION
from jobtop.store.origin import check_origin
from jobtop.store.schema import MIGRATIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from jobtop.core.paths import StateNames


def create(names: StateNames) -> None:
    """Make an empty file where there is none, and remove the journals of one that was deleted."""
    with locked(names):
        if not os.path.exists(names.store):
            remove_journals(names.store)
            make_empty(names.store)


def make_empty(path: str) -> None:
    """Create an empty private file."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))


def prepare(path: str, connection: sqlite3.Connection, network: bool | None) -> None:
    """Bring the file to today's version in one transaction; the caller holds the lock of the store."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    check_origin(path, connection, version)
    if version == 0:
        connection.execute("PRAGMA synchronous = OFF")  # the file has nothing to lose yet
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    choose_journal(path, connection, network)
    try:
        if version == 0 and len(MIGRATIONS) == SCRIPT_VERSION:
            connection.executescript(f"BEGIN IMMEDIATE; {SCRIPT}; {_marks()}; COMMIT")
        elif version < len(MIGRATIONS):
            _migrate(connection, version)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _migrate(connection: sqlite3.Connection, version: int) -> None:
    """Run the steps that the file has not seen. Statements are run one by one: executescript() would commit."""
    from jobtop.store.samples.head import add_columns

    connection.execute("BEGIN IMMEDIATE")
    for step in MIGRATIONS[version:]:
        for statement in filter(str.strip, step.split(";")):
            connection.execute(statement)
    add_columns(connection)
    for statement in _marks().split(";"):
        connection.execute(statement)
    connection.execute("COMMIT")


def _marks() -> str:
    """The statements that mark the file as a store of this version."""
    return f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {len(MIGRATIONS)}"
