"""The history as tables show it: any number of jobs in some order, read where somebody looks; or grouped by name."""

from __future__ import annotations

import json
from array import array
from collections import deque
from itertools import chain

from jobtop.core.analysis.statistics import statistics
from jobtop.core.conditions import as_text
from jobtop.core.model import LIVE, Status
from jobtop.core.record import fields, fresh, record
from jobtop.store.jobs import Jobs, Query, asking, order_of
from jobtop.store.schema import has_tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Hashable
    from typing import Any

    from jobtop.core.analysis.statistics import Summary
    from jobtop.core.conditions import Filter
    from jobtop.store.database import Database

TOUCHED_SINCE_VERSION = 3
TREND = 20
REMOVED = "(removed)"
RECENT = 1000
WORDS = ("name", "tool", "host", "user", "script")
PAIRS = {"tag": "tags", "param": "params"}


@record
class JobLine:
    """What a table shows of a job, read without the rest of it."""

    seq: int
    id: str
    name: str
    status: Status
    host: str = ""
    user: str = ""
    tool: str | None = None
    flags: tuple[str, ...] = ()
    tags: dict[str, str] = fresh(default_factory=dict)
    submitted_at: float | None = None
    start_time: float | None = None
    end_time: float | None = None
    duration_seconds: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    cpu_total_seconds: float | None = None
    cpu_efficiency: float | None = None
    memory_peak_bytes: int | None = None
    memory_is_bound: bool = False
    io_read_bytes: int | None = None
    io_write_bytes: int | None = None
    settled: bool = True

    @property
    def io_bytes(self) -> int | None:
        """Read and written."""
        read, written = self.io_read_bytes, self.io_write_bytes
        return None if read is None or written is None else read + written


@record
class Order:
    """The numbers of the jobs of a query in their order, as it was in some state of the store."""

    query: Query
    seqs: array[int]
    state: tuple[int, ...]


@record
class Group:
    """The jobs of one name: what they add up to, and how long the newest that have ended took, the oldest first."""

    name: str
    summary: Summary
    trend: tuple[float, ...]


class Listing:
    """The lines of an order, of which one asks for those in sight; the database may be another than it was read by."""

    def __init__(self, database: Database, order: Order) -> None:
        self.database, self.order = database, order

    def __len__(self) -> int:
        return len(self.order.seqs)

    def window(self, start: int, stop: int) -> list[JobLine]:
        """The lines from one position to before another, as they are now; one whose job was removed says so."""
        seqs = self.order.seqs[max(0, start) : max(0, stop)]
        with self.database.reading() as connection:
            cursor = connection.cursor()
            cursor.row_factory = None
            sql = f"SELECT {COLUMNS} FROM jobs WHERE seq IN (SELECT value FROM json_each(?))"
            found = {row[0]: row for row in cursor.execute(sql, (json.dumps(seqs.tolist()),)).fetchall()}
        return [_line(found[seq]) if seq in found else JobLine(seq, "", REMOVED, Status.UNKNOWN) for seq in seqs]

    def key(self, line: JobLine) -> int:
        """What a line is of, however it looks and wherever it stands."""
        return line.seq

    def index(self, key: Hashable) -> int | None:
        """Where the line of a key is; None if it is not listed."""
        try:
            return self.order.seqs.index(key)  # type: ignore[arg-type]
        except (ValueError, TypeError):
            return None


def read_order(database: Database, query: Query, before: Order | None = None) -> Order:
    """The jobs of a query in their order; the one before again, and that soon, if it was of this and no job changed."""
    with asking(database, query) as (connection, where, values):
        state = _state(connection)
        if before is not None and (before.query, before.state) == (query, state):
            return before
        cursor = connection.cursor()
        cursor.row_factory = None
        limit = "" if query.limit is None else f"LIMIT {query.limit:d}"
        rows = cursor.execute(f"SELECT seq FROM jobs {where} {order_of(query, where)} {limit}", values)
        return Order(query, array("q", chain.from_iterable(rows)), state)


def read_groups(database: Database, wanted: Filter | None = None) -> list[Group]:
    """The jobs that are wanted by their names, the name that ran last first."""
    figures = Jobs(database).figures(None, "name", wanted)
    trends: dict[str | None, deque[float]] = {}
    for name, status, duration, _, _ in figures:
        trend = trends.pop(name, None) or deque(maxlen=TREND)
        if duration is not None and status not in LIVE:
            trend.append(duration)
        trends[name] = trend
    summaries = statistics(figures).groups
    return [Group(name or "", summaries[name], tuple(trend)) for name, trend in reversed(trends.items())]


def vocabulary(database: Database) -> dict[str, list[str]]:
    """What words of a filter can be completed to, by their keys: what the newest jobs have, the newest first."""
    columns = ", ".join((*WORDS, *PAIRS.values(), "flags"))
    with database.reading() as connection:
        rows = connection.execute(f"SELECT {columns} FROM jobs ORDER BY seq DESC LIMIT ?", (RECENT,)).fetchall()
    known: dict[str, dict[str, None]] = {key: dict.fromkeys(row[key] for row in rows if row[key]) for key in WORDS}
    known |= {
        key: dict.fromkeys(chain.from_iterable(_pairs(row[column]) for row in rows)) for key, column in PAIRS.items()
    }
    known["flag"] = dict.fromkeys(chain.from_iterable(json.loads(row["flags"]) for row in rows))
    return {key: list(words) for key, words in known.items()}


def _pairs(text: str) -> list[str]:
    """The keys of tags or parameters, and those with their values."""
    pairs = json.loads(text)
    return [*pairs, *(f"{key}={as_text(item)}" for key, item in pairs.items())]


def _state(connection: sqlite3.Connection) -> tuple[int, ...]:
    """What is different after any change of any job: one that comes has a new number, one that goes is missed."""
    if not has_tables_of(connection, TOUCHED_SINCE_VERSION):
        return tuple(connection.execute("PRAGMA data_version").fetchone())
    sql = "SELECT * FROM (SELECT max(touched) FROM jobs), (SELECT max(seq) FROM jobs), (SELECT count(*) FROM jobs)"
    return tuple(connection.execute(sql).fetchone())


def _line(row: tuple[Any, ...]) -> JobLine:
    values = dict(zip(NAMES, row, strict=True))
    for name, read in READ_BY.items():
        values[name] = read(values[name])
    return JobLine(**values)


NAMES = fields(JobLine)
COLUMNS = ", ".join(NAMES).replace("memory_is_bound", "json_extract(sources, '$.memory_peak') IS 'rusage_floor'")
READ_BY: dict[str, Callable[[Any], Any]] = {
    "status": Status,
    "flags": lambda text: tuple(json.loads(text)),
    "tags": json.loads,
    "memory_is_bound": bool,
    "settled": bool,
}
