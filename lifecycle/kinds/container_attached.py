"""The kind of jobs that are containers which jobtop did not start: the engine acts on them, and knows their end."""

from __future__ import annotations

import time

from jobtop.core.errors import EngineError
from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.model import ENDS, Job, Status
from jobtop.core.procfs import signals as signal
from jobtop.core.record import replace
from jobtop.core.run import process_tree
from jobtop.core.run.containers.end import ContainerEnd, ended, with_engine_evidence
from jobtop.core.run.containers.facts import FINDING
from jobtop.lifecycle.containers.attached_ends import NOT_NOTED, ask_end_of, container_id_of, endpoint_of, read_end
from jobtop.lifecycle.containers.silence import ENGINE_SECONDS, SILENCE
from jobtop.lifecycle.ends import end_events, limits_of, observation_in, seen_seconds
from jobtop.lifecycle.kinds.process import root_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import NoReturn

    from jobtop.core.measure.collectors.docker.client import Engine
    from jobtop.core.measure.observation import Observation
    from jobtop.core.measure.target import Target
    from jobtop.core.model import Identity
    from jobtop.core.paths import StatePaths
    from jobtop.lifecycle.kinds.kind import Order, Watched
    from jobtop.store.jobs import Event, Jobs

NOT_OURS = "jobtop did not start it: start the container again with its engine"
PATIENCE_SECONDS = 120.0  # a job that was heard of later is left for the next look while its engine does not answer


class AttachedContainerKind:
    """A container that was already running; `shim` in the record is its first process."""

    name = "attached-container"
    has_shim = False
    why_no_output: str | None = "jobtop did not start it, so its engine keeps its output: jobtop containers logs {name}"
    knows_exit_status = True
    signals_processes = False

    def start(self, order: Order) -> NoReturn:
        raise NotImplementedError("a container that already runs cannot be started")

    def target(self, paths: StatePaths, job: Job) -> Target | None:
        from jobtop.core.measure.target import target_of_attached

        return target_of_attached(job)

    def is_alive(self, job: Job) -> bool:
        return job.shim is not None and is_alive(job.shim)

    def has_ended(self, paths: StatePaths, job: Job) -> bool:
        return False

    def refusal(self, job: Job) -> str | None:
        if process_tree.is_inside(root_of(job)):
            return f"this jobtop runs inside job {job.id[:8]}: act on it from outside"
        return None

    def ensure_reachable(self, job: Job) -> None:
        self._ask(job, lambda engine, _: SILENCE.check(engine))

    def stop(self, job: Job) -> bool:
        """Have the engine stop the container: TERM (or its own signal), and KILL after the grace period."""

        def stop(engine: Engine, container_id: str) -> None:
            if job.status is Status.PAUSED:
                engine.unpause(container_id)
            engine.stop(container_id, job.grace_seconds)

        return self._ask(job, stop)

    def kill(self, job: Job) -> None:
        def kill(engine: Engine, container_id: str) -> None:
            if engine.inspect(container_id).state == "paused":
                engine.unpause(container_id)
            engine.kill(container_id, signal.SIGKILL)

        self._ask(job, kill)

    def signal(self, job: Job, number: int) -> None:
        """Send a signal to the first process of the container, as engines do."""
        self._ask(job, lambda engine, container_id: engine.kill(container_id, number))

    def pause(self, job: Job) -> None:
        def pause(engine: Engine, container_id: str) -> None:
            if engine.inspect(container_id).state != "paused":
                engine.pause(container_id)

        self._ask(job, pause)

    def resume(self, job: Job) -> None:
        def resume(engine: Engine, container_id: str) -> None:
            if engine.inspect(container_id).state == "paused":
                engine.unpause(container_id)

        self._ask(job, resume)

    def _ask(self, job: Job, act: Callable[[Engine, str], None]) -> bool:
        """Have the engine act on the container; False if its first process has exited meanwhile."""
        from jobtop.core.measure.collectors.docker.client import Engine

        endpoint = endpoint_of(job)
        if endpoint is None:
            raise EngineError(f"job {job.id[:8]}: its record does not name its engine; act on the container itself")
        if not self.is_alive(job):
            return False
        try:
            with Engine(endpoint, ENGINE_SECONDS) as engine:
                act(engine, container_id_of(job))
        except EngineError:
            if self.is_alive(job):
                raise
            return False
        return True

    def processes(self, job: Job) -> int:
        return len(process_tree.members(root_of(job)))

    def survivors(self, paths: StatePaths, job: Job) -> list[Identity]:
        return []

    def record_end(self, jobs: Jobs, paths: StatePaths, job: Job, watched: Watched | None = None) -> Job:
        """Write the end of a container by what its engine says, and the totals of its cgroup or of its last sample."""
        if self.is_alive(job):
            return job
        if job.status in ENDS - {Status.LOST}:
            return jobs.change(job.id, lambda row: (replace(row, settled=True), ()))
        end = read_end(paths.job(job.id))
        if not end.is_answered:
            answer = self._answer(job, watched is not None)
            if answer is None:
                return job
            end = replace(answer, cgroup=end.cgroup, seen_at=end.seen_at)
        observation = observation_in(jobs, job) if watched is None else watched.observation
        return self._write_end(jobs, paths, job, end, observation, None if watched is None else watched.cpu_seconds)

    @staticmethod
    def _answer(job: Job, is_last: bool) -> ContainerEnd | None:
        """What the engine says about the end; None if it may say so later."""
        try:
            end, why = ask_end_of(job), NOT_NOTED
        except EngineError as error:
            end, why = None, str(error)
        is_young = time.time() - max(job.last_heard or 0.0, job.submitted_at or 0.0) < PATIENCE_SECONDS
        return end or (None if is_young and not is_last else ContainerEnd(why_unknown=why))

    @staticmethod
    def _write_end(
        jobs: Jobs,
        paths: StatePaths,
        job: Job,
        end: ContainerEnd,
        observation: Observation | None,
        cpu_seconds: float | None,
    ) -> Job:
        from jobtop.core.analysis.reasons import explained
        from jobtop.lifecycle.explaining import read_clues

        seconds = seen_seconds(jobs, job)
        last_seen = None if seconds is None else (job.start_time or 0.0) + seconds
        done = ended(job, end, None, last_seen)
        clues, limit = read_clues(jobs, paths, done), limits_of(jobs, done)

        def concluded(row: Job) -> tuple[Job, Iterable[Event]]:
            if row.status.ended:
                return row, ()
            known = row.findings.get(FINDING)
            added = {"restarts": end.restarts, "health": end.health}
            facts = (known if isinstance(known, dict) else {}) | {
                key: value for key, value in added.items() if value is not None
            }
            row = replace(row, findings=row.findings | {FINDING: facts})
            if cpu_seconds is not None:
                row = replace(row, monitor=replace(row.monitor, cpu_seconds=cpu_seconds))
            done = ended(row, end, observation, last_seen)
            done = explained(done if limit is None else limit(done), clues)
            return with_engine_evidence(done, end), end_events(row, done, 0.0)

        return jobs.change(job.id, concluded)

    def why_not_again(self, paths: StatePaths, job: Job) -> str | None:
        return NOT_OURS


KIND = AttachedContainerKind()
