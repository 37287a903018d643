"""How many messages about alerts wait to be sent; apart from the outbox, since every agent asks each second."""

from __future__ import annotations

from jobtop.store.schema import has_tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.store.database import Database

MESSAGES_SINCE_VERSION = 10  # of the schema
# The same words as in the index messages_unsent: otherwise SQLite does not use it.
UNSENT = "sent_at IS NULL AND given_up_at IS NULL"


def count_unsent(database: Database) -> int:
    """How many messages are neither sent nor given up."""
    with database.reading() as connection:
        if not has_tables_of(connection, MESSAGES_SINCE_VERSION):
            return 0
        return int(connection.execute(f"SELECT count(*) FROM messages WHERE {UNSENT}").fetchone()[0])
