"""Recent incidents: jobs that failed and alerts that were raised, the newest first."""

from __future__ import annotations

from jobtop.core.errors import RowDamaged
from jobtop.core.model import Status
from jobtop.core.procfs import signals
from jobtop.core.record import record
from jobtop.core.text.event_text import event_text
from jobtop.store.jobs import sql_list
from jobtop.store.rows import are_numbers, is_number, parse_mapping, parse_status, parse_texts, quote_value
from jobtop.store.schema import has_tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    from jobtop.store.database import Database

OWNED_EVENTS_SINCE_VERSION = 7  # of the schema: an event may belong to a host or a device
GPU_LOST = "gpu_lost"
FAILURES = (Status.FAILED, Status.TIMEOUT, Status.ERROR, Status.LOST)
MOST = 500
SIGPIPE = int(signals.SIGPIPE)
_NEXT_ATTEMPT = "CASE WHEN json_valid({0}.queue) THEN json_extract({0}.queue, '$.retried_by') END"
# UNION, not UNION ALL: attempts of a damaged store that name each other end the recursion.
SUCCEEDED_LATER = (
    f"EXISTS (WITH RECURSIVE later(id) AS (SELECT {_NEXT_ATTEMPT.format('jobs')} UNION"
    f" SELECT {_NEXT_ATTEMPT.format('attempt')} FROM later JOIN jobs AS attempt ON attempt.id = later.id)"
    f" SELECT 1 FROM later JOIN jobs AS done ON done.id = later.id WHERE done.status = '{Status.SUCCESS}')"
)


@record
class Incident:
    """A failed job or a raised alert; `severity` is None for a failed job, `key` identifies the incident.

    An alert of a host or a device has no job and no status. Its `name` is the host, or `host: gpu 0`, and its `key`
    begins with a slash.
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


def read_incidents(database: Database, since: float) -> list[Incident]:
    """The incidents since a moment, at most MOST of them."""
    with database.reading() as connection:
        failures = _read_failures(connection, since)
        alerts = _read_alerts(connection, since)
        host_alerts = [*_read_host_alerts(connection, since), *_read_lost_gpus(connection, since)]
    incidents = [
        *database.decode_rows(failures, _failure),
        *database.decode_rows(alerts, _alert),
        *database.decode_rows(host_alerts, _host_alert),
    ]
    return sorted(incidents, key=lambda incident: incident.at, reverse=True)[:MOST]


def _read_failures(connection: sqlite3.Connection, since: float) -> list[sqlite3.Row]:
    """The failed jobs that need attention.

    A job that SIGPIPE ended does not: its reader had enough, as in `… | head`. Neither does an attempt of the queue if
    a later attempt succeeded.
    """
    ended = "coalesce(end_time, start_time, submitted_at)"
    # The same words as in the index jobs_that_failed: otherwise SQLite does not use it.
    return connection.execute(
        f"SELECT id, name, status, reason, flags, exit_code, duration_seconds, {ended} AS at FROM jobs"
        f" WHERE status IN ({sql_list(FAILURES)}) AND {ended} >= ? AND signal IS NOT ? AND exit_code IS NOT ?"
        f" AND (queue IS NULL OR NOT {SUCCEEDED_LATER}) ORDER BY {ended} DESC LIMIT ?",
        (since, SIGPIPE, 128 + SIGPIPE, MOST),
    ).fetchall()


def _failure(row: sqlite3.Row) -> Incident:
    return _incident(row, row["id"], row["at"], row["reason"] or _exit_words(row))


def _read_alerts(connection: sqlite3.Connection, since: float) -> list[sqlite3.Row]:
    """The events of the kind `alert`, each with its job."""
    return connection.execute(
        "SELECT events.id AS number, events.at, events.detail, jobs.id, name, status, flags, duration_seconds"
        " FROM events JOIN jobs ON jobs.seq = job_seq WHERE events.kind = 'alert' AND at >= ?"
        " ORDER BY at DESC, events.id DESC LIMIT ?",
        (since, MOST),
    ).fetchall()


def _alert(row: sqlite3.Row) -> Incident:
    words, severity = _alert_words(row)
    return _incident(row, f"{row['id']}/{row['number']}", row["at"], words, severity)


def _alert_words(row: sqlite3.Row) -> tuple[str, str]:
    """The words and the severity of an alert; without a `text` its words are the `name` of its rule."""
    detail = parse_mapping(row["detail"], "the detail of an event")
    words = detail.get("text") or detail.get("name") or "an alert without words"
    return str(words), str(detail.get("severity", "warning"))


def _read_host_alerts(connection: sqlite3.Connection, since: float) -> list[sqlite3.Row]:
    """The events of the kind `alert` that belong to a boot of a host or to a device."""
    if not has_tables_of(connection, OWNED_EVENTS_SINCE_VERSION):
        return []
    # The plus makes SQLite use the index of alerts, not the one by job.
    return connection.execute(
        "SELECT events.id AS number, at, detail, hosts.name AS host, devices.kind AS device, devices.name"
        " FROM events LEFT JOIN devices ON devices.seq = device_seq"
        " LEFT JOIN hosts ON hosts.seq = coalesce(events.host_seq, devices.host_seq)"
        " WHERE events.kind = 'alert' AND +job_seq IS NULL AND at >= ? ORDER BY at DESC, events.id DESC LIMIT ?",
        (since, MOST),
    ).fetchall()


def _lost_words(row: sqlite3.Row) -> tuple[str, str]:
    return event_text(GPU_LOST, parse_mapping(row["detail"], "the detail of an event")), "critical"


def _read_lost_gpus(connection: sqlite3.Connection, since: float) -> list[sqlite3.Row]:
    """The events of GPUs that do not answer any more; the index is that of events of devices, which are few."""
    if not has_tables_of(connection, OWNED_EVENTS_SINCE_VERSION):
        return []
    return connection.execute(
        "SELECT events.id AS number, at, detail, hosts.name AS host, devices.kind AS device, devices.name,"
        " events.kind AS event FROM events JOIN devices ON devices.seq = device_seq"
        " LEFT JOIN hosts ON hosts.seq = devices.host_seq"
        " WHERE device_seq IS NOT NULL AND events.kind = ? AND at >= ? ORDER BY at DESC, events.id DESC LIMIT ?",
        (GPU_LOST, since, MOST),
    ).fetchall()


def _host_alert(row: sqlite3.Row) -> Incident:
    words, severity = _alert_words(row) if "event" not in row.keys() else _lost_words(row)  # noqa: SIM118 - a row
    names = [row["host"] or "host", *((row["device"], row["name"]) if row["device"] is not None else ())]
    if not is_number(row["at"]) or any(type(name) is not str for name in names):
        raise RowDamaged(
            f"event {row['number']}: {quote_value(row['at'])} is not a time, or the name of its owner is wrong"
        )
    name = names[0] if len(names) == 1 else f"{names[0]}: {' '.join(names[1:])}"
    return Incident(f"/{row['number']}", row["at"], None, name, None, words, severity)


def _incident(row: sqlite3.Row, key: str, at: float, words: Any, severity: Any = None) -> Incident:
    if not is_number(at) or not are_numbers((row["duration_seconds"],)) or type(row["name"]) is not str:
        raise RowDamaged(
            f"job {quote_value(row['id'])}: {quote_value(at)} is not a time, or its name or duration is wrong"
        )
    return Incident(
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
