"""Import Torc's `resource_metrics_HOST_WORKFLOW_RUN.db`: the samples and names of the jobs of a workflow."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from jobtop.core.model import Job
from jobtop.core.units import printable
from jobtop.store.transfer.samples import Point, job_from_samples
from jobtop.store.transfer.values import LONGEST_LINE, ImportContext, ImportedJob, amount, moment, number, text

KIND = "torc"
UNREADABLE = (sqlite3.Error, UnicodeError)  # UnicodeError: a message of SQLite quotes damaged text
SAMPLES, NAMES = "job_resource_samples", "job_metadata"
COLUMNS = ("job_id", "timestamp", "cpu_percent", "memory_bytes", "num_processes")
HOST_TABLES = ("system_resource_samples", "system_resource_summary")
FILE_NAME = re.compile(r"resource_metrics_(?:(?P<host>.+)_)?(?P<workflow>\d+)_(?P<run>\d+)\.db")
RawJob = tuple[object, object, list[tuple[object, ...]]]  # the number of a job, its name, its samples


def matches(path: Path) -> bool:
    """Whether a database has Torc's table of samples."""
    try:
        with closing(connect(path)) as connection:
            return set(COLUMNS) <= set(columns_of(connection, SAMPLES))
    except UNREADABLE:
        return False


def read(paths: Sequence[Path], context: ImportContext) -> Iterator[ImportedJob]:
    """All jobs that have a sample or a name."""
    for path in paths:
        try:
            with closing(connect(path)) as connection:
                unused_tables = [name for name in HOST_TABLES if columns_of(connection, name)]
                unused_columns = [name for name in columns_of(connection, SAMPLES) if name not in (*COLUMNS, "id")]
                context.leave_out(KIND, unused_tables + unused_columns)
                for job in raw_jobs(connection, path, context):
                    yield imported_job(path, context, *job)
        except UNREADABLE as error:
            context.cannot_read(path, None, str(error))


def connect(path: Path) -> sqlite3.Connection:
    """A read-only connection, which reads a journal beside the file but does not change it.

    Text that is not UTF-8 is decoded with surrogates. A value of more than a few MiB is an error.
    """
    journal = path.with_name(path.name + "-wal")
    options = "mode=ro" if journal.exists() else "mode=ro&immutable=1"
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{options}", uri=True)
    connection.execute("PRAGMA trusted_schema = off")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_LINE)
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    return connection


def columns_of(connection: sqlite3.Connection, table: str) -> list[str]:
    """The columns of a table; none for a view or a virtual table, because their queries may never end."""
    is_table = "SELECT 1 FROM sqlite_master WHERE name = ? AND type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    if connection.execute(is_table, (table,)).fetchone() is None:
        return []
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def raw_jobs(connection: sqlite3.Connection, path: Path, context: ImportContext) -> Iterator[RawJob]:
    """The number, the name and the sorted samples of each job."""
    names = dict(connection.execute(f"SELECT job_id, job_name FROM {NAMES}")) if columns_of(connection, NAMES) else {}
    samples_query = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM {SAMPLES} ORDER BY job_id, timestamp")
    rows = context.most_samples(path, samples_query)
    for job, samples in groupby(rows, key=itemgetter(0)):
        yield job, names.pop(job, None), list(samples)
    for job, name in names.items():
        yield job, name, []


def imported_job(
    path: Path, context: ImportContext, job: object, raw_name: object, rows: list[tuple[object, ...]]
) -> ImportedJob:
    """Convert a job and its samples."""
    made = job_of(path, context, job, raw_name, rows)
    return job_from_samples(made, [point for row in rows if (point := point_of(row)) is not None])


def job_of(path: Path, context: ImportContext, job: object, raw_name: object, rows: list[tuple[object, ...]]) -> Job:
    """Convert a job. Its first sample is part of its key: the job numbers of every workflow start at 1."""
    if isinstance(job, bytes) or isinstance(raw_name, bytes):
        context.cannot_read(path, None, f"the number or the name of job {printable(str(job))} is not text")
    name = text(raw_name)
    match = FILE_NAME.fullmatch(path.name)
    named = match.groupdict() if match else {}
    return context.job(
        KIND,
        job,
        name,
        *(rows[0][1:] if rows else (path.name,)),
        external_id=text(job),
        name=name or f"job {job}",
        host=named.get("host"),
        tags={key: value for key in ("workflow", "run") if (value := named.get(key))},
    )


def point_of(row: tuple[object, ...]) -> Point | None:
    """Convert a sample; None if it has no valid time."""
    at = moment(row[1])
    if at is None:
        return None
    memory = amount(row[3])
    return at, {"cpu.percent": number(row[2]), "mem.used": memory, "mem.rss": memory, "proc.count": amount(row[4])}
