"""Jobs, their events and log marks, in and out of the tables."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from jobtop.core.errors import AmbiguousJob, BadValue, RowDamaged, UnknownJob, did_you_mean
from jobtop.core.model import LIVE, Identity, Job
from jobtop.core.record import as_dict, record, replace
from jobtop.core.units import printable
from jobtop.store.database import Database
from jobtop.store.rows import (
    LIMIT_FIELDS,
    PLAIN_COLUMNS,
    USAGE_FIELDS,
    RowChecker,
    are_valid_figures,
    check_figures,
    event_from_row,
    integers,
    job_from_row,
    mark_from_row,
    tags_or_empty,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    from jobtop.core.analysis.statistics import Figures
    from jobtop.core.query.conditions import Filter

    Change = Callable[[Job], tuple[Job, "Iterable[Event]"]]

AS_JSON = ("command", "params", "tags", "flags", "sources", "incomplete", "metrics", "environment")
BEGUN = "coalesce(start_time, submitted_at)"
# Never one that was there before, of a job that is deleted by now: followers would miss it.
NEXT_TOUCH = "(SELECT max(last, (SELECT coalesce(max(touched), 0) FROM jobs)) + 1 FROM touches)"
KNOWN_JOBS = "seq IN (SELECT value FROM json_each(?))"  # where an index has told which they are
GROUPINGS = ("tool", "name", "host")
TAG = "tag:"
SHORTEST_PREFIX = 4
MOST_NAMED = 8


@record
class Query:
    """Which jobs, in what order; every condition must hold."""

    tool: str | None = None
    statuses: tuple[str, ...] = ()
    name_glob: str | None = None
    tag: str | None = None
    since: float | None = None
    filter: Filter | None = None
    sort: str = "seq"
    reverse: bool = False
    limit: int | None = 10
    after: int | None = None  # the number of a job: only those that come behind it in this order


@record
class Event:
    """Something that happened to a job."""

    at: float
    kind: str
    detail: dict[str, Any]


class Jobs:
    """The jobs of one store."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def insert(self, job: Job, *events: Event) -> Job:
        """Keep a new job; the same job with its number."""
        with self.database.writing() as connection:
            return _insert(connection, job, events)

    def change(self, job_id: str, change: Change) -> Job:
        """Read a job, change it and keep it in one transaction, so that nobody's word is lost."""
        with self.database.writing() as connection:
            before = _by_id(connection, job_id)
            if before is None:
                raise UnknownJob(f"job {job_id[:8]} is not in {self.database.path} any more")
            return _update(connection, before, change)

    def insert_or_change(self, job: Job, event: Event, change: Change) -> Job:
        """Keep a job that may or may not be there already, once, whoever else tries at the same time."""
        with self.database.writing() as connection:
            before = _by_id(connection, job.id)
            return _insert(connection, job, (event,)) if before is None else _update(connection, before, change)

    def put_again(self, job: Job, change: Change = lambda row: (row, ())) -> Job:
        """Keep a job in a store that took the place of the one it was in; what that knows of the job is changed."""
        return self.insert_or_change(replace(job, seq=None), event("recorded_again"), change)

    def find(self, reference: str) -> Job:
        """A job by its id, a prefix of that, or its external id."""
        jobs = self.matching(reference)
        if len(jobs) == 1:
            return jobs[0]
        if jobs:
            raise ambiguous(reference, [(job, "") for job in jobs])
        raise unknown(reference, str(self.database.path))

    def matching(self, reference: str) -> list[Job]:
        """The newest jobs with this id or external id, else those whose ids begin so."""
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT * FROM jobs WHERE id = CAST(:reference AS TEXT) OR external_id = CAST(:reference AS TEXT)"
                " ORDER BY seq DESC LIMIT 9",
                {"reference": stored_text(reference)},
            ).fetchall()
            if not rows and len(reference) >= SHORTEST_PREFIX and reference.isascii():
                prefix = reference.lower()
                rows = connection.execute(
                    "SELECT * FROM jobs WHERE id >= ? AND id < ? ORDER BY seq DESC LIMIT 9",
                    (prefix, prefix + "g"),
                ).fetchall()
        found = self.database.sound(rows, job_from_row)
        if rows and not found:
            raise RowDamaged(f"{self.database.path}: {next(reversed(self.database.damaged))}")
        # Who names a job that was tried again means the last attempt.
        return [job for job in found if job.queue is None or job.queue.retried_by is None] or found

    def numbered(self, seqs: Iterable[int]) -> dict[int, Job]:
        """Jobs by their numbers; those that are gone are left out."""
        with self.database.reading() as connection:
            sql = "SELECT * FROM jobs WHERE seq IN (SELECT value FROM json_each(?))"
            rows = connection.execute(sql, (json.dumps(list(seqs)),)).fetchall()
        return {job.seq: job for job in self.database.sound(rows, job_from_row) if job.seq is not None}

    def select(self, query: Query) -> list[Job]:
        """The jobs that fit, the newest or the largest first; others in the place of those that cannot be read."""
        found: list[Job] = []
        asked = query
        while True:
            rows = self._rows(asked)
            found += self.database.sound(rows, job_from_row)
            if query.limit is None or asked.limit is None or len(rows) < asked.limit or len(found) >= query.limit:
                return found[: query.limit]
            asked = replace(asked, after=rows[-1]["seq"], limit=2 * asked.limit)

    def _rows(self, query: Query) -> list[sqlite3.Row]:
        from jobtop.store.ordering import order_of, stretches, walking

        rows: list[sqlite3.Row] = []
        with asking(self.database, query) as (connection, asked, values):
            where = walking(query, asked, values)
            order = order_of(query, where)
            for condition, numbers in stretches(connection, query, where):
                limit = "" if query.limit is None else f"LIMIT {query.limit - len(rows):d}"
                both = " AND ".join(filter(None, (condition, where.removeprefix("WHERE "))))
                # The chosen are found in an index, and only they are read.
                chosen = f"SELECT seq FROM jobs {'WHERE ' if both else ''}{both} {order} {limit}"
                sql = f"SELECT * FROM jobs WHERE seq IN ({chosen}) {order}"
                rows += connection.execute(sql, (*numbers, *values)).fetchall()
        return rows

    def count(self, query: Query) -> int:
        """How many jobs fit, however many are asked for."""
        with asking(self.database, query) as (connection, where, values):
            return int(connection.execute(f"SELECT count(*) FROM jobs {where}", values).fetchone()[0])

    def ids_of(self, query: Query) -> list[str]:
        """The ids of all that fit, in no order."""
        with asking(self.database, query) as (connection, where, values):
            return [row[0] for row in connection.execute(f"SELECT id FROM jobs {where}", values)]

    def figures(
        self, since: float | None, by: str, wanted: Filter | None = None, seen: set[str] | None = None
    ) -> list[Figures]:
        """What statistics need of every job begun since, the oldest first, labelled by one of the groupings.

        But for those whose ids were seen already; all were afterwards.
        """
        column = "tags" if by.startswith(TAG) else by
        names = ("seq", "id", column, "status", "duration_seconds", "cpu_total_seconds", "memory_peak_bytes")
        with asking(self.database, Query(since=since, filter=wanted)) as (connection, where, values):
            cursor = connection.cursor()
            cursor.row_factory = None
            sql = f"SELECT {', '.join(names)} FROM jobs {where} ORDER BY start_time"
            rows = cursor.execute(sql, values).fetchall()
        if not are_valid_figures(rows):
            checker = RowChecker(names)
            rows = self.database.sound(rows, lambda row: check_figures(checker, row))
        if seen is not None:
            rows = [row for row in rows if row[1] not in seen]
            seen.update(row[1] for row in rows)
        rows = [row[2:] for row in rows]
        if column == "tags":
            labels = {tags: tags_or_empty(tags).get(by.removeprefix(TAG)) for tags in {row[0] for row in rows}}
            return [(labels[tags], *numbers) for tags, *numbers in rows]
        return rows

    def touched_since(self, touch: int) -> tuple[list[Job], int]:
        """Jobs that came or changed after a number, and the number to ask for next."""
        with self.database.reading() as connection:
            rows = connection.execute("SELECT * FROM jobs WHERE touched > ? ORDER BY touched", (touch,)).fetchall()
        return self.database.sound(rows, job_from_row), max((touch, *integers(row["touched"] for row in rows)))

    def live_and_recent(self, recent: int) -> tuple[list[Job], int]:
        """Jobs that have not ended and the newest that have, and the number to ask for changes from."""
        live = ", ".join(f"'{status}'" for status in sorted(LIVE))
        with self.database.reading() as connection:
            touch = connection.execute("SELECT coalesce(max(touched), 0) FROM jobs").fetchone()[0]
            rows = connection.execute(f"SELECT * FROM jobs WHERE status IN ({live}) ORDER BY seq").fetchall()
            rows += connection.execute(
                f"SELECT * FROM jobs WHERE status NOT IN ({live}) ORDER BY {BEGUN} DESC, seq DESC LIMIT ?", (recent,)
            ).fetchall()
        return self.database.sound(rows, job_from_row), max((0, *integers((touch,))))

    def ids(self, prefix: str) -> list[tuple[str, str]]:
        """The newest ids with this beginning, and their names: what a shell can complete to."""
        if not prefix.isascii():
            return []
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT id, name FROM jobs WHERE id >= ? AND id < ? ORDER BY seq DESC LIMIT 30", (prefix, prefix + "g")
            ).fetchall()
        return [(row["id"], row["name"]) for row in rows]

    def unsettled(self, host: str, but_by: Identity | None = None) -> list[Job]:
        """The jobs of a host that began and whose totals are not final, but for those that this process records."""
        who = (None, None, None) if but_by is None else (but_by.pid, but_by.boot, but_by.start)
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT * FROM jobs WHERE settled = 0 AND host = ?"
                " AND NOT (status = 'queued' AND recorder_pid IS NULL AND shim_pid IS NULL)"
                " AND NOT (coalesce(recorder_pid = ?, 0) AND recorder_boot IS ? AND recorder_start IS ?)",
                (host, *who),
            ).fetchall()
        return self.database.sound(rows, job_from_row)

    def has_series(self, seq: int) -> bool:
        """Whether samples of a job are stored."""
        with self.database.reading() as connection:
            return connection.execute("SELECT 1 FROM series WHERE job_seq = ?", (seq,)).fetchone() is not None

    def has_host(self, host: str) -> bool:
        """Whether a job of this host is stored."""
        with self.database.reading() as connection:
            return connection.execute("SELECT 1 FROM jobs WHERE host = ? LIMIT 1", (host,)).fetchone() is not None

    def live_counts(self, host: str) -> list[tuple[str, int]]:
        """How many jobs of a host have each status that is not an end."""
        live = ", ".join(f"'{status}'" for status in sorted(LIVE))
        sql = f"SELECT status, count(*) FROM jobs WHERE settled = 0 AND host = ? AND status IN ({live}) GROUP BY status"
        with self.database.reading() as connection:
            return [tuple(row) for row in connection.execute(sql, (host,)).fetchall()]

    def events(self, job: Job) -> list[Event]:
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT at, kind, detail FROM events WHERE job_seq = ? ORDER BY id", (job.seq,)
            ).fetchall()
        return [Event(*values) for values in self.database.sound(rows, event_from_row)]

    def add_events(self, events: Iterable[tuple[int, Event]]) -> None:
        """Keep what happened to jobs, by their numbers."""
        with self.database.writing() as connection:
            for seq, item in events:
                _add_event(connection, seq, item)

    def keep_marks(self, job: Job, marks: Iterable[tuple[float, int, int | None]]) -> None:
        """Keep how long the logs were when; those already kept stay."""
        with self.database.writing() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO log_marks VALUES (?, ?, ?, ?)", [(job.seq, *mark) for mark in marks]
            )

    def marks(self, job: Job) -> list[tuple[float, int, int | None]]:
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT elapsed_seconds, stdout_bytes, stderr_bytes FROM log_marks WHERE job_seq = ?"
                " ORDER BY elapsed_seconds",
                (job.seq,),
            ).fetchall()
        return self.database.sound(rows, mark_from_row)

    def delete(self, job: Job) -> None:
        with self.database.writing() as connection:
            connection.execute("UPDATE touches SET last = max(last, (SELECT max(touched) FROM jobs))")
            connection.execute("DELETE FROM jobs WHERE seq = ?", (job.seq,))


@contextmanager
def asking(database: Database, query: Query) -> Iterator[tuple[sqlite3.Connection, str, list[Any]]]:
    """A read transaction in which a query can be asked: its condition, which may be empty, and the values in that."""
    if query.filter is None:
        with database.reading() as connection:
            yield connection, *_where(query)
        return
    from jobtop.store.filtering import filtering
    from jobtop.store.search import can_help, catch_up

    if can_help(query.filter.conditions):
        catch_up(database)
    with database.reading() as connection, filtering(connection, query.filter) as terms:
        yield connection, *_where(query, terms)


def ambiguous(reference: str, found: Sequence[tuple[Job, str]]) -> AmbiguousJob:
    """That several jobs fit: which, and where each of them is."""
    candidates = ", ".join(f"{job.id[:13]} ({printable(job.name)}){where}" for job, where in found[:MOST_NAMED])
    more = ", …" if len(found) > MOST_NAMED else ""
    return AmbiguousJob(f'"{printable(reference)}" fits several jobs: {candidates}{more}')


def unknown(reference: str, where: str) -> UnknownJob:
    """That no job fits."""
    shown = printable(reference)
    if len(reference) < SHORTEST_PREFIX:
        return UnknownJob(f'no job "{shown}": give at least {SHORTEST_PREFIX} characters of its id (jobtop history)')
    if reference.strip("0123456789abcdefABCDEF-"):
        import shlex

        words = shlex.quote(f"name:{shown}")
        return UnknownJob(f'no job "{shown}" in {where}: an id is wanted (for a name: jobtop history {words})')
    return UnknownJob(f'no job "{shown}" in {where} (jobtop history lists them)')


def grouping(word: str) -> str:
    """One of the ways jobs can be put into groups."""
    if word not in GROUPINGS and (not word.startswith(TAG) or word == TAG):
        hint = did_you_mean(word, GROUPINGS)
        raise BadValue(f'--by: "{printable(word)}" is no grouping{hint}; there are {", ".join(GROUPINGS)}, {TAG}KEY')
    return word


def event(kind: str, **detail: Any) -> Event:
    """Something that happens now."""
    return Event(time.time(), kind, detail)


def _by_id(connection: sqlite3.Connection, job_id: str) -> Job | None:
    row = connection.execute("SELECT * FROM jobs WHERE id = ?", (job_id,)).fetchone()
    return None if row is None else job_from_row(row)


def _insert(connection: sqlite3.Connection, job: Job, events: Iterable[Event]) -> Job:
    row = columns_of(job)
    marks = ", ".join(map(_mark, row.values()))
    names = ", ".join((*row, "touched"))
    cursor = connection.execute(f"INSERT INTO jobs ({names}) VALUES ({marks}, {NEXT_TOUCH})", tuple(row.values()))
    job = replace(job, seq=cursor.lastrowid)
    _add_events(connection, job, events)
    return job


def _update(connection: sqlite3.Connection, before: Job, change: Change) -> Job:
    job, events = change(before)
    if job != before:
        row = columns_of(job)
        assignments = ", ".join(f"{name} = {_mark(value)}" for name, value in row.items())
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


def _where(query: Query, terms: Iterable[tuple[str, list[Any]]] = ()) -> tuple[str, list[Any]]:
    conditions: list[tuple[str, list[Any]]] = []
    if query.tool is not None:
        conditions.append(("tool = CAST(? AS TEXT)", [query.tool]))
    if query.statuses:
        conditions.append((f"status IN ({', '.join('?' * len(query.statuses))})", [*query.statuses]))
    if query.name_glob is not None:
        conditions.append(("name GLOB CAST(? AS TEXT)", [query.name_glob]))
    if query.since is not None:
        # The plus: the index in this order has nothing else of a job.
        conditions.append((f"+{BEGUN} >= ?", [query.since]))
    if query.tag is not None:
        key, has_value, value = query.tag.partition("=")
        tags = "json_each(iif(json_valid(jobs.tags), jobs.tags, '{}'))"
        condition = f"EXISTS (SELECT 1 FROM {tags} WHERE key = CAST(? AS TEXT)"
        condition += " AND value = CAST(? AS TEXT))" if has_value else ")"
        # json_each writes the lone surrogates of a JSON text as three bytes each.
        words = [key, value] if has_value else [key]
        conditions.append((condition, [word.encode("utf-8", "surrogatepass") for word in words]))
    conditions += terms
    values = [stored_text(value) if isinstance(value, str) else value for _, group in conditions for value in group]
    return ("WHERE " + " AND ".join(sql for sql, _ in conditions) if conditions else ""), values


def stored_text(value: str) -> str | bytes:
    """Text as SQLite takes it; bytes of the outside world that are no UTF-8 go in as they are, to be cast."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogateescape" if _is_escaped(value) else "backslashreplace")
    return value


def _is_escaped(text: str) -> bool:
    """Whether every lone surrogate stands for a byte (PEP 383)."""
    return all(not "\ud800" <= character <= "\udfff" or "\udc80" <= character <= "\udcff" for character in text)


def _mark(value: object) -> str:
    return "CAST(? AS TEXT)" if isinstance(value, bytes) else "?"


def columns_of(job: Job) -> dict[str, Any]:
    """A job as a row of its table, but for what the table gives and what others write."""
    row: dict[str, Any] = {name: getattr(job, name) for name in PLAIN_COLUMNS}
    row = {name: stored_text(value) if isinstance(value, str) else value for name, value in row.items()}
    row |= {name: json.dumps(getattr(job, name)) for name in AS_JSON}
    row |= {f"limit_{name}": getattr(job.limits, name) for name in LIMIT_FIELDS}
    row |= {name: getattr(job.usage, name) for name in USAGE_FIELDS}
    for prefix, who in (("shim", job.shim), ("recorder", job.recorder)):
        row[f"{prefix}_boot"], row[f"{prefix}_pid"], row[f"{prefix}_start"] = (
            (who.boot, who.pid, who.start) if who is not None else (None, None, None)
        )
    asked = job.stop_request
    return row | {
        "monitor": json.dumps(as_dict(job.monitor)),
        "stop_by": asked.by if asked else None,
        "stop_at": asked.at if asked else None,
        "settled": int(job.settled),
        "queue": None if job.queue is None else json.dumps(job.queue.to_json()),
    }
