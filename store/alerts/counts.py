"""Short questions about alerts that are asked at the end of every job, and by every agent each second."""

from __future__ import annotations

from jobtop.store.schema import has_tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.store.database import Database

ALERTS_SINCE_VERSION = 10  # of the schema
# The same words as in the index messages_unsent: otherwise SQLite does not use it.
UNSENT = "sent_at IS NULL AND given_up_at IS NULL"


def count_unsent(database: Database) -> int:
    """How many messages are neither sent nor given up."""
    with database.reading() as connection:
        if not has_tables_of(connection, ALERTS_SINCE_VERSION):
            return 0
        return int(connection.execute(f"SELECT count(*) FROM messages WHERE {UNSENT}").fetchone()[0])


def has_open_alerts(database: Database, job_seq: int) -> bool:
    """Whether an alert of a job is not resolved."""
    with database.reading() as connection:
        sql = "SELECT 1 FROM alerts WHERE job_seq = ? AND state <> 'resolved' LIMIT 1"
        is_there = has_tables_of(connection, ALERTS_SINCE_VERSION)
        return is_there and connection.execute(sql, (job_seq,)).fetchone() is not None
