"""The feed: a thread that polls the opened stores and hands one view after another to the console."""

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

RECENT, RECENT_OF_ALL, FEWEST_RECENT = 30, 300, 2  # ended jobs to keep: of one store, of all together, of each at least
RECONCILE_SECONDS = 5.0
LOCAL_POLL_SECONDS, NETWORK_POLL_SECONDS = 0.25, 5.0
STALE_SECONDS = 60.0
SAME_LOOK_SECONDS = 0.2
FIRST_SECONDS = 0.22
BUSY_SECONDS = 15.0  # after this many seconds a busy store is reported


class MachineSource(Protocol):
    """Provides the machine's current values."""

    def read(self) -> MachineView | None: ...


class Source:
    """One store file that is followed; it is opened again after it was deleted, replaced or damaged."""

    def __init__(
        self, path: Path, network: bool | None = None, own: StatePaths | None = None, recent: int = RECENT
    ) -> None:
        self.path, self.recent, self._host = path, recent, hostname()
        self.turns = Turns(own) if own is not None and own.store == path else None
        self.is_network = is_network(path) if network is None else network
        self.state = StoreState(path)
        self.jobs: dict[int, Job] = {}
        self.tails: LiveTails | None = None
        self._last_minutes: dict[int, tuple[Now, LastMinute]] = {}  # by seq, with the newest sample in each copy
        self.host: HostTail | None = None
        self.is_hasty = False  # read only the jobs, for a fast first view
        self._file = StoreFile(path)
        self._seen: tuple[object, object] | None = None  # the file times, and the number of the last commit
        self._touch = 0
        self._polled_at = -float("inf")
        self._read_at = time.monotonic()

    def poll(self, at_once: bool = False) -> bool:
        """Read what is new; return whether anything changed. A failure is put into `state`, and tried again."""
        now, before = time.monotonic(), self.state
        pace = NETWORK_POLL_SECONDS if self.is_network else LOCAL_POLL_SECONDS
        if now - self._polled_at < pace and not at_once:
            return False
        self._polled_at = now
        try:
            changed = self._poll()
            self._read_at = now
            self.state = StoreState(self.path, None, self._notice)
        except StoreBusy as error:  # most likely the next poll succeeds
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
            # The file changed without a commit: a WAL checkpoint, or a program other than SQLite wrote to it.
            with closing(open_to_read(self.path, self._file.patience)) as fresh:
                if newest(fresh) == newest(database):
                    return False
        self._lose()
        return self._poll()

    def _read(self, database: Database) -> None:
        """Read what has changed; at first, read all live and recent jobs."""
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
        """Read what the first view did not wait for."""
        self.is_hasty = False
        with suppress(StoreError), self._file.asked() as database:
            self._read_around(database)

    def _read_around(self, database: Database) -> None:
        """Read the recorded machine, and the reasons why queued jobs wait."""
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
        """Keep only the newest of the ended jobs."""
        ended = sorted((job.end_time or 0.0, seq) for seq, job in self.jobs.items() if job.status.ended)
        for _, seq in ended[: -self.recent]:
            del self.jobs[seq]

    def rows(self, now: float) -> list[JobRow]:
        """The rows of all jobs. Nothing in them changes afterwards: another thread reads them."""
        tails = self.tails.tails if self.tails is not None else {}
        self._last_minutes = {seq: self._last_minute(seq, tail) for seq, tail in tails.items() if tail.times}
        return [self._row(seq, job, now) for seq, job in self.jobs.items()]

    def _last_minute(self, seq: int, tail: Tail) -> tuple[Now, LastMinute]:
        """A tail's newest sample and a copy of all its samples; the same copy as before if no sample is new."""
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
    """The thread that polls the stores, finishes records without a recorder, samples the host and hands over views."""

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
        """Poll all stores at once, because the user has just changed something."""
        self._hurry.set()

    def _run(self) -> None:
        try:
            self._look_on()
        finally:
            self.close()

    def _look_on(self) -> None:
        if self._machine == self._machine_now:  # a demo has all its values from the start
            self._look_hastily()
        while not self._stop.is_set():
            began = time.monotonic()
            is_hurried = self._hurry.is_set()
            self._hurry.clear()
            self.on_view(self.look(is_hurried))
            self._look_after_jobs()
            self._hurry.wait(max(0.02, self.refresh_seconds - (time.monotonic() - began)))

    def close(self) -> None:
        """Close the stores and the files in /proc; to be called only in the thread that reads them."""
        for source in self.sources:
            source.close()
        self._own_eyes.close()

    def _look_hastily(self) -> None:
        """Hand over a first view with the jobs alone; read the rest after that view is painted."""
        self._is_hasty = True
        for source in self.sources:
            source.is_hasty = True
        self.on_view(self.look(False))
        self._is_hasty = False
        self._hurry.wait(FIRST_SECONDS)
        self._machine()  # rates need two readings
        self._hurry.wait(FIRST_SECONDS)
        for source in self.sources:
            source.read_around()

    def look(self, at_once: bool = False) -> View:
        """Read the view now; a store that was polled a moment ago is polled again only if `at_once` is set."""
        now = time.time()
        changed = [source.poll(at_once) for source in self.sources]
        self._version += any(changed)
        rows = tuple(row for source in self.sources for row in source.rows(now))
        rows = once(rows) if len(self.sources) > 1 else rows
        agent = next((source.turns.has_agent for source in self.sources if source.turns is not None), None)
        states = tuple(source.state for source in self.sources)
        return View(now, rows, None if self._is_hasty else self._machine(), states, self._version, agent)

    def _machine_now(self) -> MachineView | None:
        """The machine as an engine on this host records it; if none does, as the console reads it."""
        for source in self.sources:
            recorded = source.host.now() if source.host is not None else None
            if recorded is not None:
                return self._own_eyes.rest(machine_of(recorded))
        return self._own_eyes.read()

    def _look_after_jobs(self) -> None:
        """Finish the records of this host's jobs that lost their recorder, as every verb does; index new jobs."""
        if self.own is None or time.monotonic() - self._reconciled_at < RECONCILE_SECONDS:
            return
        self._reconciled_at = time.monotonic()
        from jobtop.lifecycle.reconcile import reconcile
        from jobtop.store.search import catch_up

        with suppress(JobtopError, OSError, ValueError, TypeError, LookupError):  # the last three: unreported damage
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
    """Reads the host of the console from /proc, for the time in which no engine records it."""

    def __init__(self, source: HostReader | None = None) -> None:
        self._source = source
        self._last: HostSample | None = None
        self._cpu: deque[float | int | None] = deque(maxlen=KEPT_SAMPLES)
        self._past = MachinePast()
        self._shown: MachineView | None = None

    def read(self) -> MachineView | None:
        """The machine since the last reading; the first reading returns the view that was shown before, if any."""
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
        """Take over a recorded machine: its newest value continues the CPU line, and later readings continue that."""
        self._last = None
        if self._shown is None or abs(machine.at - self._shown.at) > SAME_LOOK_SECONDS:
            self._cpu.extend(machine.cpu_line if self._shown is None else machine.cpu_line[-1:])
            self._shown = self._past.with_past(replace(machine, cpu_line=tuple(self._cpu)))
        return self._shown


def machine_of(recorded: HostNow) -> MachineView:
    """A recorded machine, in the same form as one that the console reads itself."""
    cores = len(recorded.detail.get("cores", ()))
    line = tuple(share(percent, cores) for percent in recorded.cpu)
    at = time.time() - recorded.age_seconds
    return MachineView(machine_name(), at, read_only(recorded.values), read_only(recorded.detail), line)


def machine_name() -> str:
    return os.uname().nodename.split(".")[0]


def share(percent: float | int | None, cores: int) -> float | None:
    """The percentage of all cores together."""
    return None if percent is None or not cores else percent / cores


def once(rows: Iterable[JobRow]) -> tuple[JobRow, ...]:
    """One row for each job: if several stores have it, the row of the most complete copy."""
    best: dict[str, tuple[tuple[int | float, ...], JobRow]] = {}
    for row in rows:
        job = row.job
        begun = job.submitted_at if job.start_time is None else job.start_time
        rank = *knowledge(job.status, job.settled, job.last_heard, begun, job.end_time), row.store.stem == job.host
        if job.id not in best or rank > best[job.id][0]:
            best[job.id] = rank, row
    return tuple(row for _, row in best.values())


def heard(job: Job, at: float | None) -> Job:
    """The job with the time of its recorder's last sign of life."""
    return job if job.last_heard == at else replace(job, last_heard=at)


def older(jobs: Jobs, recent: int) -> list[Job]:
    """The live and recent jobs of a store whose version is too old to mark changed jobs."""
    live = jobs.select(Query(statuses=tuple(LIVE), limit=None))
    return live + [job for job in jobs.select(Query(limit=recent + len(live))) if job.status not in LIVE]
