"""What went wrong lately: jobs that failed, and alerts that were raised, the newest first."""

from __future__ import annotations

from jobtop.core.errors import RowDamaged
from jobtop.core.model import Status
from jobtop.core.record import record
from jobtop.store.rows import are_numbers, is_number, mapping_in, shown, status_in, texts_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    from jobtop.store.database import Database

FAILURES = (Status.FAILED, Status.TIMEOUT, Status.ERROR, Status.LOST)
MOST = 500


@record
class Trouble:
    """One of them: `severity` is that of an alert, and None where a job failed; `key` is its own."""

    key: str
    at: float
    job_id: str
    name: str
    status: Status
    words: str
    severity: str | None = None
    flags: tuple[str, ...] = ()
    duration_seconds: float | None = None


def read_troubles(database: Database, since: float) -> list[Trouble]:
    """All since a moment, at most so many."""
    with database.reading() as connection:
        rows = _failures(connection, since)
        alerts = _alerts(connection, since)
    found = [*database.sound(rows, _failure), *database.sound(alerts, _alert)]
    return sorted(found, key=lambda trouble: trouble.at, reverse=True)[:MOST]


def _failures(connection: sqlite3.Connection, since: float) -> list[sqlite3.Row]:
    ended = "coalesce(end_time, start_time, submitted_at)"
    # In the words of the index jobs_that_failed, or it is not used.
    failed = ", ".join(f"'{status}'" for status in FAILURES)
    return connection.execute(
        f"SELECT id, name, status, reason, flags, exit_code, duration_seconds, {ended} AS at FROM jobs"
        f" WHERE status IN ({failed}) AND {ended} >= ? ORDER BY {ended} DESC LIMIT ?",
        (since, MOST),
    ).fetchall()


def _failure(row: sqlite3.Row) -> Trouble:
    return _trouble(row, row["id"], row["at"], row["reason"] or _exit_words(row))


def _alerts(connection: sqlite3.Connection, since: float) -> list[sqlite3.Row]:
    """Events of the kind `alert`."""
    return connection.execute(
        "SELECT events.id AS number, events.at, events.detail, jobs.id, name, status, flags, duration_seconds"
        " FROM events JOIN jobs ON jobs.seq = job_seq WHERE events.kind = 'alert' AND at >= ?"
        " ORDER BY at DESC, events.id DESC LIMIT ?",
        (since, MOST),
    ).fetchall()


def _alert(row: sqlite3.Row) -> Trouble:
    """Its detail has `severity`, and `text` or else the `name` of the rule."""
    detail = mapping_in(row["detail"], "the detail of an event")
    words = detail.get("text") or detail.get("name") or "an alert without words"
    return _trouble(row, f"{row['id']}/{row['number']}", row["at"], words, detail.get("severity", "warning"))


def _trouble(row: sqlite3.Row, key: str, at: float, words: Any, severity: Any = None) -> Trouble:
    if not is_number(at) or not are_numbers((row["duration_seconds"],)) or type(row["name"]) is not str:
        raise RowDamaged(f"job {shown(row['id'])}: {shown(at)} is no moment, or its name or duration is wrong")
    return Trouble(
        key,
        at,
        row["id"],
        row["name"],
        status_in(row["status"]),
        str(words),
        None if severity is None else str(severity),
        texts_in(row["flags"], "flags"),
        row["duration_seconds"],
    )


def _exit_words(row: sqlite3.Row) -> str:
    return str(row["status"]) if row["exit_code"] is None else f"exit code {row['exit_code']}"
