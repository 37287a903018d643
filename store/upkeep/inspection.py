"""How a store is, without changing it: for the doctor."""

import sqlite3
import time
from pathlib import Path

from jobtop.core.errors import StoreDamaged, StoreError
from jobtop.core.record import record
from jobtop.store.database import open_to_read

PATIENCE_SECONDS = 5.0
STEPS_BETWEEN_LOOKS = 100_000


@record
class Inspection:
    """What an existing store says of itself; with a `problem` the rest may be absent."""

    problem: str | None = None
    version: int | None = None
    jobs: int | None = None
    size_bytes: int = 0
    is_sound: bool | None = None
    notice: str | None = None


def inspect(path: Path, patience_seconds: float = PATIENCE_SECONDS) -> Inspection:
    """Open, count, check; a check that takes too long is given up, and soundness is then not known."""
    size = sum(file.stat().st_size for file in (path, path.with_name(f"{path.name}-wal")) if file.exists())
    try:
        database = open_to_read(path)
        try:
            with database.reading() as connection:
                version = int(connection.execute("PRAGMA user_version").fetchone()[0])
                jobs = int(connection.execute("SELECT count(*) FROM jobs").fetchone()[0]) if version else 0
                check = quick_check(connection, patience_seconds)
        finally:
            database.close()
    except StoreDamaged as error:
        return Inspection(problem=str(error), size_bytes=size, is_sound=False)
    except StoreError as error:
        return Inspection(problem=str(error), size_bytes=size)
    sound = None if check is None else check == "ok"
    problem = f"{path}: {check}" if sound is False else None
    return Inspection(problem, version, jobs, size, sound, database.notice)


def quick_check(connection: sqlite3.Connection, patience_seconds: float) -> str | None:
    """The first thing that is wrong, `ok`, or None if it took too long to find out."""
    deadline = time.monotonic() + patience_seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS_BETWEEN_LOOKS)
    try:
        return str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return None
        raise
    finally:
        connection.set_progress_handler(None, 0)
