"""Retention while jobs run: one engine per store, about once an hour, a few milliseconds at each tick."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from jobtop.core import journal
from jobtop.core.errors import StoreBusy, StoreError
from jobtop.core.measure.collectors.proc import identify, is_alive
from jobtop.core.model import Identity
from jobtop.core.retention import PINNED, RULE, RUNNING, SETTLING, Report, read_policy
from jobtop.core.units import format_bytes
from jobtop.store.leases import now_since_boot
from jobtop.store.upkeep.compaction import count_free_pages, free_some_pages
from jobtop.store.upkeep.retention import Retention

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from jobtop.core.config import Config
    from jobtop.core.paths import StatePaths
    from jobtop.store.database import Database

LEASE = "retention"
LEASE_SECONDS = 60.0
PAUSE_SECONDS = 3600.0  # between two passes over a store
RETRY_SECONDS = 300.0  # until this engine asks for the lease again
BUSY_SECONDS = 10.0
TICK_SECONDS = 0.01
SPARE_FREE_PAGES = 250  # stay in the file: they will soon be used again
NO_PID = 0  # in the lease during a pause
PROTECTED_WORDS = {
    PINNED: "are pinned",
    RULE: "[[retention]] keeps",
    RUNNING: "run or will be tried again",
    SETTLING: "ended a moment ago",
}


class BackgroundRetention:
    """The retention passes of one engine; an engine without the lease does nothing."""

    def __init__(self, database: Database, paths: StatePaths, config: Config) -> None:
        self.database, self.paths, self.config = database, paths, config
        self.me = identify(os.getpid())
        self._retention: Retention | None = None
        self._lease_ends = -float("inf")
        self._logged: set[str] = set()

    def work(self) -> float:
        """Work for some milliseconds; return in how many seconds to call this again."""
        try:
            return self._work()
        except StoreBusy:
            self._retention = None
            return BUSY_SECONDS
        except StoreError as error:  # for example a full disk: finished steps stay, the next pass does the rest
            self._retention = None
            self._log("WARNING", f"old jobs could not be pruned: {error}")
            return RETRY_SECONDS

    def end(self) -> None:
        """Release the lease during a pass, so that another engine can continue."""
        if self._retention is not None:
            with suppress(StoreError):
                release_lease(self.database, self.me)

    def _work(self) -> float:
        if now_since_boot() > self._lease_ends - LEASE_SECONDS / 2:
            if not take_lease(self.database, self.me):
                self._retention = None
                return RETRY_SECONDS
            self._lease_ends = now_since_boot() + LEASE_SECONDS
        if self._retention is None:
            self._retention = Retention(self.database, self.paths, read_policy(self.config))
        start = time.monotonic()
        while self._retention.step() or self._free_pages():
            if time.monotonic() - start > TICK_SECONDS:
                return 0.0
        self._log_report(self._retention.report)
        self._retention, self._lease_ends = None, -float("inf")
        start_pause(self.database, self.me)
        return RETRY_SECONDS

    def _free_pages(self) -> bool:
        """Return some free pages to the file system; whether that made a difference."""
        free = count_free_pages(self.database)
        return free > SPARE_FREE_PAGES and free_some_pages(self.database) < free

    def _log_report(self, report: Report) -> None:
        if report.jobs:
            pruned = f"{report.samples:,} samples of {report.jobs:,} jobs thinned or deleted"
            self._log("INFO", f"{pruned}, about {format_bytes(report.freed_bytes)}")
        if report.over_bytes:
            self._log("WARNING", shortage_text(report))

    def _log(self, level: str, text: str) -> None:
        """Write a line to the log, once for each text."""
        if text not in self._logged:
            self._logged.add(text)
            with suppress(OSError):
                journal.write(self.paths.log, level, text)


def shortage_text(report: Report) -> str:
    """Why the history is still larger than store.max_size."""
    protected = [
        f"{format_bytes(size)} of jobs that {PROTECTED_WORDS[why]}" for why, size in report.held.items() if size
    ]
    rest = report.left_bytes - sum(report.held.values())
    parts = ", ".join([*protected, f"{format_bytes(max(0, rest))} of records, events and the machine"])
    limit = format_bytes(report.left_bytes - report.over_bytes)
    return f"the history takes {format_bytes(report.left_bytes)} and may take {limit} (store.max_size): {parts} stay"


def take_lease(database: Database, me: Identity, by_force: bool = False) -> bool:
    """Take or renew the lease; whether this process has it now."""
    with database.reading() as connection:  # usually another engine has it, and nothing is written
        if not by_force and not _is_available(connection, me):
            return False
    with database.writing() as connection:
        is_ours = by_force or _is_available(connection, me)
        if is_ours:
            _write_lease(connection, me, LEASE_SECONDS)
    return is_ours


def _is_available(connection: sqlite3.Connection, me: Identity) -> bool:
    """Whether this process may take the lease: no live process has it, and no pause is running."""
    row = connection.execute("SELECT boot, pid, start, until FROM leases WHERE name = ?", (LEASE,)).fetchone()
    if row is None or row["boot"] != me.boot or row["until"] <= now_since_boot():
        return True
    holder = Identity(row["boot"], row["pid"], row["start"])
    return holder.pid != NO_PID and (holder == me or not is_alive(holder))


def start_pause(database: Database, me: Identity) -> None:
    """Keep every engine from starting another pass for PAUSE_SECONDS."""
    with database.writing() as connection:
        _write_lease(connection, Identity(me.boot, NO_PID, None), PAUSE_SECONDS)


def release_lease(database: Database, me: Identity) -> None:
    """Delete the lease if this process has it."""
    with database.writing() as connection:
        connection.execute(
            "DELETE FROM leases WHERE name = ? AND boot = ? AND pid = ? AND start IS ?",
            (LEASE, me.boot, me.pid, me.start),
        )


def _write_lease(connection: sqlite3.Connection, holder: Identity, seconds: float) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO leases (name, boot, pid, start, until) VALUES (?, ?, ?, ?, ?)",
        (LEASE, holder.boot, holder.pid, holder.start, now_since_boot() + seconds),
    )
