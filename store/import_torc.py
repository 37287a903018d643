"""Torc's `resource_metrics_HOST_WORKFLOW_RUN.db`: samples of the jobs of a workflow, and their names."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from jobtop.store.import_samples import Point, sampled
from jobtop.store.import_values import Intake, Taken, amount, moment, number, text

KIND = "torc"
SAMPLES, NAMES = "job_resource_samples", "job_metadata"
COLUMNS = ("job_id", "timestamp", "cpu_percent", "memory_bytes", "num_processes")
OF_THE_MACHINE = ("system_resource_samples", "system_resource_summary")
FILE_NAME = re.compile(r"resource_metrics_(?:(?P<host>.+)_)?(?P<workflow>\d+)_(?P<run>\d+)\.db")
Sampled = tuple[int | None, str | None, list[tuple[object, ...]]]


def fits(path: Path) -> bool:
    """Whether a database has the table of its samples."""
    try:
        with closing(connect(path)) as connection:
            return set(COLUMNS) <= set(columns_of(connection, SAMPLES))
    except sqlite3.Error:
        return False


def read(paths: Sequence[Path], intake: Intake) -> Iterator[Taken]:
    """Every job that has a sample or a name."""
    for path in paths:
        try:
            with closing(connect(path)) as connection:
                tables = [name for name in OF_THE_MACHINE if columns_of(connection, name)]
                more = [name for name in columns_of(connection, SAMPLES) if name not in (*COLUMNS, "id")]
                intake.leave_out(KIND, tables + more)
                for job in jobs(connection):
                    yield taken(path, intake, *job)
        except sqlite3.Error as error:
            intake.cannot_read(path, None, str(error))


def connect(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, not even a journal that is still there; without one the file stands alone."""
    journal = path.with_name(path.name + "-wal")
    options = "mode=ro" if journal.exists() else "mode=ro&immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{options}", uri=True)


def columns_of(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def jobs(connection: sqlite3.Connection) -> Iterator[Sampled]:
    """Each job: its number, its name, its samples in order."""
    names = dict(connection.execute(f"SELECT job_id, job_name FROM {NAMES}")) if columns_of(connection, NAMES) else {}
    rows = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM {SAMPLES} ORDER BY job_id, timestamp")
    for job, samples in groupby(rows, key=itemgetter(0)):
        yield job, text(names.pop(job, None)), list(samples)
    for job, name in names.items():
        yield job, text(name), []


def taken(path: Path, intake: Intake, job: int | None, name: str | None, rows: list[tuple[object, ...]]) -> Taken:
    """A job as jobtop keeps it; known by its first sample, for Torc numbers the jobs of every workflow anew."""
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
