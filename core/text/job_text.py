"""Text about a job that verbs and the console share: its place in the queue, and what is kept of it."""

from __future__ import annotations

from jobtop.core.clock import local
from jobtop.core.model import Job, Kept, Status
from jobtop.core.run.scheduling import will_be_retried
from jobtop.core.units import number_of, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

ENDPOINT_SAMPLES = 2  # the samples at the start and at the end, which every job has


def samples_kept_text(job: Job, events: Iterable[tuple[float, str, Mapping[str, Any]]] = ()) -> str | None:
    """Return what is left of the samples of a job; None if all are kept, or there were none."""
    if is_thinned(job):
        return "one per minute"
    return f"{deletion_text(events)}, like its output and processes" if are_samples_deleted(job) else None


def ending_text(job: Job) -> str:
    """Return one line about how a job ended: its name, id, status and reason."""
    because = f" ({printable(job.reason)})" if job.reason else ""
    return f"{printable(job.name)} {job.id[:8]}: {job.status}{because}"


def deletion_text(events: Iterable[tuple[float, str, Mapping[str, Any]]]) -> str:
    """Return when the samples and output of a job were deleted, and by which setting or verb, as far as known."""
    pruned = [(at, detail) for at, kind, detail in events if kind == "pruned"]
    if not pruned:
        return "deleted"
    at, detail = pruned[-1]
    by = f" by {printable(str(detail['reason']))}" if detail.get("reason") else ""
    return f"deleted at {local(at)}{by}"


def is_thinned(job: Job) -> bool:
    """Return whether only one sample per minute is kept of a job."""
    return job.kept is Kept.MINUTES and (job.usage.samples or 0) > ENDPOINT_SAMPLES


def are_samples_deleted(job: Job) -> bool:
    """Return whether a job had samples and all were deleted."""
    return job.kept is Kept.RECORD and (job.usage.samples or 0) > ENDPOINT_SAMPLES


def not_monitored_text(job: Job) -> str | None:
    """Return that a live job is not sampled, by its own options or by the settings; None for other jobs."""
    is_watched = job.monitor.interval_seconds is not None
    return None if is_watched or job.status.ended else "not monitored (--no-monitor)"


def not_started_text(job: Job) -> str | None:
    """Return why a job has no data: it is queued, or was never run; None if it has started, or may have."""
    if job.status is Status.QUEUED:
        return "it is queued"
    return "it was never run" if job.queue is not None and job.start_time is None and job.status.ended else None


def queue_parts(job: Job) -> list[str]:
    """Return the queue options of a job, a text each; only the queue knows what it waits for."""
    queued = job.queue
    if queued is None:
        return []
    retries = 0 if job.status.ended and not will_be_retried(job.status, queued) else queued.retries
    parts = [
        f"priority {queued.priority}" if queued.priority else "",
        f"group {printable(queued.group)}" if queued.group else "",
        f"after {', '.join(job_id[:8] for job_id in queued.after)}" if queued.after else "",
        f"after the end of {', '.join(job_id[:8] for job_id in queued.after_end)}" if queued.after_end else "",
        f"not before {local(queued.not_before)}" if queued.not_before is not None else "",
        f"attempt {queued.attempt}" if queued.attempt > 1 or retries else "",
        f"{number_of(retries, 'retry', 'retries')} left" if retries else "",
        f"retry of {queued.retry_of[:8]}" if queued.retry_of else "",
        f"retried as {queued.retried_by[:8]}" if queued.retried_by else "",
        f"GPUs {', '.join(queued.gpus)}" if queued.gpus else "",
    ]
    return [part for part in parts if part]
