"""Follow the newest samples of all jobs of a store: one query for each poll, for any number of jobs."""

from __future__ import annotations

import json
from collections import deque

from jobtop.core.measure.derive import rate
from jobtop.core.model import Sample
from jobtop.core.record import record
from jobtop.store.rows import LARGEST, is_sample
from jobtop.store.samples import head
from jobtop.store.samples.head import JOBS
from jobtop.store.samples.series import SeriesStore
from jobtop.store.schema import has_tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from jobtop.store.database import Database

    Number = float | int

SINCE_VERSION = 2
TOUCHED_SINCE_VERSION = 3  # of the schema: the column `touched` of jobs
KEYS = (
    *("cpu.user", "cpu.system", "mem.used", "io.read_bytes", "io.write_bytes", "proc.count", "proc.threads"),
    *("gpu.util", "gpu.mem_used", "limit.memory"),
)
KEPT_SECONDS = 75.0
KEPT_SAMPLES = 75
ROWS_AT_ONCE, ROWS_IN_MEMORY = 200_000, 500
FEW = 50  # jobs that are read one by one; the head has no index by job, and more are read in one query


@record
class Now:
    """The newest sample of a job; rates are since the sample before."""

    elapsed: float
    cpu_percent: float | None = None
    memory_bytes: Number | None = None
    read_rate: float | None = None
    write_rate: float | None = None
    processes: Number | None = None
    threads: Number | None = None
    gpu_percent: Number | None = None


class Tail:
    """The last minute of one job: times, CPU percent, memory; `last` has the newest values in the order of KEYS."""

    __slots__ = ("_before", "_now", "cpu", "last", "memory", "times")

    def __init__(self) -> None:
        self.times: deque[float] = deque(maxlen=KEPT_SAMPLES)
        self.cpu: deque[float | None] = deque(maxlen=KEPT_SAMPLES)
        self.memory: deque[Number | None] = deque(maxlen=KEPT_SAMPLES)
        self.last: tuple[Number | None, ...] | None = None
        self._before: tuple[Number | None, ...] | None = None
        self._now: Now | None = None

    def add(self, elapsed: float, values: tuple[Number | None, ...]) -> None:
        """Add the next sample, with values in the order of KEYS."""
        user, system, before, cpu = values[0], values[1], self.last, None
        if before is not None and user is not None and system is not None and None not in before[:2]:
            busy = rate(before[0] + before[1], user + system, elapsed - self.times[-1])  # type: ignore[operator]
            cpu = None if busy is None else 100 * busy
        self.times.append(elapsed)
        self.cpu.append(cpu)
        self.memory.append(values[2])
        self.last, self._before, self._now = values, before, None

    @property
    def now(self) -> Now:
        """The newest sample; made when it is asked for, since most samples of a tail never are."""
        if self._now is None:
            self._now = self._newest()
        return self._now

    def _newest(self) -> Now:
        if self.last is None:
            return Now(0.0)
        _, _, memory, read, write, processes, threads, gpu, *_ = self.last
        read_rate = write_rate = None
        if self._before is not None:
            seconds = self.times[-1] - self.times[-2]
            read_rate, write_rate = rate(self._before[3], read, seconds), rate(self._before[4], write, seconds)
        return Now(self.times[-1], self.cpu[-1], memory, read_rate, write_rate, processes, threads, gpu)


def newest(database: Database) -> tuple[int | None, ...]:
    """The greatest `seq` and the greatest `touched` of all jobs: they tell two stores, or two states of one, apart."""
    with database.reading() as connection:
        touched = "max(touched)" if has_tables_of(connection, TOUCHED_SINCE_VERSION) else "count(*)"
        return tuple(connection.execute(f"SELECT max(seq), {touched} FROM jobs").fetchone())


def still_there(database: Database, seqs: Iterable[int]) -> dict[int, float | None]:
    """The jobs that are not deleted, each with its heartbeat; a heartbeat does not change `touched`."""
    with database.reading() as connection:
        sql = "SELECT seq, heartbeat FROM jobs WHERE seq IN (SELECT value FROM json_each(?))"
        return dict(map(tuple, connection.execute(sql, (json.dumps(list(seqs)),))))


class LiveTails:
    """Follows the head of a store, and has the tails of the jobs that the last poll asked for."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.tails: dict[int, Tail] = {}
        self._last_id: int | None = None
        self._sealed: set[int] = set()  # jobs with a tail that has only samples from blocks
        self._incomplete: set[int] = set()  # jobs with samples, or values of samples, in rows that were not read

    def poll(self, wanted: Iterable[int]) -> set[int]:
        """Read new samples; return the jobs among the wanted ones that have any."""
        wanted = set(wanted)
        for seq in self.tails.keys() - wanted:
            del self.tails[seq]
        changed = self._add_tails(wanted - self.tails.keys())
        self._read_new(wanted, changed)
        self._incomplete &= wanted
        for seq in sorted(self._incomplete)[:FEW]:  # the next poll reads more
            self._load(seq)
            changed.add(seq)
        return changed

    def _read_new(self, wanted: set[int], changed: set[int]) -> None:
        """Add the rows of the head after the last poll to the tails."""
        with self.database.reading() as connection:
            if not has_tables_of(connection, SINCE_VERSION):
                return
            newest = head.last_id(connection, JOBS)
            if self._last_id is None:
                self._last_id = newest if len(wanted) <= FEW else max(0, newest - KEPT_SAMPLES * len(wanted))
            if newest == self._last_id:
                return
            names = head.selected_columns(connection, JOBS, KEYS)
            cursor = connection.cursor()
            cursor.row_factory = None
            cursor.execute(
                f"SELECT id, job_seq, elapsed, {names} FROM head WHERE id > ? ORDER BY id LIMIT ?",
                (self._last_id, ROWS_AT_ONCE),
            )
            while rows := cursor.fetchmany(ROWS_IN_MEMORY):  # Python does not give memory back to the system
                self._add_rows(rows, changed)

    def _add_rows(self, rows: Sequence[tuple[Any, ...]], changed: set[int]) -> None:
        for row in rows:
            identifier, seq, elapsed, listed, *values = row
            self._last_id = identifier
            if listed is not None:
                self._add_unchanged(listed, changed)
                continue
            tail = self.tails.get(seq) if is_sample(row) else None
            if tail is not None and (not tail.times or elapsed > tail.times[-1]):
                tail.add(elapsed, tuple(values))
                changed.add(seq)
                self._sealed.discard(seq)

    def _add_unchanged(self, listed: object, changed: set[int]) -> None:
        """Add samples with the values of the samples before."""
        for seq, elapsed in zip(*head.unchanged_in(listed), strict=True):
            tail = self.tails.get(seq)
            if tail is None or not -LARGEST <= elapsed <= LARGEST:
                continue
            if tail.last is None or seq in self._sealed:
                self._incomplete.add(seq)
            elif elapsed > tail.times[-1]:
                tail.add(elapsed, tail.last)
                changed.add(seq)

    def _add_tails(self, seqs: set[int]) -> set[int]:
        """Add tails with the last minute of some jobs; return these jobs.

        Many jobs get what is in blocks, and the rest from the rows of the head that are read next.
        """
        for seq in seqs:
            self.tails[seq] = Tail()
        if len(seqs) <= FEW:
            for seq in seqs:
                self._load(seq)
        elif self._last_id is None:
            self._load_sealed(seqs)
        else:
            self._incomplete |= seqs
        return set(seqs)

    def _load_sealed(self, seqs: set[int]) -> None:
        """Add the newest samples in blocks to empty tails."""
        series = SeriesStore(self.database)
        with self.database.reading():
            for seq in seqs:
                for sample in series.newest_sealed(seq, KEPT_SAMPLES, KEYS):
                    self.tails[seq].add(sample.elapsed, sample.values)
        self._sealed |= {seq for seq in seqs if self.tails[seq].times}

    def _load(self, seq: int) -> None:
        """Replace a tail by the last minute of its job."""
        self._sealed.discard(seq)
        self._incomplete.discard(seq)
        tail = self.tails[seq] = Tail()
        samples: list[Sample] = SeriesStore(self.database).newest(seq, KEPT_SAMPLES, keys=KEYS)
        for sample in samples:
            if sample.elapsed >= samples[-1].elapsed - KEPT_SECONDS:
                tail.add(sample.elapsed, sample.values)
