"""The samples of owners of one kind: an append-only head, sealed one by one into blocks, one way to read both.

Blocks and head are read in one transaction: in two, every second read had a hole or a double while somebody sealed.
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
from jobtop.store.samples.sealed import BLOCK_SAMPLES, Unsealed, samples_after

TRIMMED_ROWS, FEWEST_TRIMMED = 2000, 100  # at once
FEWEST_UNCHANGED = 4  # owners in one row; for fewer a row each costs as little
LOOKED_AT_PER_SEALED = 3  # rows of the head: those of a sealed block lie between those of all others
OWNERS_PER_STEP = 4
ROWS_PER_SEAL = 105  # somewhat fewer than a block has: what has piled up is worked off


@record
class News:
    """What a follower has not seen, and the cursor to go on from, None as long as there was nothing.

    `damaged` samples could not be read; `over`: nothing more will come.
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
        self._due: dict[int, None] = {}
        self._seals_left = 1
        self._mergeable: dict[int, None] = {}
        self._trim_from = 0
        self._rows_to_trim = TRIMMED_ROWS  # whoever wrote before may have been killed
        self._has_columns = False

    def append(self, rows: Sequence[tuple[int, Sample]]) -> None:
        """Keep samples of any number of owners in one transaction; those of an owner in the order given.

        Samples of an owner that is not in the store any more are left out.
        """
        owners = {owner for owner, _ in rows}
        try:
            with self.database.writing() as connection:
                if not self._has_columns:
                    head.add_columns(connection, self.layout)
                new = owners - self._unsealed.keys()
                begun = {owner: _begun(connection, self.layout, owner) for owner in new}
                self._unsealed |= {owner: unsealed for owner, unsealed in begun.items() if unsealed is not None}
                gone = {owner for owner, unsealed in begun.items() if unsealed is None}
                kept = [row for row in rows if row[0] not in gone] if gone else rows
                for wave in head.waves(kept):
                    self._append_wave(connection, wave)
        except BaseException:
            for owner in owners:  # what is remembered of them may not have been kept
                self._forget(owner)
            raise
        self._has_columns = True
        self._seals_left = 1 + len(rows) // ROWS_PER_SEAL

    def _append_wave(self, connection: sqlite3.Connection, rows: Sequence[tuple[int, Sample]]) -> None:
        """Keep a sample each of different owners."""
        known = self._unsealed
        unchanged: list[tuple[int, Sample]] = []
        changed: Sequence[tuple[int, Sample]] = []
        for row in rows:
            (unchanged if known[row[0]].is_unchanged(row[1]) else changed).append(row)  # type: ignore[attr-defined]
        if len(unchanged) < FEWEST_UNCHANGED:
            unchanged, changed = [], rows
        for identifier, (owner, sample) in head.insert(connection, self.layout, changed):
            if known[owner].add(identifier, sample):
                self._due[owner] = None
        if unchanged:
            identifier = head.insert_unchanged(connection, self.layout, unchanged)
            for owner, sample in unchanged:
                if known[owner].add_unchanged(identifier, sample):
                    self._due[owner] = None

    def step(self) -> bool:
        """One small unit of housekeeping, some milliseconds at most; whether there is more before the next samples.

        1,000 jobs that began together are not sealed together.
        """
        if self._due and self._seals_left:
            owners = min(self._seals_left, OWNERS_PER_STEP)
            self._seals_left -= owners
            self.seal_due(owners)
        elif self._mergeable:
            self.merge()
        elif self._rows_to_trim >= FEWEST_TRIMMED:
            self.trim(min(self._rows_to_trim, TRIMMED_ROWS))
        return bool((self._due and self._seals_left) or self._mergeable or self._rows_to_trim >= FEWEST_TRIMMED)

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
            if not len(self._unsealed[owner]):
                self._forget(owner)
                return total
            total += self._seal([owner])

    def seal_due(self, limit: int) -> int:
        """Seal one block each of at most so many owners that have one, the longest waiting first; how many samples."""
        due = list(self._due)[:limit]
        return self._seal(due) if due else 0

    def seal_ended(self, limit: int) -> int:
        """Seal owners that ended without it, as when their writer was killed; how many samples that were."""
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
        """Make a large block of some small ones of one owner that has many; whether that was done."""
        if not self._mergeable:
            return False
        owner = next(iter(self._mergeable))
        with self.database.reading() as connection:
            large = sealed.merged(connection, self.layout, owner)
        if large is not None:
            with self.database.writing() as connection:
                sealed.put_in_place(connection, self.layout, large)
        del self._mergeable[owner]
        return large is not None

    def trim(self, limit: int = TRIMMED_ROWS) -> int:
        """Delete what is sealed among the next so many rows of the head, round and round; how many rows that were."""
        with self.database.writing() as connection:
            last, deleted = head.trim(connection, self.layout, self._trim_from, limit)
        saw_all = last is None and self._trim_from == 0
        self._rows_to_trim = 0 if saw_all else max(0, self._rows_to_trim - limit)
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
        """Stored and derived values between two moments, both included; counters as they stood.

        Of more than `max_points` samples those stay in which a key is least or greatest in its part of the time.
        """
        joined = Joined(self.layout, keys)
        joined.add_all(*self.read(owner, joined.stored, start, end))
        return joined.series(start, end, max_points)

    def read(
        self, owner: int, keys: Sequence[str], start: float | None = None, end: float | None = None
    ) -> tuple[list[tuple[int, bytes]], list[tuple[int, Sample]]]:
        """The blocks and the rows of a time, and some before it: at least one sample, if there is one."""
        with self.database.reading() as connection:
            last_id = sealed.sealed_until(connection, self.layout, owner)
            if last_id is None:
                return [], []
            packed = sealed.between(connection, self.layout, owner, start, end)
            return packed, samples_after(
                connection, self.layout, owner, last_id, keys, until=float("inf") if end is None else end
            )

    def frame_at(self, owner: int, elapsed: float) -> Frame | None:
        """The last sample at or before a moment, its rates from the one before it; None if there is none."""
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
        """The last samples at or before a moment, the oldest first, of all keys or of these; fewer if need be."""
        keys = self.layout.keys if keys is None else keys
        with self.database.reading() as connection:
            last_id = sealed.sealed_until(connection, self.layout, owner)
            if last_id is None:
                return []
            rows = samples_after(connection, self.layout, owner, last_id, keys, until=until, newest=count)
            packed = sealed.newest(connection, self.layout, owner, until) if len(rows) < count else []
        samples = [sample for _, sample in rows]
        for data in packed:
            if len(samples) < count:
                block = _samples(data, keys)
                samples = [sample for _, sample in block or () if sample.elapsed <= until] + samples
        return samples[-count:]

    def samples(self, owner: int) -> list[Sample]:
        """All samples of an owner; minutes as samples with the same extremes and means."""
        series = self.series(owner, self.layout.keys)
        return list(map(Sample, series.times, zip(*(series.values[key] for key in self.layout.keys), strict=True)))

    def follow(self, owner: int, after_id: int | None = None) -> News:
        """The samples with a greater id, all of them and each once, sealed meanwhile or not."""
        seen = after_id or 0
        with self.database.reading() as connection:
            last_id = sealed.sealed_until(connection, self.layout, owner)
            if last_id is None:
                return News([], after_id)
            packed = sealed.following(connection, self.layout, owner, seen)
            rows = samples_after(connection, self.layout, owner, last_id, self.layout.keys, after_id=seen)
        samples, damaged, cursor = [], 0, after_id
        for block_id, count, data in packed:
            block = _samples(data, self.layout.keys)
            damaged += count if block is None else 0
            samples += [sample for identifier, sample in block or () if identifier > seen]
            cursor = block_id
        samples += [sample for _, sample in rows]
        return News(samples, rows[-1][0] if rows else cursor, damaged)

    def count(self, owner: int) -> int:
        """How many samples there are, those that cannot be read included."""
        layout = self.layout
        with self.database.reading() as connection:
            last_id = sealed.sealed_until(connection, layout, owner)
            if last_id is None:
                return 0
            sql = f"SELECT {sealed.SAMPLES_SUM} FROM {layout.blocks} WHERE {layout.owner} = ?"
            in_blocks = connection.execute(sql, (owner,)).fetchone()[0]
            return int(in_blocks) + head.count(connection, layout, owner, last_id)

    def _seal(self, owners: Sequence[int]) -> int:
        """A block of each of these owners, in one transaction; packed before it begins."""
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
        self._rows_to_trim += rows * LOOKED_AT_PER_SEALED
        return total

    def _forget(self, owner: int) -> None:
        self._unsealed.pop(owner, None)
        self._due.pop(owner, None)


def _begun(connection: sqlite3.Connection, layout: Layout, owner: int) -> Unsealed | None:
    """What a writer has to know of an owner it has not met; None if there is no such owner."""
    connection.execute(
        f"INSERT OR IGNORE INTO {layout.series} ({layout.owner}, sealed_until)"
        f" SELECT seq, ? FROM {layout.owners} WHERE seq = ?",
        (head.last_id(connection, layout), owner),
    )
    return _loaded(connection, layout, owner)


def _loaded(connection: sqlite3.Connection, layout: Layout, owner: int) -> Unsealed | None:
    last_id = sealed.sealed_until(connection, layout, owner)
    if last_id is None:
        return None
    return Unsealed(last_id, samples_after(connection, layout, owner, last_id, layout.keys))


def _samples(data: bytes, keys: Sequence[str]) -> list[tuple[int, Sample]] | None:
    """The samples of a block and their ids; None if it is damaged."""
    try:
        block = blocks.decode(data)
    except BlockDamaged:
        return None
    return list(zip(block.ids, block.samples(keys), strict=True))
