"""The agent that serves a store: the one row of the table `agent`."""

from __future__ import annotations

import time

from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.model import Identity
from jobtop.core.record import record
from jobtop.store.queue_rows import WORK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.store.database import Database


@record
class Registered:
    """The process of the agent that serves a store, and since when it does."""

    identity: Identity
    since: float


def registered(database: Database) -> Registered | None:
    """The agent that serves the store; None if there is none, or its process has exited."""
    with database.reading() as connection:
        row = connection.execute("SELECT boot, pid, start, since FROM agent").fetchone()
    if row is None:
        return None
    found = Registered(Identity(row["boot"], row["pid"], row["start"]), row["since"])
    return found if is_alive(found.identity) else None


def register(database: Database, me: Identity) -> None:
    """Make this process the agent of the store."""
    with database.writing() as connection:
        connection.execute("DELETE FROM agent")
        connection.execute(
            "INSERT INTO agent (boot, pid, start, since) VALUES (?, ?, ?, ?)", (me.boot, me.pid, me.start, time.time())
        )


def unregister(database: Database, me: Identity) -> None:
    """Delete the row of this process."""
    with database.writing() as connection:
        connection.execute("DELETE FROM agent WHERE boot = ? AND pid = ? AND start IS ?", (me.boot, me.pid, me.start))


def unregister_if_idle(database: Database, me: Identity, host: str) -> bool:
    """Unregister if there is no work for an agent, in one transaction, so that later work starts a new agent.

    Returns whether it unregistered.
    """
    with database.writing() as connection:
        if connection.execute(f"SELECT 1 FROM jobs WHERE host = ? AND ({WORK}) LIMIT 1", (host,)).fetchone():
            return False
        if connection.execute("SELECT 1 FROM container_follows WHERE host = ? LIMIT 1", (host,)).fetchone():
            return False
        unregister(database, me)
    return True
