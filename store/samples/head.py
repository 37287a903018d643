"""The newest samples of all owners of one kind, as rows: a table that is only ever appended to and trimmed.

A row has the values of one owner; or, with the owner 0, a list of owners whose values are those of the sample before,
each with its moment: many jobs wait most of the time, and such a list costs a quarter of as many rows.
Knows nothing of `Database`, so that opening a store can add the columns of new metrics.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter

from jobtop.core.metrics import VALUE, Scope, columns, device_columns
from jobtop.core.model import LIVE, Sample
from jobtop.core.record import record
from jobtop.store.rows import is_number, is_sample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeGuard

    Values = tuple[float | int | None, ...]
    Owned = tuple[int, Sample]
    Identified = tuple[int, Owned]
    Entry = tuple[int, float, Values | None]  # id, moment, and values unless they are those of the sample before


MOST_GROUPS = 8
KNOWN_PATTERNS = 64  # of positions that have values
MOST_UNCHANGED_BYTES = 1024 * 1024  # of a row that is read: a file from elsewhere may have any
ENTRY_BYTES = 16  # an owner and a moment
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
    """Append samples of different owners, in any order; each again behind its id."""
    inserted: list[Identified] = []
    for present, group in _grouped(rows, len(layout.keys)):
        _insert_group(connection, layout, present, group)
        # Ids follow one another within a transaction: nobody else writes.
        end = connection.execute("SELECT last_insert_rowid()").fetchone()[0] + 1
        inserted += zip(range(end - len(group), end), group, strict=True)
    return inserted


def insert_unchanged(connection: sqlite3.Connection, layout: Layout, rows: Sequence[Owned]) -> int:
    """Append one row for samples of different owners that have the values of the samples before; its id."""
    count, moments = len(rows), [sample.elapsed for _, sample in rows]
    data = struct.pack(f"<{count}q{count}d", *(owner for owner, _ in rows), *moments)
    sql = f"INSERT INTO {layout.head} ({layout.owner}, elapsed, unchanged) VALUES (0, ?, ?)"
    return connection.execute(sql, (moments[0], data)).lastrowid or 0


def unchanged_in(data: object) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The owners and the moments that such a row lists; none if it is damaged."""
    if not _is_list(data):
        return (), ()
    count = len(data) // ENTRY_BYTES
    numbers = struct.unpack(f"<{count}q{count}d", data)
    return numbers[:count], numbers[count:]


def moment_in(data: object, owner: int) -> float | None:
    """The moment of one owner in such a row; None if it is not listed."""
    if not _is_list(data):
        return None
    wanted, middle = struct.pack("<q", owner), len(data) // 2
    place = data.find(wanted, 0, middle)
    while place > 0 and place % len(wanted):
        place = data.find(wanted, place + 1, middle)
    if place < 0:
        return None
    moment: float = struct.unpack_from("<d", data, middle + place)[0]
    return moment if is_number(moment) else None


def _is_list(data: object) -> TypeGuard[bytes]:
    return type(data) is bytes and len(data) % ENTRY_BYTES == 0 and len(data) <= MOST_UNCHANGED_BYTES


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
    until: float = float("inf"),
    newest: int | None = None,
) -> list[Entry]:
    """The samples of an owner behind an id, with the values of these keys unless they are those of the sample before.

    Of the newest only so many, if given, and those before whose values they have.
    """
    sql = f"SELECT id, elapsed, {named_columns(connection, layout, keys)} FROM {layout.head}"
    sql += f" WHERE id > ? AND {layout.owner} IN (?, 0) ORDER BY id {'' if newest is None else 'DESC'}"
    cursor = connection.cursor()
    cursor.row_factory = None
    found: list[Entry] = []
    for row in cursor.execute(sql, (after_id, owner)):
        moment = row[1] if row[2] is None else moment_in(row[2], owner)
        if moment is None or (row[2] is None and not is_sample(row)) or moment > until:
            continue
        found.append((row[0], moment, row[3:] if row[2] is None else None))
        if newest is not None and len(found) >= newest and row[2] is None:
            break
    cursor.close()
    return found if newest is None else found[::-1]


def named_columns(connection: sqlite3.Connection, layout: Layout, keys: Sequence[str]) -> str:
    """What to select of a head: the list of a row that has one, then the values of these keys, absent in others."""
    there = _columns(connection, layout)
    names = [column(key) if column(key) in there else "NULL" for key in keys]
    # A store that is older and can only be read has no such lists.
    listed = f"iif({layout.owner} = 0, coalesce(unchanged, x''), NULL)" if "unchanged" in there else "NULL"
    return ", ".join((listed, *names))


def last_values(
    connection: sqlite3.Connection, layout: Layout, owner: int, after_id: int, until_id: int, keys: Sequence[str]
) -> Values | None:
    """The newest values of an owner that have a row with an id in this range; None if there is none."""
    sql = f"SELECT id, elapsed, {named_columns(connection, layout, keys)} FROM {layout.head}"
    sql += f" WHERE id > ? AND id <= ? AND {layout.owner} = ? ORDER BY id DESC LIMIT 1"
    row = connection.execute(sql, (after_id, until_id, owner)).fetchone()
    return tuple(row)[3:] if row is not None and is_sample(tuple(row)) else None


def count(connection: sqlite3.Connection, layout: Layout, owner: int, after_id: int) -> int:
    """How many samples of an owner behind an id the head has, those that cannot be read included."""
    sql = f"SELECT {named_columns(connection, layout, ())} FROM {layout.head} WHERE id > ? AND {layout.owner} IN (?, 0)"
    rows = connection.execute(sql, (after_id, owner))
    return sum(data is None or moment_in(data, owner) is not None for (data,) in rows)


def unsealed_owners(connection: sqlite3.Connection, layout: Layout) -> set[int]:
    """The owners that have samples behind their last block."""
    sql = f"SELECT DISTINCT {layout.owner} FROM {layout.head} JOIN {layout.series} USING ({layout.owner})"
    found = {row[0] for row in connection.execute(f"{sql} WHERE id > sealed_until")}
    newest = {
        data[: len(data) // 2]: identifier for identifier, data in _lists(connection, layout, 0) if _is_list(data)
    }
    last: dict[int, int] = {}
    for owners, identifier in sorted(newest.items(), key=itemgetter(1)):
        last |= dict.fromkeys(struct.unpack(f"<{len(owners) // 8}q", owners), identifier)
    until = _sealed_until(connection, layout, last.keys() - found)
    return found | {owner for owner, sealed in until.items() if sealed < last[owner]}


def unsealed_samples(connection: sqlite3.Connection, layout: Layout) -> int:
    """How many samples there are behind the last blocks of their owners."""
    sql = f"SELECT count(*) FROM {layout.head} JOIN {layout.series} USING ({layout.owner}) WHERE id > sealed_until"
    rows = int(connection.execute(sql).fetchone()[0])
    lists = [(identifier, unchanged_in(data)[0]) for identifier, data in _lists(connection, layout, 0)]
    until = _sealed_until(connection, layout, {owner for _, owners in lists for owner in owners})
    return rows + sum(until.get(owner, identifier) < identifier for identifier, owners in lists for owner in owners)


def _lists(connection: sqlite3.Connection, layout: Layout, after_id: int) -> list[tuple[int, object]]:
    """The rows behind an id that list owners, by id."""
    if "unchanged" not in _columns(connection, layout):
        return []
    sql = f"SELECT id, unchanged FROM {layout.head} WHERE id > ? AND {layout.owner} = 0 ORDER BY id"
    return [tuple(row) for row in connection.execute(sql, (after_id,))]


def _sealed_until(connection: sqlite3.Connection, layout: Layout, owners: Iterable[int]) -> dict[int, int]:
    """The last id in a block of each of some owners; those that are gone are left out."""
    sql = f"SELECT {layout.owner}, sealed_until FROM {layout.series}"
    sql += f" WHERE {layout.owner} IN (SELECT value FROM json_each(?))"
    return {row[0]: row[1] for row in connection.execute(sql, (json.dumps(list(owners)),)) if type(row[1]) is int}


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
        f"DELETE FROM {table} WHERE id BETWEEN ? AND ? AND {owner} <> 0 AND id <= coalesce("
        f"(SELECT sealed_until FROM {series} WHERE {series}.{owner} = {table}.{owner}), id)",
        (begin, last),
    ).rowcount
    deleted += _trim_lists(connection, layout, begin, last)
    return (last if count == limit else None), deleted


def _trim_lists(connection: sqlite3.Connection, layout: Layout, begin: int, last: int) -> int:
    """Delete the rows in a range that list owners all of which are sealed beyond, or gone; how many."""
    sql = f"SELECT id, unchanged FROM {layout.head} WHERE id BETWEEN ? AND ? AND {layout.owner} = 0"
    needed_after: dict[bytes, int] = {}  # by owners, which are the same for many rows
    sealed: list[tuple[int]] = []
    for identifier, data in connection.execute(sql, (begin, last)).fetchall():
        owners = data[: len(data) // 2] if _is_list(data) else b""
        if owners not in needed_after:
            until = _sealed_until(connection, layout, struct.unpack(f"<{len(owners) // 8}q", owners))
            needed_after[owners] = min(until.values(), default=identifier)
        if identifier <= needed_after[owners]:
            sealed.append((identifier,))
    connection.executemany(f"DELETE FROM {layout.head} WHERE id = ?", sealed)
    return len(sealed)


def _columns(connection: sqlite3.Connection, layout: Layout) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({layout.head})")}


def waves(rows: Sequence[Owned]) -> Iterator[Sequence[Owned]]:
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
