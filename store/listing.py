"""The history as tables show it: any number of jobs in some order, read where somebody looks; or grouped by name.

Jobs of several stores are put into one order by what they are sorted by, which is read with their numbers.
"""

from __future__ import annotations

import json
from array import array
from collections import deque
from itertools import chain

from jobtop.core.analysis.statistics import statistics
from jobtop.core.model import AT_WORK, LIVE, Status, is_silent
from jobtop.core.query.conditions import as_text
from jobtop.core.record import fields, fresh, record
from jobtop.store.jobs import Query, asking
from jobtop.store.ordering import SORT_KEYS, order_of
from jobtop.store.rows import (
    RowChecker,
    are_numbers,
    check_partial_row,
    parse_mapping,
    parse_status,
    parse_text_mapping,
    parse_texts,
    valid_figures,
)
from jobtop.store.samples.live import TOUCHED_SINCE_VERSION
from jobtop.store.schema import has_tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from jobtop.core.analysis.statistics import Summary
    from jobtop.core.query.conditions import Filter
    from jobtop.store.database import Database

    Run = tuple[Any, ...]

TREND = 20
REMOVED, UNREADABLE = "(removed)", "(unreadable)"
SEQ_BITS = 48
TEXT_KEYS = ("host", "user", "status")
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
    last_heard: float | None = None
    interval_seconds: float | None = None

    def is_stale(self, now: float, host: str) -> bool:
        """Whether its job lives elsewhere by its record, and was not heard of for long."""
        is_elsewhere = self.status in AT_WORK and self.host != host
        return is_elsewhere and bool(is_silent(self.last_heard, self.interval_seconds, now))

    @property
    def io_bytes(self) -> int | None:
        """Read and written."""
        read, written = self.io_read_bytes, self.io_write_bytes
        return None if read is None or written is None else read + written


@record
class Order:
    """The numbers of the jobs of a query in their order, as it was in some state of the store.

    `keys` are what they are sorted by, if that was asked for; those that have none are last.
    """

    query: Query
    seqs: array[int]
    state: tuple[int, ...]
    keys: list[Any] | None = None


@record
class Place:
    """A place in the order of several stores: behind this key, and among those that have it behind this number."""

    key: Any
    seq: int


@record
class Group:
    """The jobs of one name: what they add up to, and how long the newest that have ended took, the oldest first.

    Where one of the memory peaks is only a bound, so are their percentiles.
    """

    name: str
    summary: Summary
    trend: tuple[float, ...]
    memory_is_bound: bool = False


def read_lines(database: Database, seqs: Iterable[int]) -> list[JobLine]:
    """The lines of some jobs as they are now; one whose job was removed says so."""
    seqs = list(seqs)
    with database.reading() as connection:
        cursor = connection.cursor()
        cursor.row_factory = None
        sql = f"SELECT {COLUMNS} FROM jobs WHERE seq IN (SELECT value FROM json_each(?))"
        found = {row[0]: row for row in cursor.execute(sql, (json.dumps(seqs),)).fetchall()}
    sound = {line.seq: line for line in database.sound(found.values(), _line)}
    return [sound.get(seq) or JobLine(seq, "", UNREADABLE if seq in found else REMOVED, Status.UNKNOWN) for seq in seqs]


def read_order(database: Database, query: Query, before: Order | None = None, with_keys: bool = False) -> Order:
    """The jobs of a query in their order; the one before again, and that soon, if it was of this and no job changed."""
    if before is not None and (before.query, before.keys is not None) == (query, with_keys):
        with database.reading() as connection:
            if _state(connection) == before.state:
                return before
    with asking(database, query) as (connection, where, values):
        state = _state(connection)
        cursor = connection.cursor()
        cursor.row_factory = None
        limit = "" if query.limit is None else f"LIMIT {query.limit:d}"
        if not with_keys:
            rows = cursor.execute(f"SELECT seq FROM jobs {where} {order_of(query, where)} {limit}", values)
            return Order(query, array("q", chain.from_iterable(rows)), state)
        order = f"{_merge_order(query, where)} {limit}"
        cursor.execute(f"SELECT seq, {merge_key(query.sort)} AS sorted_by FROM jobs {where} {order}", values)
        found = cursor.fetchall()
        seqs, keys = zip(*found, strict=True) if found else ((), ())
        return Order(query, array("q", seqs), state, list(keys))


def read_page(database: Database, query: Query, behind: Place | None) -> Order:
    """The first jobs of a query that are behind a place, with what they are sorted by."""
    key = merge_key(query.sort)
    condition, numbers = ("", []) if behind is None else _behind(behind, key, ">" if query.reverse else "<")
    with asking(database, query) as (connection, where, values):
        cursor = connection.cursor()
        cursor.row_factory = None
        both = f"{where} {'AND' if where else 'WHERE'} {condition}" if condition else where
        limit = "" if query.limit is None else f"LIMIT {query.limit:d}"
        order = f"{_merge_order(query, where)} {limit}"
        sql = f"SELECT seq, {key} AS sorted_by FROM jobs {both} {order}"
        found = cursor.execute(sql, (*values, *numbers)).fetchall()
        state = _state(connection)
    return Order(query, array("q", [seq for seq, _ in found]), state, [key for _, key in found])


def _behind(place: Place, key: str, compared: str) -> tuple[str, list[Any]]:
    if place.key is None:
        return f"({key} IS NULL AND seq {compared} ?)", [place.seq]
    return f"(({key}, seq) {compared} (?, ?) OR {key} IS NULL)", [place.key, place.seq]


def read_key(database: Database, sort: str, seq: int) -> Any:
    """What one job is sorted by among those of several stores."""
    with database.reading() as connection:
        row = connection.execute(f"SELECT {merge_key(sort)} FROM jobs WHERE seq = ?", (seq,)).fetchone()
    return None if row is None else row[0]


def merged(orders: Sequence[Order | None]) -> array[int]:
    """The jobs of several orders of one query in one, each by its `job_number`."""
    present = [(place, order) for place, order in enumerate(orders) if order is not None]
    if len(orders) == 1 and present:
        return present[0][1].seqs
    numbers, keys, keyless = [], [], []
    for place, order in present:
        assert order.keys is not None
        known = len(order.keys) - order.keys.count(None)
        keys += order.keys[:known]
        numbers += [job_number(place, seq) for seq in order.seqs[:known]]
        keyless += [job_number(place, seq) for seq in order.seqs[known:]]
    is_descending = bool(present) and not present[0][1].query.reverse
    # Parts that are in order already are merged in the time it takes to read them.
    positions = sorted(range(len(keys)), key=keys.__getitem__, reverse=is_descending)
    return array("q", [*map(numbers.__getitem__, positions), *keyless])


def job_number(place: int, seq: int) -> int:
    """One number for the job of a store that has a place among several; of the first it is the job's own."""
    return place << SEQ_BITS | seq


def place_and_seq(number: int) -> tuple[int, int]:
    """What `job_number` was made of."""
    return number >> SEQ_BITS, number & (1 << SEQ_BITS) - 1


def read_runs(database: Database, wanted: Filter | None = None) -> list[Run]:
    """What groups are made of: when each job that is wanted began, and its figures; the oldest first."""
    columns = (
        "start_time, name, status, duration_seconds, cpu_total_seconds, memory_peak_bytes,"
        " instr(sources, 'rusage_floor') > 0"
    )
    with asking(database, Query(filter=wanted)) as (connection, where, values):
        cursor = connection.cursor()
        cursor.row_factory = None
        rows = cursor.execute(f"SELECT {columns} FROM jobs {where} ORDER BY start_time", values).fetchall()
    figures = set(valid_figures([row[1:6] for row in rows]))
    return [row for row in rows if row[1:6] in figures and are_numbers((row[0],))]


def grouped(stores: Sequence[list[Run]]) -> list[Group]:
    """The jobs of some stores by their names, the name that ran last first."""
    runs = stores[0] if len(stores) == 1 else sorted(chain.from_iterable(stores), key=lambda run: run[0] or 0.0)
    figures, bounds = [run[1:6] for run in runs], {run[1] for run in runs if run[6]}
    trends: dict[str | None, deque[float]] = {}
    for name, status, duration, _, _ in figures:
        trend = trends.pop(name, None) or deque(maxlen=TREND)
        if duration is not None and status not in LIVE:
            trend.append(duration)
        trends[name] = trend
    summaries = statistics(figures).groups
    return [
        Group(name or "", summaries[name], tuple(trend), name in bounds) for name, trend in reversed(trends.items())
    ]


def vocabulary(database: Database) -> dict[str, list[str]]:
    """What words of a filter can be completed to, by their keys: what the newest jobs have, the newest first."""
    columns = ", ".join((*WORDS, *PAIRS.values(), "flags"))
    with database.reading() as connection:
        rows = connection.execute(f"SELECT {columns} FROM jobs ORDER BY seq DESC LIMIT ?", (RECENT,)).fetchall()
    known: dict[str, dict[str, None]] = {
        key: dict.fromkeys(row[key] for row in rows if row[key] and type(row[key]) is str) for key in WORDS
    }
    known |= {
        key: dict.fromkeys(chain.from_iterable(database.sound((row[column] for row in rows), _pairs)))
        for key, column in PAIRS.items()
    }
    flags = database.sound((row["flags"] for row in rows), lambda text: parse_texts(text, "flags"))
    known["flag"] = dict.fromkeys(chain.from_iterable(flags))
    return {key: list(words) for key, words in known.items()}


def together(vocabularies: Iterable[dict[str, list[str]]]) -> dict[str, list[str]]:
    """The words of several stores."""
    words: dict[str, dict[str, None]] = {}
    for known in vocabularies:
        for key, found in known.items():
            words.setdefault(key, {}).update(dict.fromkeys(found))
    return {key: list(found) for key, found in words.items()}


def _pairs(text: str) -> list[str]:
    """The keys of tags or parameters, and those with their values."""
    pairs = parse_mapping(text, "tags or params")
    return [*pairs, *(f"{key}={as_text(item)}" for key, item in pairs.items())]


def _state(connection: sqlite3.Connection) -> tuple[int, ...]:
    """What is different after any change of any job: one that comes has a new number, one that goes is missed."""
    if not has_tables_of(connection, TOUCHED_SINCE_VERSION):
        return tuple(connection.execute("PRAGMA data_version").fetchone())
    sql = "SELECT * FROM (SELECT max(touched) FROM jobs), (SELECT max(seq) FROM jobs), (SELECT count(*) FROM jobs)"
    return tuple(connection.execute(sql).fetchone())


def merge_key(sort: str) -> str:
    """What is compared with that of another store, whose own numbers say nothing; text as SQLite compares it."""
    if sort == "seq":
        return "coalesce(submitted_at, start_time)"
    column, _, collation = SORT_KEYS[sort].partition(" COLLATE ")
    text = f"lower({column})" if collation else column
    return f"CAST({text} AS BLOB)" if collation or sort in TEXT_KEYS else column


def _merge_order(query: Query, where: str) -> str:
    """The order by that; with a plus where walking from the newest on would read every job to see whether it fits."""
    direction = "ASC" if query.reverse else "DESC"
    key = f"+{merge_key(query.sort)}" if query.sort == "begun" and where else "sorted_by"
    return f"ORDER BY {key} {direction} NULLS LAST, seq {direction}"


def _line(row: tuple[Any, ...]) -> JobLine:
    check_partial_row(ROW_CHECKER, row)
    values = dict(zip(NAMES, row, strict=True))
    for name, read in READ_BY.items():
        values[name] = read(values[name])
    return JobLine(**values)


NAMES = fields(JobLine)
ROW_CHECKER = RowChecker(NAMES)
FROM_OTHERS = {
    "memory_is_bound": "iif(json_valid(sources), json_extract(sources, '$.memory_peak'), 0) IS 'rusage_floor'",
    "last_heard": "heartbeat",
    "interval_seconds": "iif(json_valid(monitor), json_extract(monitor, '$.interval_seconds'), NULL)",
}
COLUMNS = ", ".join(FROM_OTHERS.get(name, name) for name in NAMES)
READ_BY: dict[str, Callable[[Any], Any]] = {
    "status": parse_status,
    "flags": lambda text: parse_texts(text, "flags"),
    "tags": lambda text: parse_text_mapping(text, "tags"),
    "memory_is_bound": bool,
    "settled": bool,
}
