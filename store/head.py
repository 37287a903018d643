"""The newest samples of all jobs, as rows: the table `head`, which is only ever appended to and trimmed.

Knows nothing of `Database`, so that opening a store can add the columns of new metrics.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from operator import itemgetter

from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Sample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Values = tuple[float | int | None, ...]
    Owned = tuple[int, Sample]
    Identified = tuple[int, int, Sample]


def column(key: str) -> str:
    """The name of a key's column."""
    return key.replace(".", "_")


def missing_columns(connection: sqlite3.Connection) -> list[str]:
    """The keys of today's catalogue that the head has no column for; none if there is no head yet."""
    there = _columns(connection)
    return [key for key in JOB_COLUMNS if column(key) not in there] if there else []


def add_columns(connection: sqlite3.Connection) -> None:
    """Give the head a column for every key of today's catalogue; to be called under the lock, in a transaction."""
    for key in missing_columns(connection):
        connection.execute(f"ALTER TABLE head ADD COLUMN {column(key)} ANY")


def last_id(connection: sqlite3.Connection) -> int:
    """The greatest id the head ever gave."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'head'").fetchone()
    return int(row[0]) if row else 0


def insert(connection: sqlite3.Connection, rows: Sequence[Owned]) -> list[Identified]:
    """Append samples of jobs; each again behind its id. Those of a job keep their order."""
    inserted: list[Identified] = []
    for wave in _waves(rows):
        for present, group in _grouped(wave).items():
            names = ["job_seq", "elapsed", *(column(JOB_COLUMNS[position]) for position in present)]
            sql = f"INSERT INTO head ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
            connection.executemany(sql, group.bound)
            # Ids follow one another within a transaction: nobody else writes.
            end = connection.execute("SELECT last_insert_rowid()").fetchone()[0] + 1
            inserted += zip(range(end - len(group.bound), end), group.jobs, group.samples, strict=True)
    return inserted


def select(
    connection: sqlite3.Connection,
    job_seq: int,
    after_id: int,
    keys: Sequence[str],
    until: float | None = None,
    newest: int | None = None,
) -> list[tuple[int, Sample]]:
    """The rows of a job behind an id, with the values of these keys; of the newest only so many, if given."""
    there = _columns(connection)
    names = ", ".join(column(key) if column(key) in there else "NULL" for key in keys)
    values: list[float] = [after_id, job_seq]
    sql = f"SELECT id, elapsed{', ' if names else ''}{names} FROM head WHERE id > ? AND job_seq = ?"
    if until is not None:
        sql += " AND elapsed <= ?"
        values.append(until)
    if newest is not None:
        sql += f" ORDER BY id DESC LIMIT {newest:d}"
    cursor = connection.cursor()
    cursor.row_factory = None
    rows = [(row[0], Sample(row[1], row[2:])) for row in cursor.execute(sql, values)]
    return rows[::-1] if newest is not None else rows


def _columns(connection: sqlite3.Connection) -> set[str]:
    return {row[1] for row in connection.execute("PRAGMA table_info(head)")}


def _waves(rows: Sequence[Owned]) -> Iterator[Sequence[Owned]]:
    """The rows cut so that no job is in a part twice: within a part the order is free."""
    if len({job for job, _ in rows}) == len(rows):
        yield rows
        return
    wave: list[Owned] = []
    jobs: set[int] = set()
    for row in rows:
        if row[0] in jobs:
            yield wave
            wave, jobs = [], set()
        wave.append(row)
        jobs.add(row[0])
    yield wave


class Group:
    """Rows that have values at the same positions: what is bound for each, and whose sample it is."""

    __slots__ = ("bound", "jobs", "pick", "pick_rest", "rest", "samples")

    def __init__(self, present: tuple[int, ...]) -> None:
        absent = [position for position in range(len(JOB_COLUMNS)) if position not in present]
        self.pick, self.pick_rest = _picker(present), _picker(absent)
        self.rest = (None,) * len(absent)
        self.bound: list[Values] = []
        self.jobs: list[int] = []
        self.samples: list[Sample] = []


def _grouped(rows: Sequence[Owned]) -> dict[tuple[int, ...], Group]:
    """Rows by the positions at which they have values.

    Only those are bound: for a None sqlite3 looks for an adapter, which takes ten times as long as binding a number.
    """
    groups: dict[tuple[int, ...], Group] = {}
    group: Group | None = None
    for job_seq, sample in rows:
        values = sample.values
        if group is None or group.pick_rest(values) != group.rest:
            present = tuple(position for position, value in enumerate(values) if value is not None)
            group = groups.get(present)
            if group is None:
                group = groups[present] = Group(present)
        group.bound.append((job_seq, sample.elapsed, *group.pick(values)))
        group.jobs.append(job_seq)
        group.samples.append(sample)
    return groups


def _picker(positions: Sequence[int]) -> Callable[[Values], Values]:
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda values: tuple(values[position] for position in positions)
