"""Workflows, their runs and the jobs of each run: the tables `workflows`, `workflow_runs` and `workflow_jobs`."""

from __future__ import annotations

import json
import time

from jobtop.core.errors import RowDamaged, UsageError
from jobtop.core.model import Status
from jobtop.core.record import record, replace
from jobtop.core.run.scheduling import will_be_retried
from jobtop.core.text.memory_text import UPPER_BOUNDS
from jobtop.core.units import printable
from jobtop.core.workflow.plan import ROLES
from jobtop.core.workflow.progress import RunJob, with_names
from jobtop.store.jobs import placeholders, stored_text
from jobtop.store.queue_rows import IDS_AT_ONCE
from jobtop.store.rows import (
    check_moments,
    check_texts,
    is_number,
    parse_json,
    parse_mapping,
    parse_queue,
    parse_status,
    parse_text_mapping,
    quote_value,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from sqlite3 import Row
    from typing import Any

    from jobtop.store.database import Database

WORKFLOWS_SINCE_VERSION = 12  # of the schema
LAST = "last"
WORKFLOW_COLUMNS = "id, name, file, cwd, host, user, at"
JOB_COLUMNS = "position, name, role, job_id, after, after_end, fingerprint, is_kept"
NUMBERS = ("exit_code", "cpu_percent_peak", "cpu_percent_mean", "memory_peak_bytes", "memory_mean_bytes")
STATE_COLUMNS = f"id, seq, status, queue, start_time, end_time, reason, sources, {', '.join(NUMBERS)}"
NO_WORKFLOW = "no workflow was run yet (jobtop workflow run FILE)"


@record
class WorkflowRow:
    """A workflow file that was run or submitted."""

    id: int
    name: str
    file: str
    cwd: str
    host: str
    user: str
    at: float


@record
class RunRow:
    """A run of a workflow: when it was submitted, and its settings."""

    run_id: int
    at: float
    settings: dict[str, Any]


class Workflows:
    """The workflows of one store."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def add(self, name: str, file: str, cwd: str, host: str, user: str, at: float | None = None) -> int:
        """Insert a workflow, of now if no moment is given; return its number."""
        texts = tuple(map(stored_text, (name, file, cwd, host, user)))
        casts = ", ".join(["CAST(? AS TEXT)"] * len(texts))
        with self.database.writing() as connection:
            sql = f"INSERT INTO workflows (name, file, cwd, host, user, at) VALUES ({casts}, ?)"
            return int(connection.execute(sql, (*texts, time.time() if at is None else at)).lastrowid or 0)

    def add_run(self, workflow_id: int, settings: dict[str, Any], at: float | None = None) -> int:
        """Insert a run of a workflow, of now if no moment is given; return its number, counted from 1."""
        sql = (
            "INSERT INTO workflow_runs (workflow_id, run_id, at, settings)"
            " SELECT ?, coalesce(max(run_id), 0) + 1, ?, ? FROM workflow_runs WHERE workflow_id = ? RETURNING run_id"
        )
        with self.database.writing() as connection:
            values = (workflow_id, time.time() if at is None else at, json.dumps(settings), workflow_id)
            return int(connection.execute(sql, values).fetchone()[0])

    def add_jobs(self, workflow_id: int, run_id: int, jobs: Iterable[RunJob]) -> None:
        """Insert the jobs of a run."""
        sql = (
            f"INSERT INTO workflow_jobs (workflow_id, run_id, {JOB_COLUMNS})"
            " VALUES (?, ?, ?, CAST(? AS TEXT), ?, ?, ?, ?, ?, ?)"
        )
        with self.database.writing() as connection:
            connection.executemany(
                sql,
                [
                    (
                        *(workflow_id, run_id, job.position, stored_text(job.name), job.role, job.first_id),
                        *(json.dumps(job.after), json.dumps(job.after_end), job.fingerprint, int(job.is_kept)),
                    )
                    for job in jobs
                ],
            )

    def newest(self, most: int | None = None) -> list[WorkflowRow]:
        """The workflows, the newest first."""
        return self._read("ORDER BY id DESC LIMIT ?", (-1 if most is None else most,))

    def find(self, reference: str) -> WorkflowRow:
        """The workflow with this number, or the newest with this name; `last` is the newest of all."""
        if reference == LAST:
            if newest := self.newest(1):
                return newest[0]
            raise UsageError(NO_WORKFLOW)
        if found := self._named(reference):
            return found[0]
        raise UsageError(f'there is no workflow "{printable(reference)}" here: jobtop workflow list')

    def has(self, reference: str) -> bool:
        """Whether a workflow has this number or this name."""
        return bool(self._named(reference))

    def _named(self, reference: str) -> list[WorkflowRow]:
        if reference.isdecimal() and len(reference) < 16 and (found := self._read("WHERE id = ?", (int(reference),))):
            return found
        return self._read("WHERE name = CAST(? AS TEXT) ORDER BY id DESC LIMIT 1", (stored_text(reference),))

    def runs(self, workflow_id: int) -> list[RunRow]:
        """The runs of a workflow, the oldest first."""
        sql = "SELECT run_id, at, settings FROM workflow_runs WHERE workflow_id = ? ORDER BY run_id"
        return self.database.decode_rows(self._rows(sql, (workflow_id,)), run_from_row)

    def run(self, workflow: WorkflowRow, run_id: int | None = None) -> RunRow:
        """One run of a workflow; the last one if no number is given."""
        runs = {run.run_id: run for run in self.runs(workflow.id)}
        if run_id is None and runs:
            return runs[max(runs)]
        if run_id not in runs:
            there = ", ".join(map(str, runs)) or "none"
            raise UsageError(f"workflow {workflow.id} has no run {run_id} (there are: {there})")
        return runs[run_id]

    def jobs(self, workflow_id: int, run_id: int) -> list[RunJob]:
        """The jobs of a run, as they were planned; `with_states` says how they are now."""
        sql = f"SELECT {JOB_COLUMNS} FROM workflow_jobs WHERE workflow_id = ? AND run_id = ? ORDER BY position"
        return self.database.decode_rows(self._rows(sql, (workflow_id, run_id)), planned_from_row)

    def with_states(self, jobs: Sequence[RunJob]) -> list[RunJob]:
        """The jobs with the state of the last attempt at each."""
        found = list(jobs)
        with self.database.reading():
            wanted = {job.first_id: index for index, job in enumerate(found)}
            while wanted:
                later: dict[str, int] = {}
                for job_id, (values, retried_by) in self._states(list(wanted)).items():
                    index = wanted[job_id]
                    found[index] = next_attempt(found[index], values)
                    if retried_by is not None:
                        later[retried_by] = index
                wanted = later
        return with_names(found)

    def workflow_of(self, job_id: str) -> tuple[int, int] | None:
        """The workflow and the run that a job was queued for; None if it was queued alone."""
        sql = "SELECT workflow_id, run_id FROM workflow_jobs WHERE job_id = ? ORDER BY workflow_id, run_id LIMIT 1"
        rows = self._rows(sql, (job_id,))
        return (int(rows[0][0]), int(rows[0][1])) if rows else None

    def changed_since(self, touch: int) -> tuple[dict[str, tuple[dict[str, Any], str | None]], int]:
        """The states of all jobs of the store that changed after a touch, by id, and the last touch."""
        rows = self._rows(f"SELECT {STATE_COLUMNS}, touched FROM jobs WHERE touched > ?", (touch,))
        found = {values["id"]: (values, later) for values, later in self.database.decode_rows(rows, state_from)}
        return found, max((touch, *(row["touched"] for row in rows if type(row["touched"]) is int)))

    def last_touch(self) -> int:
        """The touch of the newest change of a job."""
        rows = self._rows("SELECT coalesce(max(touched), 0) FROM jobs", ())
        return int(rows[0][0]) if rows else 0

    def last_runs(self, most: int) -> list[tuple[WorkflowRow, RunRow]]:
        """The newest workflows, each with its last run; one whose run cannot be read is left out."""
        newest = self.newest(most)
        sql = (
            "SELECT workflow_id, run_id, at, settings FROM workflow_runs"
            " WHERE (workflow_id, run_id) IN"
            " (SELECT workflow_id, max(run_id) FROM workflow_runs WHERE workflow_id >= ? GROUP BY workflow_id)"
        )
        rows = self._rows(sql, (min((row.id for row in newest), default=0),))
        runs = dict(self.database.decode_rows(rows, lambda row: (row["workflow_id"], run_from_row(row))))
        return [(workflow, runs[workflow.id]) for workflow in newest if workflow.id in runs]

    def _states(self, ids: list[str]) -> dict[str, tuple[dict[str, Any], str | None]]:
        found: dict[str, tuple[dict[str, Any], str | None]] = {}
        for start in range(0, len(ids), IDS_AT_ONCE):
            part = ids[start : start + IDS_AT_ONCE]
            rows = self._rows(f"SELECT {STATE_COLUMNS} FROM jobs WHERE id IN ({placeholders(part)})", part)
            found |= {values["id"]: (values, later) for values, later in self.database.decode_rows(rows, state_from)}
        return found

    def _read(self, condition: str, values: Sequence[object]) -> list[WorkflowRow]:
        rows = self._rows(f"SELECT {WORKFLOW_COLUMNS} FROM workflows {condition}", values)
        return self.database.decode_rows(rows, workflow_from_row)

    def _rows(self, sql: str, values: Sequence[object]) -> list[Row]:
        if not self.database.has_tables_of(WORKFLOWS_SINCE_VERSION):
            return []
        with self.database.reading() as connection:
            return connection.execute(sql, tuple(values)).fetchall()


def next_attempt(before: RunJob, values: dict[str, Any]) -> RunJob:
    """The job with the values of an attempt; an attempt that was cancelled before it started changes only the reason.

    So a failed job stays failed if its recovery script fails, or if the run is cancelled before the retry.
    """
    is_retry = values["attempt"] > 1 and before.status is not None
    if is_retry and values["status"] is Status.CANCELLED and values["start_time"] is None:
        return replace(before, reason=f"{before.reason}; not tried again: {values['reason']}")
    return replace(before, **values)


def workflow_from_row(row: Row) -> WorkflowRow:
    """Decode a row of `workflows`."""
    check_texts(row, ("name", "file", "cwd", "host", "user"))
    check_moments(row, ("at",), ("at",))
    return WorkflowRow(*row)


def run_from_row(row: Row) -> RunRow:
    """Decode a row of `workflow_runs`."""
    check_moments(row, ("at",), ("at",))
    return RunRow(row["run_id"], row["at"], parse_mapping(row["settings"], "settings"))


def planned_from_row(row: Row) -> RunJob:
    """Decode a row of `workflow_jobs`."""
    check_texts(row, ("name", "role", "job_id", "fingerprint"))
    if row["role"] not in ROLES:
        raise RowDamaged(f"role is {quote_value(row['role'])}")
    after, after_end = (parse_names(row[name], name) for name in ("after", "after_end"))
    return RunJob(
        row["position"],
        row["name"],
        row["role"],
        row["job_id"],
        after,
        after_end,
        row["fingerprint"],
        bool(row["is_kept"]),
        row["job_id"],
    )


def parse_names(text: object, name: str) -> tuple[str, ...]:
    """The texts of a JSON list."""
    value = parse_json(text, name)
    if type(value) is not list or not {str}.issuperset(map(type, value)):
        raise RowDamaged(f"{name} is {quote_value(text)}, not a list of texts")
    return tuple(value)


def state_from(row: Row) -> tuple[dict[str, Any], str | None]:
    """The fields of a `RunJob` that a row of `jobs` has, and the id of the next attempt."""
    check_moments(row, ("start_time", "end_time"))
    check_texts(row, ("id",), ("reason",))
    for name in NUMBERS:
        if row[name] is not None and not is_number(row[name]):
            raise RowDamaged(f"{name} is {quote_value(row[name])}")
    queued, status = parse_queue(row["queue"]), parse_status(row["status"])
    return {
        "id": row["id"],
        "seq": row["seq"],
        "status": status,
        "attempt": 1 if queued is None else queued.attempt,
        "start_time": row["start_time"],
        "end_time": row["end_time"],
        "exit_code": row["exit_code"],
        "reason": row["reason"],
        "peak_cpu_percent": row["cpu_percent_peak"],
        "mean_cpu_percent": row["cpu_percent_mean"],
        "peak_memory_bytes": row["memory_peak_bytes"],
        "mean_memory_bytes": row["memory_mean_bytes"],
        "is_peak_bound": parse_text_mapping(row["sources"], "sources").get("memory_peak") in UPPER_BOUNDS,
        "will_retry": will_be_retried(status, queued),
    }, None if queued is None else queued.retried_by
