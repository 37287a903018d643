"""Jobs of other hosts, or of copies of stores, that were not heard of lately: said to be stale, not to run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from jobtop.core.units import format_duration

if TYPE_CHECKING:
    from jobtop.cli.app import App
    from jobtop.core.model import Job
    from jobtop.store.jobs import Jobs


def status_words(app: App, store: Jobs, job: Job) -> str:
    """How a job stands, and since when nobody knows whether it still does."""
    now = time.time()
    match is_stale(app, store, job, now):
        case True if job.last_heard is not None:
            return f"{job.status} (stale, last heard {format_duration(now - job.last_heard)} ago)"
        case None:
            return f"{job.status} (not heard of)"
    return str(job.status)


def is_stale(app: App, store: Jobs, job: Job, now: float) -> bool | None:
    """Whether a job was not heard of for long; in this host's own store its jobs were just looked at."""
    return job.is_stale(now, app.paths.host if is_own(app, store) else "")


def is_own(app: App, store: Jobs) -> bool:
    return store.database.path == app.paths.store


def shape(app: App, store: Jobs, job: Job) -> dict[str, Any]:
    """A record as JSON has it, as it is known here and now."""
    return job.to_json(is_stale(app, store, job, time.time()))
