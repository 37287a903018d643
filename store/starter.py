"""Starts jobs whose turn has come. Shims are made ahead: they come up meanwhile, and tell if the agent is killed."""

from __future__ import annotations

import os
import time

from jobtop.core import evidence
from jobtop.core.capacity import capacity, gpu_environment
from jobtop.core.collectors import cgroup
from jobtop.core.errors import UsageError
from jobtop.core.paths import make_private_dir
from jobtop.core.record import replace
from jobtop.core.runner import Keeper, Supervisor
from jobtop.store.agency import agent_command, agent_environment
from jobtop.store.jobs import Event, event
from jobtop.store.lineup import Lineup
from jobtop.store.queue import Queue
from jobtop.store.reconcile import finish, read_facts, reconcile_one
from jobtop.store.starting import NOT_KEPT, kept_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jobtop.core.config import Config
    from jobtop.core.evidence import Facts, Started
    from jobtop.core.model import Identity, Job
    from jobtop.core.paths import StatePaths
    from jobtop.core.scheduling import Start
    from jobtop.store.jobs import Jobs

SPARES = 8
FAR = float("inf")


class Starter:
    """The queue of one store, as the agent works it off; `is_due` says that something may have changed."""

    def __init__(self, paths: StatePaths, config: Config, jobs: Jobs, me: Identity, seat: Path) -> None:
        self.paths, self.jobs, self.me = paths, jobs, me
        self.with_cgroup = "cgroup" not in config.texts("monitor.without")
        self.queue = Queue(jobs, paths)
        self.lineup = Lineup(self.queue)
        self.keeper = Keeper(str(seat), agent_command(paths), agent_environment())
        self.spares: list[Supervisor] = []
        self.told: dict[str, tuple[Job, Supervisor]] = {}  # what was ordered and not yet heard of
        self.is_due = True
        self.lately = 0.0  # jobs started at once
        self.next_moment = FAR

    @property
    def has_work(self) -> bool:
        """Whether somebody waits who is not held back by hand."""
        return bool(self.lineup.to_retry) or any(not job.is_paused for job in self.lineup.waiting.values())

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
        spec = kept_spec(self.paths, job.id)
        if spec is None:
            self._never(job, NOT_KEPT)
            return
        if turn.gpus:
            spec = replace(spec, env=spec.env | gpu_environment(turn.gpus, os.environ))
        if os.path.isdir(self.paths.job(job.id)):  # an agent was killed as it was about to start it
            cgroup.discard(cgroup.possible_directories(job.id))
        try:
            directory = make_private_dir(self.paths.job(job.id))
            supervisor = self.spares.pop(0) if self.spares else Supervisor(keeper=self.keeper)
        except OSError as error:
            self.queue.release(job.id, self.me)
            raise UsageError(f"job {job.id[:8]} cannot be started now: {os.strerror(error.errno or 0)}") from error
        supervisor.order(spec, str(directory), self.with_cgroup, with_stdin=False)
        self.told[job.id] = job, supervisor

    def _begun(self) -> Iterator[tuple[Job, Started]]:
        """Those that were told to start and did."""
        while self.told:
            job, supervisor = self.told.pop(next(iter(self.told)))
            try:
                heard = supervisor.answer()
            finally:
                os.close(supervisor.status_read)
            begun = self._taken_in(job, heard)
            if begun is not None:
                yield begun

    def _taken_in(self, job: Job, heard: Facts | None) -> tuple[Job, Started] | None:
        if heard is None:  # killed before it could, or one that a killed agent had told began it
            job = reconcile_one(self.jobs, self.paths, job)
            if job.shim is None:
                self.queue.release(job.id, self.me)
            heard = read_facts(self.paths.job(job.id) / "started", "subreaper")
            return None if heard is None or job.status.ended else (job, evidence.started(heard))
        if "exec_error" in heard:
            finish(self.jobs, self.paths, job, heard)
            return None
        begun = evidence.started(heard)
        happened = Event(begun.start_time, "started", {"pid": begun.main.pid})
        return self.jobs.change(job.id, lambda row: (evidence.begin(row, begun), (happened,))), begun

    def _never(self, job: Job, why: str) -> None:
        self.jobs.change(job.id, lambda row: (evidence.never_started(row, why), (event("error", reason=why),)))


def discard(supervisor: Supervisor) -> None:
    """Send a shim away that has no job."""
    supervisor.close()
    os.close(supervisor.status_read)
