"""The head: a table with the newest samples of all owners of one kind. Rows are appended, and deleted once sealed.

Most rows have the values of one owner. A row with the owner 0 is a list of owners with the same values as in their
last sample, each with the time of the new sample. Many jobs are idle most of the time, and one list costs a quarter of
the CPU time of as many rows.
This module does not import `Database`, because opening a store adds the columns of new metrics.
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
    Entry = tuple[int, float, Values | None]  # id, time, values; None: the values of the sample before


MOST_GROUPS = 8
CACHED_PATTERNS = 64  # sets of positions that have values
ENTRY_BYTES = 16  # of a list: 8 for the owner, 8 for the time
MOST_LISTED = 4096  # owners in one list
ROWS_AT_ONCE = 16  # one statement costs as much as ten columns; older versions of SQLite bind at most 999 values


@record
class Layout:
    """The tables and keys of the samples of one kind of owner: jobs, hosts, devices or named series.

    `is_over` is the SQL condition for an owner that gets no more samples. `scope` is None where the keys have several
    scopes or none. Tables exist since the schema version `since_version`: a store opened read-only may be older.
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
# `hosts` has one row for each boot; only the last boot gets samples.
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
# The keys of all kinds of devices; a device has values only for the keys of its own kind.
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
    """The column name of a metric key."""
    return key.replace(".", "_")


def missing_columns(connection: sqlite3.Connection, layout: Layout = JOBS) -> list[str]:
    """The keys of the catalogue without a column in a head; none if the store does not have this table."""
    present = _columns(connection, layout)
    return [key for key in layout.keys if column(key) not in present] if present else []


def add_columns(connection: sqlite3.Connection, *layouts: Layout) -> None:
    """Add the missing columns to these heads, or to all; the caller has begun a transaction."""
    for layout in layouts or LAYOUTS:
        for key in missing_columns(connection, layout):
            connection.execute(f"ALTER TABLE {layout.head} ADD COLUMN {column(key)} ANY")


def last_id(connection: sqlite3.Connection, layout: Layout) -> int:
    """The greatest id that a row of the head ever had."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (layout.head,)).fetchone()
    return row[0] if row and type(row[0]) is int else 0


def insert(connection: sqlite3.Connection, layout: Layout, rows: Sequence[Owned]) -> list[Identified]:
    """Append one sample each of different owners, in any order; return each with its id."""
    inserted: list[Identified] = []
    for present, group in _grouped(rows, len(layout.keys)):
        _insert_group(connection, layout, present, group)
        # Ids are consecutive within a transaction: no other process writes.
        end = connection.execute("SELECT last_insert_rowid()").fetchone()[0] + 1
        inserted += zip(range(end - len(group), end), group, strict=True)
    return inserted


def insert_unchanged(connection: sqlite3.Connection, layout: Layout, rows: Sequence[Owned]) -> int:
    """Append one list for samples of at most MOST_LISTED owners with unchanged values; return its id."""
    count, moments = len(rows), [sample.elapsed for _, sample in rows]
    data = struct.pack(f"<{count}q{count}d", *(owner for owner, _ in rows), *moments)
    sql = f"INSERT INTO {layout.head} ({layout.owner}, elapsed, unchanged) VALUES (0, ?, ?)"
    return connection.execute(sql, (moments[0], data)).lastrowid or 0


def unchanged_in(data: object) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The owners and the times in a list; both empty if it is damaged."""
    if not _is_list(data):
        return (), ()
    count = len(data) // ENTRY_BYTES
    numbers = struct.unpack(f"<{count}q{count}d", data)
    return numbers[:count], numbers[count:]


def elapsed_in(data: object, owner: int) -> float | None:
    """The time of one owner in a list; None if it is not in it."""
    if not _is_list(data):
        return None
    wanted, middle = struct.pack("<q", owner), len(data) // 2
    position = data.find(wanted, 0, middle)
    while position > 0 and position % len(wanted):  # found across two numbers
        position = data.find(wanted, position + 1, middle)
    if position < 0:
        return None
    elapsed: float = struct.unpack_from("<d", data, middle + position)[0]
    return elapsed if is_number(elapsed) else None


def _is_list(data: object) -> TypeGuard[bytes]:
    return type(data) is bytes and len(data) % ENTRY_BYTES == 0 and len(data) <= MOST_LISTED * ENTRY_BYTES


def _insert_group(
    connection: sqlite3.Connection, layout: Layout, present: tuple[int, ...], group: Sequence[Owned]
) -> None:
    """Append samples that have values at the same positions."""
    pick = _picker(present)
    rows = [(owner, sample.elapsed, *pick(sample.values)) for owner, sample in group]
    rest = len(rows) % ROWS_AT_ONCE
    begins = range(rest, len(rows), ROWS_AT_ONCE)
    wide = [tuple(chain.from_iterable(rows[begin : begin + ROWS_AT_ONCE])) for begin in begins]
    for count, values in ((1, rows[:rest]), (ROWS_AT_ONCE, wide)):
        if values:
            connection.executemany(_statement(layout, present, count), values)


@lru_cache(CACHED_PATTERNS)
def _statement(layout: Layout, present: tuple[int, ...], count: int) -> str:
    """The SQL that inserts `count` rows with values at these positions."""
    names = [layout.owner, "elapsed", *(column(layout.keys[position]) for position in present)]
    marks = f"({', '.join('?' * len(names))})"
    return f"INSERT INTO {layout.head} ({', '.join(names)}) VALUES {', '.join([marks] * count)}"


def select(
    connection: sqlite3.Connection,
    layout: Layout,
    owner: int,
    after_id: int,
    keys: Sequence[str],
    until: float = float("inf"),
    newest: int | None = None,
) -> list[Entry]:
    """The samples of an owner after an id and up to a time, oldest first, with the values of these keys.

    With `newest`, at least the newest so many, and older ones until one has its own values.
    """
    sql = f"SELECT id, elapsed, {selected_columns(connection, layout, keys)} FROM {layout.head}"
    sql += f" WHERE id > ? AND {layout.owner} IN (?, 0) ORDER BY id {'' if newest is None else 'DESC'}"
    cursor = connection.cursor()
    cursor.row_factory = None
    found: list[Entry] = []
    for row in cursor.execute(sql, (after_id, owner)):
        elapsed = row[1] if row[2] is None else elapsed_in(row[2], owner)
        if elapsed is None or (row[2] is None and not is_sample(row)) or elapsed > until:
            continue
        found.append((row[0], elapsed, row[3:] if row[2] is None else None))
        if newest is not None and len(found) >= newest and row[2] is None:
            break
    cursor.close()
    return found if newest is None else found[::-1]


def selected_columns(connection: sqlite3.Connection, layout: Layout, keys: Sequence[str]) -> str:
    """The SQL columns to read a head: first the list, NULL in a row without one, then the values of these keys.

    A store opened read-only may be older: it has no lists, and no columns for new keys.
    """
    present = _columns(connection, layout)
    names = [column(key) if column(key) in present else "NULL" for key in keys]
    listed = f"iif({layout.owner} = 0, coalesce(unchanged, x''), NULL)" if "unchanged" in present else "NULL"
    return ", ".join((listed, *names))


def last_values(
    connection: sqlite3.Connection, layout: Layout, owner: int, after_id: int, until_id: int, keys: Sequence[str]
) -> Values | None:
    """The newest values of an owner in a row of its own between two ids; None if there is no such row."""
    sql = f"SELECT id, elapsed, {selected_columns(connection, layout, keys)} FROM {layout.head}"
    sql += f" WHERE id > ? AND id <= ? AND {layout.owner} = ? ORDER BY id DESC LIMIT 1"
    row = connection.execute(sql, (after_id, until_id, owner)).fetchone()
    return tuple(row)[3:] if row is not None and is_sample(tuple(row)) else None


def count(connection: sqlite3.Connection, layout: Layout, owner: int, after_id: int) -> int:
    """The number of samples of an owner after an id, including rows with damaged values."""
    listed = selected_columns(connection, layout, ())
    sql = f"SELECT {listed} FROM {layout.head} WHERE id > ? AND {layout.owner} IN (?, 0)"
    rows = connection.execute(sql, (after_id, owner))
    return sum(data is None or elapsed_in(data, owner) is not None for (data,) in rows)


def unsealed_owners(connection: sqlite3.Connection, layout: Layout) -> set[int]:
    """The owners with samples that are in no block yet."""
    sql = f"SELECT DISTINCT {layout.owner} FROM {layout.head} JOIN {layout.series} USING ({layout.owner})"
    with_rows = {row[0] for row in connection.execute(f"{sql} WHERE id > sealed_until")}
    # The owners of most lists are the same: they are unpacked once.
    last_ids = {data[: len(data) // 2]: identifier for identifier, data in _lists(connection, layout) if _is_list(data)}
    last_listed: dict[int, int] = {}
    for owners, identifier in sorted(last_ids.items(), key=itemgetter(1)):
        last_listed |= dict.fromkeys(struct.unpack(f"<{len(owners) // 8}q", owners), identifier)
    sealed_until = _sealed_until(connection, layout, last_listed.keys() - with_rows)
    return with_rows | {owner for owner, last_sealed in sealed_until.items() if last_sealed < last_listed[owner]}


def unsealed_samples(connection: sqlite3.Connection, layout: Layout) -> int:
    """The number of samples that are in no block yet."""
    sql = f"SELECT count(*) FROM {layout.head} JOIN {layout.series} USING ({layout.owner}) WHERE id > sealed_until"
    rows = int(connection.execute(sql).fetchone()[0])
    lists = [(identifier, unchanged_in(data)[0]) for identifier, data in _lists(connection, layout)]
    until = _sealed_until(connection, layout, {owner for _, owners in lists for owner in owners})
    return rows + sum(until.get(owner, identifier) < identifier for identifier, owners in lists for owner in owners)


def _lists(connection: sqlite3.Connection, layout: Layout) -> list[tuple[int, object]]:
    """The ids and the data of all lists, in the order of their ids."""
    if "unchanged" not in _columns(connection, layout):
        return []
    sql = f"SELECT id, unchanged FROM {layout.head} WHERE {layout.owner} = 0 ORDER BY id"
    return [tuple(row) for row in connection.execute(sql)]


def _sealed_until(connection: sqlite3.Connection, layout: Layout, owners: Iterable[int]) -> dict[int, int]:
    """The last id in a block of each of these owners; owners that were deleted are left out."""
    sql = f"SELECT {layout.owner}, sealed_until FROM {layout.series}"
    sql += f" WHERE {layout.owner} IN (SELECT value FROM json_each(?))"
    return {row[0]: row[1] for row in connection.execute(sql, (json.dumps(list(owners)),)) if type(row[1]) is int}


def trim(connection: sqlite3.Connection, layout: Layout, begin: int, limit: int) -> tuple[int | None, int]:
    """Delete the rows among the next `limit` ones that are sealed, or have no owner any more.

    Returns the id of the last row that was checked, None at the end of the head, and the number of deleted rows.
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
    """Delete lists between two ids if all their samples are sealed or have no owner any more; return how many."""
    sql = f"SELECT id, unchanged FROM {layout.head} WHERE id BETWEEN ? AND ? AND {layout.owner} = 0"
    all_sealed_until: dict[bytes, int] = {}  # by the owners of a list, which are the same in most lists
    to_delete: list[tuple[int]] = []
    for identifier, data in connection.execute(sql, (begin, last)).fetchall():
        owners = data[: len(data) // 2] if _is_list(data) else b""
        if owners not in all_sealed_until:
            until = _sealed_until(connection, layout, struct.unpack(f"<{len(owners) // 8}q", owners))
            all_sealed_until[owners] = min(until.values(), default=last)
        if identifier <= all_sealed_until[owners]:
            to_delete.append((identifier,))
    connection.executemany(f"DELETE FROM {layout.head} WHERE id = ?", to_delete)
    return len(to_delete)


def _columns(connection: sqlite3.Connection, layout: Layout) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({layout.head})")}


def one_per_owner(rows: Sequence[Owned]) -> Iterator[Sequence[Owned]]:
    """The samples in parts that have at most one sample of each owner: within a part the order does not matter."""
    if len({owner for owner, _ in rows}) == len(rows):
        yield rows
        return
    part: list[Owned] = []
    owners: set[int] = set()
    for row in rows:
        if row[0] in owners:
            yield part
            part, owners = [], set()
        part.append(row)
        owners.add(row[0])
    yield part


def _grouped(rows: Sequence[Owned], width: int) -> Iterator[tuple[tuple[int, ...], Sequence[Owned]]]:
    """Groups of samples that have values at the same positions, each with these positions.

    Only present values are bound: sqlite3 looks for an adapter for None, which takes ten times as long as a number.
    """
    for _ in range(MOST_GROUPS):
        if not rows:
            return
        present = tuple(position for position, value in enumerate(rows[0][1].values) if value is not None)
        others = _picker(_others(present, width))
        absent = (None,) * (width - len(present))
        group = [row for row in rows if others(row[1].values) == absent]
        yield present, group
        rows = [row for row in rows if others(row[1].values) != absent] if len(group) < len(rows) else ()
    if rows:
        yield tuple(range(width)), rows


@lru_cache(CACHED_PATTERNS)
def _others(positions: tuple[int, ...], width: int) -> tuple[int, ...]:
    return tuple(position for position in range(width) if position not in positions)


@lru_cache(CACHED_PATTERNS)
def _picker(positions: tuple[int, ...]) -> Callable[[Values], Values]:
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda values: tuple(values[position] for position in positions)
