"""Reads the processes of the machine in a thread of its own, only while a page shows them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Protocol

from jobtop.core.measure.live.machine_processes import MachineProcesses, ProcessMoment
from jobtop.core.procfs import boot_id

FIRST_SECONDS = 0.25  # from the first reading, which has no CPU percentages, to the second
LEAVE_SECONDS = 2.0


class ProcessReader(Protocol):
    """Reads all processes again and again, in one thread."""

    def read(self) -> ProcessMoment: ...

    def close(self) -> None: ...


class ProcessSource(Protocol):
    """Where the processes come from: this machine, or the demo."""

    @property
    def boot(self) -> str:
        """The boot in which they run, as identities have it."""
        ...

    def open(self, secret: Sequence[str]) -> ProcessReader:
        """A reader; values of arguments that match `secret` are hidden."""
        ...


class MachineSource:
    """The processes of this machine."""

    @cached_property
    def boot(self) -> str:
        return boot_id()

    def open(self, secret: Sequence[str]) -> ProcessReader:
        return MachineProcesses(secret)


class ProcessFeed:
    """Starts and stops the thread; only the thread of the console calls it. `post` is called in the other thread."""

    def __init__(
        self, source: ProcessSource, post: Callable[[ProcessMoment], object], secret: Sequence[str] = ()
    ) -> None:
        self.source, self._post, self._secret = source, post, secret
        self._thread: ReadingThread | None = None
        self.now: ProcessMoment | None = None  # the newest one that the console has taken

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    @property
    def interval_seconds(self) -> float | None:
        """The time between two readings; None while nothing is read."""
        return self._thread.interval_seconds if self._thread is not None else None

    def read_every(self, seconds: float | None) -> None:
        """Read at this pace from now on; None: no longer."""
        if seconds is None:
            self.stop()
        elif self._thread is None:
            self._thread = ReadingThread(self.source, self._post, self._secret, seconds)
            self._thread.start()
        elif self._thread.interval_seconds != seconds:
            self._thread.change_pace(seconds)

    def stop(self) -> None:
        """Read no more; the thread ends by itself. Old percentages mean nothing later: they are forgotten."""
        thread, self._thread, self.now = self._thread, None, None
        if thread is not None:
            thread.stop()

    def close(self) -> None:
        """Read no more, and wait for the thread."""
        thread = self._thread
        self.stop()
        if thread is not None:
            thread.join(LEAVE_SECONDS)


class ReadingThread(threading.Thread):
    """Reads until it is stopped."""

    def __init__(
        self,
        source: ProcessSource,
        post: Callable[[ProcessMoment], object],
        secret: Sequence[str],
        interval_seconds: float,
    ) -> None:
        super().__init__(name="jobtop-processes", daemon=True)
        self._source, self._send, self._secret = source, post, secret
        self.interval_seconds = interval_seconds
        self._is_stopped, self._wake = False, threading.Event()

    def change_pace(self, seconds: float) -> None:
        self.interval_seconds = seconds
        self._wake.set()

    def stop(self) -> None:
        self._is_stopped = True
        self._wake.set()

    def run(self) -> None:
        reader = self._source.open(self._secret)
        wait = FIRST_SECONDS
        try:
            while not self._is_stopped:
                with suppress(OSError):  # no descriptor left (EMFILE): tried again
                    moment = reader.read()
                    if not self._is_stopped:
                        self._send(moment)
                self._wake.wait(min(wait, self.interval_seconds))
                self._wake.clear()
                wait = self.interval_seconds
        finally:
            reader.close()
