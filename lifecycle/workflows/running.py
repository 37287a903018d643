"""Follows a run of a workflow until its jobs have ended, and cancels it."""

from __future__ import annotations

import time
from contextlib import suppress

from jobtop.core.errors import JobtopError, StartError, StoreBusy, UnknownJob
from jobtop.core.model import Status
from jobtop.core.run.scheduling import will_be_retried
from jobtop.lifecycle.agent_lock import is_attended
from jobtop.lifecycle.control import Control, Ending
from jobtop.lifecycle.reconcile import reconcile
from jobtop.lifecycle.wait import LOOK_SECONDS, Looks
from jobtop.store.workflow_states import RunStates
from jobtop.store.workflows import Workflows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jobtop.core.model import Job
    from jobtop.core.workflow.progress import RunJob
    from jobtop.lifecycle.queue import Queue

POLL_SECONDS = 0.2
AGENT_SECONDS = 10.0  # a killed agent is replaced sooner
NO_AGENT = "no agent runs the jobs, which stay queued: jobtop agent start says why, or starts one"
CANCEL_ROUNDS = 5


def followed(
    queue: Queue,
    workflow_id: int,
    run_id: int,
    network: bool | None = None,
    must_stop: Callable[[], bool] = lambda: False,
) -> Iterator[list[RunJob]]:
    """Yield the jobs of a run each time that one has changed, until all have ended or it `must_stop`.

    Raises StartError if there is no agent to run them.
    """
    database, states, key = queue.jobs.database, RunStates(), (workflow_id, run_id)
    looks, seen, looked, attended = Looks(database.path, network), None, 0.0, time.monotonic()
    while not must_stop():
        with suppress(StoreBusy):  # tried again soon
            version, now = database.version_seen(), time.monotonic()
            if version != seen or now - looked > LOOK_SECONDS:
                if version == seen:  # the recorder of a job may have been killed
                    reconcile(queue.jobs, queue.paths)
                seen, looked = version, now
                if states.read(database, [key]):
                    yield list(states.jobs[key])
                if is_over(states.jobs[key]):
                    return
                if is_attended(database, queue.paths):
                    attended = now
                elif now - attended > AGENT_SECONDS:
                    raise StartError(f"{NO_AGENT}; then jobtop workflow retry {workflow_id} waits for the end")
        looks.wait(POLL_SECONDS)


def is_over(jobs: Sequence[RunJob]) -> bool:
    """Whether all jobs have ended, and none of them will be tried again."""
    return not any(job.is_live or job.will_retry for job in jobs)


def cancel_run(
    control: Control, jobs: Sequence[RunJob], by: str, must_kill: Callable[[], bool] = lambda: False
) -> list[Job]:
    """Cancel the queued jobs of a run and stop the others; return those that could not be ended in time.

    Once it `must_kill`, jobs get no more time to end by themselves.
    """
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
        running = [*(job.id for job in jobs if job.is_live), *_recoveries(control, jobs)]
        left = _stop(control, running, by, must_kill)
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


def _stop(control: Control, ids: Sequence[str], by: str, must_kill: Callable[[], bool]) -> list[Job]:
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
    ending = Ending(stopped, by_force=False)
    while (left := ending.left()) and not ending.is_late:
        if must_kill() and not ending.by_force:
            ending = Ending(left, by_force=True)
        time.sleep(POLL_SECONDS / 4)
    for job in stopped:
        control.finished(job)
    return left
