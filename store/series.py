"""What jobs were sampled at: an append-only head, sealed job by job into blocks, and one way to read both.

Blocks and head are read in one transaction: in two, every second read had a hole or a double while somebody sealed.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from jobtop.core import blocks
from jobtop.core.derive import Frame, derive, percents
from jobtop.core.errors import BlockDamaged
from jobtop.core.metrics import DERIVED, JOB_COLUMNS, Scope, find_metric
from jobtop.core.model import LIVE, Sample
from jobtop.core.record import record
from jobtop.core.thinning import kept_positions
from jobtop.store import head
from jobtop.store.database import Database

Number = float | int
Columns = dict[str, list[Number | None]]
SINCE_VERSION = 2
BLOCK_SAMPLES = 120
TRIMMED_IDS = 2000
MADE_OF = DERIVED[Scope.JOB]


@record
class Series:
    """Values over time: for each key as many as there are moments; `damaged` samples could not be read."""

    times: list[float]
    values: Columns
    damaged: int = 0


@record
class News:
    """What a follower has not seen, and the cursor to go on from; `damaged` samples could not be read."""

    samples: list[Sample]
    cursor: int
    damaged: int = 0


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
    """The samples of a job that are only in the head, as its one writer remembers them: some 1 KB each.

    Three lists and no `Sample`: of 120,000 objects the garbage collector would make half of every tick.
    """

    __slots__ = ("ids", "moments", "sealed_until", "values")

    def __init__(self, sealed_until: int, rows: Sequence[tuple[int, Sample]] = ()) -> None:
        self.sealed_until = sealed_until
        self.ids = [identifier for identifier, _ in rows]
        self.moments = [sample.elapsed for _, sample in rows]
        self.values = [sample.values for _, sample in rows]

    def packed(self) -> Sealed | None:
        """The oldest block's worth of samples; None if there are none."""
        ids, moments = self.ids[:BLOCK_SAMPLES], self.moments[:BLOCK_SAMPLES]
        if not ids:
            return None
        data = blocks.encode(JOB_COLUMNS, ids, moments, self.values[:BLOCK_SAMPLES])
        # As they are read from the block: to the millisecond.
        return Sealed(self.sealed_until, ids[-1], round(moments[0], 3), round(moments[-1], 3), len(ids), data)

    def drop(self, sealed: Sealed) -> None:
        del self.ids[: sealed.samples], self.moments[: sealed.samples], self.values[: sealed.samples]
        self.sealed_until = sealed.last_id


class SeriesStore:
    """The samples of the jobs of one store; a job has one writer at a time."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._unsealed: dict[int, Unsealed] = {}
        self._due: dict[int, None] = {}
        self._trimmed_until: int | None = 0
        self._sealed_since = False

    def append(self, rows: Sequence[tuple[int, Sample]]) -> None:
        """Keep samples of any number of jobs in one transaction; those of a job in the order given.

        Samples of a job that is not in the store any more are left out.
        """
        with self.database.writing() as connection:
            begun = {job: _begun(connection, job) for job in {job for job, _ in rows} - self._unsealed.keys()}
            gone = {job for job, unsealed in begun.items() if unsealed is None}
            inserted = head.insert(connection, [row for row in rows if row[0] not in gone] if gone else rows)
        self._unsealed |= {job: unsealed for job, unsealed in begun.items() if unsealed is not None}
        for identifier, job, sample in inserted:
            unsealed = self._unsealed[job]
            unsealed.ids.append(identifier)
            unsealed.moments.append(sample.elapsed)
            unsealed.values.append(sample.values)
            if len(unsealed.ids) >= BLOCK_SAMPLES:
                self._due[job] = None

    def seal(self, job_seq: int) -> int:
        """Seal all that a job has, as at its end, and forget it; how many samples that were."""
        total = 0
        while True:
            if job_seq not in self._unsealed:
                with self.database.reading() as connection:
                    unsealed = _loaded(connection, job_seq)
                if unsealed is None:
                    return total
                self._unsealed[job_seq] = unsealed
            if not self._unsealed[job_seq].ids:
                self._forget(job_seq)
                return total
            total += self._seal([job_seq])

    def seal_due(self, limit: int | None = None) -> int:
        """Seal one block each of at most so many jobs that have one, the longest waiting first; how many samples.

        By default as many as it takes to keep up: 1,000 jobs that began together are not sealed together.
        """
        due = list(self._due)[: 1 + len(self._unsealed) // BLOCK_SAMPLES if limit is None else limit]
        return self._seal(due) if due else 0

    def seal_ended(self, limit: int) -> int:
        """Seal jobs that ended without it, as when their writer was killed; how many samples that were."""
        live = ", ".join(f"'{status}'" for status in LIVE)
        with self.database.reading() as connection:
            ended = connection.execute(
                "SELECT DISTINCT job_seq FROM head JOIN series USING (job_seq) JOIN jobs ON seq = job_seq"
                f" WHERE head.id > sealed_until AND status NOT IN ({live}) LIMIT ?",
                (limit,),
            ).fetchall()
        return sum(self.seal(job_seq) for (job_seq,) in ended)

    def trim(self, limit: int = TRIMMED_IDS) -> int:
        """Delete what is sealed from the next so many ids of the head; how many rows that were."""
        if self._trimmed_until is None:
            return 0
        with self.database.writing() as connection:
            first, last = connection.execute("SELECT (SELECT min(id) FROM head), (SELECT max(id) FROM head)").fetchone()
            begin = max(first or 0, self._trimmed_until + 1)
            end = begin + limit - 1
            # Rows of a job that is gone go too.
            deleted = connection.execute(
                "DELETE FROM head WHERE id BETWEEN ? AND ?"
                " AND id <= coalesce((SELECT sealed_until FROM series WHERE series.job_seq = head.job_seq), id)",
                (begin, end),
            ).rowcount
        self._trimmed_until = end
        if end >= (last or 0):
            self._trimmed_until, self._sealed_since = (0 if self._sealed_since else None), False
        return deleted

    def series(
        self,
        job_seq: int,
        keys: Sequence[str],
        start: float | None = None,
        end: float | None = None,
        max_points: int | None = None,
    ) -> Series:
        """Stored and derived values between two moments, both included; counters as they stood.

        Of more than `max_points` samples those stay in which a key is least or greatest in its part of the time.
        """
        for key in keys:
            find_metric(key)
        stored = tuple(dict.fromkeys(part for key in keys for part in MADE_OF.get(key, (key,))))
        with self.database.reading() as connection:
            sealed_until = _sealed_until(connection, job_seq)
            if sealed_until is None:
                return Series([], {key: [] for key in keys})
            packed = _blocks_between(connection, job_seq, start, end)
            rows = head.select(connection, job_seq, sealed_until, stored, end)
        times, columns, damaged = _joined(packed, rows, stored)
        for key in MADE_OF.keys() & set(keys):
            columns[key] = percents(times, [columns[part] for part in MADE_OF[key]])
        series = Series(times, {key: columns[key] for key in keys}, damaged)
        series = _chosen(series, _positions_between(times, start, end))
        if max_points is None or len(series.times) <= max_points:
            return series
        return _chosen(series, kept_positions(series.times, list(series.values.values()), max_points))

    def frame_at(self, job_seq: int, elapsed: float) -> Frame | None:
        """The last sample at or before a moment, its rates from the one before it; None if there is none."""
        with self.database.reading() as connection:
            sealed_until = _sealed_until(connection, job_seq)
            if sealed_until is None:
                return None
            packed = connection.execute(
                "SELECT data FROM blocks WHERE job_seq = ? AND first_elapsed <= ? ORDER BY last_id DESC LIMIT 2",
                (job_seq, elapsed),
            ).fetchall()
            rows = head.select(connection, job_seq, sealed_until, JOB_COLUMNS, elapsed, newest=2)
        samples = [sample for _, sample in rows]
        for (data,) in packed:
            if len(samples) < 2:
                block = _samples(data)
                samples = [sample for _, sample in block or () if sample.elapsed <= elapsed] + samples
        if not samples:
            return None
        return derive(samples[-2] if len(samples) > 1 else None, samples[-1])

    def follow(self, job_seq: int, after_id: int = 0) -> News:
        """The samples with a greater id, all of them and each once, sealed meanwhile or not."""
        with self.database.reading() as connection:
            sealed_until = _sealed_until(connection, job_seq)
            if sealed_until is None:
                return News([], after_id)
            packed = connection.execute(
                "SELECT last_id, samples, data FROM blocks WHERE job_seq = ? AND last_id > ? ORDER BY last_id",
                (job_seq, after_id),
            ).fetchall()
            rows = head.select(connection, job_seq, max(sealed_until, after_id), JOB_COLUMNS)
        samples, damaged, cursor = [], 0, after_id
        for last_id, count, data in packed:
            block = _samples(data)
            damaged += count if block is None else 0
            samples += [sample for identifier, sample in block or () if identifier > after_id]
            cursor = last_id
        samples += [sample for _, sample in rows]
        return News(samples, rows[-1][0] if rows else cursor, damaged)

    def _seal(self, jobs: Sequence[int]) -> int:
        """A block of each of these jobs, in one transaction; packed before it begins."""
        packed = [(job, sealed) for job in jobs if (sealed := self._unsealed[job].packed()) is not None]
        with self.database.writing() as connection:
            kept = [_keep(connection, job, sealed) for job, sealed in packed]
        total = 0
        for (job, sealed), is_kept in zip(packed, kept, strict=True):
            self._due.pop(job, None)
            if not is_kept:
                self._forget(job)
                continue
            unsealed = self._unsealed[job]
            unsealed.drop(sealed)
            total += sealed.samples
            if len(unsealed.ids) >= BLOCK_SAMPLES:
                self._due[job] = None
        self._sealed_since = True
        if self._trimmed_until is None:
            self._trimmed_until, self._sealed_since = 0, False
        return total

    def _forget(self, job_seq: int) -> None:
        self._unsealed.pop(job_seq, None)
        self._due.pop(job_seq, None)


def _begun(connection: sqlite3.Connection, job_seq: int) -> Unsealed | None:
    """What a writer has to know of a job it has not met; None if there is no such job."""
    connection.execute(
        "INSERT OR IGNORE INTO series (job_seq, sealed_until) SELECT seq, ? FROM jobs WHERE seq = ?",
        (head.last_id(connection), job_seq),
    )
    return _loaded(connection, job_seq)


def _loaded(connection: sqlite3.Connection, job_seq: int) -> Unsealed | None:
    sealed_until = _sealed_until(connection, job_seq)
    if sealed_until is None:
        return None
    return Unsealed(sealed_until, head.select(connection, job_seq, sealed_until, JOB_COLUMNS))


def _sealed_until(connection: sqlite3.Connection, job_seq: int) -> int | None:
    """The last id of a job that is in a block; None if it was never sampled."""
    # A store that can only be read may be older than its samples' tables.
    if connection.execute("PRAGMA user_version").fetchone()[0] < SINCE_VERSION:
        return None
    row = connection.execute("SELECT sealed_until FROM series WHERE job_seq = ?", (job_seq,)).fetchone()
    return None if row is None else int(row[0])


def _keep(connection: sqlite3.Connection, job_seq: int, sealed: Sealed) -> bool:
    """Keep a block and say that its samples are sealed; not if somebody else has done so, or the job is gone."""
    changed = connection.execute(
        "UPDATE series SET sealed_until = ? WHERE job_seq = ? AND sealed_until = ?",
        (sealed.last_id, job_seq, sealed.after_id),
    ).rowcount
    if not changed:
        return False
    connection.execute(
        "INSERT INTO blocks (job_seq, first_elapsed, last_elapsed, last_id, samples, data) VALUES (?, ?, ?, ?, ?, ?)",
        (job_seq, sealed.first_elapsed, sealed.last_elapsed, sealed.last_id, sealed.samples, sealed.data),
    )
    return True


def _blocks_between(
    connection: sqlite3.Connection, job_seq: int, start: float | None, end: float | None
) -> list[tuple[int, bytes]]:
    """How many samples, and the bytes, of each block of a time, and of the one before, for the first rate."""
    begin = -1.0
    if start is not None:
        sql = "SELECT max(last_elapsed) FROM blocks WHERE job_seq = ? AND last_elapsed < ?"
        before = connection.execute(sql, (job_seq, start)).fetchone()[0]
        begin = start if before is None else before
    rows = connection.execute(
        "SELECT samples, data FROM blocks WHERE job_seq = ? AND last_elapsed >= ? AND first_elapsed <= ?"
        " ORDER BY last_id",
        (job_seq, begin, float("inf") if end is None else end),
    )
    return [(count, data) for count, data in rows]


def _joined(
    packed: Sequence[tuple[int, bytes]], rows: Sequence[tuple[int, Sample]], keys: Sequence[str]
) -> tuple[list[float], Columns, int]:
    """The moments and columns of blocks and rows as one, and how many samples could not be read."""
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
    return times, columns, damaged


def _samples(data: bytes) -> list[tuple[int, Sample]] | None:
    """The samples of a block and their ids; None if it is damaged."""
    try:
        block = blocks.decode(data)
    except BlockDamaged:
        return None
    return list(zip(block.ids, block.samples(JOB_COLUMNS), strict=True))


def _positions_between(times: Sequence[float], start: float | None, end: float | None) -> range:
    begin = 0 if start is None else bisect_left(times, start)
    return range(begin, len(times) if end is None else bisect_right(times, end))


def _chosen(series: Series, positions: Sequence[int]) -> Series:
    if len(positions) == len(series.times):
        return series
    values = {key: [column[position] for position in positions] for key, column in series.values.items()}
    return Series([series.times[position] for position in positions], values, series.damaged)
