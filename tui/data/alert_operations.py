"""What people decide about alerts: acknowledge, mute, unmute. Runs in threads, so that keys never wait for a store."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from jobtop.core.alerts.model import OPEN_STATES
from jobtop.core.errors import JobtopError
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.record import record
from jobtop.core.run.request import user_name
from jobtop.store.alerts.alert_rows import AlertStore
from jobtop.store.alerts.fired import FAILURES
from jobtop.store.alerts.marks import MarkKind, Marks
from jobtop.store.database import Database, open_to_write
from jobtop.store.jobs import Jobs

if TYPE_CHECKING:
    from jobtop.store.incidents import Incident
    from jobtop.tui.data.view import JobRow

STORE_PATIENCE_SECONDS = 5.0
OLD_ALERT = "{}: an older version of jobtop recorded it; it leaves the list after a day"


@record
class Decision:
    """How many things were changed, and the reasons why others were not."""

    count: int = 0
    refusals: tuple[str, ...] = ()


def acknowledge(chosen: Sequence[tuple[Path, Incident]]) -> Decision:
    """Acknowledge incidents, each in its store."""
    count = 0
    refusals: list[str] = []
    for store in dict.fromkeys(store for store, _ in chosen):
        found = [incident for held, incident in chosen if held == store]
        try:
            with opened(store) as database:
                count += _acknowledge(database, found, refusals)
        except (JobtopError, OSError) as error:
            refusals.append(str(error))
    return Decision(count, tuple(dict.fromkeys(refusals)))


def _acknowledge(database: Database, found: Iterable[Incident], refusals: list[str]) -> int:
    marks, numbers, count = Marks(database), [], 0
    for incident in found:
        if incident.alert_id is not None:
            numbers.append(incident.alert_id)
        elif incident.severity is None and incident.job_id is not None:
            marks.set(MarkKind.SEEN, incident.job_id, by=user_name())
            count += 1
        else:
            refusals.append(OLD_ALERT.format(incident.name))
    return count + len(AlertStore(database).acknowledge(numbers, user_name()))


def acknowledge_jobs(rows: Sequence[JobRow]) -> Decision:
    """Acknowledge the open alerts of jobs, and that they failed."""
    count = 0
    refusals: list[str] = []
    for row in rows:
        try:
            with opened(row.store) as database:
                count += _acknowledge_job(database, row.job.id)
        except (JobtopError, OSError) as error:
            refusals.append(str(error))
    return Decision(count, tuple(dict.fromkeys(refusals)))


def _acknowledge_job(database: Database, job_id: str) -> int:
    job, alerts = Jobs(database).find(job_id), AlertStore(database)
    known = alerts.listing(OPEN_STATES, job_seq=job.seq)
    count = len(alerts.acknowledge([alert.id for alert in known if alert.acknowledged_at is None], user_name()))
    if job.status in FAILURES and not Marks(database).has(MarkKind.SEEN, job.id):
        Marks(database).set(MarkKind.SEEN, job.id, by=user_name())
        count += 1
    return count


def mute(store: Path, kind: MarkKind, name: str, seconds: float | None) -> str | None:
    """Mute a rule or a job for some seconds, or until it is unmuted; return the reason if that failed."""
    try:
        with opened(store) as database:
            Marks(database).set(kind, name, None if seconds is None else time.time() + seconds, user_name())
    except (JobtopError, OSError) as error:
        return str(error)
    return None


def unmute(store: Path, names: Sequence[tuple[MarkKind, str]]) -> Decision:
    """Unmute rules and jobs; those that were not muted do not count."""
    try:
        with opened(store) as database:
            return Decision(sum(Marks(database).clear(kind, name) for kind, name in names))
    except (JobtopError, OSError) as error:
        return Decision(refusals=(str(error),))


@contextmanager
def opened(store: Path) -> Iterator[Database]:
    """The store of this host, opened to write; raises StoreReadOnly for that of another host."""
    from jobtop.core.errors import UsageError

    paths = StatePaths(store.parent, hostname())
    if store != paths.store:
        raise UsageError(f"{store}: it belongs to another host, and this console only reads it")
    database = open_to_write(paths, patience=STORE_PATIENCE_SECONDS)
    try:
        yield database
    finally:
        database.close()
