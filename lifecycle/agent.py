"""The agent: watches every job of its host that nobody else does, and keeps how each ended."""

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

LOOK_SECONDS = 0.2  # between two looks at a store that says nothing
NEWS_SECONDS = 1.0  # of what we changed ourselves sqlite says nothing
ADOPT_SECONDS = 1.0  # between two looks for jobs whose recorder died without a word
RECONCILE_SECONDS = 5.0
FLUSH_SECONDS, CLOSE_SECONDS = 1.0, 5.0
GAP_SECONDS = 3.0
END_SECONDS = 1.0
BURY_SECONDS = 1.0


class Held:
    """A job the agent records: `fd` says when its root exits; `has_past`: another process has sampled it before."""

    def __init__(self, job: Job, fd: int | None, is_watched: bool, has_past: bool) -> None:
        self.job, self.fd, self.is_watched, self.has_past = job, fd, is_watched, has_past
        self.observed: Observation | None = None  # at its end


class Agent:
    """Serves one store until there has been nothing to do for a while, or until it is told to end."""

    def __init__(self, paths: StatePaths, config: Config, sets: tuple[str, ...] = ()) -> None:
        self.paths, self.config, self.sets = paths, config, sets
        self.network = config.switch("store.network")
        self.me = identify(os.getpid())
        self.live: dict[str, Job] = {}
        self.held: dict[str, Held] = {}
        self.spoilt: set[str] = set()  # jobs that a mistake of ours keeps us from recording
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
        """Until the end; False if another agent serves this store."""
        self.database = open_to_write(self.paths, self.network)
        self.jobs = Jobs(self.database)
        seat = agent_lock.seat(self.paths, self.network)
        held = agent_lock.wait_for_seat(seat, self.database, partial(self._log, "WARNING"))
        if held is None:
            self.database.close()
            return False
        self._seat = held
        agent_lock.write_seat(held, b"0")
        self._listen()
        keeper = Keeper(str(seat), agent_lock.agent_command(self.paths, self.sets))
        self.starter = Starter(self.paths, self.config, self.jobs, self.me, keeper, self._log)
        with suppress(OSError):  # there are as many processes as there may be: it will be made later
            self.starter.keep_spares()
        agents.register(self.database, self.me)  # from now on others rely on us, and may wake us by a signal
        self._log("INFO", f"agent {os.getpid()} serves {self.paths.store}")
        is_settled = False
        try:
            while not self._guarded_round():
                if not is_settled:  # from here on a spare shim tells if we are killed
                    is_settled = agent_lock.write_seat(self._seat, str(os.getpid()).encode())
                self._sleep()
        finally:  # before a spare shim learns that we leave: it need not start another, least of all after a mistake
            agent_lock.write_seat(self._seat, b"")
        self._leave()
        return True

    def _guarded_round(self) -> bool:
        """One round of work; whether it was the last. A store in trouble is tried again, nothing ends for it."""
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
        may_bury = bool(self._ready) or self._is_due("bury", BURY_SECONDS)
        self._attend()
        if may_bury:
            self._bury()
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
        """Whether there is a store to serve; one that took the place of ours is opened."""
        if self.database.is_in_place():
            return True
        if not os.path.isfile(self.paths.store) and not self.held and not self.starter.has_work:
            return False
        self.database.renew()
        self._has_new_store = True
        return True

    def _put_again(self) -> None:
        """Write what we know into the new store: the jobs that we record and those that wait."""
        self._take_new_seat()
        self._log("WARNING", f"{self.paths.store} was deleted or replaced: {len(self.held)} jobs are written again")
        for job in [job for job in self.live.values() if job.status == "queued" and job.id not in self.held]:
            self.jobs.put_again(job)
        for held in self.held.values():
            known = replace(held.job, recorder=None if self._is_told else self.me)
            held.job = self.jobs.put_again(known, partial(as_known, known=known))
        if not self._is_told:
            agents.register(self.database, self.me)
        self.live.clear()
        self._seen, self._touch = None, 0
        self.starter.start_over()
        self._has_new_store = False

    def _take_new_seat(self) -> None:
        """Hold the seat beside the new store; where another agent does, our jobs are left to that one."""
        seat = agent_lock.seat(self.paths, self.network)
        if agent_lock.is_seat(self._seat, seat):
            return
        new = agent_lock.take_seat(seat)
        if new is None:
            self._is_told = True
            return
        os.close(self._seat)
        self._seat = new
        agent_lock.write_seat(new, str(os.getpid()).encode())

    # -- what there is

    def _look(self) -> None:
        """Take in what changed in the store, and whoever lost their recorder."""
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
        """The jobs that came or changed since we looked."""
        is_first = self._seen is None
        jobs, self._touch = self.jobs.live_and_recent(0) if is_first else self.jobs.touched_since(self._touch)
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
        for job in self.jobs.unsettled(self.paths.host, but_by=self.me):
            is_left = job.id in self.spoilt and job.shim is not None and is_alive(job.shim)
            if not is_left and not has_a_recorder(self.paths, job):
                with self._contained(job):
                    kind_of(job).record_end(self.jobs, self.paths, job)

    def _adopt(self, jobs: Iterable[Job]) -> None:
        """Record those that nobody records."""
        for job in list(jobs):
            waits = job.status == "queued" and (job.recorder is None or job.id in self.starter.ordered)
            if job.id in self.held or job.id in self.spoilt or waits or self._is_recorded(job):
                continue
            with self._contained(job):
                begun = with_shim(self.paths, job)
                if begun.status != "queued":
                    self._adopt_one(begun)

    def _is_recorded(self, job: Job) -> bool:
        """Whether somebody else keeps the end of a job."""
        return job.recorder != self.me and has_a_recorder(self.paths, job)

    def _recover(self) -> None:
        """Take up what trouble has made us drop: jobs that are ours by their rows only."""
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
        """Record a job from now on, and sample it; one that is over is finished."""
        kind = kind_of(job)
        target = kind.target(self.paths, job)
        if target is None:
            kind.record_end(self.jobs, self.paths, job)
            return
        fd = opened(target.root.pid)
        alive = kind.is_alive(job)  # asked with the descriptor open: it is of no other process
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
        """How old the job was when it was sampled last."""
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
        """Finish the records of jobs that have ended, or whose supervisors are gone."""
        gone = [held for held in self.held.values() if held.fd in self._ready] if self._ready else []
        if self._is_due("ends", END_SECONDS):
            gone = [held for held in self.held.values() if held in gone or self._has_ended(held)]
        self._ready.clear()
        self._conclude(gone)
        for held in gone:
            self._finish(held)

    def _conclude(self, gone: list[Held]) -> None:
        """Keep what was sampled of those that have ended, waiting once for all of them."""
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
        """Watch it no longer."""
        if self.held.pop(held.job.id, None) is None:
            return
        self.cost.leave(held.job.id)
        if held.fd is not None:
            self._selector.unregister(held.fd)
            os.close(held.fd)
        if self.engine is not None and held.is_watched:
            self.engine.finish(held.job.id)

    def _contained(self, job: Job) -> AbstractContextManager[None]:
        """A mistake of ours with one job is that job's trouble."""
        return contained(partial(self._spoil, job))

    def _spoil(self, job: Job, error: Exception) -> None:
        """Record a job no longer that we cannot cope with; while it runs it may yet leave what we can."""
        why = mistake(error)
        if job.id not in self.spoilt:
            self.starter.log_mistake(job, error)
        self.spoilt.add(job.id)
        if job.id in self.held:
            self._release(self.held[job.id])
        with suppress(UnknownJob):
            self.jobs.change(job.id, partial(spoilt, why=why))

    def _bury(self) -> None:
        """Our only children are shims."""
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass

    def _leave(self) -> None:
        """Give back what is held, so that whoever comes next can take it."""
        with suppress(JobtopError):  # first, so that nobody relies on us any more
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
    """A job that another store has too: as we know it, unless it was already ours there."""
    return (row if row.recorder == known.recorder else replace(known, seq=row.seq)), ()


def spoilt(row: Job, why: str) -> tuple[Job, tuple[Event, ...]]:
    """The record of a job that we could not cope with: how one that is gone ended stays unknown."""
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
    """A descriptor that says when a process is gone; None where there is no such thing, or it is gone already."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
