"""Samples that were sealed: blocks of one owner each; of one that has many, several small ones become a large one.

`Unsealed` is what a writer remembers of those that are not.
"""

from __future__ import annotations

import marshal
import sqlite3
from collections.abc import Sequence
from contextlib import suppress

from jobtop.core.errors import BlockDamaged
from jobtop.core.model import Sample
from jobtop.core.record import record
from jobtop.core.series import blocks
from jobtop.store.samples.head import Layout
from jobtop.store.schema import has_tables_of

BLOCK_SAMPLES = 120
MERGED_BLOCKS = 5
SMALL_BLOCKS = 30  # fewer are read fast enough
MARSHALLED = 2  # floats in binary, and no search for what is there twice


@record
class Sealed:
    """A block about to be kept, and what it follows."""

    after_id: int
    last_id: int
    first_elapsed: float
    last_elapsed: float
    samples: int
    data: bytes


@record
class Merged:
    """A large block, and the rows it comes in place of; the last of them is the one that stays."""

    owner: int
    places: tuple[int, ...]
    first_elapsed: float
    samples: int
    data: bytes


class Unsealed:
    """The samples of an owner that are only in the head, as its one writer remembers them: some 300 bytes each.

    Numbers as bytes: as objects they take three times the room, and the garbage collector half of every tick.
    """

    __slots__ = ("rows", "sealed_until")

    def __init__(self, sealed_until: int, rows: Sequence[tuple[int, Sample]] = ()) -> None:
        self.sealed_until = sealed_until
        self.rows: list[bytes] = []
        for identifier, sample in rows:
            self.add(identifier, sample)

    def add(self, identifier: int, sample: Sample) -> bool:
        """Remember a sample; whether there is enough for a block."""
        self.rows.append(marshal.dumps((identifier, sample.elapsed, sample.values), MARSHALLED))
        return len(self.rows) >= BLOCK_SAMPLES

    def packed(self, keys: Sequence[str]) -> Sealed | None:
        """The oldest block's worth of samples; None if there are none."""
        if not self.rows:
            return None
        ids, moments, rows = zip(*map(marshal.loads, self.rows[:BLOCK_SAMPLES]), strict=True)
        data = blocks.encode(keys, ids, moments, rows)
        # As they are read from the block: to the millisecond.
        return Sealed(self.sealed_until, ids[-1], round(moments[0], 3), round(moments[-1], 3), len(ids), data)

    def drop(self, sealed: Sealed) -> None:
        del self.rows[: sealed.samples]
        self.sealed_until = sealed.last_id


def sealed_until(connection: sqlite3.Connection, layout: Layout, owner: int) -> int | None:
    """The last id of an owner that is in a block; None if it was never sampled."""
    if not has_tables_of(connection, layout.since_version):
        return None
    sql = f"SELECT sealed_until FROM {layout.series} WHERE {layout.owner} = ?"
    row = connection.execute(sql, (owner,)).fetchone()
    return row[0] if row is not None and type(row[0]) is int else None


def keep(connection: sqlite3.Connection, layout: Layout, owner: int, sealed: Sealed) -> bool:
    """Keep a block and say that its samples are sealed; not if somebody else has done so, or the owner is gone."""
    changed = connection.execute(
        f"UPDATE {layout.series} SET sealed_until = ? WHERE {layout.owner} = ? AND sealed_until = ?",
        (sealed.last_id, owner, sealed.after_id),
    ).rowcount
    if not changed:
        return False
    connection.execute(
        f"INSERT INTO {layout.blocks} ({layout.owner}, first_elapsed, last_elapsed, last_id, samples, data)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (owner, sealed.first_elapsed, sealed.last_elapsed, sealed.last_id, sealed.samples, sealed.data),
    )
    return True


def has_many_small(connection: sqlite3.Connection, layout: Layout, owner: int) -> bool:
    """Whether the newest blocks of an owner are so many small ones, none of minutes, that it is time to merge some."""
    count, largest = connection.execute(
        f"SELECT count(*), max(samples) FROM (SELECT samples FROM {layout.blocks} WHERE {layout.owner} = :owner"
        f" AND last_id > (SELECT rolled_until FROM {layout.series} WHERE {layout.owner} = :owner)"
        f" ORDER BY last_id DESC LIMIT {SMALL_BLOCKS})",
        {"owner": owner},
    ).fetchone()
    return bool(count == SMALL_BLOCKS and largest <= BLOCK_SAMPLES)


def merged(connection: sqlite3.Connection, layout: Layout, owner: int) -> Merged | None:
    """The oldest of an owner's many small blocks as one; None if they are not many, or if one of those is damaged."""
    if not has_many_small(connection, layout, owner):
        return None
    rows = connection.execute(
        f"SELECT id, first_elapsed, samples, data FROM {layout.blocks} WHERE {layout.owner} = ? ORDER BY last_id DESC"
        f" LIMIT {MERGED_BLOCKS} OFFSET {SMALL_BLOCKS - MERGED_BLOCKS}",
        (owner,),
    ).fetchall()
    places, moments, counts, datas = zip(*rows[::-1], strict=True)
    with suppress(BlockDamaged):
        return Merged(owner, places, moments[0], sum(counts), blocks.merge(datas))
    return None


def put_in_place(connection: sqlite3.Connection, layout: Layout, large: Merged) -> None:
    """Put a large block in place of the small ones, unless one of them is gone: somebody else did."""
    marks = ", ".join("?" * MERGED_BLOCKS)
    sql = f"SELECT count(*) FROM {layout.blocks} WHERE id IN ({marks}) AND {layout.owner} = ?"
    if connection.execute(sql, (*large.places, large.owner)).fetchone()[0] < MERGED_BLOCKS:
        return
    connection.execute(
        f"UPDATE {layout.blocks} SET first_elapsed = ?, samples = ?, data = ? WHERE id = ?",
        (large.first_elapsed, large.samples, large.data, large.places[-1]),
    )
    connection.execute(f"DELETE FROM {layout.blocks} WHERE id IN ({marks[3:]})", large.places[:-1])


def between(
    connection: sqlite3.Connection, layout: Layout, owner: int, start: float | None, end: float | None
) -> list[tuple[int, bytes]]:
    """How many samples, and the bytes, of each block of a time, and of the one before, for the first rate."""
    begin = -1.0
    if start is not None:
        sql = f"SELECT max(last_elapsed) FROM {layout.blocks} WHERE {layout.owner} = ? AND last_elapsed < ?"
        before = connection.execute(sql, (owner, start)).fetchone()[0]
        begin = start if before is None else before
    rows = connection.execute(
        f"SELECT samples, data FROM {layout.blocks} WHERE {layout.owner} = ? AND last_elapsed >= ?"
        " AND first_elapsed <= ? ORDER BY last_id",
        (owner, begin, float("inf") if end is None else end),
    )
    return [(samples_in(count), data) for count, data in rows]


def samples_in(count: object) -> int:
    """How many samples a block has by its row; what is no number counts as one."""
    return count if type(count) is int and 0 < count <= blocks.MOST_SAMPLES else 1


def newest(connection: sqlite3.Connection, layout: Layout, owner: int, until: float) -> list[bytes]:
    """The last two blocks that begin at or before a moment, the newest first."""
    rows = connection.execute(
        f"SELECT data FROM {layout.blocks} WHERE {layout.owner} = ? AND first_elapsed <= ?"
        " ORDER BY last_id DESC LIMIT 2",
        (owner, until),
    )
    return [data for (data,) in rows]


def following(
    connection: sqlite3.Connection, layout: Layout, owner: int, after_id: int
) -> list[tuple[int, int, bytes]]:
    """The last id, how many samples, and the bytes of each block with an id behind this one."""
    rows = connection.execute(
        f"SELECT last_id, samples, data FROM {layout.blocks} WHERE {layout.owner} = ? AND last_id > ? ORDER BY last_id",
        (owner, after_id),
    )
    return [(last_id, samples_in(count), data) for last_id, count, data in rows if type(last_id) is int]
