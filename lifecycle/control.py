"""Acts on jobs of this host: stop, kill, pause, resume. Every process is meant by its identity, never by its pid.

A job that waits for its turn has no process yet: it is acted on in the store.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from jobtop.core.errors import StoreError
from jobtop.core.measure.collectors.proc import is_alive, send, send_to_members
from jobtop.core.model import Identity, Job, StopRequest
from jobtop.core.paths import StatePaths
from jobtop.core.procfs import descendants, freeze_descendants
from jobtop.core.record import replace
from jobtop.core.run import process_tree
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.reconcile import RECORDER_SECONDS, START_SECONDS, current, paused_or_running, survivors, with_shim
from jobtop.store.jobs import Event, Jobs, event

POLL_SECONDS = 0.05
RECORD_SECONDS = RECORDER_SECONDS + 1.0  # after that its record is finished by whoever looks
KILL_SECONDS = 10.0  # how long the kernel may take to end what was killed


class Control:
    """What can be done to the jobs of a store. It acts at once; who waits asks `is_gone`, then for it `finished`.

    Done is done whether the store can be told or not; that it could not is warned of.
    """

    def __init__(self, jobs: Jobs, paths: StatePaths, warn: Callable[[str], None]) -> None:
        self.jobs, self.paths, self.warn = jobs, paths, warn
        self.queue = Queue(jobs, paths)

    def find(self, job_id: str) -> Job:
        """The job as it is now, with its shim as soon as that has begun."""
        return with_shim(self.paths, self.jobs.find(job_id))

    def forbids(self, job: Job) -> str | None:
        """Why we may not act on this job; None if we may."""
        if (why := elsewhere(job, self.paths.host)) is not None:
            return why
        owner = _owner(job.shim)
        if owner is not None and os.getuid() not in (0, owner):
            return f"job {job.id[:8]} belongs to {job.user}"
        if job.is_attached and process_tree.is_inside(_shim(job)):
            return f"this jobtop is in job {job.id[:8]} itself: act on it from outside"
        return None

    def refusal(self, job: Job) -> str | None:
        """Why nothing can be done to this job; None if something can."""
        if (why := self.forbids(job)) is not None:
            return why
        if self.queue.waits(job):
            return None
        if job.shim is None or is_gone(job):
            begun = "it ended just now" if job.shim is not None else "it has not begun"
            state = str(job.status) if job.status.ended else begun
            return f"job {job.id[:8]} is not running ({state})"
        return None

    def stop(self, job: Job, by: str) -> None:
        """TERM to all its processes, and after its grace KILL: its shim sees to both, or we do if it has none."""
        if self._is_cancelled(job, by) or (job := self._begun(job)).shim is None:
            return
        self._ask(job, by)
        if job.is_attached:
            process_tree.end(_shim(job), job.grace_seconds, patience(job, by_force=False))
        elif not send(_shim(job), signal.SIGTERM):
            self.warn(f"job {job.id[:8]} ended by itself just now")

    def kill(self, job: Job, by: str) -> None:
        """KILL to all its processes; whoever is forked meanwhile needs `kill_again`."""
        if self._is_cancelled(job, by) or (job := self._begun(job)).shim is None:
            return
        self._ask(job, by)
        kill_again(job)

    def pause(self, job: Job) -> None:
        """STOP to all its processes, until all of them stand still; one that waits is passed over."""
        if self._is_held(job, True) or (job := self._begun(job)).shim is None:
            return
        if job.is_attached:
            process_tree.freeze(_shim(job))
        else:
            freeze_descendants(_shim(job).pid)
        self._tell(job, lambda row: paused_or_running(row, True))

    def resume(self, job: Job) -> None:
        """CONT to all its processes; one that waits gets its turn again."""
        if self._is_held(job, False):
            self.queue.call_agent(os.environ)
            return
        if (job := self._begun(job)).shim is None:
            return
        if job.is_attached:
            process_tree.thaw(_shim(job))
        else:
            send_to_members(_shim(job), signal.SIGCONT)
        self._tell(job, lambda row: paused_or_running(row, False))

    def settle(self, job: Job) -> Job | None:
        """The job as it stands, its record finished if nobody else will; None where the store cannot be told."""
        with suppress(StoreError):
            return current(self.jobs, self.paths, job)
        return None

    def finished(self, job: Job) -> Job:
        """A job that is gone, once the store knows how it ended: an agent or another `run` tells it a moment after."""
        deadline = time.monotonic() + RECORD_SECONDS
        while (now := self.settle(job)) is not None and not now.status.ended and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return now or job

    def has_survivors(self, job: Job) -> bool:
        """Whether processes of the job outlived its shim."""
        return is_gone(job) and bool(survivors(self.paths, job))

    def end_survivors(self, job: Job) -> None:
        """End what outlived the shim: TERM, the job's grace, KILL, until nobody is left."""
        known = set(survivors(self.paths, job))
        deadline = time.monotonic() + job.grace_seconds
        for who in known:
            send(who, signal.SIGTERM)
        while left := [who for who in known if is_alive(who)]:
            known.update(survivors(self.paths, job))
            if time.monotonic() > deadline:
                for who in left:
                    send(who, signal.SIGKILL)
            time.sleep(POLL_SECONDS)

    def _is_cancelled(self, job: Job, by: str) -> bool:
        """Whether it never began, and now never will."""
        return self.queue.waits(job) and self.queue.cancel(job.id, f"cancelled before it began by {by}", by) is not None

    def _is_held(self, job: Job, held: bool) -> bool:
        """Whether it waits, and from now on is passed over, or is not."""
        return self.queue.waits(job) and self.queue.hold(job.id, held)

    def _begun(self, job: Job) -> Job:
        """A job whose turn came just now, with its shim as soon as that is there; without one if it never was."""
        deadline = time.monotonic() + START_SECONDS
        while job.shim is None and not job.status.ended and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            job = self.find(job.id)
        if job.shim is None:
            self.warn(f"job {job.id[:8]} is not running ({job.status})")
        return job

    def _ask(self, job: Job, by: str) -> None:
        """Say who asked before it is done, so that the end is read right whatever happens to us."""
        asked = StopRequest(by, time.time())
        self._tell(job, lambda row: (replace(row, stop_request=asked), (event("stop_requested", by=by),)))

    def _tell(self, job: Job, change: Callable[[Job], tuple[Job, tuple[Event, ...]]]) -> None:
        try:
            self.jobs.change(job.id, change)
        except StoreError as error:
            self.warn(f"done, but not kept: {error}")


def elsewhere(job: Job, host: str) -> str | None:
    """That a job is not of this host, in words; None if it is."""
    runs = "ran" if job.status.ended else "runs"
    return None if job.host == host else f"job {job.id[:8]} {runs} on {job.host}: act on it there"


def is_gone(job: Job) -> bool:
    """Whether nothing of the job is left, its shim neither."""
    return job.shim is None or not is_alive(job.shim)


def kill_again(job: Job) -> None:
    """KILL to whoever of the job is there by now."""
    if job.is_attached:
        process_tree.kill(_shim(job))
    else:
        send_to_members(_shim(job), signal.SIGKILL)


def processes_left(job: Job) -> int:
    """How many processes of the job are still there."""
    return len(process_tree.members(_shim(job)) if job.is_attached else descendants(_shim(job).pid))


def patience(job: Job, by_force: bool) -> float:
    """How many seconds after it was asked to end a job should be gone."""
    return KILL_SECONDS if by_force else job.grace_seconds + KILL_SECONDS


def _shim(job: Job) -> Identity:
    assert job.shim is not None
    return job.shim


def _owner(shim: Identity | None) -> int | None:
    """Whose shim it is; None if it is gone."""
    try:
        return None if shim is None or not is_alive(shim) else os.stat(f"/proc/{shim.pid}").st_uid
    except OSError:  # it went between the two looks, or there is no /proc
        return None
