"""Operations on runs of workflows: cancel, and run again. They run in threads, so that keys never wait for a store."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jobtop.core.errors import UsageError
from jobtop.core.record import record
from jobtop.core.units import number_of, printable
from jobtop.core.workflow.hosting import impossible_requests
from jobtop.core.workflow.progress import RunJob, summarize
from jobtop.core.workflow.reading import load
from jobtop.lifecycle.control import Control
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.workflows.running import cancel_run
from jobtop.lifecycle.workflows.submission import Submission, settings_of
from jobtop.store.workflows import WorkflowRow, Workflows
from jobtop.tui.data.operations import REQUESTED_BY, open_queue

if TYPE_CHECKING:
    from jobtop.tui.app import Options

MOST_MISTAKES = 3


@record
class RunChange:
    """What became of a run: the number of the run that is shown now, a sentence, and warnings."""

    run_id: int
    words: str
    warnings: tuple[str, ...] = ()


def refusal(options: Options, store: Path, workflow: WorkflowRow) -> str | None:
    """The reason why a workflow cannot be changed from here; None if it can."""
    if options.own is None or options.own.store != store:
        return f"workflow {workflow.id} is in {store}, which this console only reads"
    if workflow.host != options.own.host:
        return f"workflow {workflow.id} belongs to {workflow.host}: act on it there"
    return None


def cancel(options: Options, workflow_id: int, run_id: int) -> RunChange:
    """Cancel a run: queued jobs are not started, running ones are stopped; waits for their ends."""
    warnings: list[str] = []
    assert options.own is not None
    with open_queue(options.own, warnings) as queue:
        workflows = Workflows(queue.jobs.database)
        jobs = workflows.with_states(workflows.jobs(workflow_id, run_id))
        live = [job for job in jobs if job.is_live or job.will_retry]
        if not live:
            return RunChange(run_id, f"run {run_id} has ended already: {summarize(jobs, time.time()).status}")
        left = cancel_run(Control(queue.jobs, queue.paths, warnings.append), jobs, REQUESTED_BY)
    warnings += [f"{job.name} has processes that cannot be ended" for job in left]
    words = f"cancelled run {run_id} of workflow {workflow_id}: {number_of(len(live), 'job')}"
    return RunChange(run_id, words, tuple(warnings))


def to_retry(options: Options, workflow_id: int) -> list[str]:
    """The names of the jobs that a retry would run; raises UsageError if there can be no retry."""
    warnings: list[str] = []
    assert options.own is not None
    with open_queue(options.own, warnings) as queue:
        _, submission, earlier = _submission(queue, workflow_id)
        again = submission.to_run_again(workflow_id, earlier)
        return [plan.name for plan in submission.plans if plan.name in again and plan.job is not None]


def retry(options: Options, workflow_id: int) -> RunChange:
    """Queue what the last run of a workflow has not done as its next run."""
    warnings: list[str] = []
    assert options.own is not None
    with open_queue(options.own, warnings) as queue:
        workflow, submission, earlier = _submission(queue, workflow_id)
        started = submission.start_again(workflow, earlier, os.environ, ())
    count = sum(not job.is_kept for job in started.jobs)
    words = f"queued {number_of(count, 'job')} as run {started.run_id} of workflow {workflow_id}"
    return RunChange(started.run_id, words, tuple(warnings))


def _submission(queue: Queue, workflow_id: int) -> tuple[WorkflowRow, Submission, Sequence[RunJob]]:
    workflows = Workflows(queue.jobs.database)
    workflow = workflows.find(str(workflow_id))
    last = workflows.run(workflow)
    earlier = workflows.with_states(workflows.jobs(workflow.id, last.run_id))
    if any(job.is_live or job.will_retry for job in earlier):
        raise UsageError(f"run {last.run_id} of workflow {workflow.id} has not ended yet")
    found = impossible_requests(load(workflow.file, workflow.cwd))
    if found.workflow is None:
        sentences = list(found.sentences())
        raise UsageError("\n".join(map(printable, sentences[:MOST_MISTAKES])))
    options = settings_of(last.settings, workflow.cwd)
    return workflow, Submission(queue, found.workflow, workflow.file, options), earlier
