"""Old samples as minutes, in the place of the blocks they were in; and let go. A few blocks at a time.

What is read and packed is outside of the transaction that puts it in place, which looks whether it is still the same.
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
LARGEST = 300  # minutes of one block, about
DROPPED_AT_ONCE = 100


@record
class _Stored:
    """A block as it is in the table."""

    place: int
    first_elapsed: float
    last_elapsed: float
    last_id: int
    samples: int
    data: bytes


@record
class _Change:
    """What comes in the place of some blocks; without data they stay as they are, and count as done."""

    rolled_until: int
    gone: tuple[int, ...]
    place: int
    first_elapsed: float
    samples: int
    data: bytes | None


def roll_some(database: Database, layout: Layout, owner: int, until: float = float("inf")) -> int:
    """Make minutes of the oldest samples of an owner that are at or before a moment; how many, 0 if there are none."""
    with database.reading() as connection:
        done = _rolled_until(connection, layout, owner)
        raw = _after(connection, layout, owner, done, until)
        before = _last(connection, layout, owner, done) if raw else None
    if not raw:
        return 0
    sound = _decoded(raw)
    taken = raw[: max(1, len(sound))]
    if not sound:
        change = _Change(raw[0].last_id, (), raw[0].place, 0.0, 0, None)
    else:
        change = _packed(layout, taken, sound, before)
    with database.writing() as connection:
        _put_in_place(connection, layout, owner, done, change)
    return sum(block.samples for block in taken)


def drop_some(database: Database, layout: Layout, owner: int, until: float = float("inf")) -> int:
    """Let go of the oldest blocks of an owner that end at or before a moment; how many, 0 if there are none."""
    with database.writing() as connection:
        return connection.execute(
            f"DELETE FROM {layout.blocks} WHERE id IN (SELECT id FROM {layout.blocks} WHERE {layout.owner} = ?"
            f" AND last_elapsed <= ? ORDER BY last_id LIMIT {DROPPED_AT_ONCE})",
            (owner, until),
        ).rowcount


def _rolled_until(connection: sqlite3.Connection, layout: Layout, owner: int) -> int:
    sql = f"SELECT rolled_until FROM {layout.series} WHERE {layout.owner} = ?"
    row = connection.execute(sql, (owner,)).fetchone()
    return 0 if row is None else int(row[0])


def _after(connection: sqlite3.Connection, layout: Layout, owner: int, last_id: int, until: float) -> list[_Stored]:
    """The next blocks that are to be rolled, as many as are handled at once."""
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


def _last(connection: sqlite3.Connection, layout: Layout, owner: int, last_id: int) -> _Stored | None:
    """The block that was handled last."""
    row = connection.execute(
        f"SELECT id, first_elapsed, last_elapsed, last_id, samples, data FROM {layout.blocks}"
        f" WHERE {layout.owner} = ? AND last_id <= ? ORDER BY last_id DESC LIMIT 1",
        (owner, last_id),
    ).fetchone()
    return None if row is None else _Stored(*row)


def _decoded(stored: list[_Stored]) -> list[Block]:
    """The samples of blocks up to the first that is damaged: that one stays as it is."""
    found = []
    for block in stored:
        try:
            found.append(blocks.decode(block.data))
        except BlockDamaged:
            break
    return found


def _packed(layout: Layout, raw: list[_Stored], sound: list[Block], last: _Stored | None) -> _Change:
    earlier = _decoded([last]) if last is not None else []
    data = roll_up(_joined(sound), layout.scope, _before(earlier[0]) if earlier else None)
    end, count = raw[-1], open_block(data).count
    taken = [*raw]
    if last is not None and earlier and SAMPLES in earlier[0].columns and last.samples < LARGEST:
        with suppress(BlockDamaged):  # a column that this version does not know
            data, count, taken = blocks.merge([last.data, data]), last.samples + count, [last, *raw]
    if len(data) >= sum(len(block.data) for block in taken):  # a short job
        return _Change(end.last_id, (), end.place, 0.0, 0, None)
    return _Change(
        end.last_id, tuple(block.place for block in taken[:-1]), end.place, taken[0].first_elapsed, count, data
    )


def _before(block: Block) -> PreviousSample:
    return PreviousSample(block.elapsed[-1], {key: values[-1] for key, values in block.columns.items()})


def _joined(parts: list[Block]) -> Block:
    """The samples of several blocks as one."""
    keys = dict.fromkeys(key for part in parts for key in part.columns)
    return Block(
        [identifier for part in parts for identifier in part.ids],
        [moment for part in parts for moment in part.elapsed],
        {
            key: [value for part in parts for value in part.columns.get(key) or [None] * len(part.elapsed)]
            for key in keys
        },
    )


def _put_in_place(connection: sqlite3.Connection, layout: Layout, owner: int, done: int, change: _Change) -> None:
    """Do it, unless somebody else did something to these blocks."""
    marks = ", ".join("?" * (len(change.gone) + 1))
    places = (*change.gone, change.place)
    sql = f"SELECT count(*) FROM {layout.blocks} WHERE id IN ({marks}) AND {layout.owner} = ?"
    if connection.execute(sql, (*places, owner)).fetchone()[0] < len(places):
        return
    changed = connection.execute(
        f"UPDATE {layout.series} SET rolled_until = ? WHERE {layout.owner} = ? AND rolled_until = ?",
        (change.rolled_until, owner, done),
    ).rowcount
    if not changed or change.data is None:
        return
    connection.execute(
        f"UPDATE {layout.blocks} SET first_elapsed = ?, samples = ?, data = ? WHERE id = ?",
        (change.first_elapsed, change.samples, change.data, change.place),
    )
    connection.execute(f"DELETE FROM {layout.blocks} WHERE id IN ({marks[3:]})", change.gone)
