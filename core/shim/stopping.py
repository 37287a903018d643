"""Ends a job: TERM to all of its processes, and KILL to those that are left after the grace.

Part of every shim: standard library only, imports nothing later.
"""

import time

from jobtop.core.procfs import SAME_REQUEST_SECONDS, signal_descendants, signals

TERM_AGAIN_SECONDS = 0.2
FIRST_KILL_PAUSE_SECONDS, LAST_KILL_PAUSE_SECONDS = 0.02, 1.0
MOST_KILLED = 100  # processes that the record names


class Stopping:
    """When the job has to end, why, and which processes had to be killed."""

    def __init__(self, shim: int, grace_seconds: float) -> None:
        self.shim, self.grace_seconds = shim, grace_seconds
        self.cause: str | None = None
        self.killed: list[tuple[int, str]] = []
        self._stopped_at = 0.0
        self._interrupted_at = -float("inf")
        self._timeout_at: float | None = None
        self._terminated: frozenset[int] = frozenset()
        self._term_again_at: float | None = None
        self._kill_at: float | None = None
        self._kill_pause = FIRST_KILL_PAUSE_SECONDS

    def begin(self, moment: float, timeout_seconds: float | None) -> None:
        """Start to count the time that the job may take."""
        self._timeout_at = moment + timeout_seconds if timeout_seconds is not None else None

    def stop(self, cause: str) -> None:
        """Send TERM to all, and KILL after the grace; a second request sends KILL at once."""
        moment = time.monotonic()
        if self.cause is not None:
            if moment - self._stopped_at >= SAME_REQUEST_SECONDS:
                self._kill_at = moment
            return
        self.cause, self._stopped_at = cause, moment
        self._kill_at = moment + self.grace_seconds
        self._terminate()

    def kill_over_limit(self) -> None:
        """Kill a job that uses more memory than it may, without a grace."""
        self.cause = self.cause or "limit"
        self._kill_at = time.monotonic()

    def note_interrupt(self) -> None:
        """Remember that the job was sent a signal that usually ends it."""
        self._interrupted_at = time.monotonic()

    def is_requested(self, moment: float) -> bool:
        """Whether the job is being stopped, or was interrupted within the grace."""
        return self.cause is not None or moment - self._interrupted_at <= self.grace_seconds

    def due_times(self) -> "tuple[float | None, ...]":
        return self._timeout_at, self._term_again_at, self._kill_at

    def attend(self, moment: float) -> None:
        """Send the signals that are due."""
        if self._timeout_at is not None and moment >= self._timeout_at:
            self._timeout_at = None
            self.stop("timeout")
        if self._term_again_at is not None and moment >= self._term_again_at:
            self._terminate()
        if self._kill_at is not None and moment >= self._kill_at:
            self._kill(moment)

    def _terminate(self) -> None:
        """Send TERM to the processes that have not got it yet: some were forked while the others got it."""
        reached = signal_descendants(self.shim, signals.SIGTERM, without=self._terminated)
        signal_descendants(self.shim, signals.SIGCONT, without=self._terminated)
        self._terminated |= {pid for pid, _ in reached}
        self._term_again_at = time.monotonic() + TERM_AGAIN_SECONDS

    def _kill(self, moment: float) -> None:
        """Send KILL to all, again and again until no process is left."""
        self._term_again_at = None
        reached = signal_descendants(self.shim, signals.SIGKILL)
        known = {pid for pid, _ in self.killed}
        if self.cause != "limit":  # those processes were given no chance to exit by themselves
            self.killed.extend(item for item in reached if item[0] not in known and len(self.killed) < MOST_KILLED)
        self._kill_pause = min(self._kill_pause * 2, LAST_KILL_PAUSE_SECONDS)
        self._kill_at = moment + self._kill_pause
