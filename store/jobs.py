"""Read and write jobs, their events and their log marks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence, Sized

from jobtop.core.errors import RowDamaged, UnknownJob
from jobtop.core.job_id import is_job_id
from jobtop.core.model import LIVE, Identity, Job
from jobtop.core.record import as_dict, record, replace
from jobtop.store.database import Database
from jobtop.store.rows import (
    LIMIT_FIELDS,
    PLAIN_COLUMNS,
    USAGE_FIELDS,
    event_from_row,
    integers,
    job_from_row,
    mark_from_row,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    from jobtop.core.analysis.cost import Prices
    from jobtop.core.query.conditions import Filter

    Change = Callable[[Job], tuple[Job, "Iterable[Event]"]]

JSON_COLUMNS = ("command", "params", "tags", "flags", "sources", "incomplete", "metrics", "environment", "findings")
BEGIN_TIME = "coalesce(start_time, submitted_at)"
# The number of the next change of any job. It is greater than the numbers of deleted jobs too: readers that follow
# changes ask for greater numbers, and would miss a change with a number they have seen.
NEXT_TOUCH = "(SELECT max(last, (SELECT coalesce(max(touched), 0) FROM jobs)) + 1 FROM touches)"
SEQ_IN_LIST = "seq IN (SELECT value FROM json_each(?))"
SHORTEST_ID_PREFIX = 4
MOST_MATCHES = 9


def sql_list(words: Iterable[str]) -> str:
    """Words of jobtop, which need no escaping, as the list of an SQL `IN`."""
    return ", ".join(f"'{word}'" for word in words)


def placeholders(values: Sized) -> str:
    """The list of an SQL `IN` for so many values."""
    return ", ".join("?" * len(values))


LIVE_STATUSES = sql_list(sorted(LIVE))


@record
class Query:
    """Selects jobs that meet every condition, in an order: the newest or the largest first, or the `reverse`."""

    tool: str | None = None
    statuses: tuple[str, ...] = ()
    name_glob: str | None = None
    tag: str | None = None
    since: float | None = None
    filter: Filter | None = None
    sort: str = "seq"
    reverse: bool = False
    limit: int | None = 10
    after: int | None = None  # the number of a job: select only jobs that follow it in this order
    prices: Prices | None = None  # for the order by cost or energy; None: those of the filter

    @property
    def has_conditions(self) -> bool:
        """Whether some jobs may not be selected."""
        return self != Query(sort=self.sort, reverse=self.reverse, limit=self.limit, prices=self.prices)

    @property
    def needs_prices(self) -> bool:
        """Whether the cost of jobs decides which are selected, or their order."""
        return self.sort == "cost" or (self.filter is not None and self.filter.has("cost"))


@record
class Event:
    """An event in the history of a job, such as started, alert or exited."""

    at: float
    kind: str
    detail: dict[str, Any]


class Jobs:
    """The jobs of one store."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def insert(self, job: Job, *events: Event) -> Job:
        """Insert a new job and its events; return the job with its number."""
        with self.database.writing() as connection:
            return _insert(connection, job, events)

    def change(self, job_id: str, change: Change) -> Job:
        """Read, change and write a job in one transaction, so that no change of another process is lost."""
        with self.database.writing() as connection:
            before = _by_id(connection, job_id)
            if before is None:
                raise UnknownJob(f"job {job_id[:8]} is not in {self.database.path} any more")
            return _update(connection, before, change)

    def insert_or_change(self, job: Job, event: Event, change: Change) -> Job:
        """Insert a job, or change it if it is there already; in one transaction, so that it is inserted once."""
        with self.database.writing() as connection:
            before = _by_id(connection, job.id)
            return _insert(connection, job, (event,)) if before is None else _update(connection, before, change)

    def reinsert(self, job: Job, change: Change = lambda row: (row, ())) -> Job:
        """Insert a job into a store that replaced the store it was in; change it if the new store has it too."""
        return self.insert_or_change(replace(job, seq=None), event("recorded_again"), change)

    def find(self, reference: str) -> Job:
        """The job that a word means, as `store.references` looks it up; raises AmbiguousJob and UnknownJob."""
        if is_job_id(reference) and (found := self.read_where("id = ?", (reference,))):
            return found[0]
        from jobtop.store.references import look_up, recent_names

        where = str(self.database.path)
        return look_up(reference, lambda read: [(self, job) for job in read(self)], lambda: recent_names(self), where)[
            1
        ]

    def read_where(self, condition: str, values: Sequence[Any]) -> list[Job]:
        """The newest jobs that meet an SQL condition, at most MOST_MATCHES; RowDamaged if none of them can be read."""
        sql = f"SELECT * FROM jobs WHERE {condition} ORDER BY seq DESC LIMIT {MOST_MATCHES}"
        with self.database.reading() as connection:
            rows = connection.execute(sql, values).fetchall()
        found = self.database.decode_rows(rows, job_from_row)
        if rows and not found:
            raise RowDamaged(f"{self.database.path}: {next(reversed(self.database.damaged))}")
        return found

    def by_seq(self, seqs: Iterable[int]) -> dict[int, Job]:
        """Jobs by their numbers; deleted jobs are left out."""
        with self.database.reading() as connection:
            sql = f"SELECT * FROM jobs WHERE {SEQ_IN_LIST}"
            rows = connection.execute(sql, (json.dumps(list(seqs)),)).fetchall()
        return {job.seq: job for job in self.database.decode_rows(rows, job_from_row) if job.seq is not None}

    def earlier_runs(self, job: Job, most: int) -> list[Job]:
        """The newest jobs of the same name that succeeded before this one began, the newest first."""
        began = job.start_time if job.start_time is not None else time.time()
        # The inner query reads the index jobs_in_short alone.
        sql = (
            "SELECT * FROM jobs WHERE seq IN (SELECT seq FROM jobs WHERE name = CAST(? AS TEXT)"
            " AND status = 'success' AND start_time < ? ORDER BY start_time DESC LIMIT ?) ORDER BY start_time DESC"
        )
        with self.database.reading() as connection:
            rows = connection.execute(sql, (stored_text(job.name), began, most)).fetchall()
        return self.database.decode_rows(rows, job_from_row)

    def select(self, query: Query) -> list[Job]:
        """The jobs of a query in its order; a row that cannot be read is replaced by the next one."""
        found: list[Job] = []
        page = query
        while True:
            rows = self._rows(page)
            found += self.database.decode_rows(rows, job_from_row)
            if query.limit is None or page.limit is None or len(rows) < page.limit or len(found) >= query.limit:
                return found[: query.limit]
            page = replace(page, after=rows[-1]["seq"], limit=2 * page.limit)

    def _rows(self, query: Query) -> list[sqlite3.Row]:
        from jobtop.store.ordering import order_of, page_conditions, prefer_walking
        from jobtop.store.query_sql import querying

        rows: list[sqlite3.Row] = []
        with querying(self.database, query) as (connection, query_where, values):
            where = prefer_walking(query, query_where, values)
            order = order_of(query, where)
            for condition, condition_values in page_conditions(connection, query, where):
                limit = "" if query.limit is None else f"LIMIT {query.limit - len(rows):d}"
                both = " AND ".join(filter(None, (condition, where.removeprefix("WHERE "))))
                # The inner query uses an index alone; only the selected rows of the table are read.
                selected = f"SELECT seq FROM jobs {'WHERE ' if both else ''}{both} {order} {limit}"
                sql = f"SELECT * FROM jobs WHERE seq IN ({selected}) {order}"
                rows += connection.execute(sql, (*condition_values, *values)).fetchall()
        return rows

    def count(self, query: Query) -> int:
        """The number of jobs that meet the conditions of a query, whatever its limit."""
        from jobtop.store.query_sql import querying

        with querying(self.database, query) as (connection, where, values):
            return int(connection.execute(f"SELECT count(*) FROM jobs {where}", values).fetchone()[0])

    def select_ids(self, query: Query) -> list[str]:
        """The ids of all jobs that meet the conditions of a query, in no order."""
        from jobtop.store.query_sql import querying

        with querying(self.database, query) as (connection, where, values):
            return [row[0] for row in connection.execute(f"SELECT id FROM jobs {where}", values)]

    def changed_since(self, touch: int) -> tuple[list[Job], int]:
        """The jobs that were added or changed after a change number, and the number of the last change."""
        with self.database.reading() as connection:
            rows = connection.execute("SELECT * FROM jobs WHERE touched > ? ORDER BY touched", (touch,)).fetchall()
        return self.database.decode_rows(rows, job_from_row), max((touch, *integers(row["touched"] for row in rows)))

    def live_and_recent(self, recent: int) -> tuple[list[Job], int]:
        """All jobs that have not ended, the newest ended ones, and the number of the last change."""
        with self.database.reading() as connection:
            touch = connection.execute("SELECT coalesce(max(touched), 0) FROM jobs").fetchone()[0]
            rows = connection.execute(f"SELECT * FROM jobs WHERE status IN ({LIVE_STATUSES}) ORDER BY seq").fetchall()
            rows += connection.execute(
                f"SELECT * FROM jobs WHERE status NOT IN ({LIVE_STATUSES})"
                f" ORDER BY {BEGIN_TIME} DESC, seq DESC LIMIT ?",
                (recent,),
            ).fetchall()
        return self.database.decode_rows(rows, job_from_row), max((0, *integers((touch,))))

    def ids_with_prefix(self, prefix: str) -> list[tuple[str, str]]:
        """The newest ids with this prefix, and the names of their jobs, for shell completion."""
        if not prefix.isascii():
            return []
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT id, name FROM jobs WHERE id >= ? AND id < ? ORDER BY seq DESC LIMIT 30", (prefix, prefix + "g")
            ).fetchall()
        return [(row["id"], row["name"]) for row in rows]

    def unsettled(self, host: str, not_recorded_by: Identity | None = None) -> list[Job]:
        """The started jobs of a host without final totals, except live ones that this process records."""
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT * FROM jobs WHERE settled = 0 AND host = ?"
                " AND NOT (status = 'queued' AND recorder_pid IS NULL AND shim_pid IS NULL)"
                f" AND NOT (status IN ({LIVE_STATUSES})"
                " AND recorder_boot IS ? AND coalesce(recorder_pid = ?, 0) AND recorder_start IS ?)",
                (host, *identity_columns(not_recorded_by)),
            ).fetchall()
        return self.database.decode_rows(rows, job_from_row)

    def has_series(self, seq: int) -> bool:
        """Whether the store has samples of a job."""
        with self.database.reading() as connection:
            return connection.execute("SELECT 1 FROM series WHERE job_seq = ?", (seq,)).fetchone() is not None

    def has_host(self, host: str) -> bool:
        """Whether the store has a job of this host."""
        with self.database.reading() as connection:
            return connection.execute("SELECT 1 FROM jobs WHERE host = ? LIMIT 1", (host,)).fetchone() is not None

    def live_counts(self, host: str) -> list[tuple[str, int]]:
        """The number of jobs of a host that are queued, running and paused."""
        sql = "SELECT status, count(*) FROM jobs WHERE settled = 0 AND host = ?"
        sql += f" AND status IN ({LIVE_STATUSES}) GROUP BY status"
        with self.database.reading() as connection:
            return [tuple(row) for row in connection.execute(sql, (host,)).fetchall()]

    def events(self, job: Job) -> list[Event]:
        """The events of a job, the oldest first."""
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT at, kind, detail FROM events WHERE job_seq = ? ORDER BY id", (job.seq,)
            ).fetchall()
        return [Event(*values) for values in self.database.decode_rows(rows, event_from_row)]

    def add_events(self, events: Iterable[tuple[int, Event]]) -> None:
        """Add events to jobs, which are given by their numbers."""
        with self.database.writing() as connection:
            for seq, item in events:
                _add_event(connection, seq, item)

    def add_log_marks(self, job: Job, marks: Iterable[tuple[float, int, int | None]]) -> None:
        """Add the sizes of a job's logs at some moments; a mark of a moment that is there already stays."""
        with self.database.writing() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO log_marks VALUES (?, ?, ?, ?)", [(job.seq, *mark) for mark in marks]
            )

    def log_marks(self, job: Job) -> list[tuple[float, int, int | None]]:
        """The sizes of a job's logs at some moments: seconds since the start, bytes of stdout, bytes of stderr."""
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT elapsed_seconds, stdout_bytes, stderr_bytes FROM log_marks WHERE job_seq = ?"
                " ORDER BY elapsed_seconds",
                (job.seq,),
            ).fetchall()
        return self.database.decode_rows(rows, mark_from_row)

    def delete(self, job: Job) -> None:
        """Delete a job, what people decided about it and, by foreign keys, its rows in other tables."""
        with self.database.writing() as connection:
            connection.execute("UPDATE touches SET last = max(last, (SELECT max(touched) FROM jobs))")
            connection.execute(
                "DELETE FROM alert_marks WHERE kind IN ('seen', 'mute_job') AND name = ?", (str(job.id),)
            )
            connection.execute("DELETE FROM jobs WHERE seq = ?", (job.seq,))


def event(kind: str, **detail: Any) -> Event:
    """An event that happens now."""
    return Event(time.time(), kind, detail)


def _by_id(connection: sqlite3.Connection, job_id: str) -> Job | None:
    row = connection.execute("SELECT * FROM jobs WHERE id = ?", (job_id,)).fetchone()
    return None if row is None else job_from_row(row)


def _insert(connection: sqlite3.Connection, job: Job, events: Iterable[Event]) -> Job:
    row = columns_of(job)
    values = ", ".join(map(_placeholder, row.values()))
    names = ", ".join((*row, "touched"))
    cursor = connection.execute(f"INSERT INTO jobs ({names}) VALUES ({values}, {NEXT_TOUCH})", tuple(row.values()))
    job = replace(job, seq=cursor.lastrowid)
    _add_events(connection, job, events)
    return job


def _update(connection: sqlite3.Connection, before: Job, change: Change) -> Job:
    job, events = change(before)
    if job != before:
        row = columns_of(job)
        assignments = ", ".join(f"{name} = {_placeholder(value)}" for name, value in row.items())
        connection.execute(
            f"UPDATE jobs SET {assignments}, touched = {NEXT_TOUCH} WHERE seq = ?", (*row.values(), job.seq)
        )
    _add_events(connection, job, events)
    return job


def _add_events(connection: sqlite3.Connection, job: Job, events: Iterable[Event]) -> None:
    for item in events:
        _add_event(connection, job.seq, item)


def _add_event(connection: sqlite3.Connection, seq: int | None, item: Event) -> None:
    connection.execute(
        "INSERT INTO events (job_seq, at, kind, detail) VALUES (?, ?, ?, ?)",
        (seq, item.at, item.kind, json.dumps(item.detail)),
    )


def stored_text(value: str) -> str | bytes:
    """A text as an SQL value; text that is not UTF-8 becomes bytes, which the statement has to cast to TEXT."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogateescape" if _is_escaped(value) else "backslashreplace")
    return value


def _is_escaped(text: str) -> bool:
    """Whether every lone surrogate is an escaped byte (PEP 383)."""
    return all(not "\ud800" <= character <= "\udfff" or "\udc80" <= character <= "\udcff" for character in text)


def _placeholder(value: object) -> str:
    return "CAST(? AS TEXT)" if isinstance(value, bytes) else "?"


def columns_of(job: Job) -> dict[str, Any]:
    """The columns of a job, except those that SQLite fills in or other statements write."""
    row: dict[str, Any] = {name: getattr(job, name) for name in PLAIN_COLUMNS}
    row = {name: stored_text(value) if isinstance(value, str) else value for name, value in row.items()}
    row |= {name: json.dumps(getattr(job, name)) for name in JSON_COLUMNS}
    row |= {f"limit_{name}": getattr(job.limits, name) for name in LIMIT_FIELDS}
    row |= {name: getattr(job.usage, name) for name in USAGE_FIELDS}
    for prefix, identity in (("shim", job.shim), ("recorder", job.recorder)):
        row[f"{prefix}_boot"], row[f"{prefix}_pid"], row[f"{prefix}_start"] = identity_columns(identity)
    stop = job.stop_request
    return row | {
        "monitor": json.dumps(as_dict(job.monitor)),
        "stop_by": stop.by if stop else None,
        "stop_at": stop.at if stop else None,
        "settled": int(job.settled),
        "queue": None if job.queue is None else json.dumps(job.queue.to_json()),
    }


def identity_columns(identity: Identity | None) -> tuple[str | None, int | None, int | None]:
    """The boot, the pid and the start time of a process, or three times NULL."""
    return (None, None, None) if identity is None else (identity.boot, identity.pid, identity.start)
