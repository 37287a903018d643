"""The labels of containers that the agent follows: the table `container_follows`."""

from __future__ import annotations

import json
import time

from jobtop.core.errors import RowDamaged
from jobtop.core.record import fresh, record
from jobtop.store.jobs import stored_text
from jobtop.store.rows import check_moments, check_texts, parse_mapping, parse_text_mapping, quote_value
from jobtop.store.schema import has_tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from jobtop.store.database import Database

FOLLOWS_SINCE_VERSION = 11  # of the schema
COLUMNS = "host, url, label, engine, at, by, options"


@record
class Follow:
    """A label of containers of one engine; each start of such a container becomes a job with these options."""

    url: str
    label: str  # KEY or KEY=VALUE
    engine: str  # the name of the engine
    at: float = 0.0
    by: str = ""
    name: str | None = None  # of its jobs; None: the name of each container
    tool: str | None = None
    tags: dict[str, str] = fresh(default_factory=dict)
    note: str | None = None


class Follows:
    """The follows of one host in a store."""

    def __init__(self, database: Database, host: str) -> None:
        self.database, self.host = database, host

    def set(self, follow: Follow) -> None:
        """Add a follow, or replace the one of the same engine and label."""
        options = {"name": follow.name, "tool": follow.tool, "tags": follow.tags, "note": follow.note}
        texts = (self.host, follow.url, follow.label, follow.engine)
        with self.database.writing() as connection:
            connection.execute(
                f"INSERT OR REPLACE INTO container_follows ({COLUMNS}) VALUES (CAST(? AS TEXT), CAST(? AS TEXT),"
                " CAST(? AS TEXT), CAST(? AS TEXT), ?, CAST(? AS TEXT), ?)",
                (*map(stored_text, texts), follow.at or time.time(), stored_text(follow.by), json.dumps(options)),
            )

    def remove(self, follow: Follow) -> bool:
        """Delete a follow; return whether it was there."""
        sql = "DELETE FROM container_follows WHERE host = ? AND url = CAST(? AS TEXT) AND label = CAST(? AS TEXT)"
        with self.database.writing() as connection:
            values = (self.host, stored_text(follow.url), stored_text(follow.label))
            return connection.execute(sql, values).rowcount > 0

    def all(self) -> list[Follow]:
        """The follows, the oldest first."""
        with self.database.reading() as connection:
            if not has_tables_of(connection, FOLLOWS_SINCE_VERSION):
                return []
            sql = f"SELECT {COLUMNS} FROM container_follows WHERE host = ? ORDER BY at, label, url"
            rows = connection.execute(sql, (self.host,)).fetchall()
        return self.database.decode_rows(rows, follow_from_row)


def follow_from_row(row: sqlite3.Row) -> Follow:
    """Decode a row of `container_follows`."""
    try:
        check_texts(row, ("host", "url", "label", "engine", "by", "options"))
        check_moments(row, ("at",), ("at",))
        options = parse_mapping(row["options"], "options")
        texts = {name: options.get(name) for name in ("name", "tool", "note")}
        for name, value in texts.items():
            if value is not None and type(value) is not str:
                raise RowDamaged(f"{name} is {quote_value(value)}")
        tags = parse_text_mapping(json.dumps(options.get("tags") or {}), "tags")
    except RowDamaged as error:
        raise RowDamaged(f"a follow of containers: {error}") from None
    return Follow(row["url"], row["label"], row["engine"], row["at"], row["by"], tags=tags, **texts)
