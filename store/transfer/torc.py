"""Torc's `resource_metrics_HOST_WORKFLOW_RUN.db`: samples of the jobs of a workflow, and their names."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from jobtop.core.units import printable
from jobtop.store.transfer.samples import Point, sampled
from jobtop.store.transfer.values import LONGEST_LINE, Intake, Taken, amount, moment, number, text

KIND = "torc"
UNREADABLE = (sqlite3.Error, UnicodeError)  # the latter where a message of SQLite quotes what is damaged
SAMPLES, NAMES = "job_resource_samples", "job_metadata"
COLUMNS = ("job_id", "timestamp", "cpu_percent", "memory_bytes", "num_processes")
OF_THE_MACHINE = ("system_resource_samples", "system_resource_summary")
FILE_NAME = re.compile(r"resource_metrics_(?:(?P<host>.+)_)?(?P<workflow>\d+)_(?P<run>\d+)\.db")
Sampled = tuple[object, object, list[tuple[object, ...]]]  # the number of a job, its name, its samples


def fits(path: Path) -> bool:
    """Whether a database has the table of its samples."""
    try:
        with closing(connect(path)) as connection:
            return set(COLUMNS) <= set(columns_of(connection, SAMPLES))
    except UNREADABLE:
        return False


def read(paths: Sequence[Path], intake: Intake) -> Iterator[Taken]:
    """Every job that has a sample or a name."""
    for path in paths:
        try:
            with closing(connect(path)) as connection:
                tables = [name for name in OF_THE_MACHINE if columns_of(connection, name)]
                more = [name for name in columns_of(connection, SAMPLES) if name not in (*COLUMNS, "id")]
                intake.leave_out(KIND, tables + more)
                for job in jobs(connection, path, intake):
                    yield taken(path, intake, *job)
        except UNREADABLE as error:
            intake.cannot_read(path, None, str(error))


def connect(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, not even a journal that is still there; without one the file stands alone.

    Text that is no UTF-8 survives. A value of more than a few MiB is an error: no name or number needs that.
    """
    journal = path.with_name(path.name + "-wal")
    options = "mode=ro" if journal.exists() else "mode=ro&immutable=1"
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{options}", uri=True)
    connection.execute("PRAGMA trusted_schema = off")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_LINE)
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    return connection


def columns_of(connection: sqlite3.Connection, table: str) -> list[str]:
    """The columns of a real table; a view, which can compute for ever, has none here."""
    is_table = "SELECT 1 FROM sqlite_master WHERE name = ? AND type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    if connection.execute(is_table, (table,)).fetchone() is None:
        return []
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def jobs(connection: sqlite3.Connection, path: Path, intake: Intake) -> Iterator[Sampled]:
    """Each job: its number, its name, its samples in order."""
    names = dict(connection.execute(f"SELECT job_id, job_name FROM {NAMES}")) if columns_of(connection, NAMES) else {}
    found = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM {SAMPLES} ORDER BY job_id, timestamp")
    rows = intake.most_samples(path, found)
    for job, samples in groupby(rows, key=itemgetter(0)):
        yield job, names.pop(job, None), list(samples)
    for job, name in names.items():
        yield job, name, []


def taken(path: Path, intake: Intake, job: object, raw_name: object, rows: list[tuple[object, ...]]) -> Taken:
    """A job as jobtop keeps it; known by its first sample, for Torc numbers the jobs of every workflow anew."""
    if isinstance(job, bytes) or isinstance(raw_name, bytes):
        intake.cannot_read(path, None, f"the number or the name of job {printable(str(job))} is no text")
    name = text(raw_name)
    found = FILE_NAME.fullmatch(path.name)
    where = found.groupdict() if found else {}
    made = intake.job(
        KIND,
        job,
        name,
        *(rows[0][1:] if rows else (path.name,)),
        external_id=text(job),
        name=name or f"job {job}",
        host=where.get("host"),
        tags={key: value for key in ("workflow", "run") if (value := where.get(key))},
    )
    return sampled(made, [point for row in rows if (point := point_of(row)) is not None])


def point_of(row: tuple[object, ...]) -> Point | None:
    at = moment(row[1])
    if at is None:
        return None
    memory = amount(row[3])
    return at, {"cpu.percent": number(row[2]), "mem.used": memory, "mem.rss": memory, "proc.count": amount(row[4])}
