"""Sealed samples: blocks of one owner each, small ones of an owner merged into large ones as they become many.

`Unsealed` has the samples that a writer has not sealed yet. `samples_after` reads them from the head.
"""

from __future__ import annotations

import marshal
import sqlite3
from array import array
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
SMALL_BLOCKS = 30  # an owner with fewer small blocks is read fast enough
MOST_UNCHANGED = 60  # samples without own values in a row: live readers find values among the last 75 samples
MARSHAL_VERSION = 2  # binary floats, and no references to equal objects
# The number of samples in blocks, as `valid_count` counts them: a row can hold any value, and a sum can overflow.
SAMPLES_SUM = (
    f"coalesce(sum(CASE WHEN typeof(samples) = 'integer' AND samples BETWEEN 1 AND {blocks.MAX_SAMPLES}"
    " THEN samples ELSE 1 END), 0)"
)


@record
class Sealed:
    """A new block; `after_id` is the last id of the block before it."""

    after_id: int
    last_id: int
    first_elapsed: float
    last_elapsed: float
    samples: int
    data: bytes
    rows: int  # of the head that have only samples of this block


@record
class Merged:
    """A large block, and the ids of the rows with the blocks it replaces; it is stored in the last of these rows."""

    owner: int
    row_ids: tuple[int, ...]
    first_elapsed: float
    samples: int
    data: bytes


class Unsealed:
    """The samples of an owner that are only in the head, in the memory of its writer: about 300 bytes each.

    Values are marshalled: as Python objects they would take three times the memory, and the garbage collector would
    take half of the time of a tick. For the same reason ids and times are in arrays.
    """

    __slots__ = ("_elapsed", "_ids", "_values", "last", "sealed_until", "unchanged")

    def __init__(self, sealed_until: int, rows: Sequence[tuple[int, Sample]] = ()) -> None:
        self.sealed_until = sealed_until
        self._ids = array("q")
        self._elapsed = array("d")
        self._values: list[bytes | None] = []  # None: the values of the sample before
        self.last: Values | None = None
        self.unchanged = 0  # samples since the last one with its own values
        for identifier, sample in rows:
            if sample.values is self.last:
                self.add_unchanged(identifier, sample)
            else:
                self.add(identifier, sample)

    def add(self, identifier: int, sample: Sample) -> bool:
        """Add a sample; return whether there are enough for a block."""
        self.last, self.unchanged = sample.values, 0
        self._ids.append(identifier)
        self._elapsed.append(sample.elapsed)
        self._values.append(marshal.dumps(sample.values, MARSHAL_VERSION))
        return len(self._ids) >= BLOCK_SAMPLES

    def add_unchanged(self, identifier: int, sample: Sample) -> bool:
        """Add a sample with the values of the one before; return whether there are enough for a block."""
        self.unchanged += 1
        self._ids.append(identifier)
        self._elapsed.append(sample.elapsed)
        self._values.append(None)
        return len(self._ids) >= BLOCK_SAMPLES

    def __len__(self) -> int:
        return len(self._ids)

    def packed(self, keys: Sequence[str]) -> Sealed | None:
        """The oldest samples as a block; None if there are none.

        The block ends before a sample with its own values: the unsealed samples of an owner begin with values.
        """
        if not self._ids:
            return None
        own = self._values[: BLOCK_SAMPLES + MOST_UNCHANGED]
        end = next((place for place in range(BLOCK_SAMPLES, len(own)) if own[place] is not None), len(own))
        rows: list[Values] = []
        before = None
        for values in own[:end]:  # equal values become one object: a block of these is encoded faster
            rows.append(rows[-1] if values is None or values == before else marshal.loads(values))
            before = values or before
        ids, elapsed = self._ids[:end], self._elapsed[:end]
        data = blocks.encode(keys, ids, elapsed, rows)
        span = round(elapsed[0], 3), round(elapsed[-1], 3)  # a block has times in milliseconds
        return Sealed(self.sealed_until, ids[-1], *span, end, data, end - own[:end].count(None))

    def drop(self, sealed: Sealed) -> None:
        """Remove the samples of a block that was stored."""
        for column in (self._ids, self._elapsed, self._values):
            del column[: sealed.samples]
        self.sealed_until = sealed.last_id
        if not self._ids:
            self.last = None


def sealed_until(connection: sqlite3.Connection, layout: Layout, owner: int) -> int | None:
    """The id of an owner's last sample in a block; None if the owner was never sampled."""
    if not has_tables_of(connection, layout.since_version):
        return None
    sql = f"SELECT sealed_until FROM {layout.series} WHERE {layout.owner} = ?"
    row = connection.execute(sql, (owner,)).fetchone()
    return row[0] if row is not None and type(row[0]) is int else None


def keep(connection: sqlite3.Connection, layout: Layout, owner: int, sealed: Sealed) -> bool:
    """Store a block and mark its samples as sealed; False if another writer did, or the owner was deleted."""
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
    """Whether the newest SMALL_BLOCKS blocks of an owner are all small, and none of them has minutes."""
    count, largest = connection.execute(
        f"SELECT count(*), max(samples) FROM (SELECT samples FROM {layout.blocks} WHERE {layout.owner} = :owner"
        f" AND last_id > (SELECT rolled_until FROM {layout.series} WHERE {layout.owner} = :owner)"
        f" ORDER BY last_id DESC LIMIT {SMALL_BLOCKS})",
        {"owner": owner},
    ).fetchone()
    return bool(count == SMALL_BLOCKS and largest <= BLOCK_SAMPLES)


def merged(connection: sqlite3.Connection, layout: Layout, owner: int) -> Merged | None:
    """The oldest of an owner's many small blocks as one; None if they are few, or if one of them is damaged."""
    if not has_many_small(connection, layout, owner):
        return None
    rows = connection.execute(
        f"SELECT id, first_elapsed, samples, data FROM {layout.blocks} WHERE {layout.owner} = ? ORDER BY last_id DESC"
        f" LIMIT {MERGED_BLOCKS} OFFSET {SMALL_BLOCKS - MERGED_BLOCKS}",
        (owner,),
    ).fetchall()
    row_ids, first_elapsed, counts, datas = zip(*rows[::-1], strict=True)
    with suppress(BlockDamaged):
        return Merged(owner, row_ids, first_elapsed[0], sum(counts), blocks.merge(datas))
    return None


def store_merged(connection: sqlite3.Connection, layout: Layout, large: Merged) -> None:
    """Store a large block instead of the small ones; nothing, if another process merged or deleted one of them."""
    marks = ", ".join("?" * MERGED_BLOCKS)
    sql = f"SELECT count(*) FROM {layout.blocks} WHERE id IN ({marks}) AND {layout.owner} = ?"
    if connection.execute(sql, (*large.row_ids, large.owner)).fetchone()[0] < MERGED_BLOCKS:
        return
    connection.execute(
        f"UPDATE {layout.blocks} SET first_elapsed = ?, samples = ?, data = ? WHERE id = ?",
        (large.first_elapsed, large.samples, large.data, large.row_ids[-1]),
    )
    connection.execute(f"DELETE FROM {layout.blocks} WHERE id IN ({marks[3:]})", large.row_ids[:-1])


def blocks_between(
    connection: sqlite3.Connection, layout: Layout, owner: int, start: float | None, end: float | None
) -> list[tuple[int, bytes]]:
    """The number of samples and the data of each block between two times, and of the block before.

    The first rate needs the last sample of the block before.
    """
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
    return [(valid_count(count), data) for count, data in rows]


def valid_count(count: object) -> int:
    """The number of samples in a block as its row says, or 1 if that is not a possible number."""
    return count if type(count) is int and 0 < count <= blocks.MAX_SAMPLES else 1


def newest_blocks(connection: sqlite3.Connection, layout: Layout, owner: int, until: float) -> list[bytes]:
    """The last two blocks that begin at or before a time, the newest first."""
    rows = connection.execute(
        f"SELECT data FROM {layout.blocks} WHERE {layout.owner} = ? AND first_elapsed <= ?"
        " ORDER BY last_id DESC LIMIT 2",
        (owner, until),
    )
    return [data for (data,) in rows]


def blocks_after(
    connection: sqlite3.Connection, layout: Layout, owner: int, after_id: int
) -> list[tuple[int, int, bytes]]:
    """The last id, the number of samples and the data of each block with samples after an id."""
    rows = connection.execute(
        f"SELECT last_id, samples, data FROM {layout.blocks} WHERE {layout.owner} = ? AND last_id > ? ORDER BY last_id",
        (owner, after_id),
    )
    return [(last_id, valid_count(count), data) for last_id, count, data in rows if type(last_id) is int]


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
    """The unsealed samples of an owner after an id and up to a time, with their ids; or only the newest so many.

    A sample without own values gets those of the sample before. That one is in the head, or, if two processes wrote
    samples of one owner, at the end of the last block.
    """
    begin = max(sealed_until, after_id)
    entries = head.select(connection, layout, owner, begin, keys, until, newest)
    values: Values = ()
    if entries and entries[0][2] is None:
        in_head = head.last_values(connection, layout, owner, sealed_until, begin, keys)
        values = _last_sealed_values(connection, layout, owner, keys) if in_head is None else in_head
    found: list[tuple[int, Sample]] = []
    for identifier, elapsed, own_values in entries:
        values = values if own_values is None else own_values
        found.append((identifier, Sample(elapsed, values)))
    return found if newest is None else found[-newest:]


def _last_sealed_values(connection: sqlite3.Connection, layout: Layout, owner: int, keys: Sequence[str]) -> Values:
    """The values at the end of an owner's last block; all absent if the block is damaged or was deleted."""
    with suppress(BlockDamaged):
        for data in newest_blocks(connection, layout, owner, float("inf")):
            sample = blocks.decode(data).samples(keys)[-1]
            if sample.minute is None:
                return sample.values
            return tuple(sample.minute.last.get(key, value) for key, value in zip(keys, sample.values, strict=True))
    return (None,) * len(keys)
