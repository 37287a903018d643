"""Waits until jobs have ended: cheap while nothing happens in the store, and not for ever if nobody keeps it."""

from __future__ import annotations

import time
from contextlib import suppress

from jobtop.core.errors import StoreBusy
from jobtop.core.scheduling import will_be_retried
from jobtop.store.database import file_times, is_network
from jobtop.store.reconcile import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from jobtop.core.model import Job
    from jobtop.store.queue import Queue

POLL_SECONDS = 0.1
LOOK_SECONDS, NETWORK_LOOK_SECONDS = 1.0, 5.0  # even if nothing happens: whoever kept a job may be gone


class Looks:
    """When it is worth asking a store again: always where that is cheap, on a network once its file was written."""

    def __init__(self, path: Path, network: bool | None) -> None:
        self.path = path
        self.is_network = is_network(path) if network is None else network
        self._seen, self._at = file_times(path) if self.is_network else (), time.monotonic()

    def is_due(self) -> bool:
        """Asked again and again; at times even if nothing was written: whoever kept a job may be gone."""
        if not self.is_network:
            return True
        seen, now = file_times(self.path), time.monotonic()
        if seen == self._seen and now - self._at < NETWORK_LOOK_SECONDS:
            return False
        self._seen, self._at = seen, now
        return True

    def wait(self, seconds: float) -> None:
        """Until it is, and for so long at least."""
        time.sleep(seconds)
        while not self.is_due():
            time.sleep(seconds)


def await_ends(queue: Queue, jobs: Iterable[Job], network: bool | None = None) -> list[Job]:
    """The last attempts at jobs, once there will be no other."""
    targets, database = list(jobs), queue.jobs.database
    looks = Looks(database.path, network)
    seen, looked = None, 0.0
    while not all(map(is_over, targets)):
        with suppress(StoreBusy):  # by and by it is not
            version, now = database.version_seen(), time.monotonic()
            everybody = version != seen or now - looked > LOOK_SECONDS
            if everybody:
                seen, looked = version, now
            targets = [now_of(queue, job) if everybody or is_unkept(job) else job for job in targets]
        if not all(map(is_over, targets)):
            looks.wait(POLL_SECONDS)
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
