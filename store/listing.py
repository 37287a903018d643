"""The history for tables: the order of any number of jobs, the visible lines of that order, and groups by name.

To merge the orders of several stores, the sort keys of jobs are read together with their numbers.
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
from jobtop.store.figures import IS_UPPER_BOUND, valid_figures
from jobtop.store.jobs import SEQ_IN_LIST, Query
from jobtop.store.ordering import SORT_KEYS, order_of
from jobtop.store.query_sql import columns_of_jobs, query_costs, querying, tuple_cursor
from jobtop.store.rows import (
    RowChecker,
    are_numbers,
    check_partial_row,
    parse_mapping,
    parse_status,
    parse_text_mapping,
    parse_texts,
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

    Run = tuple[Any, ...]  # the start time and the figures of a job, and whether its memory peak is a lower bound

TREND_RUNS = 20
REMOVED, UNREADABLE = "(removed)", "(unreadable)"
SEQ_BITS = 48
TEXT_KEYS = ("host", "user", "status")
VOCABULARY_JOBS = 1000
ALERTS_SINCE_VERSION = 10  # of the schema
WORD_COLUMNS = ("name", "tool", "host", "user", "script")
PAIR_COLUMNS = {"tag": "tags", "param": "params"}


@record
class JobLine:
    """The columns of a job that a table shows."""

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
    limited_by: str | None = None
    settled: bool = True
    last_heard: float | None = None
    interval_seconds: float | None = None

    def is_stale(self, now: float, host: str) -> bool:
        """Whether the job should be running on another host, and its recorder has sent no heartbeat for long."""
        is_remote = self.status in AT_WORK and self.host != host
        return is_remote and bool(is_silent(self.last_heard, self.interval_seconds, now))

    @property
    def io_bytes(self) -> int | None:
        """Bytes read and written."""
        read, written = self.io_read_bytes, self.io_write_bytes
        return None if read is None or written is None else read + written


@record
class Order:
    """The numbers of the jobs of a query in their order, and the state of the store when they were read.

    `keys` are the values that the jobs are sorted by, if they were requested; jobs without a value come last.
    """

    query: Query
    seqs: array[int]
    state: tuple[int, ...]
    keys: list[Any] | None = None


@record
class Position:
    """A position in the merged order of several stores: after this key and, among jobs with this key, this number."""

    key: Any
    seq: int


@record
class Group:
    """The jobs with one name: their totals, and the durations of the newest ended ones, the oldest first."""

    name: str
    summary: Summary
    trend: tuple[float, ...]


def read_lines(database: Database, seqs: Iterable[int]) -> list[JobLine]:
    """The current lines of some jobs; the line of a deleted job says so."""
    seqs = list(seqs)
    with database.reading() as connection:
        columns = COLUMNS if "limited_by" in columns_of_jobs(connection) else COLUMNS.replace("limited_by", "NULL")
        sql = f"SELECT {columns} FROM jobs WHERE {SEQ_IN_LIST}"
        rows = {row[0]: row for row in tuple_cursor(connection).execute(sql, (json.dumps(seqs),)).fetchall()}
    lines = {line.seq: line for line in database.decode_rows(rows.values(), _line)}
    return [lines.get(seq) or JobLine(seq, "", UNREADABLE if seq in rows else REMOVED, Status.UNKNOWN) for seq in seqs]


def read_order(database: Database, query: Query, before: Order | None = None, with_keys: bool = False) -> Order:
    """The order of the jobs of a query; returns `before`, which is fast, if it is of this query and no job changed."""
    if before is not None and (before.query, before.keys is not None) == (query, with_keys):
        with database.reading() as connection:
            if _state(connection) == before.state:
                return before
    with querying(database, query) as (connection, where, values):
        state = _state(connection)
        cursor = tuple_cursor(connection)
        limit = _limit(query)
        if not with_keys:
            rows = cursor.execute(f"SELECT seq FROM jobs {where} {order_of(query, where)} {limit}", values)
            return Order(query, array("q", chain.from_iterable(rows)), state)
        order = f"{_merge_order(query, where)} {limit}"
        cursor.execute(f"SELECT seq, {merge_key(query.sort)} AS sorted_by FROM jobs {where} {order}", values)
        found = cursor.fetchall()
        seqs, keys = zip(*found, strict=True) if found else ((), ())
        return Order(query, array("q", seqs), state, list(keys))


def read_page(database: Database, query: Query, start: Position | None) -> Order:
    """The first jobs of a query after a position, with their sort keys."""
    key = merge_key(query.sort)
    condition, condition_values = ("", []) if start is None else _follows(start, key, ">" if query.reverse else "<")
    with querying(database, query) as (connection, where, values):
        both = f"{where} {'AND' if where else 'WHERE'} {condition}" if condition else where
        order = f"{_merge_order(query, where)} {_limit(query)}"
        sql = f"SELECT seq, {key} AS sorted_by FROM jobs {both} {order}"
        found = tuple_cursor(connection).execute(sql, (*values, *condition_values)).fetchall()
        state = _state(connection)
    return Order(query, array("q", [seq for seq, _ in found]), state, [key for _, key in found])


def _limit(query: Query) -> str:
    return "" if query.limit is None else f"LIMIT {query.limit:d}"


def _follows(position: Position, key: str, compared: str) -> tuple[str, list[Any]]:
    """The SQL condition for jobs after a position, and its values."""
    if position.key is None:
        return f"({key} IS NULL AND seq {compared} ?)", [position.seq]
    return f"(({key}, seq) {compared} (?, ?) OR {key} IS NULL)", [position.key, position.seq]


def read_key(database: Database, query: Query, seq: int) -> Any:
    """The sort key of one job in the merged order of several stores."""
    with database.reading() as connection, query_costs(connection, query):
        row = connection.execute(f"SELECT {merge_key(query.sort)} FROM jobs WHERE seq = ?", (seq,)).fetchone()
    return None if row is None else row[0]


def merge_orders(orders: Sequence[Order | None]) -> array[int]:
    """Merge the orders of one query from several stores; the result has a `job_number` for each job."""
    present = [(store, order) for store, order in enumerate(orders) if order is not None]
    if len(orders) == 1 and present:
        return present[0][1].seqs
    numbers, keys, numbers_without_key = [], [], []
    for store, order in present:
        assert order.keys is not None
        with_key = len(order.keys) - order.keys.count(None)
        keys += order.keys[:with_key]
        numbers += [job_number(store, seq) for seq in order.seqs[:with_key]]
        numbers_without_key += [job_number(store, seq) for seq in order.seqs[with_key:]]
    is_descending = bool(present) and not present[0][1].query.reverse
    # Python's sort merges sorted parts in linear time.
    positions = sorted(range(len(keys)), key=keys.__getitem__, reverse=is_descending)
    return array("q", [*map(numbers.__getitem__, positions), *numbers_without_key])


def job_number(store: int, seq: int) -> int:
    """One number for a job in one of several stores, from the index of the store; in the first store it is `seq`."""
    return store << SEQ_BITS | seq


def store_and_seq(number: int) -> tuple[int, int]:
    """The index of the store and the number in that store, of a `job_number`."""
    return number >> SEQ_BITS, number & (1 << SEQ_BITS) - 1


def read_runs(database: Database, wanted: Filter | None = None) -> list[Run]:
    """The runs of all jobs that a filter selects, the oldest first."""
    columns = f"start_time, name, status, duration_seconds, cpu_total_seconds, memory_peak_bytes, {IS_UPPER_BOUND}"
    with querying(database, Query(filter=wanted)) as (connection, where, values):
        sql = f"SELECT {columns} FROM jobs {where} ORDER BY start_time"
        rows = tuple_cursor(connection).execute(sql, values).fetchall()
    figures = set(valid_figures([row[1:6] for row in rows]))
    return [row for row in rows if row[1:6] in figures and are_numbers((row[0],))]


def group_by_name(stores: Sequence[list[Run]]) -> list[Group]:
    """The runs of some stores in groups by name; the group with the latest run comes first."""
    runs = stores[0] if len(stores) == 1 else sorted(chain.from_iterable(stores), key=lambda run: run[0] or 0.0)
    figures = [run[1:] for run in runs]
    trends: dict[str | None, deque[float]] = {}
    for name, status, duration, *_ in figures:
        trend = trends.pop(name, None) or deque(maxlen=TREND_RUNS)
        if duration is not None and status not in LIVE:
            trend.append(duration)
        trends[name] = trend
    summaries = statistics(figures).groups
    return [Group(name or "", summaries[name], tuple(trend)) for name, trend in reversed(trends.items())]


def vocabulary(database: Database) -> dict[str, list[str]]:
    """The completions for the words of a filter, by filter key: values of the newest jobs, the newest first."""
    columns = ", ".join((*WORD_COLUMNS, *PAIR_COLUMNS.values(), "flags"))
    with database.reading() as connection:
        rows = connection.execute(
            f"SELECT {columns} FROM jobs ORDER BY seq DESC LIMIT ?", (VOCABULARY_JOBS,)
        ).fetchall()
    known: dict[str, dict[str, None]] = {
        key: dict.fromkeys(row[key] for row in rows if row[key] and type(row[key]) is str) for key in WORD_COLUMNS
    }
    known |= {
        key: dict.fromkeys(chain.from_iterable(database.decode_rows((row[column] for row in rows), _pairs)))
        for key, column in PAIR_COLUMNS.items()
    }
    flags = database.decode_rows((row["flags"] for row in rows), lambda text: parse_texts(text, "flags"))
    known["flag"] = dict.fromkeys(chain.from_iterable(flags))
    known["alert"] = dict.fromkeys(_rules_with_alerts(database))
    return {key: list(words) for key, words in known.items()}


def _rules_with_alerts(database: Database) -> list[str]:
    """The rules of the newest alerts."""
    with database.reading() as connection:
        if not has_tables_of(connection, ALERTS_SINCE_VERSION):
            return []
        sql = "SELECT rule FROM alerts ORDER BY id DESC LIMIT ?"
        return [row[0] for row in connection.execute(sql, (VOCABULARY_JOBS,)) if type(row[0]) is str]


def merge_vocabularies(vocabularies: Iterable[dict[str, list[str]]]) -> dict[str, list[str]]:
    """The completions of several stores, each word once."""
    merged: dict[str, dict[str, None]] = {}
    for known in vocabularies:
        for key, words in known.items():
            merged.setdefault(key, {}).update(dict.fromkeys(words))
    return {key: list(words) for key, words in merged.items()}


def _pairs(text: str) -> list[str]:
    """The keys of tags or parameters, and the pairs KEY=VALUE."""
    pairs = parse_mapping(text, "tags or params")
    return [*pairs, *(f"{key}={text}" for key, item in pairs.items() if (text := as_text(item)))]


def _state(connection: sqlite3.Connection) -> tuple[int, ...]:
    """Numbers that differ after any job was added, changed or deleted."""
    if not has_tables_of(connection, TOUCHED_SINCE_VERSION):
        return tuple(connection.execute("PRAGMA data_version").fetchone())
    sql = "SELECT * FROM (SELECT max(touched) FROM jobs), (SELECT max(seq) FROM jobs), (SELECT count(*) FROM jobs)"
    return tuple(connection.execute(sql).fetchone())


def merge_key(sort: str) -> str:
    """The SQL expression for sort keys that can be compared between stores: job numbers cannot, text can as bytes."""
    if sort == "seq":
        return "coalesce(submitted_at, start_time)"
    column, _, collation = SORT_KEYS[sort].partition(" COLLATE ")
    text = f"lower({column})" if collation else column
    return f"CAST({text} AS BLOB)" if collation or sort in TEXT_KEYS else column


def _merge_order(query: Query, where: str) -> str:
    """The ORDER BY clause for `merge_key`; the plus makes SQLite sort, where walking the index would read every job."""
    direction = "ASC" if query.reverse else "DESC"
    key = f"+{merge_key(query.sort)}" if query.sort == "begun" and where else "sorted_by"
    return f"ORDER BY {key} {direction} NULLS LAST, seq {direction}"


def _line(row: tuple[Any, ...]) -> JobLine:
    check_partial_row(ROW_CHECKER, row)
    values = dict(zip(NAMES, row, strict=True))
    for name, parse in PARSERS.items():
        values[name] = parse(values[name])
    return JobLine(**values)


NAMES = fields(JobLine)
ROW_CHECKER = RowChecker(NAMES)
COMPUTED_COLUMNS = {
    "memory_is_bound": "iif(json_valid(sources), json_extract(sources, '$.memory_peak'), 0) IS 'rusage_floor'",
    "last_heard": "heartbeat",
    "interval_seconds": "iif(json_valid(monitor), json_extract(monitor, '$.interval_seconds'), NULL)",
}
COLUMNS = ", ".join(COMPUTED_COLUMNS.get(name, name) for name in NAMES)
PARSERS: dict[str, Callable[[Any], Any]] = {
    "status": parse_status,
    "flags": lambda text: parse_texts(text, "flags"),
    "tags": lambda text: parse_text_mapping(text, "tags"),
    "memory_is_bound": bool,
    "settled": bool,
}
