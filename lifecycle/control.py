"""Acts on jobs of this host: stop, kill, pause, resume. A process is named by its identity, never by its pid alone.

A queued job has no process yet: it is cancelled or held in the store.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from jobtop.core.errors import StoreError
from jobtop.core.measure.collectors.proc import is_alive, send
from jobtop.core.model import Identity, Job, StopRequest
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.core.run.process_tree import KILL_SECONDS, stop_with_grace
from jobtop.lifecycle.kinds.kind import START_SECONDS
from jobtop.lifecycle.kinds.registry import kind_of
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.reconcile import RECORDER_SECONDS, current, paused_or_running, with_shim
from jobtop.store.jobs import Event, Jobs, event

POLL_SECONDS = 0.05
RECORD_SECONDS = RECORDER_SECONDS + 1.0  # after that any verb that reads the job finishes its record


class Control:
    """What can be done to the jobs of a store. A request acts at once; `Ending` waits until the jobs are gone.

    A request is carried out whether the store can be written or not; a failed write is a warning.
    """

    def __init__(self, jobs: Jobs, paths: StatePaths, warn: Callable[[str], None]) -> None:
        self.jobs, self.paths, self.warn = jobs, paths, warn
        self.queue = Queue(jobs, paths)

    def find(self, job_id: str) -> Job:
        """The job as it is now, with its root process as soon as it has started."""
        return with_shim(self.paths, self.jobs.find(job_id))

    def forbids(self, job: Job) -> str | None:
        """Why this user or process may not act on the job; None if it may."""
        if (why := elsewhere(job, self.paths.host)) is not None:
            return why
        owner = _owner(job.shim)
        if owner is not None and os.getuid() not in (0, owner):
            return f"job {job.id[:8]} belongs to {job.user}"
        return kind_of(job).refusal(job)

    def refusal(self, job: Job) -> str | None:
        """Why nothing can be done to this job; None if something can."""
        if (why := self.forbids(job)) is not None:
            return why
        if self.queue.waits(job):
            return None
        if is_gone(job):
            started = "it ended just now" if job.shim is not None else "it has not begun"
            state = str(job.status) if job.status.ended else started
            return f"job {job.id[:8]} is not running ({state})"
        return None

    def stop(self, job: Job, by: str) -> None:
        """TERM to all its processes, and after its grace KILL."""
        if self._is_cancelled(job, by) or (job := self._started(job)).shim is None:
            return
        self._ask(job, by)
        if not kind_of(job).stop(job):
            self.warn(f"job {job.id[:8]} ended by itself just now")

    def kill(self, job: Job, by: str) -> None:
        """KILL to all its processes; `Ending` kills those that are forked meanwhile."""
        if self._is_cancelled(job, by) or (job := self._started(job)).shim is None:
            return
        self._ask(job, by)
        kind_of(job).kill(job)

    def pause(self, job: Job) -> None:
        """STOP to all its processes, until all of them stand still; a queued job is passed over by the queue."""
        if self._is_held(job, True) or (job := self._started(job)).shim is None:
            return
        kind_of(job).pause(job)
        self._tell(job, lambda row: paused_or_running(row, True))

    def resume(self, job: Job) -> None:
        """CONT to all its processes; a queued job waits for its turn again."""
        if self._is_held(job, False):
            self.queue.call_agent(os.environ)
            return
        if (job := self._started(job)).shim is None:
            return
        kind_of(job).resume(job)
        self._tell(job, lambda row: paused_or_running(row, False))

    def settle(self, job: Job) -> Job | None:
        """The job as it stands, its record finished if no other process will; None if the store cannot be written."""
        with suppress(StoreError):
            return current(self.jobs, self.paths, job)
        return None

    def finished(self, job: Job) -> Job:
        """A job that is gone, once its record has its end: an agent or another `run` writes that a moment later."""
        deadline = time.monotonic() + RECORD_SECONDS
        while (now := self.settle(job)) is not None and not now.status.ended and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return now or job

    def has_survivors(self, job: Job) -> bool:
        """Whether processes of the job outlived its shim."""
        return is_gone(job) and bool(kind_of(job).survivors(self.paths, job))

    def end_survivors(self, job: Job) -> None:
        """End the processes that outlived the shim: TERM, the job's grace, KILL, until none is left."""

        def survivors() -> list[Identity]:
            return kind_of(job).survivors(self.paths, job)

        stop_with_grace(survivors, lambda who: send(who, signal.SIGKILL), job.grace_seconds)

    def _is_cancelled(self, job: Job, by: str) -> bool:
        """Whether it was queued, and is cancelled now."""
        return self.queue.waits(job) and self.queue.cancel(job.id, f"cancelled before it began by {by}", by) is not None

    def _is_held(self, job: Job, held: bool) -> bool:
        """Whether it is queued, and is passed over from now on, or not any more."""
        return self.queue.waits(job) and self.queue.hold(job.id, held)

    def _started(self, job: Job) -> Job:
        """A job that is just being started, with its root process once that exists; without one if it never starts."""
        deadline = time.monotonic() + START_SECONDS
        while job.shim is None and not job.status.ended and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            job = self.find(job.id)
        if job.shim is None:
            self.warn(f"job {job.id[:8]} is not running ({job.status})")
        return job

    def _ask(self, job: Job, by: str) -> None:
        """Record the request before it is carried out, so that the reason of the end is right whatever happens here."""
        asked = StopRequest(by, time.time())
        self._tell(job, lambda row: (replace(row, stop_request=asked), (event("stop_requested", by=by),)))

    def _tell(self, job: Job, change: Callable[[Job], tuple[Job, tuple[Event, ...]]]) -> None:
        try:
            self.jobs.change(job.id, change)
        except StoreError as error:
            self.warn(f"done, but not kept: {error}")


class Ending:
    """Jobs that were asked to end: ask `left` again and again until it is empty or `is_late`."""

    def __init__(self, jobs: Iterable[Job], by_force: bool) -> None:
        self._left, self.by_force = list(jobs), by_force
        patience = max((patience_seconds(job, by_force) for job in self._left), default=0.0)
        self._deadline = time.monotonic() + patience

    @property
    def is_late(self) -> bool:
        """Whether the jobs should be gone by now."""
        return time.monotonic() > self._deadline

    def left(self) -> list[Job]:
        """The jobs that still exist; by force, processes forked since the last call are killed."""
        self._left = [job for job in self._left if not is_gone(job)]
        if self.by_force and not self.is_late:
            for job in self._left:
                kind_of(job).kill(job)
        return self._left

    def wait(self) -> list[Job]:
        """The jobs that are not gone in time."""
        while (left := self.left()) and not self.is_late:
            time.sleep(POLL_SECONDS)
        return left


def elsewhere(job: Job, host: str) -> str | None:
    """Why a job of another host cannot be acted on here; None if it is of this host."""
    runs = "ran" if job.status.ended else "runs"
    return None if job.host == host else f"job {job.id[:8]} {runs} on {job.host}: act on it there"


def is_gone(job: Job) -> bool:
    """Whether nothing of the job is left, not even its shim."""
    return job.shim is None or not kind_of(job).is_alive(job)


def patience_seconds(job: Job, by_force: bool) -> float:
    """How long after the request a job may still exist."""
    return KILL_SECONDS if by_force else job.grace_seconds + KILL_SECONDS


def _owner(shim: Identity | None) -> int | None:
    """The user id of a process; None if it is gone."""
    try:
        return None if shim is None or not is_alive(shim) else os.stat(f"/proc/{shim.pid}").st_uid
    except OSError:  # it exited between the two calls, or there is no /proc
        return None
