"""Acts on jobs of this host: stop, kill, pause, resume. A process is found by its identity, never by its pid alone.

A queued job has no process yet: only its row changes, to cancelled or paused.
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
RECORD_SECONDS = RECORDER_SECONDS + 1.0  # `current` does not wait longer for a recorder


class Control:
    """Requests to the jobs of a store. `stop` and `kill` only send signals; `Ending` waits until the jobs are gone.

    Signals are sent even if the request cannot be written into the store; that is a warning.
    """

    def __init__(self, jobs: Jobs, paths: StatePaths, warn: Callable[[str], None]) -> None:
        self.jobs, self.paths, self.warn = jobs, paths, warn
        self.queue = Queue(jobs, paths)

    def find(self, job_id: str) -> Job:
        """The job as it is now; with its root process if it has started, even if the row does not have that yet."""
        return with_shim(self.paths, self.jobs.find(job_id))

    def forbids(self, job: Job) -> str | None:
        """Why this process may not act on the job, whatever the state of the job; None if it may."""
        if (why := elsewhere(job, self.paths.host)) is not None:
            return why
        owner = _owner(job.shim) if kind_of(job).signals_processes else None
        if owner is not None and os.getuid() not in (0, owner):
            return f"job {job.id[:8]} belongs to {job.user}"
        return kind_of(job).refusal(job)

    def refusal(self, job: Job) -> str | None:
        """Why no request can be sent to this job now; None if one can."""
        if (why := self.forbids(job)) is not None:
            return why
        if self.queue.waits(job):
            return None
        if is_gone(job):
            started = "it ended just now" if job.shim is not None else "it has not started"
            state = str(job.status) if job.status.ended else started
            return f"job {job.id[:8]} is not running ({state})"
        return None

    def stop(self, job: Job, by: str) -> None:
        """Send TERM to all processes of the job, and KILL after its grace period; or cancel a queued job.

        EngineError, and nothing has changed, if an engine would have to do it and does not answer.
        """
        if self._cancel_queued(job, by) or (job := self._started(job)).shim is None:
            return
        kind_of(job).ensure_reachable(job)
        self._record_request(job, by)
        if not kind_of(job).stop(job):
            self.warn(f"job {job.id[:8]} ended by itself just now")

    def kill(self, job: Job, by: str) -> None:
        """Send KILL to all processes of the job, or cancel a queued job; `Ending` kills processes forked meanwhile."""
        if self._cancel_queued(job, by) or (job := self._started(job)).shim is None:
            return
        kind_of(job).ensure_reachable(job)
        self._record_request(job, by)
        kind_of(job).kill(job)

    def pause(self, job: Job) -> bool:
        """Send STOP to all processes of the job, until all are stopped; a queued job is not started until `resume`.

        False, with a warning, if the job does not run.
        """
        if self._pause_queued(job, True):
            return True
        if (job := self._started(job)).shim is None:
            return False
        kind_of(job).pause(job)
        self._write(job, lambda row: paused_or_running(row, True))
        return True

    def resume(self, job: Job) -> bool:
        """Send CONT to all processes of the job; a queued job may start again. False if the job does not run."""
        if self._pause_queued(job, False):
            self.queue.call_agent(os.environ)
            return True
        if (job := self._started(job)).shim is None:
            return False
        kind_of(job).resume(job)
        self._write(job, lambda row: paused_or_running(row, False))
        return True

    def settle(self, job: Job) -> Job | None:
        """`reconcile.current` of the job; None if the store fails."""
        with suppress(StoreError):
            return current(self.jobs, self.paths, job)
        return None

    def finished(self, job: Job) -> Job:
        """Wait until the record of an exited job has its end, which its recorder writes a moment later; the job."""
        deadline = time.monotonic() + RECORD_SECONDS
        while (now := self.settle(job)) is not None and not now.status.ended and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return now or job

    def has_survivors(self, job: Job) -> bool:
        """Whether processes of the job still run although its shim is gone."""
        return is_gone(job) and bool(kind_of(job).survivors(self.paths, job))

    def end_survivors(self, job: Job) -> None:
        """End the processes that outlived the shim: TERM, then KILL after the grace period, until none is left."""

        def survivors() -> list[Identity]:
            return kind_of(job).survivors(self.paths, job)

        stop_with_grace(survivors, lambda identity: send(identity, signal.SIGKILL), job.grace_seconds)

    def _cancel_queued(self, job: Job, by: str) -> bool:
        """Cancel a job that waits in the queue; False if it does not."""
        return (
            self.queue.waits(job) and self.queue.cancel(job.id, f"cancelled before it started by {by}", by) is not None
        )

    def _pause_queued(self, job: Job, paused: bool) -> bool:
        """Pause or resume a job that waits in the queue; False if it does not."""
        return self.queue.waits(job) and self.queue.hold(job.id, paused)

    def _started(self, job: Job) -> Job:
        """Wait until a job that is being started has a root process; the job, which has none if it started too late."""
        deadline = time.monotonic() + START_SECONDS
        while job.shim is None and not job.status.ended and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            job = self.find(job.id)
        if job.shim is None:
            self.warn(f"job {job.id[:8]} is not running ({job.status})")
        return job

    def _record_request(self, job: Job, by: str) -> None:
        """Write the request before any signal: the reason of the end is then right even if this process is killed."""
        asked = StopRequest(by, time.time())
        self._write(job, lambda row: (replace(row, stop_request=asked), (event("stop_requested", by=by),)))

    def _write(self, job: Job, change: Callable[[Job], tuple[Job, tuple[Event, ...]]]) -> None:
        try:
            self.jobs.change(job.id, change)
        except StoreError as error:
            self.warn(f"done, but not recorded: {error}")


class Ending:
    """Jobs that were asked to end; call `left` until it is empty or `is_late`."""

    def __init__(self, jobs: Iterable[Job], by_force: bool) -> None:
        self._left, self.by_force = list(jobs), by_force
        patience = max((patience_seconds(job, by_force) for job in self._left), default=0.0)
        self._deadline = time.monotonic() + patience

    @property
    def is_late(self) -> bool:
        """Whether the jobs should be gone by now."""
        return time.monotonic() > self._deadline

    def left(self) -> list[Job]:
        """The jobs that still exist; with `by_force`, processes that they forked since the last call are killed."""
        self._left = [job for job in self._left if not is_gone(job)]
        if self.by_force and not self.is_late:
            for job in self._left:
                kind_of(job).kill(job)
        return self._left

    def wait(self) -> list[Job]:
        """Wait until the jobs are gone; those that are not gone in time."""
        while (left := self.left()) and not self.is_late:
            time.sleep(POLL_SECONDS)
        return left


def elsewhere(job: Job, host: str) -> str | None:
    """Why this host cannot act on a job that runs on another host; None if it runs here."""
    runs = "ran" if job.status.ended else "runs"
    return None if job.host == host else f"job {job.id[:8]} {runs} on {job.host}: act on it there"


def is_gone(job: Job) -> bool:
    """Whether the root process of the job is gone, or never existed."""
    return job.shim is None or not kind_of(job).is_alive(job)


def patience_seconds(job: Job, by_force: bool) -> float:
    """How long a job may take to end after the request."""
    return KILL_SECONDS if by_force else job.grace_seconds + KILL_SECONDS


def _owner(shim: Identity | None) -> int | None:
    """The user id of a process; None if it is gone."""
    try:
        return None if shim is None or not is_alive(shim) else os.stat(f"/proc/{shim.pid}").st_uid
    except OSError:  # it exited between the two calls, or there is no /proc
        return None
