"""Values over time under names that jobs chose themselves: a loss, a step, a queue length."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

from jobtop.core.metrics import VALUE
from jobtop.core.model import Job, Sample
from jobtop.store.database import Database
from jobtop.store.jobs import stored_text
from jobtop.store.samples.head import NAMED
from jobtop.store.samples.joined import Joined, Series
from jobtop.store.samples.series import SeriesStore
from jobtop.store.schema import has_tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    Reading = tuple[int, str, float, float | None]


class NamedRecord:
    """The named series of the jobs of one store; a job has one writer at a time."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.store = SeriesStore(database, NAMED)
        self._numbers: dict[tuple[int, str], int | None] = {}
        self._last_elapsed: dict[int, float] = {}

    def append(self, readings: Iterable[Reading]) -> None:
        """Append values: each with the number of its job, its name and the seconds since the start of the job.

        Values of a deleted job are dropped. A value that is not finite is stored as absent. A time before the last one
        of its name is stored as that one: series are read in order. After a transaction that failed, make a new
        NamedRecord.
        """
        rows = []
        with self.database.writing() as connection:
            for job_seq, name, elapsed, value in readings:
                number = self._number(connection, job_seq, name)
                if number is not None:
                    at = self._last_elapsed[number] = max(elapsed, self._last_elapsed.get(number, elapsed))
                    finite = value if value is not None and math.isfinite(value) else None
                    rows.append((number, Sample(at, (finite,))))
            self.store.append(rows)

    def jobs_with(self, pattern: str, job_seqs: Iterable[int]) -> set[int]:
        """Which of these jobs have a name that matches a GLOB pattern."""
        with self.database.reading() as connection:
            if not has_tables_of(connection, NAMED.since_version):
                return set()
            sql = "SELECT DISTINCT job_seq FROM named WHERE job_seq IN (SELECT value FROM json_each(?)) AND name GLOB ?"
            return {seq for (seq,) in connection.execute(sql, (json.dumps(list(job_seqs)), pattern))}

    def names(self, job: Job) -> list[str]:
        """The names that a job chose, in the order of their first values."""
        with self.database.reading() as connection:
            return list(_numbers(connection, job.seq))

    def series(
        self,
        job: Job,
        name: str,
        start: float | None = None,
        end: float | None = None,
        max_points: int | None = None,
    ) -> Series:
        """The values of one name, under the key `value`, as `SeriesStore.series` gives them."""
        with self.database.reading() as connection:
            number = _numbers(connection, job.seq).get(name)
        if number is None:
            return Joined(NAMED, (VALUE,)).series(None, None, None)
        return self.store.series(number, (VALUE,), start, end, max_points)

    def newest(self, job: Job, until: float = float("inf")) -> dict[str, tuple[float, float | int | None]]:
        """The time and the value of the newest sample of each name of a job, or of the last one until a moment."""
        with self.database.reading() as connection:
            numbers = _numbers(connection, job.seq)
        last = {name: self.store.newest(number, 1, until) for name, number in numbers.items()}
        return {name: (samples[-1].elapsed, samples[-1].values[0]) for name, samples in last.items() if samples}

    def seal(self, job_seq: int) -> None:
        """Seal all named series of a job, as at its end, and forget them."""
        with self.database.reading() as connection:
            numbers = _numbers(connection, job_seq)
        for name, number in numbers.items():
            self.store.seal(number)
            self._last_elapsed.pop(number, None)
            self._numbers.pop((job_seq, name), None)

    def step(self) -> bool:
        """Do one unit of housekeeping; return whether there is more to do."""
        return self.store.step()

    def _number(self, connection: sqlite3.Connection, job_seq: int, name: str) -> int | None:
        """The number of a name of a job; its row is created if there is none. None if there is no such job."""
        key = (job_seq, name)
        if key not in self._numbers:
            text = stored_text(name)
            sql = "INSERT OR IGNORE INTO named (job_seq, name) SELECT seq, CAST(? AS TEXT) FROM jobs WHERE seq = ?"
            connection.execute(sql, (text, job_seq))
            sql = "SELECT seq FROM named WHERE job_seq = ? AND name = CAST(? AS TEXT)"
            row = connection.execute(sql, (job_seq, text)).fetchone()
            self._numbers[key] = None if row is None else int(row[0])
        return self._numbers[key]


def _numbers(connection: sqlite3.Connection, job_seq: int | None) -> dict[str, int]:
    """The number of each name of a job."""
    if not has_tables_of(connection, NAMED.since_version):
        return {}
    rows = connection.execute("SELECT name, seq FROM named WHERE job_seq = ? ORDER BY seq", (job_seq,))
    return {name: number for name, number in rows if type(name) is str}
