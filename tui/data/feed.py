"""Reads the opened stores in a thread of its own and hands the console one picture after the other."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from jobtop.core.errors import JobtopError, StoreBusy, StoreError
from jobtop.core.model import LIVE, Job, knowledge
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.record import replace
from jobtop.store.database import Database, file_times, is_network, open_to_read, open_to_write
from jobtop.store.jobs import Jobs, Query
from jobtop.store.samples.live import KEPT_SAMPLES, TOUCHED_SINCE_VERSION, LiveTails, Now, Tail, newest, still_there
from jobtop.tui.data.host_minute import MachinePast
from jobtop.tui.data.last_minute import LastMinute, copy_of
from jobtop.tui.data.queue_reasons import Turns
from jobtop.tui.data.reader import StoreFile
from jobtop.tui.data.view import JobRow, MachineView, StoreState, View, read_only

if TYPE_CHECKING:
    from jobtop.core.measure.collectors.host import HostReader, HostSample
    from jobtop.store.samples.hosts import HostNow, HostTail

RECENT, RECENT_OF_ALL, FEWEST_RECENT = 30, 300, 2  # jobs that have ended: of one store, of many together, of each
RECONCILE_SECONDS = 5.0
LOCAL_POLL_SECONDS, NETWORK_POLL_SECONDS = 0.25, 5.0
STALE_SECONDS = 60.0
SAME_LOOK_SECONDS = 0.2
FIRST_SECONDS = 0.22
BUSY_SECONDS = 15.0  # until it is worth a word


class MachineSource(Protocol):
    """Whoever knows the machine."""

    def read(self) -> MachineView | None: ...


class Source:
    """One store file, opened, lost and opened again as it comes and goes."""

    def __init__(
        self, path: Path, network: bool | None = None, own: StatePaths | None = None, recent: int = RECENT
    ) -> None:
        self.path, self.recent, self._host = path, recent, hostname()
        self.turns = Turns(own) if own is not None and own.store == path else None
        self.is_network = is_network(path) if network is None else network
        self.state = StoreState(path)
        self.jobs: dict[int, Job] = {}
        self.tails: LiveTails | None = None
        self._last_minutes: dict[int, tuple[Now, LastMinute]] = {}  # by seq; with the sample they end with
        self.host: HostTail | None = None
        self.is_hasty = False  # only the jobs, for a first picture
        self._file = StoreFile(path)
        self._seen: tuple[object, object] | None = None  # when it was written, and the last commit
        self._touch = 0
        self._polled_at = -float("inf")
        self._read_at = time.monotonic()

    def poll(self, at_once: bool = False) -> bool:
        """Take in what is new; True if anything is. What goes wrong is said in `state`, and tried again."""
        now, before = time.monotonic(), self.state
        pace = NETWORK_POLL_SECONDS if self.is_network else LOCAL_POLL_SECONDS
        if now - self._polled_at < pace and not at_once:
            return False
        self._polled_at = now
        try:
            changed = self._poll()
            self._read_at = now
            self.state = StoreState(self.path, None, self._notice)
        except StoreBusy as error:  # by and by it is not
            changed, self._seen = False, None
            if now - self._read_at > BUSY_SECONDS:
                self.state = StoreState(self.path, str(error), self._notice)
        except StoreError as error:
            changed = bool(self.jobs)
            self._lose()
            self.state = StoreState(self.path, str(error))
        return changed or self.state != before

    def close(self) -> None:
        self._file.close()

    @property
    def _notice(self) -> str | None:
        database = self._file.database
        return None if database is None else database.notice or database.damage()

    def _poll(self) -> bool:
        if self._file.look():
            self._forget()
        with self._file.asked() as database:
            before, commits = self._seen, None if self.is_network else database.version_seen()
            self._seen = file_times(self.path), commits
            if self._seen == before:
                return False
            if before is None or self.is_network or commits != before[1]:
                self._read(database)
                return True
            # Written without a commit: moved here from its journal, or by somebody who is no SQLite.
            with closing(open_to_read(self.path, self._file.patience)) as fresh:
                if newest(fresh) == newest(database):
                    return False
        self._lose()
        return self._poll()

    def _read(self, database: Database) -> None:
        """All that is new; the first time all that is live or recent."""
        jobs, version = Jobs(database), database.version if self.tails is None else database.check()
        if self.tails is None or version < TOUCHED_SINCE_VERSION:
            is_old = version < TOUCHED_SINCE_VERSION
            found, self._touch = (older(jobs, self.recent), 0) if is_old else jobs.live_and_recent(self.recent)
            self.jobs = {}
            self.tails = self.tails or LiveTails(database)
        else:
            found, self._touch = jobs.touched_since(self._touch)
        there = still_there(database, self.jobs) if self.jobs else {}
        self.jobs = {seq: heard(job, there[seq]) for seq, job in self.jobs.items() if seq in there}
        self.jobs |= {job.seq: job for job in found if job.seq is not None}
        self._forget_old()
        self.tails.poll(seq for seq, job in self.jobs.items() if not job.status.ended)
        if not self.is_hasty:
            self._read_around(database)

    def read_around(self) -> None:
        """What the first picture was not to wait for."""
        self.is_hasty = False
        with suppress(StoreError), self._file.asked() as database:
            self._read_around(database)

    def _read_around(self, database: Database) -> None:
        """The machine as somebody records it, and who waits for what."""
        from jobtop.store.samples.hosts import HostTail

        self.host = self.host or HostTail(database)
        self.host.poll()
        if self.turns is not None:
            self.turns.read(database, any(job.status == "queued" for job in self.jobs.values()))

    def _lose(self) -> None:
        self._file.close()
        self._forget()

    def _forget(self) -> None:
        self.jobs, self.tails, self.host, self._seen = {}, None, None, None
        self._last_minutes = {}

    def _forget_old(self) -> None:
        """Of those that have ended only the newest stay."""
        ended = sorted((job.end_time or 0.0, seq) for seq, job in self.jobs.items() if job.status.ended)
        for _, seq in ended[: -self.recent]:
            del self.jobs[seq]

    def rows(self, now: float) -> list[JobRow]:
        """The rows of all jobs. Nothing in them changes afterwards: another thread reads them."""
        tails = self.tails.tails if self.tails is not None else {}
        self._last_minutes = {seq: self._last_minute(seq, tail) for seq, tail in tails.items() if tail.times}
        return [self._row(seq, job, now) for seq, job in self.jobs.items()]

    def _last_minute(self, seq: int, tail: Tail) -> tuple[Now, LastMinute]:
        """The tail's newest sample and a copy of its samples; without a new sample, the same copy as before."""
        known = self._last_minutes.get(seq)
        if known is not None and known[0] is tail.now:
            return known
        return tail.now, copy_of(tail, None if known is None else known[1])

    def _row(self, seq: int, job: Job, now: float) -> JobRow:
        elapsed = job.duration_seconds
        if elapsed is None and job.start_time is not None:
            elapsed = max(0.0, now - job.start_time)
        is_stale = bool(job.is_stale(now, self._host))
        if seq not in self._last_minutes:
            wait_reason = self.turns.reasons.get(job.id) if self.turns is not None else None
            return JobRow(job, self.path, elapsed=elapsed, is_stale=is_stale, wait_reason=wait_reason)
        sample, last_minute = self._last_minutes[seq]
        is_stale = is_stale or (elapsed is not None and elapsed - sample.elapsed > STALE_SECONDS)
        return JobRow(job, self.path, sample, last_minute, elapsed, is_stale, None)


class Feed:
    """The thread: polls the sources, looks after jobs nobody records, samples the host, and hands over pictures."""

    def __init__(
        self,
        stores: Sequence[Path],
        on_view: Callable[[View], None],
        refresh_seconds: float = 1.0,
        own: StatePaths | None = None,
        machine: MachineSource | None = None,
        network: bool | None = None,
        is_readonly: bool = False,
    ) -> None:
        recent = max(FEWEST_RECENT, min(RECENT, RECENT_OF_ALL // max(1, len(stores))))
        self.sources = [Source(path, network, own, recent) for path in stores]
        self.on_view, self.refresh_seconds, self.own, self.network = on_view, refresh_seconds, own, network
        self.is_readonly = is_readonly
        self._stop = threading.Event()
        self._hurry = threading.Event()
        self._version = 0
        self._reconciled_at = -float("inf")
        self._own_eyes = MachineReader()
        self._is_hasty = False
        self._machine = machine.read if machine is not None else self._machine_now
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
        try:
            self._look_on()
        finally:
            self.close()

    def _look_on(self) -> None:
        if self._machine == self._machine_now:  # of a demo everything is known at once
            self._look_hastily()
        while not self._stop.is_set():
            began = time.monotonic()
            is_hurried = self._hurry.is_set()
            self._hurry.clear()
            self.on_view(self.look(is_hurried))
            self._look_after_jobs()
            self._hurry.wait(max(0.02, self.refresh_seconds - (time.monotonic() - began)))

    def close(self) -> None:
        """Close the stores and the files of the kernel; only in the thread that looks at them."""
        for source in self.sources:
            source.close()
        self._own_eyes.close()

    def _look_hastily(self) -> None:
        """The jobs alone, for a first picture; once that is painted, what is around them."""
        self._is_hasty = True
        for source in self.sources:
            source.is_hasty = True
        self.on_view(self.look(False))
        self._is_hasty = False
        self._hurry.wait(FIRST_SECONDS)
        self._machine()  # of which two looks are needed
        self._hurry.wait(FIRST_SECONDS)
        for source in self.sources:
            source.read_around()

    def look(self, at_once: bool = False) -> View:
        """The picture now; stores that were looked at just before are looked at again only if it has to be at once."""
        now = time.time()
        changed = [source.poll(at_once) for source in self.sources]
        self._version += any(changed)
        rows = tuple(row for source in self.sources for row in source.rows(now))
        rows = once(rows) if len(self.sources) > 1 else rows
        agent = next((source.turns.has_agent for source in self.sources if source.turns is not None), None)
        states = tuple(source.state for source in self.sources)
        return View(now, rows, None if self._is_hasty else self._machine(), states, self._version, agent)

    def _machine_now(self) -> MachineView | None:
        """As an engine on it records it; where none does, as we see it ourselves."""
        for source in self.sources:
            recorded = source.host.now() if source.host is not None else None
            if recorded is not None:
                return self._own_eyes.rest(machine_of(recorded))
        return self._own_eyes.read()

    def _look_after_jobs(self) -> None:
        """Finish the records of jobs of this host whose recorder is gone, as every verb does."""
        if self.own is None or time.monotonic() - self._reconciled_at < RECONCILE_SECONDS:
            return
        self._reconciled_at = time.monotonic()
        from jobtop.lifecycle.reconcile import reconcile
        from jobtop.store.search import catch_up

        with suppress(JobtopError, OSError, ValueError, TypeError, LookupError):  # the last of damage nobody has seen
            if not self.own.store.exists():
                return
            database = open_to_write(self.own, self.network, patience=0.5)
            try:
                reconcile(Jobs(database), self.own)
                if not self.is_readonly:
                    catch_up(database)
            finally:
                database.close()


class MachineReader:
    """The host around the console, looked at by ourselves."""

    def __init__(self, source: HostReader | None = None) -> None:
        self._source = source
        self._last: HostSample | None = None
        self._cpu: deque[float | int | None] = deque(maxlen=KEPT_SAMPLES)
        self._past = MachinePast()
        self._shown: MachineView | None = None

    def read(self) -> MachineView | None:
        """The machine since the last look; at the first what was shown before, if anything was."""
        from jobtop.core.measure.collectors.host import host_detail, host_frame, open_host

        if self._source is None:
            self._source = open_host()
        before, self._last = self._last, self._source.collect()
        if before is None:
            return self._shown
        if self._last.monotonic - before.monotonic < SAME_LOOK_SECONDS:
            self._last = before
            return self._shown
        frame = host_frame(before, self._last)
        self._cpu.append(share(frame.cpu.percent, len(frame.cores)))
        detail = host_detail(frame, self._last.uptime_seconds)
        seen = MachineView(machine_name(), time.time(), read_only(frame.values), read_only(detail), tuple(self._cpu))
        self._shown = self._past.with_past(seen)
        return self._shown

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
        self._source = None

    def rest(self, machine: MachineView) -> MachineView:
        """Somebody else has looked: their last value goes behind ours, and ours later behind theirs."""
        self._last = None
        if self._shown is None or abs(machine.at - self._shown.at) > SAME_LOOK_SECONDS:
            self._cpu.extend(machine.cpu_line if self._shown is None else machine.cpu_line[-1:])
            self._shown = self._past.with_past(replace(machine, cpu_line=tuple(self._cpu)))
        return self._shown


def machine_of(recorded: HostNow) -> MachineView:
    """The machine as it is recorded, as we would show it ourselves."""
    cores = len(recorded.detail.get("cores", ()))
    line = tuple(share(percent, cores) for percent in recorded.cpu)
    at = time.time() - recorded.age_seconds
    return MachineView(machine_name(), at, read_only(recorded.values), read_only(recorded.detail), line)


def machine_name() -> str:
    return os.uname().nodename.split(".")[0]


def share(percent: float | int | None, cores: int) -> float | None:
    """Of all cores."""
    return None if percent is None or not cores else percent / cores


def once(rows: Iterable[JobRow]) -> tuple[JobRow, ...]:
    """Each job by the copy that knows most of it."""
    best: dict[str, tuple[tuple[int | float, ...], JobRow]] = {}
    for row in rows:
        job = row.job
        begun = job.submitted_at if job.start_time is None else job.start_time
        rank = *knowledge(job.status, job.settled, job.last_heard, begun, job.end_time), row.store.stem == job.host
        if job.id not in best or rank > best[job.id][0]:
            best[job.id] = rank, row
    return tuple(row for _, row in best.values())


def heard(job: Job, at: float | None) -> Job:
    """A job with the last sign of life of who watches it."""
    return job if job.last_heard == at else replace(job, last_heard=at)


def older(jobs: Jobs, recent: int) -> list[Job]:
    """What is live or recent in a store of a version that does not say what has changed."""
    live = jobs.select(Query(statuses=tuple(LIVE), limit=None))
    return live + [job for job in jobs.select(Query(limit=recent + len(live))) if job.status not in LIVE]
