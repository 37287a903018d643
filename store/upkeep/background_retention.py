"""Retention inside of engines: one of a store at a time, about once an hour, some milliseconds at a tick."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from jobtop.core import journal
from jobtop.core.errors import StoreBusy, StoreError
from jobtop.core.measure.collectors.proc import identify, is_alive
from jobtop.core.model import Identity
from jobtop.core.retention import PINNED, RULE, RUNNING, SETTLING, Report, policy_of
from jobtop.core.units import format_bytes
from jobtop.store.samples.hosts import now_since_boot
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
REST_SECONDS = 3600.0
AGAIN_SECONDS = 300.0  # until we ask again whether somebody else has done it
BUSY_SECONDS = 10.0
TICK_SECONDS = 0.01
KEPT_FREE_PAGES = 250  # will be used again soon
NOBODY = 0
HELD = {
    PINNED: "are pinned",
    RULE: "[[retention]] keeps",
    RUNNING: "run or will be tried again",
    SETTLING: "ended a moment ago",
}


class Shift:
    """The turn of one engine."""

    def __init__(self, database: Database, paths: StatePaths, config: Config) -> None:
        self.database, self.paths, self.config = database, paths, config
        self.me = identify(os.getpid())
        self._retention: Retention | None = None
        self._held_until = -float("inf")
        self._said: set[str] = set()

    def work(self) -> float:
        """Some milliseconds of what is to be done; in how many seconds to come again."""
        try:
            return self._work()
        except StoreBusy:
            self._retention = None
            return BUSY_SECONDS
        except StoreError as error:  # full, perhaps: what was done is done, and the rest will be
            self._retention = None
            self._say("WARNING", f"old jobs could not be let go: {error}")
            return AGAIN_SECONDS

    def end(self) -> None:
        """Let somebody else go on."""
        if self._retention is not None:
            with suppress(StoreError):
                release(self.database, self.me)

    def _work(self) -> float:
        if now_since_boot() > self._held_until - LEASE_SECONDS / 2:
            if not take(self.database, self.me):
                self._retention = None
                return AGAIN_SECONDS
            self._held_until = now_since_boot() + LEASE_SECONDS
        if self._retention is None:
            self._retention = Retention(self.database, self.paths, policy_of(self.config))
        begun = time.monotonic()
        while self._retention.step() or self._gives_back():
            if time.monotonic() - begun > TICK_SECONDS:
                return 0.0
        self._tell(self._retention.report)
        self._retention, self._held_until = None, -float("inf")
        rest(self.database, self.me)
        return AGAIN_SECONDS

    def _gives_back(self) -> bool:
        free = count_free_pages(self.database)
        return free > KEPT_FREE_PAGES and free_some_pages(self.database) < free

    def _tell(self, report: Report) -> None:
        if report.jobs:
            went = f"{report.samples:,} samples of {report.jobs:,} jobs thinned or let go"
            self._say("INFO", f"{went}, about {format_bytes(report.freed_bytes)}")
        if report.over_bytes:
            self._say("WARNING", shortage(report))

    def _say(self, level: str, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            with suppress(OSError):
                journal.write(self.paths.log, level, text)


def shortage(report: Report) -> str:
    """Why all takes more than it may."""
    held = [f"{format_bytes(size)} of jobs that {HELD[why]}" for why, size in report.held.items() if size]
    rest = report.left_bytes - sum(report.held.values())
    parts = ", ".join([*held, f"{format_bytes(max(0, rest))} of records, events and the machine"])
    may = format_bytes(report.left_bytes - report.over_bytes)
    return f"the history takes {format_bytes(report.left_bytes)} and may take {may} (store.max_size): {parts} stay"


def take(database: Database, me: Identity, by_force: bool = False) -> bool:
    """Take or renew the right to let jobs go; whether it is ours. Who is dead holds nothing, but its rest counts."""
    with database.reading() as connection:  # mostly there is nothing to write
        if not by_force and not _is_free(connection, me):
            return False
    with database.writing() as connection:
        is_ours = by_force or _is_free(connection, me)
        if is_ours:
            _put(connection, me, LEASE_SECONDS)
    return is_ours


def _is_free(connection: sqlite3.Connection, me: Identity) -> bool:
    row = connection.execute("SELECT boot, pid, start, until FROM leases WHERE name = ?", (LEASE,)).fetchone()
    if row is None or row["boot"] != me.boot or row["until"] <= now_since_boot():
        return True
    holder = Identity(row["boot"], row["pid"], row["start"])
    return holder.pid != NOBODY and (holder == me or not is_alive(holder))


def rest(database: Database, me: Identity) -> None:
    """It is done for now: nobody need begin again before long."""
    with database.writing() as connection:
        _put(connection, Identity(me.boot, NOBODY, None), REST_SECONDS)


def release(database: Database, me: Identity) -> None:
    with database.writing() as connection:
        connection.execute(
            "DELETE FROM leases WHERE name = ? AND boot = ? AND pid = ? AND start IS ?",
            (LEASE, me.boot, me.pid, me.start),
        )


def _put(connection: sqlite3.Connection, who: Identity, seconds: float) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO leases (name, boot, pid, start, until) VALUES (?, ?, ?, ?, ?)",
        (LEASE, who.boot, who.pid, who.start, now_since_boot() + seconds),
    )
