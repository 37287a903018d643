"""A job in the background: waits for it, stops it, reads its record."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from jobtop.log_lines import warn
from jobtop.records import JobFailed, JobTimeout, record_of

if TYPE_CHECKING:
    from jobtop.context import Context
    from jobtop.core.model import Job
    from jobtop.records import JobRecord
    from jobtop.store.jobs import Jobs

BY = "the Python program that started it"


class DetachedJob:
    """A job in the background, or in the queue. It goes on when this object is deleted and when this program ends."""

    def __init__(self, job_id: str, name: str, context: Context) -> None:
        self.id: str = str(job_id)
        """Its id."""
        self.name: str = name
        """Its name."""
        self._context = context

    def __repr__(self) -> str:
        return f"<DetachedJob {self.id[:8]} {self.name}>"

    def record(self) -> JobRecord:
        """Return the record of the job as it is now; of a queued job, that of its last attempt."""
        jobs = self._jobs()
        with closing(jobs.database):
            return record_of(self._latest(jobs))

    def wait(self, timeout: float | None = None, *, check: bool = False) -> JobRecord:
        """Wait for the end of the job, of its last attempt if it is retried, and return its record.

        Raises `JobTimeout` if it has not ended after `timeout` seconds, and with `check` `JobFailed` if it did not
        succeed.
        """
        from jobtop.lifecycle.queue import Queue
        from jobtop.lifecycle.wait import await_ends, is_over

        context = self._context
        jobs = self._jobs()
        with closing(jobs.database):
            queue, network = Queue(jobs, context.paths), context.config.switch("store.network")
            (job,) = await_ends(queue, [jobs.find(self.id)], network, warn, timeout)
            if not is_over(job):
                raise JobTimeout(f"job {self.id[:8]} has not ended after {timeout:g} s; it goes on")
            record = record_of(job)
        if check and not record.ok:
            raise JobFailed(record)
        return record

    def stop(self) -> JobRecord:
        """Stop the job: SIGTERM, and SIGKILL after its grace period; a queued job is cancelled. Return its record."""
        return self._end(by_force=False)

    def kill(self) -> JobRecord:
        """Kill the job with SIGKILL; a queued job is cancelled. Return its record."""
        return self._end(by_force=True)

    def _end(self, by_force: bool) -> JobRecord:
        from jobtop.core.run.scheduling import will_be_retried
        from jobtop.lifecycle.control import Control, Ending

        jobs = self._jobs()
        with closing(jobs.database):
            control = Control(jobs, self._context.paths, warn)
            job = control.find(self._latest(jobs).id)
            if will_be_retried(job.status, job.queue):
                control.queue.give_up(job.id, f"stopped by {BY}")
            elif control.refusal(job) is None:
                (control.kill if by_force else control.stop)(job, BY)
                Ending([control.find(job.id)], by_force).wait()
            return record_of(control.finished(job))

    def _jobs(self) -> Jobs:
        from jobtop.lifecycle.opening import open_jobs

        return open_jobs(self._context.paths, self._context.config, warn)

    def _latest(self, jobs: Jobs) -> Job:
        from jobtop.lifecycle.queue import Queue
        from jobtop.lifecycle.reconcile import current

        paths = self._context.paths
        return Queue(jobs, paths).last_attempt(current(jobs, paths, jobs.find(self.id)))
