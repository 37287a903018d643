"""Reads the opened stores in a thread of its own and hands the console one picture after the other."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from jobtop.core.collectors.host import HostSample, host_detail, host_frame, open_host
from jobtop.core.errors import JobtopError, StoreError
from jobtop.core.model import Job
from jobtop.core.paths import StatePaths
from jobtop.store.database import Database, is_network, open_to_read, open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.live import KEPT_SAMPLES, LiveTails
from jobtop.tui.view import JobRow, Machine, StoreState, View

if TYPE_CHECKING:
    from jobtop.core.collectors.host import HostSource

RECENT = 30
RECONCILE_SECONDS = 5.0
LOCAL_POLL_SECONDS, NETWORK_POLL_SECONDS = 0.25, 5.0
STALE_SECONDS = 60.0


class MachineSource(Protocol):
    """Whoever knows the machine."""

    def read(self) -> Machine | None: ...


class Source:
    """One store file, opened, lost and opened again as it comes and goes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.poll_seconds = NETWORK_POLL_SECONDS if is_network(path) else LOCAL_POLL_SECONDS
        self.state = StoreState(path)
        self.jobs: dict[int, Job] = {}
        self.tails: LiveTails | None = None
        self._database: Database | None = None
        self._identity: tuple[int, int] | None = None
        self._seen: tuple[object, ...] | None = None
        self._touch = 0
        self._polled_at = -float("inf")

    def poll(self) -> bool:
        """Take in what is new; True if anything is. What goes wrong is said in `state`, and tried again."""
        now = time.monotonic()
        if now - self._polled_at < self.poll_seconds:
            return False
        self._polled_at = now
        before = self.state
        try:
            changed = self._poll()
        except (StoreError, OSError) as error:
            self._lose(str(error) if isinstance(error, StoreError) else f"{self.path}: {error}")
            changed = False
        return changed or self.state != before

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database = None

    def _poll(self) -> bool:
        identity = self._file_identity()
        if identity is None:
            self._lose(f"{self.path}: there is no such store (yet): jobtop run -- COMMAND makes one")
            return False
        if identity != self._identity or self._database is None:
            self._open(identity)
        assert self._database is not None
        seen = self._database.version_seen()
        if seen == self._seen:
            return False
        self._seen = seen
        jobs = Jobs(self._database)
        changed, self._touch = jobs.touched_since(self._touch)
        for job in changed:
            assert job.seq is not None
            self.jobs[job.seq] = job
        self._forget_old()
        assert self.tails is not None
        self.tails.poll(seq for seq, job in self.jobs.items() if not job.status.ended)
        return True

    def _open(self, identity: tuple[int, int]) -> None:
        self.close()
        self._database = open_to_read(self.path)
        self._identity, self._seen = identity, None
        self.state = StoreState(self.path, None, self._database.notice)
        jobs = Jobs(self._database)
        found, self._touch = jobs.live_and_recent(RECENT)
        self.jobs = {job.seq: job for job in found if job.seq is not None}
        self.tails = LiveTails(self._database)

    def _lose(self, problem: str) -> None:
        self.close()
        self._identity = self._seen = None
        self.state = StoreState(self.path, problem)

    def _file_identity(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _forget_old(self) -> None:
        """Of those that have ended only the newest stay."""
        ended = sorted((job.end_time or 0.0, seq) for seq, job in self.jobs.items() if job.status.ended)
        for _, seq in ended[:-RECENT]:
            del self.jobs[seq]

    def rows(self, now: float) -> list[JobRow]:
        return [self._row(seq, job, now) for seq, job in self.jobs.items()]

    def _row(self, seq: int, job: Job, now: float) -> JobRow:
        tail = self.tails.tails.get(seq) if self.tails is not None else None
        elapsed = job.duration_seconds
        if elapsed is None and job.start_time is not None:
            elapsed = max(0.0, now - job.start_time)
        if tail is None or not tail.times:
            return JobRow(job, self.path, elapsed=elapsed)
        is_stale = elapsed is not None and elapsed - tail.times[-1] > STALE_SECONDS
        return JobRow(job, self.path, tail.now, tail, elapsed, is_stale)


class Feed:
    """The thread: polls the sources, looks after jobs nobody records, samples the host, and hands over pictures."""

    def __init__(
        self,
        stores: Sequence[Path],
        on_view: Callable[[View], None],
        refresh_seconds: float = 1.0,
        own: StatePaths | None = None,
        machine: MachineSource | None = None,
    ) -> None:
        self.sources = [Source(path) for path in stores]
        self.on_view, self.refresh_seconds, self.own = on_view, refresh_seconds, own
        self._stop = threading.Event()
        self._hurry = threading.Event()
        self._version = 0
        self._reconciled_at = -float("inf")
        self._machine = machine or MachineReader()
        self._thread = threading.Thread(target=self._run, name="jobtop-feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._hurry.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def hurry(self) -> None:
        """Something was just done: look at once."""
        self._hurry.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            self._hurry.clear()
            self.on_view(self.look())
            self._look_after_jobs()
            self._hurry.wait(max(0.02, self.refresh_seconds - (time.monotonic() - began)))
        for source in self.sources:
            source.close()

    def look(self) -> View:
        """The picture now."""
        now = time.time()
        changed = [source.poll() for source in self.sources]
        self._version += any(changed)
        rows = tuple(row for source in self.sources for row in source.rows(now))
        return View(now, rows, self._machine.read(), tuple(source.state for source in self.sources), self._version)

    def _look_after_jobs(self) -> None:
        """Finish the records of jobs of this host whose recorder is gone, as every verb does."""
        if self.own is None or time.monotonic() - self._reconciled_at < RECONCILE_SECONDS:
            return
        self._reconciled_at = time.monotonic()
        from jobtop.store.reconcile import reconcile

        with suppress(JobtopError, OSError):
            if not self.own.store.exists():
                return
            database = open_to_write(self.own, patience=0.5)
            try:
                reconcile(Jobs(database), self.own)
            finally:
                database.close()


class MachineReader:
    """The host around the console, looked at by ourselves."""

    def __init__(self, source: HostSource | None = None) -> None:
        self._source = source
        self._last: HostSample | None = None
        self._cpu: deque[float | None] = deque(maxlen=KEPT_SAMPLES)
        self._shown: Machine | None = None

    def read(self) -> Machine | None:
        """The machine since the last look; None at the first."""
        if self._source is None:
            self._source = open_host()
        before, self._last = self._last, self._source.collect()
        if before is None:
            return None
        if self._last.monotonic - before.monotonic < 0.2:
            self._last = before
            return self._shown
        frame = host_frame(before, self._last)
        percent = frame.cpu.percent
        self._cpu.append(None if percent is None or not frame.cores else percent / len(frame.cores))
        detail = host_detail(frame, self._last.uptime_seconds)
        self._shown = Machine(os.uname().nodename.split(".")[0], time.time(), frame.values, detail, tuple(self._cpu))
        return self._shown
