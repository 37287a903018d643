"""Waits until jobs have ended, even if their recorder is killed; cheap while the store does not change."""

from __future__ import annotations

import time
from contextlib import suppress

from jobtop.core.errors import StoreBusy
from jobtop.core.model import Status
from jobtop.core.run.scheduling import will_be_retried
from jobtop.lifecycle.agent_lock import is_attended
from jobtop.lifecycle.reconcile import current
from jobtop.store.files import file_times, is_network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from jobtop.core.model import Job
    from jobtop.lifecycle.queue import Queue

POLL_SECONDS = 0.1
CALLED_SECONDS = 3.0  # in this time a new agent has registered, even on a busy machine
LOOK_SECONDS, NETWORK_LOOK_SECONDS = 1.0, 5.0  # without a change: the recorder of a job may have been killed


class Looks:
    """Says when to read a store again: always on a local disk, on a network file system once its file has changed."""

    def __init__(self, path: Path, network: bool | None) -> None:
        self.path = path
        self.is_network = is_network(path) if network is None else network
        self._seen, self._at = file_times(path) if self.is_network else (), time.monotonic()

    def is_due(self) -> bool:
        """Whether to read the store now; also after a while without a change: a recorder may have been killed."""
        if not self.is_network:
            return True
        seen, now = file_times(self.path), time.monotonic()
        if seen == self._seen and now - self._at < NETWORK_LOOK_SECONDS:
            return False
        self._seen, self._at = seen, now
        return True

    def wait(self, seconds: float) -> None:
        """Wait so many seconds, and then until it is due."""
        time.sleep(seconds)
        while not self.is_due():
            time.sleep(seconds)


def await_ends(
    queue: Queue,
    jobs: Iterable[Job],
    network: bool | None = None,
    warn: Callable[[str], None] | None = None,
    timeout_seconds: float | None = None,
) -> list[Job]:
    """Wait until the last attempt at each job has ended; these attempts. Warns if no agent will start a queued job.

    After the timeout, the last attempts as they are.
    """
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    targets, database = list(jobs), queue.jobs.database
    looks = Looks(database.path, network)
    seen, looked = None, 0.0
    while not all(map(is_over, targets)):
        with suppress(StoreBusy):  # tried again soon
            version, now = database.version_seen(), time.monotonic()
            reads_all = version != seen or now - looked > LOOK_SECONDS
            if reads_all:
                seen, looked = version, now
            targets = [last_attempt_of(queue, job) if reads_all or has_no_recorder(job) else job for job in targets]
            if reads_all and warn is not None and (why := unattended(queue, targets)) is not None:
                warn(why)
                warn = None
        if all(map(is_over, targets)) or (deadline is not None and time.monotonic() >= deadline):
            break
        looks.wait(POLL_SECONDS)
    return targets


def unattended(queue: Queue, jobs: Iterable[Job]) -> str | None:
    """The warning that a job is queued and there is no agent to start it; None if there is no such job."""
    waiting = [job for job in jobs if job.status is Status.QUEUED and job.host == queue.paths.host and queue.waits(job)]
    if not waiting or was_called(waiting) or is_attended(queue.jobs.database, queue.paths):
        return None
    return f"job {waiting[0].id[:8]} is queued, and no agent is running to start it: jobtop agent start"


def was_called(waiting: Iterable[Job]) -> bool:
    """Whether one of the jobs is so new that the agent for it may not have registered yet."""
    return time.time() - max((job.submitted_at or 0.0 for job in waiting), default=0.0) < CALLED_SECONDS


def last_attempt_of(queue: Queue, job: Job) -> Job:
    """The last attempt at a job, as it is now."""
    return job if is_over(job) else queue.last_attempt(current(queue.jobs, queue.paths, job))


def is_over(job: Job) -> bool:
    """Whether the job has ended and will not be tried again."""
    retried = job.queue is not None and job.queue.retried_by is not None
    return job.status.ended and not retried and not will_be_retried(job.status, job.queue)


def has_no_recorder(job: Job) -> bool:
    """Whether a job has started and no process records it, so that its end does not change the store."""
    return job.recorder is None and job.shim is not None
