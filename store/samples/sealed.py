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
from jobtop.store.samples import head
from jobtop.store.samples.head import Layout
from jobtop.store.schema import has_tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.store.samples.head import Values

BLOCK_SAMPLES = 120
MERGED_BLOCKS = 5
SMALL_BLOCKS = 30  # fewer are read fast enough
MOST_UNCHANGED = 60  # samples in a row; then one with its values is kept, for readers that begin in between
MARSHALLED = 2  # floats in binary, and no search for what is there twice
# How many samples some blocks have, as `samples_in` counts them: a row can hold any value, and a sum can overflow.
SAMPLES_SUM = (
    f"coalesce(sum(CASE WHEN typeof(samples) = 'integer' AND samples BETWEEN 1 AND {blocks.MAX_SAMPLES}"
    " THEN samples ELSE 1 END), 0)"
)


@record
class Sealed:
    """A block about to be kept, and what it follows."""

    after_id: int
    last_id: int
    first_elapsed: float
    last_elapsed: float
    samples: int
    data: bytes
    rows: int  # of the head that were its samples alone


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

    __slots__ = ("_ids", "_moments", "_values", "last", "sealed_until", "unchanged")

    def __init__(self, sealed_until: int, rows: Sequence[tuple[int, Sample]] = ()) -> None:
        self.sealed_until = sealed_until
        self._ids: list[int] = []
        self._moments: list[float] = []
        self._values: list[bytes | None] = []  # None: those of the sample before
        self.last: Values | None = None
        self.unchanged = 0  # samples since the last one that was kept with its values
        for identifier, sample in rows:
            if sample.values is self.last:
                self.add_unchanged(identifier, sample)
            else:
                self.add(identifier, sample)

    def is_unchanged(self, sample: Sample) -> bool:
        """Whether a sample has the values of the one before, and need not be kept with them."""
        values, last = sample.values, self.last
        return (values is last or values == last) and self.unchanged < MOST_UNCHANGED

    def add(self, identifier: int, sample: Sample) -> bool:
        """Remember a sample; whether there is enough for a block."""
        self.last, self.unchanged = sample.values, 0
        self._ids.append(identifier)
        self._moments.append(sample.elapsed)
        self._values.append(marshal.dumps(sample.values, MARSHALLED))
        return len(self._ids) >= BLOCK_SAMPLES

    def add_unchanged(self, identifier: int, sample: Sample) -> bool:
        """Remember a sample with the values of the one before; whether there is enough for a block."""
        self.unchanged += 1
        self._ids.append(identifier)
        self._moments.append(sample.elapsed)
        self._values.append(None)
        return len(self._ids) >= BLOCK_SAMPLES

    def __len__(self) -> int:
        return len(self._ids)

    def packed(self, keys: Sequence[str]) -> Sealed | None:
        """The oldest block's worth of samples; None if there are none.

        The next sample has its values, unless there is none: the head never begins with samples that need the block.
        """
        if not self._ids:
            return None
        own = self._values[: BLOCK_SAMPLES + MOST_UNCHANGED]
        end = next((place for place in range(BLOCK_SAMPLES, len(own)) if own[place] is not None), len(own))
        rows: list[Values] = []
        before = None
        for values in own[:end]:
            rows.append(rows[-1] if values is None or values == before else marshal.loads(values))
            before = values or before
        ids, moments = self._ids[:end], self._moments[:end]
        data = blocks.encode(keys, ids, moments, rows)
        # As they are read from the block: to the millisecond.
        span = round(moments[0], 3), round(moments[-1], 3)
        return Sealed(self.sealed_until, ids[-1], *span, end, data, end - own[:end].count(None))

    def drop(self, sealed: Sealed) -> None:
        for column in (self._ids, self._moments, self._values):
            del column[: sealed.samples]
        self.sealed_until = sealed.last_id
        if not self._ids:
            self.last = None


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
    return count if type(count) is int and 0 < count <= blocks.MAX_SAMPLES else 1


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


def samples_after(
    connection: sqlite3.Connection,
    layout: Layout,
    owner: int,
    sealed_until: int,
    keys: Sequence[str],
    after_id: int = 0,
    until: float = float("inf"),
    newest: int | None = None,
) -> list[tuple[int, Sample]]:
    """The samples of an owner behind its last block and behind an id, with these values; of the newest only so many."""
    begin = max(sealed_until, after_id)
    entries = head.select(connection, layout, owner, begin, keys, until, newest)
    values: Values = ()
    if entries and entries[0][2] is None:
        kept = head.last_values(connection, layout, owner, sealed_until, begin, keys)
        values = _end_of_blocks(connection, layout, owner, keys) if kept is None else kept
    found: list[tuple[int, Sample]] = []
    for identifier, moment, own in entries:
        values = values if own is None else own
        found.append((identifier, Sample(moment, values)))
    return found if newest is None else found[-newest:]


def _end_of_blocks(connection: sqlite3.Connection, layout: Layout, owner: int, keys: Sequence[str]) -> Values:
    """The values at the end of the last block of an owner; absent if that cannot be read, or is not there any more."""
    with suppress(BlockDamaged):
        for data in newest(connection, layout, owner, float("inf")):
            sample = blocks.decode(data).samples(keys)[-1]
            if sample.minute is None:
                return sample.values
            return tuple(sample.minute.last.get(key, value) for key, value in zip(keys, sample.values, strict=True))
    return (None,) * len(keys)
