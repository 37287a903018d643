"""Recent incidents: jobs that failed and alerts that were raised, the newest first."""

from __future__ import annotations

from jobtop.core.errors import RowDamaged
from jobtop.core.job_id import is_job_id
from jobtop.core.model import Status
from jobtop.core.procfs import signals
from jobtop.core.record import record
from jobtop.core.text.event_text import event_text
from jobtop.store.alerts.alert_rows import ALERTS_SINCE_VERSION, alert_from_row
from jobtop.store.alerts.fired import FAILURES, read_fired
from jobtop.store.jobs import sql_list
from jobtop.store.rows import are_numbers, is_number, parse_mapping, parse_status, parse_texts, quote_value
from jobtop.store.schema import has_tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    from jobtop.core.alerts.model import State
    from jobtop.store.database import Database

    # A job, then is_acknowledged, alert_id, state, rule, resolved_at and is_moment of an incident.
    Known = tuple[str, bool, int | None, State | None, str | None, float | None, bool]

OWNED_EVENTS_SINCE_VERSION = 7  # of the schema: an event may belong to a host or a device
GPU_LOST = "gpu_lost"
MOST = 500
SIGPIPE = int(signals.SIGPIPE)
_NEXT_ATTEMPT = "CASE WHEN json_valid({0}.queue) THEN json_extract({0}.queue, '$.retried_by') END"
# UNION, not UNION ALL: attempts of a damaged store that name each other end the recursion.
SUCCEEDED_LATER = (
    f"EXISTS (WITH RECURSIVE later(id) AS (SELECT {_NEXT_ATTEMPT.format('jobs')} UNION"
    f" SELECT {_NEXT_ATTEMPT.format('attempt')} FROM later JOIN jobs AS attempt ON attempt.id = later.id)"
    f" SELECT 1 FROM later JOIN jobs AS done ON done.id = later.id WHERE done.status = '{Status.SUCCESS}')"
)
# A person has seen a failure by its own, or by the alert of a rule about it.
SEEN = (
    "(EXISTS (SELECT 1 FROM alert_marks WHERE alert_marks.kind = 'seen' AND alert_marks.name = jobs.id)"
    " OR EXISTS (SELECT 1 FROM alerts WHERE job_seq = jobs.seq AND alerts.kind = 'event' AND acknowledged_at NOT NULL))"
)
NO_ALERT_ROW = "iif(json_valid(detail), json_extract(detail, '$.alert'), NULL) IS NULL"
SAME_MOMENT_SECONDS = 60
ALERT_OF_EVENT = (
    "EXISTS (SELECT 1 FROM alerts WHERE alerts.device_seq = events.device_seq AND alerts.kind = 'event'"
    f" AND abs(alerts.began_at - events.at) < {SAME_MOMENT_SECONDS})"
)


@record
class Incident:
    """A failed job or a raised alert; `severity` is None for a failed job, `key` identifies the incident.

    An alert of a host or a device has no job and no status. Its `name` is the host, or `host: gpu 0`, and its `key`
    begins with a slash. `alert_id`, `state` and `rule` are those of an alert in the table of alerts; an alert of an
    older store has none. The alert of a failure is not in the list: the failure is.
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
    is_acknowledged: bool = False
    alert_id: int | None = None
    state: State | None = None
    rule: str | None = None
    resolved_at: float | None = None
    is_moment: bool = False  # it has no length, such as a failure or an alert about the end of a job


def read_incidents(database: Database, since: float) -> list[Incident]:
    """The incidents since a moment and the alerts that are still open, at most MOST of them."""
    with database.reading() as connection:
        has_alerts = has_tables_of(connection, ALERTS_SINCE_VERSION)
        failures = _read_failures(connection, since, has_alerts)
        alerts = read_fired(connection, since, MOST) if has_alerts else []
        old_alerts = _read_alerts(connection, since, has_alerts)
        host_alerts = [
            *_read_host_alerts(connection, since, has_alerts),
            *_read_lost_gpus(connection, since, has_alerts),
        ]
    incidents = [
        *database.decode_rows(failures, _failure),
        *database.decode_rows(alerts, _stored_alert),
        *database.decode_rows(old_alerts, _alert),
        *database.decode_rows(host_alerts, _host_alert),
    ]
    return sorted(incidents, key=lambda incident: incident.at, reverse=True)[:MOST]


def unacknowledged_failures(database: Database) -> list[str]:
    """The ids of all failed jobs that need attention and were not acknowledged."""
    with database.reading() as connection:
        rows = _read_failures(connection, -float("inf"), True, limit=-1)
    return [row["id"] for row in rows if not row["is_seen"] and is_job_id(row["id"])]


def _read_failures(
    connection: sqlite3.Connection, since: float, has_alerts: bool, limit: int = MOST
) -> list[sqlite3.Row]:
    """The failed jobs that need attention.

    A job that SIGPIPE ended does not: its reader had enough, as in `… | head`. Neither does an attempt of the queue if
    a later attempt succeeded.
    """
    ended = "coalesce(end_time, start_time, submitted_at)"
    is_seen = SEEN if has_alerts else "0"
    # The same words as in the index jobs_that_failed: otherwise SQLite does not use it.
    return connection.execute(
        f"SELECT id, name, status, reason, flags, exit_code, duration_seconds, {ended} AS at, {is_seen} AS is_seen"
        f" FROM jobs WHERE status IN ({sql_list(FAILURES)}) AND {ended} >= ? AND signal IS NOT ? AND exit_code IS NOT ?"
        f" AND (queue IS NULL OR NOT {SUCCEEDED_LATER}) ORDER BY {ended} DESC LIMIT ?",
        (since, SIGPIPE, 128 + SIGPIPE, limit),
    ).fetchall()


def _failure(row: sqlite3.Row) -> Incident:
    words = row["reason"] or _exit_words(row)
    known = row["id"], bool(row["is_seen"]), None, None, None, None, True
    return _incident(row, row["id"], row["at"], words, None, known)


def _stored_alert(row: sqlite3.Row) -> Incident:
    """An alert of the table of alerts."""
    alert = alert_from_row(row)
    at = alert.began_at if alert.fired_at is None else alert.fired_at
    known = alert.acknowledged_at is not None, alert.id, alert.state, alert.rule, alert.resolved_at, alert.is_moment
    if alert.job_id is not None:
        key = f"{alert.job_id}/a{alert.id}"
        return _incident(row, key, at, alert.text, alert.severity, (alert.job_id, *known))
    host, device = alert.host or "host", alert.device
    name = host if device is None else f"{host}: {device.kind} {device.name}"
    return Incident(f"/a{alert.id}", at, None, name, None, alert.text, str(alert.severity), (), None, *known)


def _read_alerts(connection: sqlite3.Connection, since: float, has_alerts: bool) -> list[sqlite3.Row]:
    """The events of the kind `alert` that have no row in the table of alerts, each with its job."""
    return connection.execute(
        "SELECT events.id AS number, events.at, events.detail, jobs.id, name, status, flags, duration_seconds"
        f" FROM events JOIN jobs ON jobs.seq = job_seq WHERE events.kind = 'alert' AND at >= ?{_old(has_alerts)}"
        " ORDER BY at DESC, events.id DESC LIMIT ?",
        (since, MOST),
    ).fetchall()


def _old(has_alerts: bool) -> str:
    """The condition that an event of the kind `alert` has no row in the table of alerts."""
    return f" AND {NO_ALERT_ROW}" if has_alerts else ""


def _alert(row: sqlite3.Row) -> Incident:
    words, severity = _alert_words(row)
    return _incident(row, f"{row['id']}/{row['number']}", row["at"], words, severity)


def _alert_words(row: sqlite3.Row) -> tuple[str, str]:
    """The words and the severity of an alert; without a `text` its words are the `name` of its rule."""
    detail = parse_mapping(row["detail"], "the detail of an event")
    words = detail.get("text") or detail.get("name") or "an alert without words"
    return str(words), str(detail.get("severity", "warning"))


def _read_host_alerts(connection: sqlite3.Connection, since: float, has_alerts: bool) -> list[sqlite3.Row]:
    """The events of the kind `alert` that belong to a boot of a host or to a device."""
    if not has_tables_of(connection, OWNED_EVENTS_SINCE_VERSION):
        return []
    # The plus makes SQLite use the index of alerts, not the one by job.
    return connection.execute(
        "SELECT events.id AS number, at, detail, hosts.name AS host, devices.kind AS device, devices.name"
        " FROM events LEFT JOIN devices ON devices.seq = device_seq"
        " LEFT JOIN hosts ON hosts.seq = coalesce(events.host_seq, devices.host_seq)"
        f" WHERE events.kind = 'alert' AND +job_seq IS NULL AND at >= ?{_old(has_alerts)}"
        " ORDER BY at DESC, events.id DESC LIMIT ?",
        (since, MOST),
    ).fetchall()


def _lost_words(row: sqlite3.Row) -> tuple[str, str]:
    return event_text(GPU_LOST, parse_mapping(row["detail"], "the detail of an event")), "critical"


def _read_lost_gpus(connection: sqlite3.Connection, since: float, has_alerts: bool) -> list[sqlite3.Row]:
    """The events of GPUs that do not answer any more, unless a rule has made an alert of them.

    The index is that of events of devices, which are few.
    """
    without_alert = f" AND NOT {ALERT_OF_EVENT}" if has_alerts else ""
    if not has_tables_of(connection, OWNED_EVENTS_SINCE_VERSION):
        return []
    return connection.execute(
        "SELECT events.id AS number, at, detail, hosts.name AS host, devices.kind AS device, devices.name,"
        " events.kind AS event FROM events JOIN devices ON devices.seq = device_seq"
        " LEFT JOIN hosts ON hosts.seq = devices.host_seq"
        f" WHERE device_seq IS NOT NULL AND events.kind = ? AND at >= ?{without_alert}"
        " ORDER BY at DESC, events.id DESC LIMIT ?",
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


def _incident(
    row: sqlite3.Row, key: str, at: float, words: Any, severity: Any = None, known: Known | None = None
) -> Incident:
    """An incident of a job; `known` has the id of the job and what the table of alerts knows."""
    if not is_number(at) or not are_numbers((row["duration_seconds"],)) or type(row["name"]) is not str:
        raise RowDamaged(
            f"job {quote_value(row['id'])}: {quote_value(at)} is not a time, or its name or duration is wrong"
        )
    job_id, *others = known or (row["id"], False, None, None, None, None, False)
    return Incident(
        key,
        at,
        job_id,
        row["name"],
        parse_status(row["status"]),
        str(words),
        None if severity is None else str(severity),
        parse_texts(row["flags"], "flags"),
        row["duration_seconds"],
        *others,
    )


def _exit_words(row: sqlite3.Row) -> str:
    return str(row["status"]) if row["exit_code"] is None else f"exit code {row['exit_code']}"
