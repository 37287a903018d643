"""A quick look at a store for the doctor: version, number of jobs, size, integrity. Changes nothing."""

import sqlite3
import time
from pathlib import Path

from jobtop.core.errors import StoreDamaged, StoreError
from jobtop.core.record import record
from jobtop.store.database import open_to_read
from jobtop.store.files import wal_of

CHECK_SECONDS = 5.0
STEPS_BETWEEN_CLOCK_READS = 100_000


@record
class Inspection:
    """The state of an existing store; with a `problem` other values may be absent, `is_sound` None is not known."""

    problem: str | None = None
    version: int | None = None
    jobs: int | None = None
    size_bytes: int = 0
    is_sound: bool | None = None
    notice: str | None = None


def inspect(path: Path, check_seconds: float = CHECK_SECONDS) -> Inspection:
    """Open a store, count its jobs and check it; a check that takes longer than this is abandoned."""
    size = file_bytes(path)
    try:
        database = open_to_read(path)
        try:
            with database.reading() as connection:
                version = int(connection.execute("PRAGMA user_version").fetchone()[0])
                jobs = int(connection.execute("SELECT count(*) FROM jobs").fetchone()[0]) if version else 0
                result = quick_check(connection, check_seconds)
        finally:
            database.close()
    except StoreDamaged as error:
        return Inspection(problem=str(error), size_bytes=size, is_sound=False)
    except StoreError as error:
        return Inspection(problem=str(error), size_bytes=size)
    is_sound = None if result is None else result == "ok"
    problem = f"{path}: {result}" if is_sound is False else None
    return Inspection(problem, version, jobs, size, is_sound, database.notice)


def file_bytes(path: Path) -> int:
    """The size of a store and its write-ahead log."""
    files = (path, Path(wal_of(path)))
    return sum(file.stat().st_size for file in files if file.exists())


def quick_check(connection: sqlite3.Connection, check_seconds: float) -> str | None:
    """The first defect that SQLite finds, `ok` if there is none, or None if the check took too long."""
    deadline = time.monotonic() + check_seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS_BETWEEN_CLOCK_READS)
    try:
        return str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return None
        raise
    finally:
        connection.set_progress_handler(None, 0)
