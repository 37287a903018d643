"""The feed: a thread that polls the opened stores and hands one view after another to the console."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from jobtop.core.errors import JobtopError, StoreBusy, StoreError
from jobtop.core.measure.job_gpus import series_name
from jobtop.core.model import LIVE, Job, knowledge
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.record import replace
from jobtop.store.database import Database, open_to_read, open_to_write
from jobtop.store.files import file_times, is_network
from jobtop.store.jobs import Jobs, Query
from jobtop.store.samples.live import TOUCHED_SINCE_VERSION, LiveTails, Now, newest, still_there
from jobtop.tui.data.last_minute import PackedSamples, copy_of
from jobtop.tui.data.machine import MachineReader, MachineSource, machine_of
from jobtop.tui.data.queue_reasons import QueueReasons
from jobtop.tui.data.reader import StoreFile
from jobtop.tui.data.view import NOTHING, JobRow, MachineView, StoreState, View

if TYPE_CHECKING:
    from jobtop.store.samples.hosts import HostTail
    from jobtop.tui.data.job_gpus import Use

# Ended jobs that are shown: of one store, of all stores together, and of each of many stores at least.
ENDED_KEPT, ENDED_KEPT_OF_ALL, FEWEST_ENDED_KEPT = 30, 300, 2
RECONCILE_SECONDS = 5.0
LOCAL_POLL_SECONDS, NETWORK_POLL_SECONDS = 0.25, 5.0
STALE_SECONDS = 60.0
FIRST_PAUSE_SECONDS = 0.22  # in which the first view is painted
ANY_GPU = series_name("gpu.*", "*")  # the names of all series of what a job uses of a GPU
BUSY_SECONDS = 15.0  # after this many seconds a busy store is reported


class FollowedStore:
    """One store file that is followed; it is opened again after it was deleted, replaced or damaged."""

    def __init__(
        self, path: Path, network: bool | None = None, own: StatePaths | None = None, ended_kept: int = ENDED_KEPT
    ) -> None:
        self.path, self.ended_kept, self._host = path, ended_kept, hostname()
        self.queue = QueueReasons(own) if own is not None and own.store == path else None
        self.is_network = is_network(path) if network is None else network
        self.state = StoreState(path)
        self.jobs: dict[int, Job] = {}
        self.tails: LiveTails | None = None
        self._last_minutes: dict[int, tuple[Now, PackedSamples]] = {}  # by seq, with the newest sample
        self.host: HostTail | None = None
        self._gpus: dict[int, Mapping[str, Use]] = {}  # by seq: what it uses of each GPU
        self.jobs_only = False  # read only the jobs, for a fast first view
        self._file = StoreFile(path)
        self._file_state: tuple[object, object] | None = None  # the file times, and the number of the last commit
        self._last_touch = 0
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
            changed, self._file_state = False, None
            if now - self._read_at > BUSY_SECONDS:
                self.state = StoreState(self.path, str(error), self._notice)
        except StoreError as error:
            changed = bool(self.jobs)
            self._close_and_forget()
            self.state = StoreState(self.path, str(error))
        return changed or self.state != before

    def close(self) -> None:
        self._file.close()

    @property
    def _notice(self) -> str | None:
        database = self._file.database
        return None if database is None else database.notice or database.damage()

    def _poll(self) -> bool:
        if self._file.reopen_if_changed():
            self._forget()
        with self._file.opened() as database:
            before, commits = self._file_state, None if self.is_network else database.version_seen()
            self._file_state = file_times(self.path), commits
            if self._file_state == before:
                return False
            if before is None or self.is_network or commits != before[1]:
                self._read(database)
                return True
            # The file changed without a commit: a WAL checkpoint, or a program other than SQLite wrote to it.
            with closing(open_to_read(self.path, self._file.patience)) as fresh:
                if newest(fresh) == newest(database):
                    return False
        self._close_and_forget()
        return self._poll()

    def _read(self, database: Database) -> None:
        """Read what has changed; at first, read all live and recent jobs."""
        jobs, version = Jobs(database), database.version if self.tails is None else database.check()
        if self.tails is None or version < TOUCHED_SINCE_VERSION:
            if version < TOUCHED_SINCE_VERSION:
                found, self._last_touch = read_jobs_of_old_store(jobs, self.ended_kept), 0
            else:
                found, self._last_touch = jobs.live_and_recent(self.ended_kept)
            self.jobs = {}
            self.tails = self.tails or LiveTails(database)
        else:
            found, self._last_touch = jobs.changed_since(self._last_touch)
        heartbeats = still_there(database, self.jobs) if self.jobs else {}
        self.jobs = {seq: with_heartbeat(job, heartbeats[seq]) for seq, job in self.jobs.items() if seq in heartbeats}
        self.jobs |= {job.seq: job for job in found if job.seq is not None}
        self._drop_old()
        self.tails.poll(seq for seq, job in self.jobs.items() if not job.status.ended)
        if not self.jobs_only:
            self._read_rest(database)

    def read_rest(self) -> None:
        """Read what the first view did not wait for."""
        self.jobs_only = False
        with suppress(StoreError), self._file.opened() as database:
            self._read_rest(database)

    def _read_rest(self, database: Database) -> None:
        """Read the recorded machine, what jobs use of its GPUs, and the reasons why queued jobs wait."""
        from jobtop.store.samples.hosts import HostTail

        self.host = self.host or HostTail(database)
        self.host.poll()
        self._gpus = self._read_gpus(database)
        if self.queue is not None:
            self.queue.read(database, any(job.status == "queued" for job in self.jobs.values()))

    def _read_gpus(self, database: Database) -> dict[int, Mapping[str, Use]]:
        from jobtop.store.samples.named import NamedRecord
        from jobtop.tui.data.job_gpus import uses_now

        live = [seq for seq, job in self.jobs.items() if not job.status.ended]
        on_gpus = NamedRecord(database).jobs_with(ANY_GPU, live) if live else ()
        return {seq: MappingProxyType(uses_now(database, self.jobs[seq])) for seq in on_gpus}

    def _close_and_forget(self) -> None:
        self._file.close()
        self._forget()

    def _forget(self) -> None:
        self.jobs, self.tails, self.host, self._file_state = {}, None, None, None
        self._last_minutes, self._gpus = {}, {}

    def _drop_old(self) -> None:
        """Keep only the newest of the ended jobs."""
        ended = sorted((job.end_time or 0.0, seq) for seq, job in self.jobs.items() if job.status.ended)
        for _, seq in ended[: -self.ended_kept]:
            del self.jobs[seq]

    def rows(self, now: float) -> list[JobRow]:
        """The rows of all jobs. Nothing in them changes afterwards: another thread reads them."""
        tails, known = self.tails.tails if self.tails is not None else {}, self._last_minutes
        self._last_minutes = {
            seq: minute
            if (minute := known.get(seq)) is not None and minute[0] is tail.now
            else (tail.now, copy_of(tail, minute))
            for seq, tail in tails.items()
            if tail.times
        }
        return [self._row(seq, job, now) for seq, job in self.jobs.items()]

    def _row(self, seq: int, job: Job, now: float) -> JobRow:
        elapsed = job.duration_seconds
        if elapsed is None and job.start_time is not None and not job.status.ended:
            elapsed = max(0.0, now - job.start_time)
        is_stale = bool(job.is_stale(now, self._host))
        if seq not in self._last_minutes:
            wait_reason = self.queue.reasons.get(job.id) if self.queue is not None else None
            place = self.queue.places.get(job.id) if self.queue is not None else None
            return JobRow(
                job, self.path, elapsed=elapsed, is_stale=is_stale, wait_reason=wait_reason, queue_place=place
            )
        sample, last_minute = self._last_minutes[seq]
        is_stale = is_stale or (elapsed is not None and elapsed - sample.elapsed > STALE_SECONDS)
        return JobRow(job, self.path, sample, last_minute, elapsed, is_stale, None, self._gpus.get(seq, NOTHING))


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
        without: Sequence[str] = (),
    ) -> None:
        ended_kept = max(FEWEST_ENDED_KEPT, min(ENDED_KEPT, ENDED_KEPT_OF_ALL // max(1, len(stores))))
        self.stores = [FollowedStore(path, network, own, ended_kept) for path in stores]
        self.on_view, self.refresh_seconds, self.own, self.network = on_view, refresh_seconds, own, network
        self.is_readonly = is_readonly
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._version = 0
        self._reconciled_at = -float("inf")
        self._machine_reader = MachineReader(without=frozenset(without))
        self._jobs_only = False
        self._read_machine = machine.read if machine is not None else self._read_this_machine
        self._thread = threading.Thread(target=self._run, name="jobtop-feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def poll_now(self) -> None:
        """Poll all stores at once, because the user has just changed something."""
        self._wake.set()

    def _run(self) -> None:
        try:
            self._follow()
        finally:
            self.close()

    def _follow(self) -> None:
        if self._read_machine == self._read_this_machine:  # a demo has all its values from the start
            self._hand_over_first_view()
        while not self._stop.is_set():
            began = time.monotonic()
            is_urgent = self._wake.is_set()
            self._wake.clear()
            self.on_view(self.read_view(is_urgent))
            self._finish_records()
            self._wake.wait(max(0.02, self.refresh_seconds - (time.monotonic() - began)))

    def close(self) -> None:
        """Close the stores and the files in /proc; to be called only in the thread that reads them."""
        for store in self.stores:
            store.close()
        self._machine_reader.close()

    def _hand_over_first_view(self) -> None:
        """Hand over a first view with the jobs alone; read the rest after that view is painted."""
        self._jobs_only = True
        for store in self.stores:
            store.jobs_only = True
        self.on_view(self.read_view(False))
        self._jobs_only = False
        self._wake.wait(FIRST_PAUSE_SECONDS)
        self._read_machine()  # rates need two readings
        self._wake.wait(FIRST_PAUSE_SECONDS)
        for store in self.stores:
            store.read_rest()

    def read_view(self, at_once: bool = False) -> View:
        """Read the view now; a store that was polled a moment ago is polled again only if `at_once` is set."""
        now = time.time()
        changed = [store.poll(at_once) for store in self.stores]
        self._version += any(changed)
        rows = tuple(row for store in self.stores for row in store.rows(now))
        rows = one_row_each(rows) if len(self.stores) > 1 else rows
        agent = next((store.queue.has_agent for store in self.stores if store.queue is not None), None)
        states = tuple(store.state for store in self.stores)
        return View(now, rows, None if self._jobs_only else self._read_machine(), states, self._version, agent)

    def _read_this_machine(self) -> MachineView | None:
        """The machine as an engine on this host records it; if none does, as the console reads it."""
        for store in self.stores:
            recorded = store.host.now() if store.host is not None else None
            if recorded is not None:
                return self._machine_reader.take_recorded(machine_of(recorded))
        return self._machine_reader.read()

    def _finish_records(self) -> None:
        """Finish the records of this host's jobs that lost their recorder, as every verb does; index new jobs."""
        if self.own is None or time.monotonic() - self._reconciled_at < RECONCILE_SECONDS:
            return
        self._reconciled_at = time.monotonic()
        from jobtop.lifecycle.reconcile import reconcile
        from jobtop.store.search import update_index

        with suppress(JobtopError, OSError, ValueError, TypeError, LookupError):  # the last three: unreported damage
            if not self.own.store.exists():
                return
            database = open_to_write(self.own, self.network, patience=0.5)
            try:
                reconcile(Jobs(database), self.own)
                if not self.is_readonly:
                    update_index(database)
            finally:
                database.close()


def one_row_each(rows: Iterable[JobRow]) -> tuple[JobRow, ...]:
    """One row for each job: if several stores have it, the row of the most complete copy."""
    best: dict[str, tuple[tuple[int | float, ...], JobRow]] = {}
    for row in rows:
        job = row.job
        begun = job.submitted_at if job.start_time is None else job.start_time
        rank = *knowledge(job.status, job.settled, job.last_heard, begun, job.end_time), row.store.stem == job.host
        if job.id not in best or rank > best[job.id][0]:
            best[job.id] = rank, row
    return tuple(row for _, row in best.values())


def with_heartbeat(job: Job, at: float | None) -> Job:
    """The job with the time of its recorder's last sign of life."""
    return job if job.last_heard == at else replace(job, last_heard=at)


def read_jobs_of_old_store(jobs: Jobs, ended_kept: int) -> list[Job]:
    """The live and recent jobs of a store that is too old to mark changed jobs."""
    live = jobs.select(Query(statuses=tuple(LIVE), limit=None))
    return live + [job for job in jobs.select(Query(limit=ended_kept + len(live))) if job.status not in LIVE]
