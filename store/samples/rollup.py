"""Thin old samples to one-minute rows, and delete them: a few blocks of one owner at a time.

Blocks are read and packed outside of the write transaction. The transaction checks that they are still the same.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress

from jobtop.core.errors import BlockDamaged
from jobtop.core.record import record
from jobtop.core.series import blocks
from jobtop.core.series.blocks import SAMPLES, Block, open_block
from jobtop.core.series.rollup import PreviousSample, roll_up
from jobtop.store.database import Database
from jobtop.store.samples.head import Layout

SAMPLES_AT_ONCE = 1000
BLOCKS_AT_ONCE = 20
LARGEST = 300  # minutes in one block, about
DELETED_AT_ONCE = 100  # blocks


@record
class _Stored:
    """A row of the table of blocks."""

    row_id: int
    first_elapsed: float
    last_elapsed: float
    last_id: int
    samples: int
    data: bytes


@record
class _Change:
    """A block that replaces others: its row, and the rows to delete. Without data, blocks stay and count as thinned."""

    rolled_until: int
    deleted_ids: tuple[int, ...]
    row_id: int
    first_elapsed: float
    samples: int
    data: bytes | None


def roll_some(database: Database, layout: Layout, owner: int, until: float = float("inf")) -> int:
    """Thin the oldest samples of an owner up to a time to minutes; return how many samples, 0 if there are none."""
    with database.reading() as connection:
        rolled_until = _rolled_until(connection, layout, owner)
        raw = _next_blocks(connection, layout, owner, rolled_until, until)
        last = _last_block(connection, layout, owner, rolled_until) if raw else None
    if not raw:
        return 0
    decoded = _decoded(raw)
    taken = raw[: max(1, len(decoded))]
    if not decoded:
        change = _Change(raw[0].last_id, (), raw[0].row_id, 0.0, 0, None)
    else:
        change = _packed(layout, taken, decoded, last)
    with database.writing() as connection:
        _apply(connection, layout, owner, rolled_until, change)
    return sum(block.samples for block in taken)


def drop_some(database: Database, layout: Layout, owner: int, until: float = float("inf")) -> int:
    """Delete the oldest blocks of an owner that end at or before a time; return how many, 0 if there are none."""
    with database.writing() as connection:
        return connection.execute(
            f"DELETE FROM {layout.blocks} WHERE id IN (SELECT id FROM {layout.blocks} WHERE {layout.owner} = ?"
            f" AND last_elapsed <= ? ORDER BY last_id LIMIT {DELETED_AT_ONCE})",
            (owner, until),
        ).rowcount


def _rolled_until(connection: sqlite3.Connection, layout: Layout, owner: int) -> int:
    sql = f"SELECT rolled_until FROM {layout.series} WHERE {layout.owner} = ?"
    row = connection.execute(sql, (owner,)).fetchone()
    return 0 if row is None else int(row[0])


def _next_blocks(
    connection: sqlite3.Connection, layout: Layout, owner: int, last_id: int, until: float
) -> list[_Stored]:
    """The next blocks to thin, with about SAMPLES_AT_ONCE samples."""
    rows = connection.execute(
        f"SELECT id, first_elapsed, last_elapsed, last_id, samples, data FROM {layout.blocks}"
        f" WHERE {layout.owner} = ? AND last_id > ? ORDER BY last_id LIMIT {BLOCKS_AT_ONCE}",
        (owner, last_id),
    )
    found: list[_Stored] = []
    for block in (_Stored(*row) for row in rows):
        total = sum(other.samples for other in found) + block.samples
        if block.last_elapsed > until or (found and total > SAMPLES_AT_ONCE):
            break
        found.append(block)
    return found


def _last_block(connection: sqlite3.Connection, layout: Layout, owner: int, last_id: int) -> _Stored | None:
    """The last block that is thinned already."""
    row = connection.execute(
        f"SELECT id, first_elapsed, last_elapsed, last_id, samples, data FROM {layout.blocks}"
        f" WHERE {layout.owner} = ? AND last_id <= ? ORDER BY last_id DESC LIMIT 1",
        (owner, last_id),
    ).fetchone()
    return None if row is None else _Stored(*row)


def _decoded(stored: list[_Stored]) -> list[Block]:
    """The samples of the blocks before the first damaged one."""
    decoded = []
    for block in stored:
        try:
            decoded.append(blocks.decode(block.data))
        except BlockDamaged:
            break
    return decoded


def _packed(layout: Layout, raw: list[_Stored], decoded: list[Block], last: _Stored | None) -> _Change:
    """The change that replaces blocks by one of minutes, merged with the last block of minutes if that is small."""
    earlier = _decoded([last]) if last is not None else []
    data = roll_up(_joined(decoded), layout.scope, _last_sample(earlier[0]) if earlier else None)
    end, count = raw[-1], open_block(data).count
    taken = [*raw]
    if last is not None and earlier and SAMPLES in earlier[0].columns and last.samples < LARGEST:
        with suppress(BlockDamaged):  # it has a column that this version does not know
            data, count, taken = blocks.merge([last.data, data]), last.samples + count, [last, *raw]
    if len(data) >= sum(len(block.data) for block in taken):  # a short job: minutes would not be smaller
        return _Change(end.last_id, (), end.row_id, 0.0, 0, None)
    return _Change(
        end.last_id, tuple(block.row_id for block in taken[:-1]), end.row_id, taken[0].first_elapsed, count, data
    )


def _last_sample(block: Block) -> PreviousSample:
    return PreviousSample(block.elapsed[-1], {key: values[-1] for key, values in block.columns.items()})


def _joined(parts: list[Block]) -> Block:
    """The samples of several blocks as one."""
    keys = dict.fromkeys(key for part in parts for key in part.columns)
    return Block(
        [identifier for part in parts for identifier in part.ids],
        [elapsed for part in parts for elapsed in part.elapsed],
        {
            key: [value for part in parts for value in part.columns.get(key) or [None] * len(part.elapsed)]
            for key in keys
        },
    )


def _apply(connection: sqlite3.Connection, layout: Layout, owner: int, rolled_until: int, change: _Change) -> None:
    """Carry out a change, unless another process changed these blocks."""
    marks = ", ".join("?" * (len(change.deleted_ids) + 1))
    row_ids = (*change.deleted_ids, change.row_id)
    sql = f"SELECT count(*) FROM {layout.blocks} WHERE id IN ({marks}) AND {layout.owner} = ?"
    if connection.execute(sql, (*row_ids, owner)).fetchone()[0] < len(row_ids):
        return
    changed = connection.execute(
        f"UPDATE {layout.series} SET rolled_until = ? WHERE {layout.owner} = ? AND rolled_until = ?",
        (change.rolled_until, owner, rolled_until),
    ).rowcount
    if not changed or change.data is None:
        return
    connection.execute(
        f"UPDATE {layout.blocks} SET first_elapsed = ?, samples = ?, data = ? WHERE id = ?",
        (change.first_elapsed, change.samples, change.data, change.row_id),
    )
    connection.execute(f"DELETE FROM {layout.blocks} WHERE id IN ({marks[3:]})", change.deleted_ids)
