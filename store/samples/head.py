"""The newest samples of all owners of one kind, as rows: a table that is only ever appended to and trimmed.

Knows nothing of `Database`, so that opening a store can add the columns of new metrics.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter

from jobtop.core.metrics import VALUE, Scope, columns, device_columns
from jobtop.core.model import LIVE, Sample
from jobtop.core.record import record
from jobtop.store.rows import is_sample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Values = tuple[float | int | None, ...]
    Owned = tuple[int, Sample]
    Identified = tuple[int, Owned]


MOST_GROUPS = 8
KNOWN_PATTERNS = 64  # of positions that have values
ROWS_AT_ONCE = 16  # a statement, and counting ids, costs as much as ten columns; older versions bind at most 999 values


@record
class Layout:
    """The tables and keys of the samples of one kind of owner; `is_over` is the SQL for an owner that gets no more.

    `scope` is None where keys are of several scopes or of none. A store that can only be read may be older than
    `since_version`, which made the tables.
    """

    scope: Scope | None
    head: str
    series: str
    blocks: str
    owners: str
    owner: str
    is_over: str
    since_version: int
    keys: tuple[str, ...]


_LIVE = ", ".join(f"'{status}'" for status in sorted(LIVE))
JOBS = Layout(
    Scope.JOB, "head", "series", "blocks", "jobs", "job_seq", f"status NOT IN ({_LIVE})", 2, columns(Scope.JOB)
)
# One row of `hosts` per boot: those before the last are over.
HOSTS = Layout(
    Scope.HOST,
    "host_head",
    "host_series",
    "host_blocks",
    "hosts",
    "host_seq",
    "seq < (SELECT max(seq) FROM hosts)",
    3,
    columns(Scope.HOST),
)
# A device has values only for the keys of its kind.
DEVICES = Layout(
    None,
    "device_head",
    "device_series",
    "device_blocks",
    "devices",
    "device_seq",
    "host_seq < (SELECT max(seq) FROM hosts)",
    7,
    device_columns(),
)
NAMED = Layout(
    None,
    "named_head",
    "named_series",
    "named_blocks",
    "named",
    "named_seq",
    f"job_seq IN (SELECT seq FROM jobs WHERE status NOT IN ({_LIVE}))",
    7,
    (VALUE,),
)
LAYOUTS = (JOBS, HOSTS, DEVICES, NAMED)


def column(key: str) -> str:
    """The name of a key's column."""
    return key.replace(".", "_")


def missing_columns(connection: sqlite3.Connection, layout: Layout = JOBS) -> list[str]:
    """The keys of today's catalogue that a head has no column for; none if there is no such head yet."""
    there = _columns(connection, layout)
    return [key for key in layout.keys if column(key) not in there] if there else []


def add_columns(connection: sqlite3.Connection, *layouts: Layout) -> None:
    """Give each head, or those named, a column for every key of today's catalogue; to be called in a transaction."""
    for layout in layouts or LAYOUTS:
        for key in missing_columns(connection, layout):
            connection.execute(f"ALTER TABLE {layout.head} ADD COLUMN {column(key)} ANY")


def last_id(connection: sqlite3.Connection, layout: Layout) -> int:
    """The greatest id the head ever gave."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (layout.head,)).fetchone()
    return row[0] if row and type(row[0]) is int else 0


def insert(connection: sqlite3.Connection, layout: Layout, rows: Sequence[Owned]) -> list[Identified]:
    """Append samples; each again behind its id. Those of an owner keep their order."""
    inserted: list[Identified] = []
    for wave in _waves(rows):
        for present, group in _grouped(wave, len(layout.keys)):
            _insert_group(connection, layout, present, group)
            # Ids follow one another within a transaction: nobody else writes.
            end = connection.execute("SELECT last_insert_rowid()").fetchone()[0] + 1
            inserted += zip(range(end - len(group), end), group, strict=True)
    return inserted


def _insert_group(
    connection: sqlite3.Connection, layout: Layout, present: tuple[int, ...], group: Sequence[Owned]
) -> None:
    """Rows that have values at the same positions."""
    pick = _picker(present)
    rows = [(owner, sample.elapsed, *pick(sample.values)) for owner, sample in group]
    rest = len(rows) % ROWS_AT_ONCE
    begins = range(rest, len(rows), ROWS_AT_ONCE)
    wide = [tuple(chain.from_iterable(rows[begin : begin + ROWS_AT_ONCE])) for begin in begins]
    for count, values in ((1, rows[:rest]), (ROWS_AT_ONCE, wide)):
        if values:
            connection.executemany(_statement(layout, present, count), values)


@lru_cache(KNOWN_PATTERNS)
def _statement(layout: Layout, present: tuple[int, ...], count: int) -> str:
    """Inserts so many rows that have values at these positions."""
    names = [layout.owner, "elapsed", *(column(layout.keys[position]) for position in present)]
    places = f"({', '.join('?' * len(names))})"
    return f"INSERT INTO {layout.head} ({', '.join(names)}) VALUES {', '.join([places] * count)}"


def select(
    connection: sqlite3.Connection,
    layout: Layout,
    owner: int,
    after_id: int,
    keys: Sequence[str],
    until: float | None = None,
    newest: int | None = None,
) -> list[tuple[int, Sample]]:
    """The rows of an owner behind an id, with the values of these keys; of the newest only so many, if given."""
    there = _columns(connection, layout)
    names = ", ".join(column(key) if column(key) in there else "NULL" for key in keys)
    values: list[float] = [after_id, owner]
    sql = f"SELECT id, elapsed{', ' if names else ''}{names} FROM {layout.head} WHERE id > ? AND {layout.owner} = ?"
    if until is not None:
        sql += " AND elapsed <= ?"
        values.append(until)
    if newest is not None:
        sql += f" ORDER BY id DESC LIMIT {newest:d}"
    cursor = connection.cursor()
    cursor.row_factory = None
    rows = [(row[0], Sample(row[1], row[2:])) for row in cursor.execute(sql, values) if is_sample(row)]
    return rows[::-1] if newest is not None else rows


def trim(connection: sqlite3.Connection, layout: Layout, begin: int, limit: int) -> tuple[int | None, int]:
    """Delete what is sealed, or whose owner is gone, from so many rows on; the id of the last looked at, and how many.

    None, if that was the end of the head.
    """
    table, series, owner = layout.head, layout.series, layout.owner
    sql = f"SELECT max(id), count(*) FROM (SELECT id FROM {table} WHERE id >= ? ORDER BY id LIMIT ?)"
    last, count = connection.execute(sql, (begin, limit)).fetchone()
    if not count:
        return None, 0
    deleted = connection.execute(
        f"DELETE FROM {table} WHERE id BETWEEN ? AND ? AND id <= coalesce("
        f"(SELECT sealed_until FROM {series} WHERE {series}.{owner} = {table}.{owner}), id)",
        (begin, last),
    ).rowcount
    return (last if count == limit else None), deleted


def _columns(connection: sqlite3.Connection, layout: Layout) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({layout.head})")}


def _waves(rows: Sequence[Owned]) -> Iterator[Sequence[Owned]]:
    """The rows cut so that no owner is in a part twice: within a part the order is free."""
    if len({owner for owner, _ in rows}) == len(rows):
        yield rows
        return
    wave: list[Owned] = []
    owners: set[int] = set()
    for row in rows:
        if row[0] in owners:
            yield wave
            wave, owners = [], set()
        wave.append(row)
        owners.add(row[0])
    yield wave


def _grouped(rows: Sequence[Owned], width: int) -> Iterator[tuple[tuple[int, ...], Sequence[Owned]]]:
    """Rows that have values at the same positions, and these.

    Only those are bound: for a None sqlite3 looks for an adapter, which takes ten times as long as binding a number.
    """
    for _ in range(MOST_GROUPS):
        if not rows:
            return
        present = tuple(position for position, value in enumerate(rows[0][1].values) if value is not None)
        rest = _picker(_others(present, width))
        nothing = (None,) * (width - len(present))
        fitting = [row for row in rows if rest(row[1].values) == nothing]
        yield present, fitting
        rows = [row for row in rows if rest(row[1].values) != nothing] if len(fitting) < len(rows) else ()
    if rows:
        yield tuple(range(width)), rows


@lru_cache(KNOWN_PATTERNS)
def _others(positions: tuple[int, ...], width: int) -> tuple[int, ...]:
    return tuple(position for position in range(width) if position not in positions)


@lru_cache(KNOWN_PATTERNS)
def _picker(positions: tuple[int, ...]) -> Callable[[Values], Values]:
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda values: tuple(values[position] for position in positions)
