"""The SQL of the queue: jobs that are queued, running or to be retried, and groups with their slots."""

from __future__ import annotations

import json

from jobtop.core.run.scheduling import RETRIED
from jobtop.store.jobs import NEXT_TOUCH, identity_columns, placeholders, sql_list, stored_text
from jobtop.store.rows import RowChecker, parse_queue, parse_status_and_queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from sqlite3 import Connection
    from typing import Any

    from jobtop.core.model import Identity, Queued, Status
    from jobtop.store.database import Database

    StatusAndQueue = tuple[Status | None, Queued | None]

COLUMNS = (
    "seq, id, host, status, queue, limit_cpus, limit_memory_bytes, limit_gpus, limit_runtime_seconds,"
    " limit_timeout_seconds, start_time, parent_id, shim_pid, recorder_boot, recorder_pid, recorder_start, settled,"
    " touched, reason, flags"
)
ROW_CHECKER = RowChecker(tuple(COLUMNS.split(", ")))
TO_RETRY = (
    f"queue IS NOT NULL AND status IN ({sql_list(sorted(RETRIED))})"
    " AND json_valid(queue) AND json_extract(queue, '$.retries') > 0 AND json_extract(queue, '$.retried_by') IS NULL"
)
UNRECORDED = "settled = 0 AND status IN ('running', 'paused') AND recorder_pid IS NULL AND shim_pid IS NOT NULL"
# An agent does not exit while there are queued jobs, jobs to be retried, or running jobs without a recorder.
WORK = f"status = 'queued' OR ({TO_RETRY}) OR ({UNRECORDED})"
RECENT_RUNS = 20  # of a name, from which its usual duration is taken
IDS_AT_ONCE = 500  # in one statement


class Latest:
    """The number of the last change, and of the newest job."""

    __slots__ = ("seq", "touch")

    def __init__(self, touch: int, seq: int) -> None:
        self.touch, self.seq = touch, seq


def read_all(database: Database, host: str) -> tuple[list[Mapping[str, Any]], Latest]:
    """The rows of a host's unsettled jobs and of its jobs to be retried."""
    with database.reading() as connection:
        latest = _latest(connection)
        sql = f"SELECT {COLUMNS} FROM jobs WHERE host = ? AND (settled = 0 OR {TO_RETRY})"
        return connection.execute(sql, (host,)).fetchall(), latest


def read_changed(
    database: Database, host: str, touch: int, counts: bool
) -> tuple[list[Mapping[str, Any]], int | None, Latest]:
    """The rows that changed after a change number, and the number of unsettled jobs of the host.

    SQLite reads the row of each unsettled job to count them: without `counts`, only if a row has changed.
    """
    with database.reading() as connection:
        sql = f"SELECT {COLUMNS} FROM jobs WHERE touched > ? ORDER BY touched"
        rows = connection.execute(sql, (touch,)).fetchall()
        unsettled = None
        if rows or counts:
            sql = "SELECT count(*) FROM jobs WHERE settled = 0 AND host = ?"
            unsettled = connection.execute(sql, (host,)).fetchone()[0]
        return rows, unsettled, _latest(connection)


def claim(
    database: Database, job_id: str, holder: Identity | None, me: Identity, gpus: Iterable[str]
) -> tuple[Queued | None, bool]:
    """Make this process the recorder of a queued job, if its recorder is still `holder`.

    Returns the queue entry of the job, and whether this process is its recorder now.
    """
    with database.writing() as connection:
        row = connection.execute(
            "UPDATE jobs SET recorder_boot = ?, recorder_pid = ?, recorder_start = ?, reason = NULL,"
            f" queue = json_set(queue, '$.gpus', json(?)), touched = {NEXT_TOUCH}"
            " WHERE id = ? AND status = 'queued' AND shim_pid IS NULL"
            " AND recorder_boot IS ? AND recorder_pid IS ? AND recorder_start IS ? RETURNING queue",
            (*identity_columns(me), json.dumps(list(gpus)), job_id, *identity_columns(holder)),
        ).fetchone()
    return (None, False) if row is None else (parse_queue(row["queue"]), True)


def has_queued(database: Database, host: str) -> bool:
    """Whether a job of this host is queued."""
    sql = "SELECT 1 FROM jobs WHERE settled = 0 AND status = 'queued' AND host = ? LIMIT 1"
    with database.reading() as connection:
        return connection.execute(sql, (host,)).fetchone() is not None


def unstarted_ids(database: Database) -> frozenset[str]:
    """The ids of jobs that have not started yet."""
    with database.reading() as connection:
        rows = connection.execute("SELECT id FROM jobs WHERE settled = 0 AND shim_pid IS NULL").fetchall()
    return frozenset(row["id"] for row in rows)


def groups(database: Database) -> dict[str, int]:
    """The number of slots of each group that has a limit."""
    with database.reading() as connection:
        return dict(map(tuple, connection.execute("SELECT name, slots FROM groups ORDER BY name").fetchall()))


def set_slots(database: Database, name: str, slots: int | None) -> None:
    """Set how many jobs of a group may run at once; None: no limit."""
    with database.writing() as connection:
        connection.execute("DELETE FROM groups WHERE name = ?", (name,))
        if slots is not None:
            connection.execute("INSERT INTO groups (name, slots) VALUES (?, ?)", (name, slots))


def recent_durations(database: Database, host: str, names: list[str]) -> dict[str, list[float]]:
    """How long the last successful jobs of each name took on a host, in seconds."""
    wanted = ", ".join(f"({place}, CAST(? AS TEXT))" for place in range(len(names)))
    # The index that is named has all these columns, so that the table is not read.
    sql = f"""
        WITH wanted (place, name) AS (VALUES {wanted}), ranked AS (
            SELECT place, duration_seconds AS seconds,
                row_number() OVER (PARTITION BY place ORDER BY start_time DESC) AS age
            FROM wanted CROSS JOIN jobs INDEXED BY jobs_by_duration USING (name)
            WHERE status = 'success' AND host = ? AND duration_seconds IS NOT NULL
        )
        SELECT place, seconds FROM ranked WHERE age <= {RECENT_RUNS}
    """
    found: dict[str, list[float]] = {name: [] for name in names}
    with database.reading() as connection:
        for place, seconds in connection.execute(sql, (*map(stored_text, names), host)):
            if isinstance(seconds, float | int):
                found[names[place]].append(float(seconds))
    return found


def read_statuses(database: Database, ids: dict[str, str]) -> dict[str, StatusAndQueue]:
    """The status and the queue entry of the jobs in `ids`, by the same keys; (None, None) for a deleted job."""
    wanted = sorted(set(ids.values()))
    found: dict[str, StatusAndQueue] = {}
    with database.reading() as connection:
        for start in range(0, len(wanted), IDS_AT_ONCE):
            part = wanted[start : start + IDS_AT_ONCE]
            sql = f"SELECT id, status, queue FROM jobs WHERE id IN ({placeholders(part)})"
            found |= {
                row["id"]: parse_status_and_queue(row["status"], row["queue"]) for row in connection.execute(sql, part)
            }
    return {key: found.get(job_id, (None, None)) for key, job_id in ids.items()}


def _latest(connection: Connection) -> Latest:
    sql = "SELECT coalesce((SELECT max(touched) FROM jobs), 0), coalesce((SELECT max(seq) FROM jobs), 0)"
    return Latest(*connection.execute(sql).fetchone())
