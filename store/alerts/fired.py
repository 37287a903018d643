"""The alerts that fired since a moment, for the list of incidents: without those that only repeat a failure."""

from __future__ import annotations

from jobtop.core.model import Status
from jobtop.store.alerts.alert_rows import COLUMNS, JOINS, OPEN
from jobtop.store.jobs import sql_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

FAILURES = (Status.FAILED, Status.TIMEOUT, Status.ERROR, Status.LOST)
ENDS = ("failed", "timeout", "oom_killed", "lost", "error")  # events that say how a job ended
LONGEST_PENDING_SECONDS = 86400.0  # an alert that began before does not fire any more, or is still open
# An alert of an event rule about a failed job says what the failure says; `event` of its detail names the event.
REPEATS_FAILURE = (
    f"(alerts.kind = 'event' AND jobs.status IN ({sql_list(FAILURES)}) AND coalesce(iif(json_valid(alerts.detail),"
    f" json_extract(alerts.detail, '$.event'), NULL), 'failed') IN ({sql_list(ENDS)}))"
)
SELECT = f"SELECT {COLUMNS}, jobs.name, jobs.status, jobs.flags, jobs.duration_seconds FROM alerts {JOINS}"


def read_fired(connection: sqlite3.Connection, since: float, limit: int) -> list[sqlite3.Row]:
    """Rows for `alert_from_row`, with columns of their jobs: alerts that are open, and those that fired since.

    Two statements, since each has an index: open alerts are few, and `began_at` bounds the time of the others.
    """
    fired = "fired_at IS NOT NULL AND (jobs.seq IS NULL OR NOT " + REPEATS_FAILURE + ")"
    rows = connection.execute(
        f"{SELECT} WHERE {OPEN} AND {fired} ORDER BY fired_at DESC, alerts.id DESC LIMIT ?", (limit,)
    ).fetchall()
    rows += connection.execute(
        f"{SELECT} WHERE +alerts.state = 'resolved' AND began_at >= ? AND fired_at >= ? AND {fired}"
        " ORDER BY began_at DESC, alerts.id DESC LIMIT ?",
        (since - LONGEST_PENDING_SECONDS, since, limit),
    ).fetchall()
    return rows
