"""Live jobs without a recent heartbeat, on other hosts or in copies of stores: shown as stale, not as running."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from jobtop.core.units import format_duration

if TYPE_CHECKING:
    from jobtop.cli.app import App
    from jobtop.core.model import Job
    from jobtop.store.jobs import Jobs


def status_text(app: App, store: Jobs, job: Job) -> str:
    """Return the status of a job; of a stale one also when its last heartbeat was."""
    now = time.time()
    match is_stale(app, store, job, now):
        case True if job.last_heard is not None:
            return f"{job.status} (stale, last heard {format_duration(now - job.last_heard)} ago)"
        case None:
            return f"{job.status} (not heard of)"
    return str(job.status)


def is_stale(app: App, store: Jobs, job: Job, now: float) -> bool | None:
    """Return whether a job has been silent for long, None if unknown; this host's own jobs are reconciled."""
    return job.is_stale(now, app.paths.host if is_own_store(app, store) else "")


def is_own_store(app: App, store: Jobs) -> bool:
    return store.database.path == app.paths.store


def job_json(app: App, store: Jobs, job: Job) -> dict[str, Any]:
    """Return the record of a job as JSON, with its current staleness and what it costs at the prices of now."""
    from jobtop.core.analysis.cost import cost_of

    return job.to_json(is_stale(app, store, job, time.time())) | {"cost": cost_of(job, app.prices).to_json()}
