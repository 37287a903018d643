"""Starts queued jobs when it is their turn.

Shims are started in advance. That is faster, and a spare shim starts a new agent if this one is killed.
"""

from __future__ import annotations

import os
import select
import time
from contextlib import contextmanager
from functools import partial

from jobtop.core.errors import JobtopError, UsageError
from jobtop.core.measure.collectors import cgroup
from jobtop.core.model import Queued
from jobtop.core.record import replace
from jobtop.core.run.capacity import capacity, gpu_environment
from jobtop.core.run.scheduling import retry_seconds
from jobtop.core.run.supervisor import AgentLaunch, Supervisor
from jobtop.core.state_files import make_state_dirs
from jobtop.lifecycle.ends import started_change
from jobtop.lifecycle.kinds.kind import START_SECONDS, Order
from jobtop.lifecycle.kinds.process import NO_SPEC, finish, never_started
from jobtop.lifecycle.kinds.registry import kind_of
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.queue_plan import Lineup
from jobtop.lifecycle.start import kept_spec
from jobtop.store.jobs import event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jobtop.core.config import Config
    from jobtop.core.model import Identity, Job, JobSpec
    from jobtop.core.paths import StatePaths
    from jobtop.core.run.facts import Facts
    from jobtop.core.run.scheduling import Start
    from jobtop.lifecycle.kinds.kind import Starting
    from jobtop.store.jobs import Jobs

SPARES = 8
FAR = float("inf")
ANSWER_SECONDS = 1.0  # how long the agent waits for the answer to a new order before it does other work
SILENT_PROGRAM = "the file system its program is on does not answer"


def numbered(spec: JobSpec, job: Job) -> JobSpec:
    """Set Torc's variables for the number and the attempt of a job of a workflow, known since it was queued."""
    if "TORC_WORKFLOW_ID" not in spec.env or "TORC_JOB_ID" in spec.env:
        return spec
    numbers = {"TORC_JOB_ID": str(job.seq), "TORC_ATTEMPT_ID": str((job.queue or Queued()).attempt)}
    container = spec.container
    if container is not None:
        container = container | {"env": (container.get("env") or {}) | numbers}
    return replace(spec, env=spec.env | numbers, container=container)


class Ordered:
    """A job with a start that was ordered and not answered yet."""

    def __init__(self, job: Job, starting: Starting) -> None:
        self.job, self.starting, self.at = job, starting, time.monotonic()


class Starter:
    """Starts the queued jobs of one store. `is_due` is True if something in the queue may have changed."""

    def __init__(
        self,
        paths: StatePaths,
        config: Config,
        jobs: Jobs,
        me: Identity,
        agent_launch: AgentLaunch,
        log: Callable[[str, str], None],
    ) -> None:
        self.paths, self.jobs, self.me, self.agent_launch, self.log = paths, jobs, me, agent_launch, log
        self.with_cgroup = "cgroup" not in config.texts("monitor.without")
        self.queue = Queue(jobs, paths)
        self.lineup = Lineup(self.queue)
        self.spares: list[Supervisor] = []
        self.ordered: dict[str, Ordered] = {}
        self.unanswered_starts: dict[str, int] = {}  # how many starts of each job were given up
        self.is_due = True
        self.recent_starts = 0.0  # jobs that a round started lately; the number is halved with each round
        self.next_moment = FAR  # when the next queued job becomes due by the clock

    @property
    def has_work(self) -> bool:
        """Whether a job is being started, or waits in the queue and is not paused."""
        waiting = self.lineup.waiting.values()
        return bool(self.lineup.to_retry or self.ordered) or any(not job.is_paused for job in waiting)

    def start_due(self) -> Iterator[Job]:
        """Start every job that may start now; yield the jobs that have started."""
        yield from self._started()  # also orders of earlier rounds
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
        self.recent_starts = max(len(plan.start), self.recent_starts / 2)
        for turn in plan.start:
            self._order(turn)
        self.keep_spares()
        yield from self._started()

    def start_over(self) -> None:
        """Read the whole queue again, after the store was replaced."""
        self.lineup = Lineup(self.queue)
        self.is_due = True

    def close(self) -> None:
        """End the shims that have no job."""
        while self.spares:
            discard(self.spares.pop())

    def keep_spares(self) -> None:
        """Keep as many spare shims as were needed lately; at least one, which starts an agent if this one is killed."""
        wanted = max(1, min(int(self.recent_starts), SPARES, len(self.lineup.waiting)))
        while len(self.spares) < wanted:
            self.spares.append(Supervisor(agent=self.agent_launch))
        while len(self.spares) > wanted:
            discard(self.spares.pop())

    def _order(self, turn: Start) -> None:
        """Claim a job and order its start, without waiting for the answer: many jobs start at the same time."""
        job = self.queue.claim(turn.id, self.me, turn.gpus)
        if job is None:
            return
        with contained(partial(self._record_bug, job)):
            self._send_order(job, turn.gpus)

    def _record_bug(self, job: Job, error: Exception) -> None:
        """Write that a job could not be started because of a bug of jobtop."""
        self.log_mistake(job, error)
        never_started(self.jobs, job, mistake(error))

    def _send_order(self, job: Job, gpus: Sequence[str]) -> None:
        """Prepare the directory and the environment of a claimed job, and order its start."""
        spec = kept_spec(self.paths, job.id)
        if spec is None:
            never_started(self.jobs, job, NO_SPEC)
            return
        if gpus:
            spec = replace(spec, env=spec.env | gpu_environment(gpus, os.environ))
        spec = numbered(spec, job)
        if os.path.isdir(self.paths.job(job.id)):  # an earlier start was aborted
            cgroup.discard(cgroup.possible_directories(job.id))
        directory = self.paths.job(job.id)
        try:
            make_state_dirs(self.paths.root, self.paths.jobs, directory)
            supervisor = self._take_shim() if kind_of(job).has_shim else None
        except OSError as error:
            self.queue.release(job.id, self.me)
            raise UsageError(f"job {job.id[:8]} cannot be started now: {os.strerror(error.errno or 0)}") from error
        try:
            order = Order(spec, str(directory), self.with_cgroup, supervisor=supervisor)
            self.ordered[job.id] = Ordered(job, kind_of(job).start(order))
        except BaseException:
            if supervisor is not None:
                discard(supervisor)
            cgroup.discard(cgroup.possible_directories(job.id))
            raise

    def _take_shim(self) -> Supervisor:
        return self.spares.pop(0) if self.spares else Supervisor(agent=self.agent_launch)

    def _started(self) -> Iterator[Job]:
        """Read the answers to orders; yields the jobs that have started. A start that hangs delays no other job."""
        while answered := self._answered():
            for ordered in answered:
                try:
                    facts = ordered.starting.answer()
                finally:
                    self._forget(ordered)
                if (job := self._after_answer(ordered.job, facts)) is not None:
                    yield job
        late = time.monotonic() - START_SECONDS
        for ordered in [ordered for ordered in self.ordered.values() if ordered.at < late]:
            if (job := self._give_up(ordered)) is not None:
                yield job

    def _answered(self) -> list[Ordered]:
        """The orders that have an answer; after a new order, wait up to `ANSWER_SECONDS` for one."""
        if not self.ordered:
            return []
        poll = select.poll()
        for ordered in self.ordered.values():
            poll.register(ordered.starting.fd, select.POLLIN)
        patience = max(ordered.at for ordered in self.ordered.values()) + ANSWER_SECONDS - time.monotonic()
        ready = {fd for fd, _ in poll.poll(max(0.0, patience) * 1000)}
        return [ordered for ordered in self.ordered.values() if ordered.starting.fd in ready]

    def _forget(self, ordered: Ordered) -> None:
        """Do not wait for this answer any more."""
        del self.ordered[ordered.job.id]
        ordered.starting.close()

    def _after_answer(self, job: Job, facts: Facts | None) -> Job | None:
        """Record the answer to an order; the job if it runs. After a bug the job is recorded later, like any other."""
        self.unanswered_starts.pop(job.id, None)
        with contained(partial(self.log_mistake, job)):
            return self._record_answer(job, facts)
        return None

    def _give_up(self, ordered: Ordered) -> Job | None:
        """End a start that hangs: the job if it has started after all; else it goes back into the queue."""
        job, result = ordered.job, ordered.starting.give_up()
        if result.facts is not None:
            return self._record_stalled(ordered, result.facts)
        if result.why is None:
            return None
        self._forget(ordered)
        count = self.unanswered_starts[job.id] = self.unanswered_starts.get(job.id, 0) + 1
        self.queue.put_off(job.id, self.me, result.why, retry_seconds(count + 5))  # half a minute at first
        self.log("WARNING", f"job {job.id[:8]} is postponed: {result.why}")
        self.is_due = True
        return None

    def _record_stalled(self, ordered: Ordered, facts: Facts) -> Job | None:
        """Record a job that has `started` and hangs before its exec: it may run any moment, and counts as running."""
        self.log("WARNING", f"job {ordered.job.id[:8]} stalls: {SILENT_PROGRAM}")
        self._forget(ordered)
        job = self._after_answer(ordered.job, facts)
        if job is not None:
            self.jobs.change(job.id, lambda row: (row, (event("stalled", reason=SILENT_PROGRAM),)))
        return job

    def _record_answer(self, job: Job, facts: Facts | None) -> Job | None:
        """Write that the job started, or why not; the job if it runs."""
        if facts is None:  # the shim was killed, or found that a shim of an earlier agent has started the job
            job = kind_of(job).record_end(self.jobs, self.paths, job)
            if job.shim is None:
                self.queue.release(job.id, self.me)
            return None if job.shim is None or job.status.ended else job
        if "exec_error" in facts:
            finish(self.jobs, self.paths, job, facts)
            return None
        return self.jobs.change(job.id, started_change(facts.started()))

    def log_mistake(self, job: Job, error: Exception) -> None:
        """Write the traceback of a bug that one job triggered into the log."""
        import traceback

        self.log("ERROR", f"job {job.id[:8]}: {''.join(traceback.format_exception(error)).rstrip()}")


def mistake(error: Exception) -> str:
    """The reason in the record of a job that triggered a bug of jobtop."""
    return f"a bug in jobtop: {type(error).__name__}: {error}"


@contextmanager
def contained(blame: Callable[[Exception], object]) -> Iterator[None]:
    """Passes a bug that one job triggers to `blame`, and goes on; errors of the store or the host are raised again."""
    try:
        yield
    except (JobtopError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - a border: the other jobs go on
        blame(error)


def discard(supervisor: Supervisor) -> None:
    """End a shim that has no job."""
    supervisor.close()
    os.close(supervisor.status_read)
