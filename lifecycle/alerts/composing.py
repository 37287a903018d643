"""Composes a stored message from the alerts that belong to it, when it is first sent."""

from __future__ import annotations

from contextlib import suppress

from jobtop.core.alerts.messages import compose
from jobtop.core.errors import RowDamaged
from jobtop.core.model import Job
from jobtop.store.alerts.alert_rows import AlertStore
from jobtop.store.alerts.marks import MarkKind, Marks
from jobtop.store.jobs import Jobs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobtop.core.alerts.model import Message, Rule
    from jobtop.store.alerts.alert_rows import StoredAlert
    from jobtop.store.alerts.outbox import Outgoing
    from jobtop.store.database import Database

MOST_JOBS_READ = 20  # of a group; the message names ten


def compose_stored(
    database: Database, outgoing: Outgoing, rule_of: Callable[[str], Rule | None], host: str, at: float
) -> Message | None:
    """The message about the alerts of an outgoing row; None if all of them were deleted."""
    stored = AlertStore(database)
    with database.reading():
        alerts = [alert for alert in map(stored.find, outgoing.members) if alert is not None]
        if not alerts:
            return None
        jobs = _jobs_of(database, alerts[:MOST_JOBS_READ])
        is_armed = Marks(database).has(MarkKind.ARMED, outgoing.rule)
    return compose(
        outgoing.key,
        outgoing.rule,
        rule_of(outgoing.rule),
        outgoing.severity,
        outgoing.state,
        alerts,
        jobs,
        host,
        at,
        is_armed,
        outgoing.created_at,
    )


def _jobs_of(database: Database, alerts: Sequence[StoredAlert]) -> dict[str, Job]:
    jobs, found = Jobs(database), dict[str, Job]()
    for alert in alerts:
        if alert.job_id is not None and alert.job_id not in found:
            with suppress(RowDamaged):
                found |= {job.id: job for job in jobs.read_where("id = ?", (alert.job_id,))}
    return found
