"""The kind of tracked blocks: a part of a Python process, which records it itself."""

from __future__ import annotations

from jobtop.core.model import Status
from jobtop.core.record import replace
from jobtop.core.run import attached
from jobtop.lifecycle.ends import end_events, flag_over_use, limits_of, observation_in, seen_seconds
from jobtop.lifecycle.kinds.attached import AttachedKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobtop.core.measure.target import Target
    from jobtop.core.model import Job
    from jobtop.core.paths import StatePaths
    from jobtop.lifecycle.kinds.kind import Watched
    from jobtop.store.jobs import Event, Jobs

EXITED_INSIDE = "the process exited before it closed the block"


class PythonKind(AttachedKind):
    """A block of a process; `shim` in the record is that process. Signals go to the process and those below it."""

    name = "python"
    why_no_output: str | None = "it is a part of a process, and its output goes where that of the process goes"

    def target(self, paths: StatePaths, job: Job) -> Target | None:
        """The whole process, for `top`, `files` and `connections`; the samples of a block are made by its sampler."""
        from jobtop.core.measure.target import Target

        return None if job.shim is None else Target(job.shim, job.start_boottime or 0.0, True, declared=job.limits)

    def record_end(self, jobs: Jobs, paths: StatePaths, job: Job, watched: Watched | None = None) -> Job:
        """Write that the process exited inside of the block, with the totals of the last sample."""
        if self.is_alive(job) or job.status.ended:
            return job
        seconds = seen_seconds(jobs, job)
        observation, limit = observation_in(jobs, job), limits_of(jobs, job)

        def concluded(row: Job) -> tuple[Job, Iterable[Event]]:
            if row.status.ended:
                return row, ()
            done = attached.ended(row, seconds)
            is_stopped = row.stop_request is not None
            status, reason = (
                (done.status, f"stopped by {row.stop_request.by}")
                if is_stopped and row.stop_request
                else (
                    Status.LOST,
                    EXITED_INSIDE,
                )
            )
            done = replace(done, status=status, reason=reason)
            if observation is not None:
                done = observation.of(attached.with_sampled_totals(done, observation))
            done = flag_over_use(done if limit is None else limit(done))
            return done, end_events(row, done, 0.0)

        return jobs.change(job.id, concluded)

    def why_not_again(self, paths: StatePaths, job: Job) -> str | None:
        return "it is a part of a Python process: run that program again"


KIND = PythonKind()
