"""Export jobs as a database in the format of Torc, with two tables, written by sqlite-utils."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from jobtop.core.model import Job
from jobtop.core.series.readings import SampleReading
from jobtop.store.database import errors_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SAMPLES = {
    "id": int,
    "job_id": int,
    "timestamp": float,
    "cpu_percent": float,
    "memory_bytes": int,
    "num_processes": int,
}
METADATA = {"job_id": int, "job_name": str}
COLUMNS = {"cpu_percent": "cpu.percent", "memory_bytes": "mem.used", "num_processes": "proc.count"}


def write_resource_metrics(path: Path, jobs: Iterable[tuple[Job, Iterable[SampleReading]]]) -> None:
    """Write a new database; `job_id` is the number of a job, and samples without values are left out."""
    import sqlite_utils

    with errors_named(path):
        database = sqlite_utils.Database(path)
        try:
            samples = database.table("job_resource_samples").create(SAMPLES, pk="id")
            metadata = database.table("job_metadata").create(METADATA, pk="job_id")
            for job, readings in jobs:
                metadata.insert({"job_id": job.seq, "job_name": _text(job.name)})
                samples.insert_all(filter(None, (sample_row(job, reading) for reading in readings)))
        finally:
            database.close()


def sample_row(job: Job, reading: SampleReading) -> dict[str, Any] | None:
    """The columns of one sample; None if it has no values."""
    values = {column: reading.values[key] for column, key in COLUMNS.items()}
    if all(value is None for value in values.values()):
        return None
    return {"job_id": job.seq, "timestamp": (job.start_time or 0.0) + reading.elapsed} | values


def _text(name: str) -> str:
    """The name with bytes that are not UTF-8 as visible escapes: SQLite accepts no lone surrogates."""
    return name.encode("utf-8", "backslashreplace").decode()
