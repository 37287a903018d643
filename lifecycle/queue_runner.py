"""Starts jobs whose turn has come. Shims are made ahead: they come up meanwhile, and tell if the agent is killed."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import contextmanager
from functools import partial

from jobtop.core.errors import JobtopError, UsageError
from jobtop.core.measure.collectors import cgroup
from jobtop.core.procfs import HAS_PROC, children, signal_descendants, stat_fields
from jobtop.core.record import replace
from jobtop.core.run import outcome
from jobtop.core.run.capacity import capacity, gpu_environment
from jobtop.core.run.facts import STARTED, read_facts, read_started
from jobtop.core.run.scheduling import retry_seconds
from jobtop.core.run.supervisor import Keeper, Supervisor
from jobtop.core.state_files import make_state_dirs
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.queue_plan import Lineup
from jobtop.lifecycle.reconcile import START_SECONDS, finish, reconcile_one
from jobtop.lifecycle.start import NOT_KEPT, kept_spec
from jobtop.store.jobs import Event, event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jobtop.core.config import Config
    from jobtop.core.model import Identity, Job
    from jobtop.core.paths import StatePaths
    from jobtop.core.run.facts import Facts, Started
    from jobtop.core.run.scheduling import Start
    from jobtop.store.jobs import Jobs

SPARES = 8
FAR = float("inf")
ANSWER_SECONDS = 1.0  # everybody waits for shims that were just told something; then nobody does
SILENT_DIRECTORY = "its working directory does not answer"
SILENT_SHIM = "its supervisor did not answer"
SILENT_PROGRAM = "the file system its program is on does not answer"


class Told:
    """A job that a shim was told to start."""

    def __init__(self, job: Job, supervisor: Supervisor) -> None:
        self.job, self.supervisor, self.at = job, supervisor, time.monotonic()


class Starter:
    """The queue of one store, as the agent works it off; `is_due` says that something may have changed."""

    def __init__(
        self,
        paths: StatePaths,
        config: Config,
        jobs: Jobs,
        me: Identity,
        keeper: Keeper,
        log: Callable[[str, str], None],
    ) -> None:
        self.paths, self.jobs, self.me, self.keeper, self.log = paths, jobs, me, keeper, log
        self.with_cgroup = "cgroup" not in config.texts("monitor.without")
        self.queue = Queue(jobs, paths)
        self.lineup = Lineup(self.queue)
        self.spares: list[Supervisor] = []
        self.told: dict[str, Told] = {}  # what was ordered and not yet heard of
        self.silences: dict[str, int] = {}  # how often nothing was heard
        self.is_due = True
        self.lately = 0.0  # jobs started at once
        self.next_moment = FAR

    @property
    def has_work(self) -> bool:
        """Whether somebody waits who is not held back by hand."""
        return bool(self.lineup.to_retry or self.told) or any(not job.is_paused for job in self.lineup.waiting.values())

    def start_due(self) -> Iterator[tuple[Job, Started]]:
        """Start every job whose turn it is; those that run now."""
        yield from self._begun()  # whom an error kept us from hearing
        if not self.is_due and time.time() < self.next_moment:
            return
        self.is_due = False
        self.lineup.refresh()
        if self.lineup.retry_failed(time.time()):
            self.lineup.refresh()
        self.keep_spares()
        if not self.lineup.waiting:
            self.next_moment = FAR
            return
        plan = self.lineup.plan(capacity(self.lineup.needs_gpus), time.time())
        self.next_moment = plan.next_moment or FAR
        for job_id, why in plan.cancel.items():
            self.queue.cancel(job_id, why)
        self.is_due = bool(plan.cancel or plan.start)
        self.lately = max(len(plan.start), self.lately / 2)
        for turn in plan.start:
            self._order(turn)
        self.keep_spares()
        yield from self._begun()

    def start_over(self) -> None:
        """Read the queue anew: it is in another store."""
        self.lineup = Lineup(self.queue)
        self.is_due = True

    def close(self) -> None:
        """Let go of the shims that have no job."""
        while self.spares:
            discard(self.spares.pop())

    def keep_spares(self) -> None:
        """As many as were needed lately; one at least, since it is what outlives us."""
        wanted = max(1, min(int(self.lately), SPARES, len(self.lineup.waiting)))
        while len(self.spares) < wanted:
            self.spares.append(Supervisor(keeper=self.keeper))
        while len(self.spares) > wanted:
            discard(self.spares.pop())

    def _order(self, turn: Start) -> None:
        """Tell a shim to start a job; all shims that are told something do it at once."""
        job = self.queue.claim(turn.id, self.me, turn.gpus)
        if job is None:
            return
        with contained(partial(self._cannot_tell, job)):
            self._tell(job, turn.gpus)

    def _cannot_tell(self, job: Job, error: Exception) -> None:
        self.log_mistake(job, error)
        self._never(job, mistake(error))

    def _tell(self, job: Job, gpus: Sequence[str]) -> None:
        spec = kept_spec(self.paths, job.id)
        if spec is None:
            self._never(job, NOT_KEPT)
            return
        if gpus:
            spec = replace(spec, env=spec.env | gpu_environment(gpus, os.environ))
        if os.path.isdir(self.paths.job(job.id)):  # somebody was about to start it, and was killed or gave up
            cgroup.discard(cgroup.possible_directories(job.id))
        try:
            directory = self.paths.job(job.id)
            make_state_dirs(self.paths.root, self.paths.jobs, directory)
            supervisor = self.spares.pop(0) if self.spares else Supervisor(keeper=self.keeper)
        except OSError as error:
            self.queue.release(job.id, self.me)
            raise UsageError(f"job {job.id[:8]} cannot be started now: {os.strerror(error.errno or 0)}") from error
        try:
            supervisor.order(spec, str(directory), self.with_cgroup, with_stdin=False)
        except BaseException:
            discard(supervisor)
            cgroup.discard(cgroup.possible_directories(job.id))
            raise
        self.told[job.id] = Told(job, supervisor)

    def _begun(self) -> Iterator[tuple[Job, Started]]:
        """Those that were told to start and did; nobody waits for one that hangs."""
        while answered := self._answered():
            for told in answered:
                try:
                    heard = told.supervisor.answer()
                finally:
                    self._let_go(told)
                if (begun := self._contained_begin(told.job, heard)) is not None:
                    yield begun
        late = time.monotonic() - START_SECONDS
        for told in [told for told in self.told.values() if told.at < late]:
            if (begun := self._set_aside(told)) is not None:
                yield begun

    def _answered(self) -> list[Told]:
        """Those that have something to say; who was told just now is given a moment."""
        if not self.told:
            return []
        poll = select.poll()
        for told in self.told.values():
            poll.register(told.supervisor.status_read, select.POLLIN)
        patience = max(told.at for told in self.told.values()) + ANSWER_SECONDS - time.monotonic()
        ready = {fd for fd, _ in poll.poll(max(0.0, patience) * 1000)}
        return [told for told in self.told.values() if told.supervisor.status_read in ready]

    def _let_go(self, told: Told) -> None:
        """Listen to a shim no longer."""
        del self.told[told.job.id]
        os.close(told.supervisor.status_read)

    def _contained_begin(self, job: Job, heard: Facts | None) -> tuple[Job, Started] | None:
        """What a shim said, taken in; if that is beyond us, what it left is found like that of any other job."""
        self.silences.pop(job.id, None)
        with contained(partial(self.log_mistake, job)):
            return self._taken_in(job, heard)
        return None

    def _set_aside(self, told: Told) -> tuple[Job, Started] | None:
        """Of a shim that hangs, what it has begun all the same; else it never will, and the job waits on.

        It is stopped first: what stands still begins nothing while we look.
        """
        shim, job = told.supervisor.pid, told.job
        state, parent = (*stat_fields(shim), "", "")[:2]
        is_there = parent == str(os.getpid()) and state not in "ZX"
        if not HAS_PROC:
            return None
        if is_there and state not in "Tt":
            os.kill(shim, signal.SIGSTOP)
            return None
        directory = self.paths.job(job.id)
        if os.path.lexists(directory / STARTED):
            if is_there:
                os.kill(shim, signal.SIGCONT)
            heard, _ = read_facts(directory, STARTED)
            return None if heard is None else self._taken_unheard(told, heard)
        why = SILENT_DIRECTORY if is_there and children(shim) else SILENT_SHIM
        if is_there:
            signal_descendants(shim, signal.SIGKILL)
            os.kill(shim, signal.SIGKILL)
        self._let_go(told)
        cgroup.discard(told.supervisor.cgroups)
        count = self.silences[job.id] = self.silences.get(job.id, 0) + 1
        self.queue.put_off(job.id, self.me, why, retry_seconds(count + 5))  # from half a minute on
        self.log("WARNING", f"job {job.id[:8]} is put off: {why}")
        self.is_due = True
        return None

    def _taken_unheard(self, told: Told, heard: Facts) -> tuple[Job, Started] | None:
        """It has begun, but its command is not there yet: it may be any moment, so that it counts as running."""
        self.log("WARNING", f"job {told.job.id[:8]} stalls: {SILENT_PROGRAM}")
        self._let_go(told)
        begun = self._contained_begin(told.job, heard)
        if begun is not None:
            self.jobs.change(told.job.id, lambda row: (row, (event("stalled", reason=SILENT_PROGRAM),)))
        return begun

    def _taken_in(self, job: Job, heard: Facts | None) -> tuple[Job, Started] | None:
        if heard is None:  # killed before it could, or one that a killed agent had told began it
            job = reconcile_one(self.jobs, self.paths, job)
            if job.shim is None:
                self.queue.release(job.id, self.me)
            begun = read_started(self.paths.job(job.id))
            return None if begun is None or job.status.ended else (job, begun)
        if "exec_error" in heard:
            finish(self.jobs, self.paths, job, heard)
            return None
        begun = heard.started()
        happened = Event(begun.start_time, "started", {"pid": begun.main.pid})
        return self.jobs.change(job.id, lambda row: (outcome.begin(row, begun), (happened,))), begun

    def log_mistake(self, job: Job, error: Exception) -> None:
        """Say in the log how it came to a mistake of ours with one job."""
        import traceback

        self.log("ERROR", f"job {job.id[:8]}: {''.join(traceback.format_exception(error)).rstrip()}")

    def _never(self, job: Job, why: str) -> None:
        self.jobs.change(job.id, lambda row: (outcome.never_started(row, why), (event("error", reason=why),)))


def mistake(error: Exception) -> str:
    """What went wrong, in words for the record of a job."""
    return f"a mistake in jobtop itself: {type(error).__name__}: {error}"


@contextmanager
def contained(blame: Callable[[Exception], object]) -> Iterator[None]:
    """Keeps a mistake of ours with one job to that job; trouble of the store or of the host is everybody's."""
    try:
        yield
    except (JobtopError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - a border: the other jobs go on
        blame(error)


def discard(supervisor: Supervisor) -> None:
    """Send a shim away that has no job."""
    supervisor.close()
    os.close(supervisor.status_read)
