"""Jobs of other hosts that were not heard of lately: said to be stale, not to run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from jobtop.core.units import format_duration

if TYPE_CHECKING:
    from jobtop.cli.app import App
    from jobtop.core.model import Job


def status_words(app: App, job: Job) -> str:
    """How a job stands, and since when nobody knows whether it still does."""
    now = time.time()
    match job.is_stale(now, app.paths.host):
        case True if job.last_heard is not None:
            return f"{job.status} (stale, last heard {format_duration(now - job.last_heard)} ago)"
        case None:
            return f"{job.status} (not heard of)"
    return str(job.status)


def shape(app: App, job: Job) -> dict[str, Any]:
    """A record as JSON has it, as it is known here and now."""
    return job.to_json(job.is_stale(time.time(), app.paths.host))
