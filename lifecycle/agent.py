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
from jobtop.core.measure.collectors.proc import identify, is_alive
from jobtop.core.measure.cost_shares import SharedCost
from jobtop.core.measure.engine import Engine, chosen
from jobtop.core.model import Job, JobSpec
from jobtop.core.record import replace
from jobtop.core.run.supervisor import AgentLaunch
from jobtop.lifecycle import agent_lock
from jobtop.lifecycle.ends import judge_alerts, observation_in
from jobtop.lifecycle.kinds.kind import Watched
from jobtop.lifecycle.kinds.registry import is_attached_container, kind_of
from jobtop.lifecycle.queue_runner import Starter, contained, mistake
from jobtop.lifecycle.reconcile import has_a_recorder, import_unrecorded, record_end, with_shim
from jobtop.lifecycle.recording import Recording, awaited, broken, open_pidfd, open_pidfd_of, rewritten
from jobtop.lifecycle.start import kept_spec
from jobtop.store import agents
from jobtop.store.alerts.counts import count_unsent
from jobtop.store.database import open_to_write
from jobtop.store.follows import Follows
from jobtop.store.jobs import Event, Jobs, event
from jobtop.store.samples.series import SeriesStore
from jobtop.store.samples.sink import StoreSink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import FrameType

    from jobtop.core.config import Config
    from jobtop.core.measure.observation import Observation
    from jobtop.core.measure.target import Target
    from jobtop.core.paths import StatePaths
    from jobtop.lifecycle.alerts.messages import Messages
    from jobtop.lifecycle.alerts.watching import AlertWatch
    from jobtop.lifecycle.containers.agent_service import ContainerService

LOOK_SECONDS = 0.2  # the longest sleep between two rounds
REREAD_SECONDS = 1.0  # also without a reported change: SQLite does not report changes by this process itself
ADOPT_SECONDS = 1.0  # between two searches for jobs with a killed recorder
RECONCILE_SECONDS = 5.0
FLUSH_SECONDS, CLOSE_SECONDS = 1.0, 5.0
GAP_SECONDS = 3.0  # a longer time without samples is an event of the timeline
END_SECONDS = 1.0  # between two searches for ends that no descriptor reports
REAP_SECONDS = 1.0
MESSAGES_SECONDS = 1.0


class Agent:
    """Serves one store in rounds, until it has been idle for `agent.idle`, or until TERM, INT or HUP."""

    def __init__(self, paths: StatePaths, config: Config, sets: tuple[str, ...] = ()) -> None:
        self.paths, self.config, self.sets = paths, config, sets
        self.network = config.switch("store.network")
        self.me = identify(os.getpid())
        self.live: dict[str, Job] = {}  # jobs of this host that have not ended, as they were last read
        self.recordings: dict[str, Recording] = {}  # the live jobs that this agent records
        self._unreported: dict[str, Recording] = {}  # those with an end that no descriptor reports
        self._unbegun: dict[str, Job] = {}  # jobs with a container that has not started yet
        self.broken: set[str] = set()  # jobs that trigger a bug of jobtop, and are not recorded
        self.engine: Engine | None = None
        self.messages: Messages | None = None
        self.containers: ContainerService | None = None
        self._unsent = 0  # messages, as they were last counted
        self.cost = SharedCost()
        self._selector = selectors.DefaultSelector()
        self._mains = selectors.DefaultSelector()  # main processes of jobs; their exit alone ends no sleep
        self._wake_read, self._wake_write = os.pipe()
        self._must_exit = False
        self._seen: tuple[object, ...] | None = None  # the version of the store that was last read
        self._touch = 0  # the number of the last change that was read
        self._due: dict[str, float] = {}  # when each periodic task is due
        self._ready: set[int] = set()  # descriptors that are readable
        self._busy_at = time.monotonic()
        self._problem: str | None = None  # the last error in the log
        self._has_failed = False  # a round was aborted by an error
        self._is_store_new = False

    def serve(self) -> bool:
        """Run until this agent has to exit; False if another agent serves this store."""
        self.database = open_to_write(self.paths, self.network)
        self.jobs = Jobs(self.database)
        lock_path = agent_lock.lock_path(self.paths, self.network)
        lock_fd = agent_lock.wait_for_lock(lock_path, self.database, partial(self._log, "WARNING"))
        if lock_fd is None:
            self.database.close()
            return False
        self._lock_fd = lock_fd
        agent_lock.write_lock(lock_fd, b"0")
        try:
            self._begin(lock_path)
            self._run_rounds()
        finally:  # before the spare shim notices the exit: it must not start an agent again, least of all after a bug
            agent_lock.write_lock(self._lock_fd, b"")
        self._shut_down()
        return True

    def _begin(self, lock_path: Path) -> None:
        """Become the agent that other processes rely on."""
        self._listen()
        launch = AgentLaunch(str(lock_path), agent_lock.agent_command(self.paths, self.sets))
        self.starter = Starter(self.paths, self.config, self.jobs, self.me, launch, self._log)
        with suppress(OSError):  # no more processes may be started; the next round tries again
            self.starter.keep_spares()
        # From now on other processes rely on this one, and may wake it by a signal.
        agents.register(self.database, self.me)
        self._log("INFO", f"agent {os.getpid()} serves {self.paths.store}")

    def _run_rounds(self) -> None:
        has_written_pid = False
        while not self._try_round():
            if not has_written_pid:  # the first round has succeeded
                has_written_pid = agent_lock.write_lock(self._lock_fd, str(os.getpid()).encode())
            self._sleep()

    def _try_round(self) -> bool:
        """Do one round of work; True if it was the last. After an error of the store the next round tries again."""
        try:
            return self._round()
        except StoreReplaced:
            self._is_store_new = True
            return False
        except (JobtopError, OSError) as error:
            self._has_failed = True
            if not isinstance(error, StoreBusy) and str(error) != self._problem:
                self._problem = str(error)
                self._log("ERROR", f"agent: {error}")
            time.sleep(LOOK_SECONDS)
            return self._must_exit

    def _round(self) -> bool:
        """Read changes, record ends, reap shims, start queued jobs; True if this agent has to exit."""
        if not self._has_store():
            return True
        if self._is_store_new:
            self._write_jobs_again()
        if self._must_exit:
            return True
        self._look()
        if self.containers is not None:
            for job in self.containers.work():
                with self._contained(job):
                    self._adopt_one(job)
            if self.containers.has_answers():
                self._due.pop("ends", None)
        may_reap = bool(self._ready) or self._is_due("reap", REAP_SECONDS)
        self._record_ends()
        if may_reap:
            self._reap()
        for job in self.starter.start_due():
            with self._contained(job):
                self._record_started(job)
        if self._unbegun:
            self._adopt_begun()
        has_messages = self._has_messages()
        has_follows = self.containers is not None and bool(self.containers.follows)
        if self.recordings or self._unbegun or self.starter.has_work or has_messages or has_follows:
            self._busy_at = time.monotonic()
            return False
        if time.monotonic() - self._busy_at < self.config.duration("agent.idle"):
            return False
        return agents.unregister_if_idle(self.database, self.me, self.paths.host)

    # -- a store that was deleted or replaced

    def _has_store(self) -> bool:
        """Whether there is a store to serve; if another file has replaced the store, that file is opened."""
        if self.database.is_in_place():
            return True
        if not os.path.isfile(self.paths.store) and not self.recordings and not self.starter.has_work:
            return False
        self.database.renew()
        self._is_store_new = True
        return True

    def _write_jobs_again(self) -> None:
        """Write the queued jobs, and the jobs that this agent records, into the new store."""
        self._take_new_lock()
        count = len(self.recordings)
        self._log("WARNING", f"{self.paths.store} was deleted or replaced: {count} jobs are written again")
        for job in [job for job in self.live.values() if job.status == "queued" and job.id not in self.recordings]:
            self.jobs.reinsert(job)
        for recording in self.recordings.values():
            known = replace(recording.job, recorder=None if self._must_exit else self.me)
            recording.job = self.jobs.reinsert(known, partial(rewritten, known=known))
        if not self._must_exit:
            agents.register(self.database, self.me)
        self.live.clear()
        self._seen, self._touch = None, 0
        self.starter.start_over()
        self._is_store_new = False

    def _take_new_lock(self) -> None:
        """Take the lock of the new store; if another agent holds it, leave the jobs to that one and exit."""
        lock_path = agent_lock.lock_path(self.paths, self.network)
        if agent_lock.is_lock_file(self._lock_fd, lock_path):
            return
        new = agent_lock.take_lock(lock_path)
        if new is None:
            self._must_exit = True
            return
        os.close(self._lock_fd)
        self._lock_fd = new
        agent_lock.write_lock(new, str(os.getpid()).encode())

    # -- jobs to record

    def _look(self) -> None:
        """Read what changed in the store, and find jobs with a recorder that has exited."""
        seen = self.database.version_seen()
        may_have_changed = self._is_due("changes", REREAD_SECONDS) or seen != self._seen
        if may_have_changed:
            self._update_live(self._changed_jobs())
            if (follows := Follows(self.database, self.paths.host).all()) or self.containers is not None:
                self._containers().set_follows(follows)
            self._seen = seen
            self.starter.is_due = True
        if self._is_due("adopt", ADOPT_SECONDS):
            self._adopt([self.live[key] for key in self.live.keys() - self.recordings.keys()])
        if self._is_due("reconcile", RECONCILE_SECONDS):
            self._reconcile()
            if self._has_failed:
                self._recover()

    def _changed_jobs(self) -> list[Job]:
        """The jobs of this host that are new or changed since the last call."""
        is_first = self._seen is None
        jobs, self._touch = self.jobs.live_and_recent(0) if is_first else self.jobs.changed_since(self._touch)
        return [job for job in jobs if job.host == self.paths.host]

    def _update_live(self, jobs: list[Job]) -> None:
        """Update the live jobs from new or changed rows, and record those that have no recorder."""
        for job in jobs:
            if job.status.ended:
                self.live.pop(job.id, None)
            else:
                self.live[job.id] = job
        self._adopt(job for job in jobs if not job.status.ended and job.recorder is None)

    def _reconcile(self) -> None:
        """Like `reconcile.reconcile`, but a bug that one job triggers does not stop the other jobs."""
        import_unrecorded(self.jobs, self.paths)
        for job in self.jobs.unsettled(self.paths.host, not_recorded_by=self.me):
            still_runs = job.id in self.broken and job.shim is not None and is_alive(job.shim)
            if not still_runs and not has_a_recorder(self.paths, job):
                with self._contained(job):
                    record_end(self.jobs, self.paths, job, self.config)

    def _adopt(self, jobs: Iterable[Job]) -> None:
        """Start to record the jobs that no process records; a job that waits in the queue has no recorder yet."""
        for job in [job for job in jobs if job.id not in self.recordings and job.id not in self.broken]:
            is_waiting = job.status == "queued" and (job.recorder is None or job.id in self.starter.ordered)
            if is_waiting or self._has_other_recorder(job):
                continue
            with self._contained(job):
                started = with_shim(self.paths, job)
                if started.status != "queued":
                    self._adopt_one(started)

    def _has_other_recorder(self, job: Job) -> bool:
        """Whether another process will record the end of a job."""
        return job.recorder != self.me and has_a_recorder(self.paths, job)

    def _recover(self) -> None:
        """Record jobs again that this agent dropped after an error; their rows still name it as the recorder."""
        self._has_failed = False
        for row in self.jobs.unsettled(self.paths.host):
            is_ours = row.recorder == self.me and not row.status.ended
            if not is_ours or row.id in self.recordings or row.id in self.starter.ordered:
                continue
            with self._contained(row):
                self._record_again(row)

    def _record_again(self, row: Job) -> None:
        """Record the job of a row, or put it back into the queue if it has not started."""
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
            job = record_end(self.jobs, self.paths, job, self.config)
            self._await_container(job)
            return
        self._unbegun.pop(job.id, None)
        fd = open_pidfd(awaited(target).pid)
        alive = kind.is_alive(job)  # only now: while the descriptor is open, the pid is not reused
        job = self.jobs.change(job.id, self._claimed) if alive else record_end(self.jobs, self.paths, job, self.config)
        if alive and job.recorder == self.me:
            self._start_recording(job, target, fd)
        elif fd is not None:
            os.close(fd)

    def _claimed(self, row: Job) -> tuple[Job, tuple[Event, ...]]:
        """The row with this agent as the recorder, unless the job has ended or has another recorder."""
        if row.status.ended or self._has_other_recorder(row):
            return row, ()
        return replace(with_shim(self.paths, row), recorder=self.me), ()

    def _record_started(self, job: Job) -> None:
        """Record a job that this agent has just started."""
        target = kind_of(job).target(self.paths, job)
        self.live[job.id] = job  # it is judged by this record from its first sample on
        if target is not None:
            self._start_recording(job, target, open_pidfd(awaited(target).pid), is_new=True)
        else:
            self._await_container(job)

    def _await_container(self, job: Job) -> None:
        """Look often for the container of a job that has just started."""
        if job.status.ended or job.shim is None:
            self._unbegun.pop(job.id, None)
        else:
            self._unbegun[job.id] = job

    def _adopt_begun(self) -> None:
        """Record the jobs with a container that has started meanwhile."""
        for job in [job for job in self._unbegun.values() if job.id not in self.broken]:
            with self._contained(job):
                self._adopt_one(job)

    def _start_recording(self, job: Job, target: Target, fd: int | None, is_new: bool = False) -> None:
        interval = self.config.interval("monitor.interval")
        spec = kept_spec(self.paths, job.id) or JobSpec(job.id, job.command, job.cwd, {}, interval_seconds=interval)
        past = None if is_new else self._last_sample(job)
        main_fd = None if target.main in (None, target.root) else open_pidfd_of(target.main)
        recording = Recording(job, fd, main_fd, spec.is_watched, past is not None)
        self.recordings[job.id] = recording
        if fd is None or main_fd is None:
            self._unreported[job.id] = recording
        if fd is not None:
            self._selector.register(fd, selectors.EVENT_READ)
        if main_fd is not None:
            self._mains.register(main_fd, selectors.EVENT_READ, recording)
        self.cost.join(job.id)
        if is_attached_container(job):
            self._containers().add(job, target)
        if not spec.is_watched:
            return
        elapsed = time.clock_gettime(BOOTTIME) - target.start_boottime
        if elapsed - (past or 0.0) > GAP_SECONDS:
            unsampled = event("unsampled", since=past or 0.0, until=elapsed)
            self.jobs.change(job.id, lambda row: (row, (unsampled,)))
        self._engine().adopt(job.id, target, spec.interval_seconds, spec.keeps_series)

    def _last_sample(self, job: Job) -> float | None:
        """The age of the job at its last sample."""
        assert job.seq is not None
        newest = SeriesStore(self.database).newest(job.seq, 1)
        return newest[-1].elapsed if newest else None

    def _engine(self) -> Engine:
        if self.engine is None:
            from jobtop.core.measure.collectors.processes import raise_descriptor_limit

            raise_descriptor_limit()
            alerts = self._alert_watch()
            tell_of = None if alerts is None else alerts.tell_of
            sink = StoreSink(self.paths, self.network, True, self.config, self._known, tell_of)
            engine = Engine(sink, chosen(self.config, None), alerts)
            if alerts is not None:
                alerts.connect(sink, engine.sampler)
            engine.start()
            self.engine = engine
            gc.freeze()
        return self.engine

    def _containers(self) -> ContainerService:
        if self.containers is None:
            from jobtop.lifecycle.containers.agent_service import ContainerService

            self.containers = ContainerService(self.jobs, self.paths, self.config, self._wake, self._log)
        return self.containers

    def _alert_watch(self) -> AlertWatch | None:
        if not self.config.boolean("alerts.enabled"):
            return None
        from jobtop.lifecycle.alerts.watching import AlertWatch

        alerts = AlertWatch(self.paths, self.config, lambda key: self.live.get(key) or self._known(key))
        alerts.on_messages = self._look_for_messages
        return alerts

    def _look_for_messages(self) -> None:
        """Let the next round look for messages; from the thread that stores samples."""
        self._due.pop("messages", None)

    def _has_messages(self) -> bool:
        """Whether messages about alerts are to be sent; if there are any, they are sent in other threads."""
        if self._is_due("messages", MESSAGES_SECONDS):
            self._unsent = count_unsent(self.database)
            if self._unsent and self.messages is None:
                from jobtop.lifecycle.alerts.messages import Messages, book_of

                self.messages = Messages(self.paths, self.network, book_of(self.config))
            if self._unsent and self.messages is not None:
                self.messages.wake()
        return self._unsent > 0

    def _known(self, job_id: str) -> Job | None:
        recording = self.recordings.get(job_id)
        return None if recording is None else recording.job

    # -- jobs that have ended

    def _record_ends(self) -> None:
        """Finish the records of jobs that have ended, and of jobs with an exited root process."""
        recordings = self.recordings.values()
        gone = [recording for recording in recordings if recording.fd in self._ready] if self._ready else []
        if self._is_due("ends", END_SECONDS):
            for key, _ in self._mains.select(0):
                self._close_main_fd(key.data)
            others = [recording for recording in self._unreported.values() if recording not in gone]
            gone += [recording for recording in others if self._has_ended(recording)]
        self._ready.clear()
        known = [recording for recording in gone if self._is_end_known(recording)]
        self._conclude(gone)
        for recording in known:
            self._finish(recording)

    def _is_end_known(self, recording: Recording) -> bool:
        """Whether the end can be recorded; that of a container is asked of its engine, which may take a while."""
        if self.containers is None or self.containers.is_end_known(recording.job):
            return True
        self._close_fd(recording)  # it stays readable, and would end every sleep
        self._unreported[recording.job.id] = recording
        return False

    def _conclude(self, gone: list[Recording]) -> None:
        """Stop sampling these jobs and store their last samples, with one wait for all of them."""
        if self.engine is not None:
            sampled = (recording.job.id for recording in gone if recording.is_watched)
            observed = self.engine.conclude_all(sampled, FLUSH_SECONDS)
            for recording in gone:
                recording.observed = observed.get(recording.job.id, recording.observed)

    def _has_ended(self, recording: Recording) -> bool:
        """Whether a job without both descriptors has ended."""
        kind = kind_of(recording.job)
        return (recording.fd is None and not kind.is_alive(recording.job)) or kind.has_ended(self.paths, recording.job)

    def _finish(self, recording: Recording) -> None:
        done = None
        with suppress(UnknownJob), self._contained(recording.job):  # it may have been deleted meanwhile
            watched = Watched(self._observed(recording), self.cost.leave(recording.job.id))
            done = kind_of(recording.job).record_end(self.jobs, self.paths, recording.job, watched)
            judge_alerts(self.jobs, self.paths, recording.job, done, self.config)
            if done.status.ended:
                self._log(*journal.outcome(done))
        self._stop_recording(recording)
        if done is not None and not done.status.ended:  # such as a container that has lost its runner
            self.live[done.id] = done
            self._unbegun[done.id] = done
            return
        self.live.pop(recording.job.id, None)
        self.starter.is_due = True

    def _observed(self, recording: Recording) -> Observation | None:
        """What the samples of this agent and of earlier recorders add to the record."""
        if not recording.is_watched or self.engine is None:
            return None
        observed = recording.observed
        is_stored = recording.has_past and recording.job.id not in self.engine.sink.lost
        stored = observation_in(self.jobs, recording.job) if observed is None or is_stored else None
        if observed is None or stored is None:
            return stored or observed
        return replace(observed, tally=stored.tally)

    def _stop_recording(self, recording: Recording) -> None:
        """Stop recording and sampling a job."""
        if self.recordings.pop(recording.job.id, None) is None:
            return
        self._unreported.pop(recording.job.id, None)
        self.cost.leave(recording.job.id)
        if self.containers is not None:
            self.containers.remove(recording.job.id)
        self._close_fd(recording)
        self._close_main_fd(recording)
        if self.engine is not None and recording.is_watched:
            self.engine.finish(recording.job.id)

    def _close_fd(self, recording: Recording) -> None:
        if recording.fd is not None:
            self._selector.unregister(recording.fd)
            os.close(recording.fd)
            recording.fd = None

    def _close_main_fd(self, recording: Recording) -> None:
        """Have the end of a job looked for from now on: its main process has exited."""
        if recording.main_fd is not None:
            self._mains.unregister(recording.main_fd)
            os.close(recording.main_fd)
            recording.main_fd = None
            if recording.job.id in self.recordings:
                self._unreported[recording.job.id] = recording

    def _contained(self, job: Job) -> AbstractContextManager[None]:
        """Catches a bug that this job triggers, and stops recording the job; the other jobs go on."""
        return contained(partial(self._stop_after_bug, job))

    def _stop_after_bug(self, job: Job, error: Exception) -> None:
        """Stop recording a job that triggers a bug; if it still runs, its end may be recorded later."""
        why = mistake(error)
        if job.id not in self.broken:
            self.starter.log_mistake(job, error)
        self.broken.add(job.id)
        if job.id in self.recordings:
            self._stop_recording(self.recordings[job.id])
        with suppress(UnknownJob):
            self.jobs.change(job.id, partial(broken, why=why))

    def _reap(self) -> None:
        """Reap exited shims; this process has no other children."""
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass

    def _shut_down(self) -> None:
        """Stop recording all jobs, so that the next agent can record them."""
        with suppress(JobtopError):  # first: from now on no process relies on this one
            if self.database.is_in_place():
                agents.unregister(self.database, self.me)
        self.starter.close()
        left = list(self.recordings.values())
        self._conclude(left)
        with suppress(JobtopError), self.database.writing() if left else nullcontext():
            for recording in left:
                with suppress(UnknownJob):
                    self.jobs.change(recording.job.id, self._without_recorder)
        for recording in left:
            self._stop_recording(recording)
        if self.engine is not None:
            self.engine.close(CLOSE_SECONDS)
        if self.messages is not None:
            self.messages.close()
        if self.containers is not None:
            self.containers.close()
        self._log("INFO", f"agent {os.getpid()} leaves")
        self.database.close()

    def _without_recorder(self, row: Job) -> tuple[Job, tuple[Event, ...]]:
        """The row of a job that this agent no longer records."""
        return (replace(row, recorder=None) if row.recorder == self.me else row), ()

    # -- time and signals

    def _listen(self) -> None:
        """Exit on TERM, INT and HUP; start the next round at once on USR1."""
        os.set_blocking(self._wake_write, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_exit_signal)
        signal.signal(signal.SIGUSR1, lambda *_: None)  # it only ends the sleep
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a server that hangs up must not end us

    def _on_exit_signal(self, _: int, __: FrameType | None) -> None:
        self._must_exit = True

    def _sleep(self) -> None:
        """Sleep until a signal, the exit of a root process, the answer to an order, or the next round."""
        seconds = min(LOOK_SECONDS, max(0.0, self.starter.next_moment - time.time()))
        unanswered = [ordered.starting.fd for ordered in self.starter.ordered.values()]
        for fd in unanswered:
            self._selector.register(fd, selectors.EVENT_READ)
        self._ready = {key.fd for key, _ in self._selector.select(seconds)}
        for fd in unanswered:
            self._selector.unregister(fd)
        if self._wake_read in self._ready:
            os.read(self._wake_read, 4096)

    def _wake(self) -> None:
        """End the sleep; from any thread."""
        with suppress(OSError):  # the pipe is full: the sleep ends in any case
            os.write(self._wake_write, b"\0")

    def _is_due(self, name: str, seconds: float) -> bool:
        """Whether a periodic task is due; if it is, it is next due after so many seconds."""
        now = time.monotonic()
        if now < self._due.get(name, -float("inf")):
            return False
        self._due[name] = now + seconds
        return True

    def _log(self, level: str, text: str) -> None:
        with suppress(OSError):
            journal.write(self.paths.log, level, text)
