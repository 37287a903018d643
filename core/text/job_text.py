"""What verbs and console say of a job in the same words: how it waits, and what is kept of it."""

from __future__ import annotations

from jobtop.core.clock import local
from jobtop.core.model import Job, Kept, Status
from jobtop.core.run.scheduling import will_be_retried
from jobtop.core.units import printable

ENDS = 2  # samples every job has


def memory_is_bound(job: Job) -> bool:
    """Whether its peak is no more than known not to be exceeded."""
    return job.sources.get("memory_peak") == "rusage_floor"


def kept_words(job: Job) -> str | None:
    """What became of the samples of a job; None if they are all there, or never were."""
    if is_thinned(job):
        return "one a minute"
    if was_let_go(job):
        return "let go, like its output and processes (store.rollup_days, store.max_size; jobtop pin keeps jobs whole)"
    return None


def is_thinned(job: Job) -> bool:
    """Whether of its samples one a minute is kept."""
    return job.kept is Kept.MINUTES and (job.usage.samples or 0) > ENDS


def was_let_go(job: Job) -> bool:
    """Whether there were samples, of which none is kept."""
    return job.kept is Kept.RECORD and (job.usage.samples or 0) > ENDS


def not_begun_words(job: Job) -> str | None:
    """Why there is nothing of a job yet, or nothing at all; None if it has begun, or may have."""
    if job.status is Status.QUEUED:
        return "it waits for its turn"
    return "it was never run" if job.queue is not None and job.start_time is None and job.status.ended else None


def queued_words(job: Job) -> list[str]:
    """How it waits, or waited, for its turn; what it waits for only the queue knows."""
    queued = job.queue
    if queued is None:
        return []
    tries = 0 if job.status.ended and not will_be_retried(job.status, queued) else queued.retries
    words = [
        f"priority {queued.priority}" if queued.priority else "",
        f"group {printable(queued.group)}" if queued.group else "",
        f"after {', '.join(job_id[:8] for job_id in queued.after)}" if queued.after else "",
        f"not before {local(queued.not_before)}" if queued.not_before is not None else "",
        f"attempt {queued.attempt}" if queued.attempt > 1 or tries else "",
        f"{tries} {'try' if tries == 1 else 'tries'} left" if tries else "",
        f"once more after {queued.retry_of[:8]}" if queued.retry_of else "",
        f"tried again as {queued.retried_by[:8]}" if queued.retried_by else "",
        f"GPUs {', '.join(queued.gpus)}" if queued.gpus else "",
    ]
    return [word for word in words if word]
