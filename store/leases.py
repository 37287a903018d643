"""Leases: work that only one process of a host may do at a time, such as recording the host."""

from __future__ import annotations

import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.model import Identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.store.database import Database

LEASE_SECONDS = 10.0


class Lease:
    """The lease of one name, as this process knows it. The lease of a dead process is free."""

    def __init__(self, database: Database, name: str) -> None:
        self.database, self.name = database, name
        self.held_until = -float("inf")

    def take(self, me: Identity, seconds: float = LEASE_SECONDS) -> bool:
        """Take or renew the lease; return whether this process holds it."""
        now = now_since_boot()
        with self.database.writing() as connection:
            sql = "SELECT boot, pid, start, until FROM leases WHERE name = ?"
            row = connection.execute(sql, (self.name,)).fetchone()
            is_free = row is None or row["boot"] != me.boot or row["until"] <= now
            if not is_free:
                holder = Identity(row["boot"], row["pid"], row["start"])
                is_free = holder == me or not is_alive(holder)
            if is_free:
                connection.execute(
                    "INSERT OR REPLACE INTO leases (name, boot, pid, start, until) VALUES (?, ?, ?, ?, ?)",
                    (self.name, me.boot, me.pid, me.start, now + seconds),
                )
        self.held_until = now + seconds if is_free else -float("inf")
        return is_free

    def release(self, me: Identity) -> None:
        """Give the lease up, so that another process can take it."""
        self.held_until = -float("inf")
        with self.database.writing() as connection:
            connection.execute(
                "DELETE FROM leases WHERE name = ? AND boot = ? AND pid = ? AND start IS ?",
                (self.name, me.boot, me.pid, me.start),
            )

    def is_held(self) -> bool:
        """Whether this process holds the lease, and it has not expired."""
        return now_since_boot() < self.held_until


def now_since_boot() -> float:
    """The seconds since the boot, including suspended ones."""
    return time.clock_gettime(BOOTTIME)
