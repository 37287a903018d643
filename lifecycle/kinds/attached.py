"""The kind of jobs that jobtop did not start: it samples and signals them, and cannot know their exit status."""

from __future__ import annotations

import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors.proc import is_alive, send_to_members
from jobtop.core.model import ENDS, Job, Status
from jobtop.core.record import replace
from jobtop.core.run import attached, process_tree
from jobtop.lifecycle.ends import end_events, flag_over_use, limits_of, observation_in
from jobtop.lifecycle.kinds.process import root_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NoReturn

    from jobtop.core.measure.target import Target
    from jobtop.core.model import Identity
    from jobtop.core.paths import StatePaths
    from jobtop.lifecycle.kinds.kind import Order, Watched
    from jobtop.store.jobs import Event, Jobs

NOT_OURS = "jobtop did not start it, and does not know its environment"


class AttachedKind:
    """A process that was already running, and its descendants; `shim` in the record is the process itself."""

    name = "attached"
    has_shim = False
    why_no_output: str | None = "jobtop did not start it, so its output goes where it went before"
    knows_exit_status = False
    signals_processes = True

    def start(self, order: Order) -> NoReturn:
        raise NotImplementedError("a process that already runs cannot be started")

    def target(self, paths: StatePaths, job: Job) -> Target | None:
        from jobtop.core.measure.target import target_in

        return target_in(paths.job(job.id), job)

    def is_alive(self, job: Job) -> bool:
        return job.shim is not None and is_alive(job.shim)

    def has_ended(self, paths: StatePaths, job: Job) -> bool:
        return False

    def refusal(self, job: Job) -> str | None:
        if process_tree.is_inside(root_of(job)):
            return f"this jobtop runs inside job {job.id[:8]}: act on it from outside"
        return None

    def ensure_reachable(self, job: Job) -> None:
        """No engine is needed."""

    def stop(self, job: Job) -> bool:
        process_tree.end(root_of(job), job.grace_seconds)
        return True

    def kill(self, job: Job) -> None:
        process_tree.kill(root_of(job))

    def signal(self, job: Job, number: int) -> None:
        send_to_members(root_of(job), number)

    def pause(self, job: Job) -> None:
        process_tree.freeze(root_of(job))

    def resume(self, job: Job) -> None:
        process_tree.thaw(root_of(job))

    def processes(self, job: Job) -> int:
        return len(process_tree.members(root_of(job)))

    def survivors(self, paths: StatePaths, job: Job) -> list[Identity]:
        return []

    def record_end(self, jobs: Jobs, paths: StatePaths, job: Job, watched: Watched | None = None) -> Job:
        """Write the end of an exited job, with the totals of its last sample.

        `watched` is None if no process saw the exit: then the time of the end is not known.
        """
        if self.is_alive(job):
            return job
        if job.status in ENDS - {Status.LOST}:
            return jobs.change(job.id, lambda row: (replace(row, settled=True), ()))
        from jobtop.core.analysis.reasons import explained
        from jobtop.lifecycle.explaining import read_clues

        elapsed = None if watched is None else time.clock_gettime(BOOTTIME) - (job.start_boottime or 0.0)
        cpu_seconds = None if watched is None else watched.cpu_seconds
        observation = observation_in(jobs, job) if watched is None else watched.observation
        ended = attached.ended(job, elapsed)
        clues, limit = read_clues(jobs, paths, ended), limits_of(jobs, ended)

        def concluded(row: Job) -> tuple[Job, Iterable[Event]]:
            if row.status.ended:
                return row, ()
            done = attached.ended(replace(row, monitor=replace(row.monitor, cpu_seconds=cpu_seconds)), elapsed)
            if observation is not None:
                done = observation.of(attached.with_sampled_totals(done, observation))
            done = flag_over_use(explained(done if limit is None else limit(done), clues))
            return done, end_events(row, done, 0.0)

        return jobs.change(job.id, concluded)

    def why_not_again(self, paths: StatePaths, job: Job) -> str | None:
        return NOT_OURS


KIND = AttachedKind()
