"""Shrink a store: return its free pages to the file system while jobs run, or rewrite the whole file."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

from jobtop.core.errors import StoreBusy
from jobtop.core.record import record
from jobtop.store.upkeep.inspection import file_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.store.database import Database

    Progress = Callable[[int, int], object]  # the number of pages returned, and of all free pages

PAGES_AT_ONCE = 200  # take a few milliseconds
PAUSE_SECONDS = 0.002  # lets waiting writers in
CHECKPOINT_MILLISECONDS = 1000  # processes that read for longer are named
INCREMENTAL = 2  # a value of PRAGMA auto_vacuum


@record
class Vacuumed:
    """The size of a store before and after; `readers` are processes that kept the journal from shrinking."""

    before_bytes: int
    after_bytes: int
    readers: tuple[str, ...] = ()


def vacuum(database: Database, is_full: bool = False, progress: Progress | None = None) -> Vacuumed:
    """Return free pages to the file system in short transactions; with `is_full`, rewrite the file instead."""
    path = database.path
    before = file_bytes(path)
    with database.alone() as connection:
        is_full = is_full or connection.execute("PRAGMA auto_vacuum").fetchone()[0] != INCREMENTAL
        others = other_users(path)
        if is_full and others:
            raise StoreBusy(f"{path}: {', '.join(others)} has it open; try again when that has ended")
        try:
            if is_full:
                connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
                connection.execute("VACUUM")
            else:
                _free_all_pages(database, progress)
            connection.execute(f"PRAGMA busy_timeout = {CHECKPOINT_MILLISECONDS}")
            is_busy = bool(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY and others:
                raise StoreBusy(f"{path}: {', '.join(others)} holds it; try again") from error
            raise
    return Vacuumed(before, file_bytes(path), tuple(others) if is_busy else ())


def _free_all_pages(database: Database, progress: Progress | None) -> None:
    total = left = count_free_pages(database)
    while left:
        still_free = free_some_pages(database)
        if still_free >= left:  # another process deletes as fast
            return
        left = still_free
        if progress is not None:
            progress(total - left, total)
        time.sleep(PAUSE_SECONDS)


def count_free_pages(database: Database) -> int:
    """The number of unused pages in the file."""
    with database.alone() as connection:
        return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def free_some_pages(database: Database) -> int:
    """Cut some unused pages off the file in one short transaction; return how many are left."""
    with database.alone() as connection:
        # The pragma frees one page per fetched row, and execute() fetches only the first row.
        connection.executescript(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})")
        return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def other_users(path: Path, proc: Path = Path("/proc")) -> list[str]:
    """The other processes that have a file open, among those with descriptors that we may read."""
    target, users = os.path.realpath(path), []
    for pid in filter(str.isdecimal, os.listdir(proc) if proc.is_dir() else ()):
        with suppress(OSError):  # the process has exited, or belongs to another user
            files = os.listdir(proc / pid / "fd")
            if int(pid) != os.getpid() and any(_is_link_to(proc / pid / "fd" / file, target) for file in files):
                users.append(f"process {pid} ({(proc / pid / 'comm').read_text().strip()})")
    return users


def _is_link_to(link: Path, target: str) -> bool:
    try:
        return os.readlink(link) == target
    except OSError:
        return False
