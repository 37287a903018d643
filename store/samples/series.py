"""The samples of all owners of one kind: new ones in the head, older ones sealed into blocks; one way to read both.

A read takes head and blocks in one transaction. With two, half of the reads missed or doubled samples that another
process sealed in between.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from jobtop.core.errors import BlockDamaged
from jobtop.core.measure.derive import Frame, derive, derive_keys
from jobtop.core.model import Sample
from jobtop.core.record import record
from jobtop.core.series import blocks
from jobtop.store.database import Database
from jobtop.store.samples import head, sealed
from jobtop.store.samples.head import JOBS, Layout
from jobtop.store.samples.joined import Joined, Series
from jobtop.store.samples.sealed import BLOCK_SAMPLES, MOST_UNCHANGED, Unsealed, samples_after

MOST_TRIMMED, FEWEST_TRIMMED = 2000, 100  # rows of the head in one transaction
FEWEST_LISTED = 4  # owners in a list: for fewer, a row each costs no more
CHECKED_PER_SEALED = 3  # rows to check for each sealed one: the rows of a block lie between those of other owners
OWNERS_PER_STEP = 4
SAMPLES_PER_SEAL = 105  # less than a block has, so that a backlog of blocks becomes smaller


@record
class News:
    """The samples that a follower has not read yet, and the cursor for its next call; None before the first sample.

    `damaged` is the number of samples that cannot be read. With `over`, there will be no more samples.
    """

    samples: list[Sample]
    cursor: int | None
    damaged: int = 0
    over: bool = False


class SeriesStore:
    """The samples of all owners of one kind in a store; an owner has one writer at a time."""

    def __init__(self, database: Database, layout: Layout = JOBS) -> None:
        self.database, self.layout = database, layout
        self._unsealed: dict[int, Unsealed] = {}
        self._due: dict[int, None] = {}  # owners with enough samples for a block, the longest waiting first
        self._seals_left = 1  # until the next samples
        self._mergeable: dict[int, None] = {}
        self._trim_from = 0
        self._rows_to_check = MOST_TRIMMED  # an earlier writer may have been killed before it trimmed
        self._has_columns = False

    def append(self, rows: Sequence[tuple[int, Sample]]) -> None:
        """Append samples of any number of owners in one transaction; the samples of one owner are in order.

        Samples of an owner that is not in the store any more are dropped.
        """
        owners = {owner for owner, _ in rows}
        try:
            with self.database.writing() as connection:
                if not self._has_columns:
                    head.add_columns(connection, self.layout)
                new = owners - self._unsealed.keys()
                begun = {owner: _begin_series(connection, self.layout, owner) for owner in new}
                self._unsealed |= {owner: unsealed for owner, unsealed in begun.items() if unsealed is not None}
                gone = {owner for owner, unsealed in begun.items() if unsealed is None}
                kept = [row for row in rows if row[0] not in gone] if gone else rows
                for part in head.one_per_owner(kept):
                    self._append_part(connection, part)
        except BaseException:
            for owner in owners:  # the memory may have samples that the store has not
                self._forget(owner)
            raise
        self._has_columns = True
        self._seals_left = 1 + len(rows) // SAMPLES_PER_SEAL

    def _append_part(self, connection: sqlite3.Connection, rows: Sequence[tuple[int, Sample]]) -> None:
        """Append one sample each of different owners."""
        unsealed = self._unsealed
        unchanged: list[tuple[int, Sample]] = []
        changed: list[tuple[int, Sample]] = []
        for row in rows:
            values, before = row[1].values, unsealed[row[0]]
            is_unchanged = (values is before.last or values == before.last) and before.unchanged < MOST_UNCHANGED
            (unchanged if is_unchanged else changed).append(row)
        if len(unchanged) < FEWEST_LISTED:
            unchanged, changed = [], list(rows)
        for identifier, (owner, sample) in head.insert(connection, self.layout, changed):
            if unsealed[owner].add(identifier, sample):
                self._due[owner] = None
        for begin in range(0, len(unchanged), head.MOST_LISTED):
            listed = unchanged[begin : begin + head.MOST_LISTED]
            identifier = head.insert_unchanged(connection, self.layout, listed)
            for owner, sample in listed:
                if unsealed[owner].add_unchanged(identifier, sample):
                    self._due[owner] = None

    def step(self) -> bool:
        """Do one unit of housekeeping, some milliseconds at most; return whether there is more to do now.

        Few owners are sealed after each append, so that 1,000 jobs that began together are not sealed together.
        """
        if self._due and self._seals_left:
            owners = min(self._seals_left, OWNERS_PER_STEP)
            self._seals_left -= owners
            self.seal_due(owners)
        elif self._mergeable:
            self.merge()
        elif self._rows_to_check >= FEWEST_TRIMMED:
            self.trim(min(self._rows_to_check, MOST_TRIMMED))
        return bool((self._due and self._seals_left) or self._mergeable or self._rows_to_check >= FEWEST_TRIMMED)

    def seal(self, owner: int) -> int:
        """Seal all samples of an owner, as at its end, and forget it; return the number of samples."""
        total = 0
        while True:
            if owner not in self._unsealed:
                with self.database.reading() as connection:
                    unsealed = _load_unsealed(connection, self.layout, owner)
                if unsealed is None:
                    return total
                self._unsealed[owner] = unsealed
            if not len(self._unsealed[owner]):
                self._forget(owner)
                return total
            total += self._seal([owner])

    def seal_due(self, limit: int) -> int:
        """Seal one block each of at most `limit` owners, the longest waiting first; return the number of samples."""
        due = list(self._due)[:limit]
        return self._seal(due) if due else 0

    def seal_ended(self, limit: int) -> int:
        """Seal at most `limit` owners that ended and were not sealed, because their writer was killed.

        Returns the number of samples.
        """
        layout = self.layout
        with self.database.reading() as connection:
            unsealed = json.dumps(list(head.unsealed_owners(connection, layout)))
            ended = connection.execute(
                f"SELECT seq FROM {layout.owners} WHERE seq IN (SELECT value FROM json_each(?)) AND {layout.is_over}"
                " LIMIT ?",
                (unsealed, limit),
            ).fetchall()
        return sum(self.seal(owner) for (owner,) in ended)

    def merge(self) -> bool:
        """Merge some small blocks of one owner into a large one; return whether there were such blocks."""
        if not self._mergeable:
            return False
        owner = next(iter(self._mergeable))
        with self.database.reading() as connection:
            large = sealed.merged(connection, self.layout, owner)
        if large is not None:
            with self.database.writing() as connection:
                sealed.store_merged(connection, self.layout, large)
        del self._mergeable[owner]
        return large is not None

    def trim(self, limit: int = MOST_TRIMMED) -> int:
        """Delete the sealed rows among the next `limit` rows of the head; return the number of deleted rows.

        The next call goes on from there, and at the end of the head from its beginning.
        """
        with self.database.writing() as connection:
            last, deleted = head.trim(connection, self.layout, self._trim_from, limit)
        checked_all = last is None and self._trim_from == 0
        self._rows_to_check = 0 if checked_all else max(0, self._rows_to_check - limit)
        self._trim_from = 0 if last is None else last + 1
        return deleted

    def series(
        self,
        owner: int,
        keys: Sequence[str],
        start: float | None = None,
        end: float | None = None,
        max_points: int | None = None,
    ) -> Series:
        """Stored and derived values between two times, both included; counters are cumulative.

        More than `max_points` samples are thinned: the samples with minima and maxima of the keys stay.
        """
        joined = Joined(self.layout, keys)
        joined.add_all(*self.read(owner, joined.stored, start, end))
        return joined.series(start, end, max_points)

    def read(
        self, owner: int, keys: Sequence[str], start: float | None = None, end: float | None = None
    ) -> tuple[list[tuple[int, bytes]], list[tuple[int, Sample]]]:
        """The blocks and the head's samples between two times, with at least one sample before, if there is one."""
        with self.database.reading() as connection:
            last_id = sealed.sealed_until(connection, self.layout, owner)
            if last_id is None:
                return [], []
            packed = sealed.blocks_between(connection, self.layout, owner, start, end)
            return packed, samples_after(
                connection, self.layout, owner, last_id, keys, until=float("inf") if end is None else end
            )

    def frame_at(self, owner: int, elapsed: float) -> Frame | None:
        """The last sample at or before a time, with rates since the sample before; None if there is none."""
        samples = self.newest(owner, 2, elapsed)
        if not samples:
            return None
        before, layout = samples[-2] if len(samples) > 1 else None, self.layout
        if layout.scope is None:
            return derive_keys(before, samples[-1], layout.keys)
        return derive(before, samples[-1], layout.scope)

    def newest(
        self, owner: int, count: int, until: float = float("inf"), keys: Sequence[str] | None = None
    ) -> list[Sample]:
        """The last `count` samples, or fewer, at or before a time, oldest first, with all keys or these."""
        keys = self.layout.keys if keys is None else keys
        with self.database.reading() as connection:
            last_id = sealed.sealed_until(connection, self.layout, owner)
            if last_id is None:
                return []
            rows = samples_after(connection, self.layout, owner, last_id, keys, until=until, newest=count)
            packed = sealed.newest_blocks(connection, self.layout, owner, until) if len(rows) < count else []
        samples = [sample for _, sample in rows]
        for data in packed:
            if len(samples) < count:
                block = samples_in(data, keys)
                samples = [sample for _, sample in block or () if sample.elapsed <= until] + samples
        return samples[-count:]

    def newest_sealed(self, owner: int, count: int, keys: Sequence[str]) -> list[Sample]:
        """The last `count` samples that are in blocks, or fewer, oldest first, with these keys."""
        with self.database.reading() as connection:
            is_sampled = sealed.sealed_until(connection, self.layout, owner) is not None
            packed = sealed.newest_blocks(connection, self.layout, owner, float("inf")) if is_sampled else []
        samples: list[Sample] = []
        for data in packed:
            if len(samples) < count:
                samples = [sample for _, sample in samples_in(data, keys) or ()] + samples
        return samples[-count:]

    def samples(self, owner: int) -> list[Sample]:
        """All samples of an owner; minutes become samples with the same extremes and means."""
        series = self.series(owner, self.layout.keys)
        return list(map(Sample, series.times, zip(*(series.values[key] for key in self.layout.keys), strict=True)))

    def follow(self, owner: int, after_id: int | None = None) -> News:
        """The samples after an id, each once, whether they were sealed in the meantime or not."""
        seen = after_id or 0
        with self.database.reading() as connection:
            last_id = sealed.sealed_until(connection, self.layout, owner)
            if last_id is None:
                return News([], after_id)
            packed = sealed.blocks_after(connection, self.layout, owner, seen)
            rows = samples_after(connection, self.layout, owner, last_id, self.layout.keys, after_id=seen)
        samples, damaged, cursor = [], 0, after_id
        for block_id, count, data in packed:
            block = samples_in(data, self.layout.keys)
            damaged += count if block is None else 0
            samples += [sample for identifier, sample in block or () if identifier > seen]
            cursor = block_id
        samples += [sample for _, sample in rows]
        return News(samples, rows[-1][0] if rows else cursor, damaged)

    def count(self, owner: int) -> int:
        """The number of samples of an owner, including those that cannot be read."""
        layout = self.layout
        with self.database.reading() as connection:
            last_id = sealed.sealed_until(connection, layout, owner)
            if last_id is None:
                return 0
            sql = f"SELECT {sealed.SAMPLES_SUM} FROM {layout.blocks} WHERE {layout.owner} = ?"
            in_blocks = connection.execute(sql, (owner,)).fetchone()[0]
            return int(in_blocks) + head.count(connection, layout, owner, last_id)

    def _seal(self, owners: Sequence[int]) -> int:
        """Seal one block of each of these owners in one transaction; return the number of samples.

        The blocks are packed before the transaction begins, so that it is short.
        """
        layout = self.layout
        packed = [
            (owner, block) for owner in owners if (block := self._unsealed[owner].packed(layout.keys)) is not None
        ]
        with self.database.writing() as connection:
            kept = {owner for owner, block in packed if sealed.keep(connection, layout, owner, block)}
            mergeable = [owner for owner in kept if sealed.has_many_small(connection, layout, owner)]
        self._mergeable |= dict.fromkeys(mergeable)
        total = rows = 0
        for owner, block in packed:
            self._due.pop(owner, None)
            if owner not in kept:
                self._forget(owner)
                continue
            unsealed = self._unsealed[owner]
            unsealed.drop(block)
            total, rows = total + block.samples, rows + block.rows + 1
            if len(unsealed) >= BLOCK_SAMPLES:
                self._due[owner] = None
        self._rows_to_check += rows * CHECKED_PER_SEALED
        return total

    def _forget(self, owner: int) -> None:
        self._unsealed.pop(owner, None)
        self._due.pop(owner, None)


def _begin_series(connection: sqlite3.Connection, layout: Layout, owner: int) -> Unsealed | None:
    """Give an owner a row in the table of series, and load its unsealed samples; None if there is no such owner."""
    connection.execute(
        f"INSERT OR IGNORE INTO {layout.series} ({layout.owner}, sealed_until)"
        f" SELECT seq, ? FROM {layout.owners} WHERE seq = ?",
        (head.last_id(connection, layout), owner),
    )
    return _load_unsealed(connection, layout, owner)


def _load_unsealed(connection: sqlite3.Connection, layout: Layout, owner: int) -> Unsealed | None:
    """The unsealed samples of an owner, read from the head; None if it was never sampled."""
    last_id = sealed.sealed_until(connection, layout, owner)
    if last_id is None:
        return None
    return Unsealed(last_id, samples_after(connection, layout, owner, last_id, layout.keys))


def samples_in(data: bytes, keys: Sequence[str]) -> list[tuple[int, Sample]] | None:
    """The samples of a block with their ids; None if the block is damaged."""
    try:
        block = blocks.decode(data)
    except BlockDamaged:
        return None
    return list(zip(block.ids, block.samples(keys), strict=True))
