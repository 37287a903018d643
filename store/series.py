"""What jobs, or the host, were sampled at: an append-only head, sealed one by one into blocks, one way to read both.

Blocks and head are read in one transaction: in two, every second read had a hole or a double while somebody sealed.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from jobtop.core import blocks
from jobtop.core.derive import Frame, derive, percents
from jobtop.core.errors import BlockDamaged
from jobtop.core.metrics import DERIVED, find_metric
from jobtop.core.model import Sample
from jobtop.core.record import record
from jobtop.core.thinning import kept_positions
from jobtop.store import head
from jobtop.store.database import Database
from jobtop.store.head import JOBS, Layout
from jobtop.store.schema import has_tables_of

Number = float | int
Columns = dict[str, list[Number | None]]
BLOCK_SAMPLES = 120
TRIMMED_IDS = 2000
OWNERS_PER_STEP = 250


@record
class Series:
    """Values over time: for each key as many as there are moments; `damaged` samples could not be read."""

    times: list[float]
    values: Columns
    damaged: int = 0


@record
class News:
    """What a follower has not seen, and the cursor to go on from, None as long as there was nothing.

    `damaged` samples could not be read; `over`: nothing more will come.
    """

    samples: list[Sample]
    cursor: int | None
    damaged: int = 0
    over: bool = False


@record
class Sealed:
    """A block about to be kept, and what it follows."""

    after_id: int
    last_id: int
    first_elapsed: float
    last_elapsed: float
    samples: int
    data: bytes


class Unsealed:
    """The samples of an owner that are only in the head, as its one writer remembers them: some 1 KB each.

    Three lists and no `Sample`: of 120,000 objects the garbage collector would make half of every tick.
    """

    __slots__ = ("ids", "moments", "sealed_until", "values")

    def __init__(self, sealed_until: int, rows: Sequence[tuple[int, Sample]] = ()) -> None:
        self.sealed_until = sealed_until
        self.ids = [identifier for identifier, _ in rows]
        self.moments = [sample.elapsed for _, sample in rows]
        self.values = [sample.values for _, sample in rows]

    def packed(self, keys: Sequence[str]) -> Sealed | None:
        """The oldest block's worth of samples; None if there are none."""
        ids, moments = self.ids[:BLOCK_SAMPLES], self.moments[:BLOCK_SAMPLES]
        if not ids:
            return None
        data = blocks.encode(keys, ids, moments, self.values[:BLOCK_SAMPLES])
        # As they are read from the block: to the millisecond.
        return Sealed(self.sealed_until, ids[-1], round(moments[0], 3), round(moments[-1], 3), len(ids), data)

    def drop(self, sealed: Sealed) -> None:
        del self.ids[: sealed.samples], self.moments[: sealed.samples], self.values[: sealed.samples]
        self.sealed_until = sealed.last_id


class SeriesStore:
    """The samples of the jobs of one store, or of its hosts; an owner has one writer at a time."""

    def __init__(self, database: Database, layout: Layout = JOBS) -> None:
        self.database, self.layout = database, layout
        self._unsealed: dict[int, Unsealed] = {}
        self._due: dict[int, None] = {}
        self._trimmed_until: int | None = 0
        self._sealed_since = False
        self._has_columns = False

    def append(self, rows: Sequence[tuple[int, Sample]]) -> None:
        """Keep samples of any number of owners in one transaction; those of an owner in the order given.

        Samples of an owner that is not in the store any more are left out.
        """
        with self.database.writing() as connection:
            if not self._has_columns:
                head.add_columns(connection, self.layout)
            new = {owner for owner, _ in rows} - self._unsealed.keys()
            begun = {owner: _begun(connection, self.layout, owner) for owner in new}
            gone = {owner for owner, unsealed in begun.items() if unsealed is None}
            kept = [row for row in rows if row[0] not in gone] if gone else rows
            inserted = head.insert(connection, self.layout, kept)
        self._has_columns = True
        self._unsealed |= {owner: unsealed for owner, unsealed in begun.items() if unsealed is not None}
        for identifier, owner, sample in inserted:
            unsealed = self._unsealed[owner]
            unsealed.ids.append(identifier)
            unsealed.moments.append(sample.elapsed)
            unsealed.values.append(sample.values)
            if len(unsealed.ids) >= BLOCK_SAMPLES:
                self._due[owner] = None

    def seal(self, owner: int) -> int:
        """Seal all that an owner has, as at its end, and forget it; how many samples that were."""
        total = 0
        while True:
            if owner not in self._unsealed:
                with self.database.reading() as connection:
                    unsealed = _loaded(connection, self.layout, owner)
                if unsealed is None:
                    return total
                self._unsealed[owner] = unsealed
            if not self._unsealed[owner].ids:
                self._forget(owner)
                return total
            total += self._seal([owner])

    def seal_due(self, limit: int | None = None) -> int:
        """Seal one block each of at most so many owners that have one, the longest waiting first; how many samples.

        By default as many as it takes to keep up: 1,000 jobs that began together are not sealed together.
        """
        due = list(self._due)[: 1 + len(self._unsealed) // BLOCK_SAMPLES if limit is None else limit]
        return self._seal(due) if due else 0

    def step(self) -> bool:
        """One small unit of housekeeping, some milliseconds at most; whether there is more that is due."""
        if self._due:
            self.seal_due(1 + len(self._unsealed) // OWNERS_PER_STEP)
        else:
            self.trim()
        return bool(self._due) or self._trimmed_until is not None

    def seal_ended(self, limit: int) -> int:
        """Seal owners that ended without it, as when their writer was killed; how many samples that were."""
        layout = self.layout
        with self.database.reading() as connection:
            ended = connection.execute(
                f"SELECT DISTINCT {layout.owner} FROM {layout.head} JOIN {layout.series} USING ({layout.owner})"
                f" JOIN {layout.owners} ON seq = {layout.owner}"
                f" WHERE {layout.head}.id > sealed_until AND {layout.is_over} LIMIT ?",
                (limit,),
            ).fetchall()
        return sum(self.seal(owner) for (owner,) in ended)

    def trim(self, limit: int = TRIMMED_IDS) -> int:
        """Delete what is sealed from the next so many ids of the head; how many rows that were."""
        if self._trimmed_until is None:
            return 0
        table, series, owner = self.layout.head, self.layout.series, self.layout.owner
        with self.database.writing() as connection:
            sql = f"SELECT (SELECT min(id) FROM {table}), (SELECT max(id) FROM {table})"
            first, last = connection.execute(sql).fetchone()
            begin = max(first or 0, self._trimmed_until + 1)
            end = begin + limit - 1
            # Rows of an owner that is gone go too.
            deleted = connection.execute(
                f"DELETE FROM {table} WHERE id BETWEEN ? AND ? AND id <= coalesce("
                f"(SELECT sealed_until FROM {series} WHERE {series}.{owner} = {table}.{owner}), id)",
                (begin, end),
            ).rowcount
        self._trimmed_until = end
        if end >= (last or 0):
            self._trimmed_until, self._sealed_since = (0 if self._sealed_since else None), False
        return deleted

    def series(
        self,
        owner: int,
        keys: Sequence[str],
        start: float | None = None,
        end: float | None = None,
        max_points: int | None = None,
    ) -> Series:
        """Stored and derived values between two moments, both included; counters as they stood.

        Of more than `max_points` samples those stay in which a key is least or greatest in its part of the time.
        """
        return shown(
            self.stored(owner, stored_keys(self.layout, keys), start, end), self.layout, keys, start, end, max_points
        )

    def stored(self, owner: int, keys: Sequence[str], start: float | None = None, end: float | None = None) -> Series:
        """The samples of a time as they are kept, and some before it: at least one, if there is one."""
        with self.database.reading() as connection:
            sealed_until = _sealed_until(connection, self.layout, owner)
            if sealed_until is None:
                return Series([], {key: [] for key in keys})
            packed = _blocks_between(connection, self.layout, owner, start, end)
            rows = head.select(connection, self.layout, owner, sealed_until, keys, end)
        return _joined(packed, rows, keys)

    def frame_at(self, owner: int, elapsed: float) -> Frame | None:
        """The last sample at or before a moment, its rates from the one before it; None if there is none."""
        samples = self.newest(owner, 2, elapsed)
        if not samples:
            return None
        return derive(samples[-2] if len(samples) > 1 else None, samples[-1], self.layout.scope)

    def newest(self, owner: int, count: int, until: float = float("inf")) -> list[Sample]:
        """The last samples at or before a moment, one or two of them, the oldest first; fewer if there are no more."""
        layout = self.layout
        with self.database.reading() as connection:
            sealed_until = _sealed_until(connection, layout, owner)
            if sealed_until is None:
                return []
            packed = connection.execute(
                f"SELECT data FROM {layout.blocks} WHERE {layout.owner} = ? AND first_elapsed <= ?"
                " ORDER BY last_id DESC LIMIT 2",
                (owner, until),
            ).fetchall()
            rows = head.select(connection, layout, owner, sealed_until, layout.keys, until, newest=count)
        samples = [sample for _, sample in rows]
        for (data,) in packed:
            if len(samples) < count:
                block = _samples(data, layout.keys)
                samples = [sample for _, sample in block or () if sample.elapsed <= until] + samples
        return samples[-count:]

    def samples(self, owner: int) -> list[Sample]:
        """All samples of an owner."""
        return self.follow(owner).samples

    def follow(self, owner: int, after_id: int | None = None) -> News:
        """The samples with a greater id, all of them and each once, sealed meanwhile or not."""
        layout = self.layout
        with self.database.reading() as connection:
            sealed_until = _sealed_until(connection, layout, owner)
            if sealed_until is None:
                return News([], after_id)
            packed = connection.execute(
                f"SELECT last_id, samples, data FROM {layout.blocks} WHERE {layout.owner} = ? AND last_id > ?"
                " ORDER BY last_id",
                (owner, after_id or 0),
            ).fetchall()
            rows = head.select(connection, layout, owner, max(sealed_until, after_id or 0), layout.keys)
        samples, damaged, cursor = [], 0, after_id
        for last_id, count, data in packed:
            block = _samples(data, layout.keys)
            damaged += count if block is None else 0
            samples += [sample for identifier, sample in block or () if identifier > (after_id or 0)]
            cursor = last_id
        samples += [sample for _, sample in rows]
        return News(samples, rows[-1][0] if rows else cursor, damaged)

    def count(self, owner: int) -> int:
        """How many samples there are, those that cannot be read included."""
        layout = self.layout
        with self.database.reading() as connection:
            sealed_until = _sealed_until(connection, layout, owner)
            if sealed_until is None:
                return 0
            row = connection.execute(
                f"SELECT (SELECT coalesce(sum(samples), 0) FROM {layout.blocks} WHERE {layout.owner} = ?1)"
                f" + (SELECT count(*) FROM {layout.head} WHERE id > ?2 AND {layout.owner} = ?1)",
                (owner, sealed_until),
            ).fetchone()
        return int(row[0])

    def _seal(self, owners: Sequence[int]) -> int:
        """A block of each of these owners, in one transaction; packed before it begins."""
        keys = self.layout.keys
        packed = [(owner, sealed) for owner in owners if (sealed := self._unsealed[owner].packed(keys)) is not None]
        with self.database.writing() as connection:
            kept = [_keep(connection, self.layout, owner, sealed) for owner, sealed in packed]
        total = 0
        for (owner, sealed), is_kept in zip(packed, kept, strict=True):
            self._due.pop(owner, None)
            if not is_kept:
                self._forget(owner)
                continue
            unsealed = self._unsealed[owner]
            unsealed.drop(sealed)
            total += sealed.samples
            if len(unsealed.ids) >= BLOCK_SAMPLES:
                self._due[owner] = None
        self._sealed_since = True
        if self._trimmed_until is None:
            self._trimmed_until, self._sealed_since = 0, False
        return total

    def _forget(self, owner: int) -> None:
        self._unsealed.pop(owner, None)
        self._due.pop(owner, None)


def stored_keys(layout: Layout, keys: Sequence[str]) -> tuple[str, ...]:
    """What has to be read for these keys; BadValue if there is no such metric."""
    made_of = DERIVED.get(layout.scope, {})
    for key in keys:
        find_metric(key)
    return tuple(dict.fromkeys(part for key in keys for part in made_of.get(key, (key,))))


def shown(
    stored: Series,
    layout: Layout,
    keys: Sequence[str],
    start: float | None,
    end: float | None,
    max_points: int | None,
) -> Series:
    """Some keys of stored samples, derived where they have to be, cut to a time and thinned."""
    columns = dict(stored.values)
    for key, parts in DERIVED.get(layout.scope, {}).items():
        if key in keys:
            columns[key] = percents(stored.times, [columns[part] for part in parts])
    series = Series(stored.times, {key: columns[key] for key in keys}, stored.damaged)
    series = _chosen(series, _positions_between(stored.times, start, end))
    if max_points is None or len(series.times) <= max_points:
        return series
    return _chosen(series, kept_positions(series.times, list(series.values.values()), max_points))


def _begun(connection: sqlite3.Connection, layout: Layout, owner: int) -> Unsealed | None:
    """What a writer has to know of an owner it has not met; None if there is no such owner."""
    connection.execute(
        f"INSERT OR IGNORE INTO {layout.series} ({layout.owner}, sealed_until)"
        f" SELECT seq, ? FROM {layout.owners} WHERE seq = ?",
        (head.last_id(connection, layout), owner),
    )
    return _loaded(connection, layout, owner)


def _loaded(connection: sqlite3.Connection, layout: Layout, owner: int) -> Unsealed | None:
    sealed_until = _sealed_until(connection, layout, owner)
    if sealed_until is None:
        return None
    return Unsealed(sealed_until, head.select(connection, layout, owner, sealed_until, layout.keys))


def _sealed_until(connection: sqlite3.Connection, layout: Layout, owner: int) -> int | None:
    """The last id of an owner that is in a block; None if it was never sampled."""
    if not has_tables_of(connection, layout.since_version):
        return None
    sql = f"SELECT sealed_until FROM {layout.series} WHERE {layout.owner} = ?"
    row = connection.execute(sql, (owner,)).fetchone()
    return None if row is None else int(row[0])


def _keep(connection: sqlite3.Connection, layout: Layout, owner: int, sealed: Sealed) -> bool:
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


def _blocks_between(
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
    return [(count, data) for count, data in rows]


def _joined(packed: Sequence[tuple[int, bytes]], rows: Sequence[tuple[int, Sample]], keys: Sequence[str]) -> Series:
    """Blocks and rows as one."""
    times: list[float] = []
    columns: Columns = {key: [] for key in keys}
    damaged = 0
    for count, data in packed:
        try:
            block = blocks.decode(data, keys)
        except BlockDamaged:
            damaged += count
            continue
        times += block.elapsed
        for key in keys:
            columns[key] += block.columns.get(key) or [None] * count
    times += [sample.elapsed for _, sample in rows]
    for position, key in enumerate(keys):
        columns[key] += [sample.values[position] for _, sample in rows]
    return Series(times, columns, damaged)


def _samples(data: bytes, keys: Sequence[str]) -> list[tuple[int, Sample]] | None:
    """The samples of a block and their ids; None if it is damaged."""
    try:
        block = blocks.decode(data)
    except BlockDamaged:
        return None
    return list(zip(block.ids, block.samples(keys), strict=True))


def _positions_between(times: Sequence[float], start: float | None, end: float | None) -> range:
    begin = 0 if start is None else bisect_left(times, start)
    return range(begin, len(times) if end is None else bisect_right(times, end))


def _chosen(series: Series, positions: Sequence[int]) -> Series:
    if len(positions) == len(series.times):
        return series
    values = {key: [column[position] for position in positions] for key, column in series.values.items()}
    return Series([series.times[position] for position in positions], values, series.damaged)
