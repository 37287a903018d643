"""Files of other programs to import, and what the verb and the store say of them afterwards."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from jobtop.core.model import Job
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_read
from jobtop.store.jobs import Jobs, Query
from records import HERE, call
from support import ROOT

SAMPLES = ROOT / "tests/data/import"
KEYSTONE = SAMPLES / "jobs_history.jsonl"


def imported(*paths: Path | str) -> dict[str, Any]:
    """What the verb says of an import."""
    answer = call("import", *map(str, paths), "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    summary: dict[str, Any] = json.loads(answer.stdout)
    return summary


def stored(home: Path) -> list[Job]:
    with closing(open_to_read(StatePaths(home, HERE).store)) as database:
        return Jobs(database).select(Query(reverse=True, limit=None))


def torc_file(path: Path) -> Path:
    """As Torc makes it: whole seconds, no ids."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE job_resource_samples (job_id INTEGER NOT NULL, timestamp INTEGER NOT NULL,"
            " cpu_percent REAL NOT NULL, memory_bytes INTEGER NOT NULL, num_processes INTEGER NOT NULL,"
            " PRIMARY KEY (job_id, timestamp));"
            "CREATE TABLE job_metadata (job_id INTEGER PRIMARY KEY, job_name TEXT NOT NULL);"
            "CREATE TABLE system_resource_samples (id INTEGER PRIMARY KEY, timestamp INTEGER NOT NULL);"
            "INSERT INTO job_metadata VALUES (15, 'train_model'), (16, 'too short');"
            "INSERT INTO job_resource_samples VALUES (15, 1700000010, 200.0, 3000000, 3),"
            " (15, 1700000000, 0.0, 1000000, 1), (15, 1700000005, 100.0, 5000000, 2), (17, 1700000000, 7.0, 9, 1);"
        )
    return path
