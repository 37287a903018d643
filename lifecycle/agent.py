"""The agent: the background process that runs queued jobs, samples detached ones and records how each ended."""

from __future__ import annotations

import gc
import os
import selectors
import signal
import time
from contextlib import nullcontext, suppress
from functools import partial

from jobtop.core import journal
from jobtop.core.clock import BOOTTIME
from jobtop.core.errors import JobtopError, StoreBusy, StoreReplaced, UnknownJob
from jobtop.core.measure.collectors import cgroup
from jobtop.core.measure.collectors.proc import identify, is_alive
from jobtop.core.measure.cost_shares import SharedCost
from jobtop.core.measure.engine import Engine, chosen
from jobtop.core.model import Job, JobSpec, Status
from jobtop.core.record import replace
from jobtop.core.run.supervisor import Keeper
from jobtop.lifecycle import agent_lock
from jobtop.lifecycle.ends import observation_in
from jobtop.lifecycle.kinds.kind import Watched
from jobtop.lifecycle.kinds.registry import kind_of
from jobtop.lifecycle.queue_runner import Starter, contained, mistake
from jobtop.lifecycle.reconcile import has_a_recorder, take_in_unrecorded, with_shim
from jobtop.lifecycle.start import kept_spec
from jobtop.store import agents
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Event, Jobs, event
from jobtop.store.samples.series import SeriesStore
from jobtop.store.samples.sink import StoreSink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager
    from types import FrameType

    from jobtop.core.config import Config
    from jobtop.core.measure.observation import Observation
    from jobtop.core.measure.target import Target
    from jobtop.core.paths import StatePaths

LOOK_SECONDS = 0.2  # between two looks at a store without changes
NEWS_SECONDS = 1.0  # SQLite does not report the changes of this process itself
ADOPT_SECONDS = 1.0  # between two looks for jobs whose recorder was killed
RECONCILE_SECONDS = 5.0
FLUSH_SECONDS, CLOSE_SECONDS = 1.0, 5.0
GAP_SECONDS = 3.0
END_SECONDS = 1.0
REAP_SECONDS = 1.0


class Held:
    """A job the agent records: `fd` says when its root exits; `has_past`: another process has sampled it before."""

    def __init__(self, job: Job, fd: int | None, is_watched: bool, has_past: bool) -> None:
        self.job, self.fd, self.is_watched, self.has_past = job, fd, is_watched, has_past
        self.observed: Observation | None = None  # at its end


class Agent:
    """Serves one store until it has been idle for a while, or until a signal ends it."""

    def __init__(self, paths: StatePaths, config: Config, sets: tuple[str, ...] = ()) -> None:
        self.paths, self.config, self.sets = paths, config, sets
        self.network = config.switch("store.network")
        self.me = identify(os.getpid())
        self.live: dict[str, Job] = {}
        self.held: dict[str, Held] = {}
        self.broken: set[str] = set()  # jobs that a bug of jobtop keeps from being recorded
        self.engine: Engine | None = None
        self.cost = SharedCost()
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        self._is_told = False
        self._seen: tuple[object, ...] | None = None
        self._touch = 0
        self._due: dict[str, float] = {}
        self._ready: set[int] = set()
        self._busy_at = time.monotonic()
        self._problem: str | None = None
        self._has_stumbled = False
        self._has_new_store = False

    def serve(self) -> bool:
        """Work until the end; False if another agent serves this store."""
        self.database = open_to_write(self.paths, self.network)
        self.jobs = Jobs(self.database)
        lock_path = agent_lock.lock_path(self.paths, self.network)
        held = agent_lock.wait_for_lock(lock_path, self.database, partial(self._log, "WARNING"))
        if held is None:
            self.database.close()
            return False
        self._lock_fd = held
        agent_lock.write_lock(held, b"0")
        self._listen()
        keeper = Keeper(str(lock_path), agent_lock.agent_command(self.paths, self.sets))
        self.starter = Starter(self.paths, self.config, self.jobs, self.me, keeper, self._log)
        with suppress(OSError):  # no more processes may be started: it is made later
            self.starter.keep_spares()
        agents.register(
            self.database, self.me
        )  # from now on other processes rely on this one, and may wake it by a signal
        self._log("INFO", f"agent {os.getpid()} serves {self.paths.store}")
        is_settled = False
        try:
            while not self._guarded_round():
                if not is_settled:  # from here on a spare shim notices if this process is killed
                    is_settled = agent_lock.write_lock(self._lock_fd, str(os.getpid()).encode())
                self._sleep()
        finally:  # before a spare shim notices the exit: it must not start another agent, least of all after a bug
            agent_lock.write_lock(self._lock_fd, b"")
        self._leave()
        return True

    def _guarded_round(self) -> bool:
        """One round of work; whether it was the last. A store that fails is tried again, and ends nothing."""
        try:
            return self._round()
        except StoreReplaced:
            self._has_new_store = True
            return False
        except (JobtopError, OSError) as error:
            self._has_stumbled = True
            if not isinstance(error, StoreBusy) and str(error) != self._problem:
                self._problem = str(error)
                self._log("ERROR", f"agent: {error}")
            time.sleep(LOOK_SECONDS)
            return self._is_told

    def _round(self) -> bool:
        if not self._has_place():
            return True
        if self._has_new_store:
            self._put_again()
        if self._is_told:
            return True
        self._look()
        may_reap = bool(self._ready) or self._is_due("bury", REAP_SECONDS)
        self._attend()
        if may_reap:
            self._reap()
        for job in self.starter.start_due():
            with self._contained(job):
                self._hold_started(job)
        if self.held or self.starter.has_work:
            self._busy_at = time.monotonic()
            return False
        if time.monotonic() - self._busy_at < self.config.duration("agent.idle"):
            return False
        return agents.unregister_if_idle(self.database, self.me, self.paths.host)

    # -- a store that was deleted or replaced

    def _has_place(self) -> bool:
        """Whether there is a store to serve; a file that replaced the store is opened."""
        if self.database.is_in_place():
            return True
        if not os.path.isfile(self.paths.store) and not self.held and not self.starter.has_work:
            return False
        self.database.renew()
        self._has_new_store = True
        return True

    def _put_again(self) -> None:
        """Write the jobs that this agent records, and the queued ones, into the new store."""
        self._take_new_lock()
        self._log("WARNING", f"{self.paths.store} was deleted or replaced: {len(self.held)} jobs are written again")
        for job in [job for job in self.live.values() if job.status == "queued" and job.id not in self.held]:
            self.jobs.reinsert(job)
        for held in self.held.values():
            known = replace(held.job, recorder=None if self._is_told else self.me)
            held.job = self.jobs.reinsert(known, partial(as_known, known=known))
        if not self._is_told:
            agents.register(self.database, self.me)
        self.live.clear()
        self._seen, self._touch = None, 0
        self.starter.start_over()
        self._has_new_store = False

    def _take_new_lock(self) -> None:
        """Take the lock beside the new store; if another agent holds it, the jobs are left to that one."""
        lock_path = agent_lock.lock_path(self.paths, self.network)
        if agent_lock.is_lock_file(self._lock_fd, lock_path):
            return
        new = agent_lock.take_lock(lock_path)
        if new is None:
            self._is_told = True
            return
        os.close(self._lock_fd)
        self._lock_fd = new
        agent_lock.write_lock(new, str(os.getpid()).encode())

    # -- what there is

    def _look(self) -> None:
        """Take in what changed in the store, and jobs whose recorder is gone."""
        seen = self.database.version_seen()
        is_news = self._is_due("news", NEWS_SECONDS) or seen != self._seen
        if is_news:
            self._take_in(self._news())
            self._seen = seen
            self.starter.is_due = True
        if self._is_due("adopt", ADOPT_SECONDS):
            self._adopt(self.live.values())
        if self._is_due("reconcile", RECONCILE_SECONDS):
            self._reconcile()
            if self._has_stumbled:
                self._recover()

    def _news(self) -> list[Job]:
        """The jobs that are new or changed since the last look."""
        is_first = self._seen is None
        jobs, self._touch = self.jobs.live_and_recent(0) if is_first else self.jobs.changed_since(self._touch)
        return [job for job in jobs if job.host == self.paths.host]

    def _take_in(self, jobs: list[Job]) -> None:
        for job in jobs:
            if job.status.ended:
                self.live.pop(job.id, None)
            else:
                self.live[job.id] = job
        self._adopt(job for job in jobs if not job.status.ended and job.recorder is None)

    def _reconcile(self) -> None:
        """Finish the records of jobs whose recorder is gone."""
        take_in_unrecorded(self.jobs, self.paths)
        for job in self.jobs.unsettled(self.paths.host, not_recorded_by=self.me):
            is_left = job.id in self.broken and job.shim is not None and is_alive(job.shim)
            if not is_left and not has_a_recorder(self.paths, job):
                with self._contained(job):
                    kind_of(job).record_end(self.jobs, self.paths, job)

    def _adopt(self, jobs: Iterable[Job]) -> None:
        """Record the jobs that no process records."""
        for job in list(jobs):
            waits = job.status == "queued" and (job.recorder is None or job.id in self.starter.ordered)
            if job.id in self.held or job.id in self.broken or waits or self._is_recorded(job):
                continue
            with self._contained(job):
                begun = with_shim(self.paths, job)
                if begun.status != "queued":
                    self._adopt_one(begun)

    def _is_recorded(self, job: Job) -> bool:
        """Whether another process will record the end of a job."""
        return job.recorder != self.me and has_a_recorder(self.paths, job)

    def _recover(self) -> None:
        """Record jobs again that errors made this agent drop: their rows still name it as the recorder."""
        self._has_stumbled = False
        for row in self.jobs.unsettled(self.paths.host):
            if row.recorder != self.me or row.status.ended or row.id in self.held or row.id in self.starter.ordered:
                continue
            with self._contained(row):
                self._take_up(row)

    def _take_up(self, row: Job) -> None:
        job = with_shim(self.paths, row)
        if job.shim is not None:
            self._adopt_one(job)
        else:
            self.starter.queue.release(job.id, self.me)
            self.starter.is_due = True

    def _adopt_one(self, job: Job) -> None:
        """Record and sample a job from now on; if it has ended, finish its record."""
        kind = kind_of(job)
        target = kind.target(self.paths, job)
        if target is None:
            kind.record_end(self.jobs, self.paths, job)
            return
        fd = opened(target.root.pid)
        alive = kind.is_alive(job)  # asked with the descriptor open: the pid cannot be reused any more
        job = self.jobs.change(job.id, self._claimed) if alive else kind.record_end(self.jobs, self.paths, job)
        if alive and job.recorder == self.me:
            self._hold(job, target, fd)
        elif fd is not None:
            os.close(fd)

    def _claimed(self, row: Job) -> tuple[Job, tuple[Event, ...]]:
        if row.status.ended or self._is_recorded(row):
            return row, ()
        return replace(with_shim(self.paths, row), recorder=self.me), ()

    def _hold_started(self, job: Job) -> None:
        """Record a job that this agent has just started."""
        target = kind_of(job).target(self.paths, job)
        if target is not None:
            self._hold(job, target, opened(target.root.pid), is_new=True)

    def _hold(self, job: Job, target: Target, fd: int | None, is_new: bool = False) -> None:
        interval = self.config.interval("monitor.interval")
        spec = kept_spec(self.paths, job.id) or JobSpec(job.id, job.command, job.cwd, {}, interval_seconds=interval)
        past = None if is_new else self._last_sample(job)
        held = Held(job, fd, spec.is_watched, past is not None)
        self.held[job.id] = held
        if fd is not None:
            self._selector.register(fd, selectors.EVENT_READ)
        self.cost.join(job.id)
        if not spec.is_watched:
            return
        elapsed = time.clock_gettime(BOOTTIME) - target.start_boottime
        if elapsed - (past or 0.0) > GAP_SECONDS:
            unsampled = event("unsampled", since=past or 0.0, until=elapsed)
            self.jobs.change(job.id, lambda row: (row, (unsampled,)))
        self._engine().adopt(job.id, target, spec.interval_seconds)

    def _last_sample(self, job: Job) -> float | None:
        """The age of the job at its last sample."""
        assert job.seq is not None
        newest = SeriesStore(self.database).newest(job.seq, 1)
        return newest[-1].elapsed if newest else None

    def _engine(self) -> Engine:
        if self.engine is None:
            from jobtop.core.measure.collectors.processes import raise_descriptor_limit

            raise_descriptor_limit()
            sink = StoreSink(self.paths, self.network, True, self.config, self._known)
            engine = Engine(sink, chosen(self.config, None))
            engine.start()
            self.engine = engine
            gc.freeze()
        return self.engine

    def _known(self, job_id: str) -> Job | None:
        held = self.held.get(job_id)
        return None if held is None else held.job

    # -- ends

    def _attend(self) -> None:
        """Finish the records of jobs that have ended, or whose root process has exited."""
        gone = [held for held in self.held.values() if held.fd in self._ready] if self._ready else []
        if self._is_due("ends", END_SECONDS):
            gone = [held for held in self.held.values() if held in gone or self._has_ended(held)]
        self._ready.clear()
        self._conclude(gone)
        for held in gone:
            self._finish(held)

    def _conclude(self, gone: list[Held]) -> None:
        """Store what was sampled of jobs that have ended, with one wait for all of them."""
        if self.engine is not None:
            observed = self.engine.conclude_all((held.job.id for held in gone if held.is_watched), FLUSH_SECONDS)
            for held in gone:
                held.observed = observed.get(held.job.id, held.observed)

    def _has_ended(self, held: Held) -> bool:
        """Whether a job ended; where `fd` says when its root exits, only what may happen earlier is looked for."""
        kind = kind_of(held.job)
        return (held.fd is None and not kind.is_alive(held.job)) or kind.has_ended(self.paths, held.job)

    def _finish(self, held: Held) -> None:
        with suppress(UnknownJob), self._contained(held.job):  # it may have been deleted meanwhile
            watched = Watched(self._observed(held), self.cost.leave(held.job.id))
            done = kind_of(held.job).record_end(self.jobs, self.paths, held.job, watched)
            if done.status.ended:
                self._log(*journal.outcome(done))
        self._release(held)
        self.live.pop(held.job.id, None)
        self.starter.is_due = True

    def _observed(self, held: Held) -> Observation | None:
        """What sampling adds to the record, by this agent and by earlier recorders; stored samples may be lost."""
        if not held.is_watched or self.engine is None:
            return None
        observed = held.observed
        is_stored = held.has_past and held.job.id not in self.engine.sink.lost
        stored = observation_in(self.jobs, held.job) if observed is None or is_stored else None
        if observed is None or stored is None:
            return stored or observed
        return replace(observed, tally=stored.tally)

    def _release(self, held: Held) -> None:
        """Stop recording and sampling a job."""
        if self.held.pop(held.job.id, None) is None:
            return
        self.cost.leave(held.job.id)
        if held.fd is not None:
            self._selector.unregister(held.fd)
            os.close(held.fd)
        if self.engine is not None and held.is_watched:
            self.engine.finish(held.job.id)

    def _contained(self, job: Job) -> AbstractContextManager[None]:
        """A bug that one job triggers costs that job only."""
        return contained(partial(self._break_off, job))

    def _break_off(self, job: Job, error: Exception) -> None:
        """Stop recording a job that triggers a bug; while it runs it may still leave an end that can be read."""
        why = mistake(error)
        if job.id not in self.broken:
            self.starter.log_mistake(job, error)
        self.broken.add(job.id)
        if job.id in self.held:
            self._release(self.held[job.id])
        with suppress(UnknownJob):
            self.jobs.change(job.id, partial(broken, why=why))

    def _reap(self) -> None:
        """Reap exited shims; this process has no other children."""
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass

    def _leave(self) -> None:
        """Release all jobs, so that the next agent can record them."""
        with suppress(JobtopError):  # first, so that no process relies on this one any more
            if self.database.is_in_place():
                agents.unregister(self.database, self.me)
        self.starter.close()
        left = list(self.held.values())
        self._conclude(left)
        with suppress(JobtopError), self.database.writing() if left else nullcontext():
            for held in left:
                with suppress(UnknownJob):
                    self.jobs.change(held.job.id, self._given_back)
        for held in left:
            self._release(held)
        if self.engine is not None:
            self.engine.close(CLOSE_SECONDS)
        self._log("INFO", f"agent {os.getpid()} leaves")
        self.database.close()

    def _given_back(self, row: Job) -> tuple[Job, tuple[Event, ...]]:
        return (replace(row, recorder=None) if row.recorder == self.me else row), ()

    # -- time and signals

    def _listen(self) -> None:
        os.set_blocking(self._wake_write, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._told)
        signal.signal(signal.SIGUSR1, lambda *_: None)  # look at once

    def _told(self, _: int, __: FrameType | None) -> None:
        self._is_told = True

    def _sleep(self) -> None:
        seconds = min(LOOK_SECONDS, max(0.0, self.starter.next_moment - time.time()))
        late = [ordered.starting.fd for ordered in self.starter.ordered.values()]
        for fd in late:
            self._selector.register(fd, selectors.EVENT_READ)
        self._ready = {key.fd for key, _ in self._selector.select(seconds)}
        for fd in late:
            self._selector.unregister(fd)
        if self._wake_read in self._ready:
            os.read(self._wake_read, 4096)

    def _is_due(self, name: str, seconds: float) -> bool:
        now = time.monotonic()
        if now < self._due.get(name, -float("inf")):
            return False
        self._due[name] = now + seconds
        return True

    def _log(self, level: str, text: str) -> None:
        with suppress(OSError):
            journal.write(self.paths.log, level, text)


def as_known(row: Job, known: Job) -> tuple[Job, tuple[Event, ...]]:
    """The row of a job that the new store has too: as this agent knows it, unless the row names it already."""
    return (row if row.recorder == known.recorder else replace(known, seq=row.seq)), ()


def broken(row: Job, why: str) -> tuple[Job, tuple[Event, ...]]:
    """The record of a job that triggered a bug; if it is gone, how it ended stays unknown."""
    said = event("mistake", reason=why)
    row = replace(row, recorder=None)
    if row.shim is not None and is_alive(row.shim):
        return row, (said,)
    row = replace(row, settled=cgroup.discard(cgroup.possible_directories(row.id)))
    if row.status.ended:
        return row, ()
    status = Status.UNKNOWN if row.status.may_become(Status.UNKNOWN) else Status.ERROR
    return replace(row, status=status, reason=why, end_time=said.at), (said,)


def opened(pid: int) -> int | None:
    """A pidfd of a process, readable once it exits; None if it is gone, or the system has no pidfds."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
