"""What went wrong lately: jobs that failed, and alerts that were raised, the newest first."""

from __future__ import annotations

from jobtop.core.errors import RowDamaged
from jobtop.core.model import Status
from jobtop.core.record import record
from jobtop.store.rows import are_numbers, is_number, parse_mapping, parse_status, parse_texts, quote_value
from jobtop.store.schema import has_tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    from jobtop.store.database import Database

OWNED_SINCE = 7  # the version since which an event may have another owner than a job
FAILURES = (Status.FAILED, Status.TIMEOUT, Status.ERROR, Status.LOST)
MOST = 500


@record
class Trouble:
    """One of them: `severity` is that of an alert, and None where a job failed; `key` is its own.

    An alert of a machine or of a device has no job and no status; `name` is then that of the host, or
    `host: gpu 0`, and `key` begins with a slash.
    """

    key: str
    at: float
    job_id: str | None
    name: str
    status: Status | None
    words: str
    severity: str | None = None
    flags: tuple[str, ...] = ()
    duration_seconds: float | None = None


def read_troubles(database: Database, since: float) -> list[Trouble]:
    """All since a moment, at most so many."""
    with database.reading() as connection:
        rows = _failures(connection, since)
        alerts = _alerts(connection, since)
        of_machines = _machine_alerts(connection, since)
    found = [
        *database.sound(rows, _failure),
        *database.sound(alerts, _alert),
        *database.sound(of_machines, _machine_alert),
    ]
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
    words, severity = _alert_words(row)
    return _trouble(row, f"{row['id']}/{row['number']}", row["at"], words, severity)


def _alert_words(row: sqlite3.Row) -> tuple[str, str]:
    """What an alert says, and its severity: its detail has `severity`, and `text` or else the `name` of the rule."""
    detail = parse_mapping(row["detail"], "the detail of an event")
    words = detail.get("text") or detail.get("name") or "an alert without words"
    return str(words), str(detail.get("severity", "warning"))


def _machine_alerts(connection: sqlite3.Connection, since: float) -> list[sqlite3.Row]:
    """Events of the kind `alert` whose owner is a boot of a host or a device of it.

    The plus: by the index of alerts, not by that of jobs.
    """
    if not has_tables_of(connection, OWNED_SINCE):
        return []
    return connection.execute(
        "SELECT events.id AS number, at, detail, hosts.name AS host, devices.kind AS device, devices.name"
        " FROM events LEFT JOIN devices ON devices.seq = device_seq"
        " LEFT JOIN hosts ON hosts.seq = coalesce(events.host_seq, devices.host_seq)"
        " WHERE events.kind = 'alert' AND +job_seq IS NULL AND at >= ? ORDER BY at DESC, events.id DESC LIMIT ?",
        (since, MOST),
    ).fetchall()


def _machine_alert(row: sqlite3.Row) -> Trouble:
    words, severity = _alert_words(row)
    names = [row["host"] or "host", *((row["device"], row["name"]) if row["device"] is not None else ())]
    if not is_number(row["at"]) or any(type(name) is not str for name in names):
        raise RowDamaged(
            f"event {row['number']}: {quote_value(row['at'])} is no moment, or the name of its owner is wrong"
        )
    name = names[0] if len(names) == 1 else f"{names[0]}: {' '.join(names[1:])}"
    return Trouble(f"/{row['number']}", row["at"], None, name, None, words, severity)


def _trouble(row: sqlite3.Row, key: str, at: float, words: Any, severity: Any = None) -> Trouble:
    if not is_number(at) or not are_numbers((row["duration_seconds"],)) or type(row["name"]) is not str:
        raise RowDamaged(
            f"job {quote_value(row['id'])}: {quote_value(at)} is no moment, or its name or duration is wrong"
        )
    return Trouble(
        key,
        at,
        row["id"],
        row["name"],
        parse_status(row["status"]),
        str(words),
        None if severity is None else str(severity),
        parse_texts(row["flags"], "flags"),
        row["duration_seconds"],
    )


def _exit_words(row: sqlite3.Row) -> str:
    return str(row["status"]) if row["exit_code"] is None else f"exit code {row['exit_code']}"
