"""Waits until jobs have ended: cheap while nothing happens in the store, and not for ever if nobody keeps it."""

from __future__ import annotations

import time

from jobtop.core.scheduling import will_be_retried
from jobtop.store.reconcile import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobtop.core.model import Job
    from jobtop.store.queue import Queue

POLL_SECONDS = 0.1
LOOK_SECONDS = 1.0  # even if nothing happens: whoever kept a job may be gone


def await_ends(queue: Queue, jobs: Iterable[Job]) -> list[Job]:
    """The last attempts at jobs, once there will be no other."""
    targets, database = list(jobs), queue.jobs.database
    seen, looked = None, 0.0
    while not all(map(is_over, targets)):
        version, now = database.version_seen(), time.monotonic()
        everybody = version != seen or now - looked > LOOK_SECONDS
        if everybody:
            seen, looked = version, now
        targets = [now_of(queue, job) if everybody or is_unkept(job) else job for job in targets]
        if not all(map(is_over, targets)):
            time.sleep(POLL_SECONDS)
    return targets


def now_of(queue: Queue, job: Job) -> Job:
    return job if is_over(job) else queue.last_attempt(current(queue.jobs, queue.paths, job))


def is_over(job: Job) -> bool:
    """Whether there will be no other attempt."""
    retried = job.queue is not None and job.queue.retried_by is not None
    return job.status.ended and not retried and not will_be_retried(job.status, job.queue)


def is_unkept(job: Job) -> bool:
    """Whether the store will not be told when the job ends."""
    return job.recorder is None and job.shim is not None
