"""Follows a run of a workflow until its jobs have ended, and cancels it."""

from __future__ import annotations

import time
from contextlib import suppress

from jobtop.core.errors import JobtopError, StoreBusy, UnknownJob
from jobtop.core.model import Status
from jobtop.core.run.scheduling import will_be_retried
from jobtop.lifecycle.agent_lock import is_attended
from jobtop.lifecycle.control import Control, Ending
from jobtop.lifecycle.reconcile import reconcile
from jobtop.lifecycle.wait import CALLED_SECONDS, LOOK_SECONDS, Looks
from jobtop.store.workflows import Workflows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jobtop.core.model import Job
    from jobtop.core.workflow.progress import RunJob
    from jobtop.lifecycle.queue import Queue

POLL_SECONDS = 0.2
CANCEL_ROUNDS = 5


def followed(
    queue: Queue,
    workflow_id: int,
    run_id: int,
    warn: Callable[[str], None],
    network: bool | None = None,
    must_stop: Callable[[], bool] = lambda: False,
) -> Iterator[list[RunJob]]:
    """Yield the jobs of a run each time that one has changed, until all have ended or it `must_stop`."""
    store, database = Workflows(queue.jobs.database), queue.jobs.database
    jobs = store.jobs(workflow_id, run_id)
    looks, seen, looked, begun = Looks(database.path, network), None, 0.0, time.monotonic()
    has_warned = False
    while not must_stop():
        with suppress(StoreBusy):  # tried again soon
            version, now = database.version_seen(), time.monotonic()
            if version != seen or now - looked > LOOK_SECONDS:
                if version == seen:  # the recorder of a job may have been killed
                    reconcile(queue.jobs, queue.paths)
                before, seen, looked = jobs, version, now
                jobs = store.with_states(jobs)
                if jobs != before:
                    yield jobs
                if is_over(queue, jobs):
                    return
                is_late = now - begun > CALLED_SECONDS
                if is_late and not has_warned and not is_attended(database, queue.paths):
                    has_warned = True
                    warn("no agent is running to start the jobs: jobtop agent start")
        looks.wait(POLL_SECONDS)


def is_over(queue: Queue, jobs: Sequence[RunJob]) -> bool:
    """Whether all jobs have ended, and none of them will be tried again."""
    return not any(job.is_live for job in jobs) and not any(_has_next_attempt(queue, job) for job in jobs)


def _has_next_attempt(queue: Queue, job: RunJob) -> bool:
    if job.status in (None, Status.SUCCESS, Status.CANCELLED) or job.is_kept:
        return False
    try:
        found = queue.jobs.find(job.id)
    except UnknownJob:
        return False
    return will_be_retried(found.status, found.queue) or (found.queue is not None and bool(found.queue.retried_by))


def cancel_run(control: Control, jobs: Sequence[RunJob], by: str) -> list[Job]:
    """Cancel the queued jobs of a run and stop the others; return those that could not be ended in time."""
    store = Workflows(control.jobs.database)
    why = f"the workflow was cancelled by {by}"
    left: list[Job] = []
    for _ in range(CANCEL_ROUNDS):
        with control.jobs.database.writing():
            for job in jobs:
                if job.status in (Status.QUEUED, Status.PAUSED) and job.start_time is None:
                    control.queue.cancel(job.id, why, by)
                elif not job.is_kept and job.status not in (None, Status.SUCCESS) and not job.is_live:
                    _give_up(control, job, why)
        jobs = store.with_states(jobs)
        left = _stop(control, [*(job.id for job in jobs if job.is_live), *_recoveries(control, jobs)], by)
        jobs = store.with_states(jobs)
        if not any(job.is_live for job in jobs):
            break
    return left


def _give_up(control: Control, job: RunJob, why: str) -> None:
    """Do not try a failed job again."""
    with suppress(UnknownJob):
        found = control.jobs.find(job.id)
        if will_be_retried(found.status, found.queue):
            control.queue.give_up(found.id, why)


def _recoveries(control: Control, jobs: Sequence[RunJob]) -> list[str]:
    """The ids of recovery jobs that run before a retry: jobs that attempts wait for, and that the run does not have."""
    known = {job.id for job in jobs} | {job.first_id for job in jobs}
    found: dict[str, None] = {}
    for job in jobs:
        if job.attempt > 1:
            with suppress(UnknownJob):
                queued = control.jobs.find(job.id).queue
                found |= dict.fromkeys(() if queued is None else queued.after)
    return [job_id for job_id in found if job_id not in known]


def _stop(control: Control, ids: Sequence[str], by: str) -> list[Job]:
    """Stop jobs that run, and wait for their ends; those that are left."""
    stopped = []
    for job_id in ids:
        try:
            job = control.find(job_id)
            if control.refusal(job) is None:
                control.stop(job, by)
                stopped.append(control.find(job_id))
        except UnknownJob:
            continue
        except JobtopError as error:
            control.warn(str(error))
    left = Ending(stopped, by_force=False).wait()
    for job in stopped:
        control.finished(job)
    return left
