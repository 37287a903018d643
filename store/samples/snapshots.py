"""Snapshots of jobs: the processes that used most, every ten seconds and at the end of a job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobtop.core.measure.snapshot import ProcessRow, Snapshot, ThreadLine
from jobtop.core.model import Job
from jobtop.core.record import fields
from jobtop.store.database import Database
from jobtop.store.rows import are_numbers, is_number
from jobtop.store.samples.packed import pack, unpack
from jobtop.store.schema import has_tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

SINCE_VERSION = 3
THREADS = "busiest"  # a column that older versions do not write
DECIMALS = {"cpu_seconds": 6, "cpu_percent": 2, "age_seconds": 3}


class Snapshots:
    """The snapshots of the jobs of one store."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def keep(self, job_seq: int, elapsed: float, members: Sequence[ProcessRow]) -> None:
        """Store one snapshot; not of a job that is not in the store any more."""
        self.keep_all([(job_seq, elapsed, members)])

    def keep_all(self, taken: Iterable[tuple[int, float, Sequence[ProcessRow]]]) -> None:
        """Store snapshots of any number of jobs in one transaction."""
        rows = [(elapsed, _packed(members), job_seq) for job_seq, elapsed, members in taken]
        with self.database.writing() as connection:
            connection.executemany("INSERT OR REPLACE INTO snapshots SELECT seq, ?, ? FROM jobs WHERE seq = ?", rows)

    def at(self, job: Job, elapsed: float) -> Snapshot | None:
        """The newest snapshot at or before a time; None if there is none."""
        with self.database.reading() as connection:
            return _newest(connection, job, elapsed)

    def latest(self, job: Job) -> Snapshot | None:
        return self.at(job, float("inf"))

    def moments(self, job: Job) -> list[float]:
        """The times of all snapshots, in seconds since the start of the job."""
        with self.database.reading() as connection:
            if not has_tables_of(connection, SINCE_VERSION):
                return []
            sql = "SELECT elapsed FROM snapshots WHERE job_seq = ? ORDER BY elapsed"
            return [row[0] for row in connection.execute(sql, (job.seq,)) if is_number(row[0])]


def _newest(connection: sqlite3.Connection, job: Job, until: float) -> Snapshot | None:
    if not has_tables_of(connection, SINCE_VERSION):
        return None
    rows = connection.execute(
        "SELECT elapsed, members FROM snapshots WHERE job_seq = ? AND elapsed <= ? ORDER BY elapsed DESC",
        (job.seq, until),
    )
    for elapsed, data in rows:
        members = unpacked_members(data)
        if members is not None and is_number(elapsed):
            return Snapshot(elapsed, members)
    return None


def _packed(members: Iterable[ProcessRow]) -> bytes:
    """Pack rows with the names of their columns, so that later versions can add columns."""
    rows_of = list(members)
    has_threads = any(member.busiest for member in rows_of)
    names = [name for name in fields(ProcessRow) if name != THREADS or has_threads]
    rows = [[_rounded(name, getattr(member, name)) for name in names] for member in rows_of]
    return pack({"columns": names, "rows": rows})


def unpacked_members(data: bytes) -> tuple[ProcessRow, ...] | None:
    """Unpack rows, without columns that this version does not know; None if they are damaged."""
    unpacked = unpack(data)
    try:
        columns = unpacked["columns"]
        names = [name for name in fields(ProcessRow) if name != THREADS or name in columns]
        positions = [columns.index(name) for name in names]
        rows = tuple(_unpacked_row(names, [row[position] for position in positions]) for row in unpacked["rows"])
    except (TypeError, LookupError, ValueError, AttributeError):
        return None
    return rows if all(map(_has_valid_types, rows)) else None


def _has_valid_types(row: ProcessRow) -> bool:
    """Whether each value has its type; values that the system does not report are absent."""
    needed = (row.pid, row.parent, row.cpu_seconds, row.threads, row.age_seconds)
    texts = type(row.command) is str and type(row.state) is str
    return texts and all(map(is_number, needed)) and are_numbers((row.cpu_percent, row.memory_bytes))


def _unpacked_row(names: Sequence[str], values: Sequence[Any]) -> ProcessRow:
    named = dict(zip(names, values, strict=True))
    return ProcessRow(**named | {THREADS: _threads(named.get(THREADS, []))})


def _threads(stored: list[list[Any]]) -> tuple[ThreadLine, ...]:
    """The threads of a process; TypeError or ValueError if they are damaged."""
    lines = []
    for tid, name, state, cpu_seconds, cpu_percent in stored:
        if type(name) is not str or type(state) is not str or not is_number(tid) or not is_number(cpu_seconds):
            raise TypeError(THREADS)
        if not are_numbers((cpu_percent,)):
            raise TypeError(THREADS)
        lines.append(ThreadLine(tid, name, state, cpu_seconds, cpu_percent))
    return tuple(lines)


def _rounded(name: str, value: object) -> object:
    if name == THREADS and isinstance(value, tuple):
        return [[_rounded(field, getattr(line, field)) for field in fields(ThreadLine)] for line in value]
    return round(value, DECIMALS[name]) if isinstance(value, float) and name in DECIMALS else value
