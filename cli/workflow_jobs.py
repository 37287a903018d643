"""Finds the jobs of a workflow that a word of the command line means."""

from __future__ import annotations

from jobtop.cli.app import App
from jobtop.core.errors import UnknownJob
from jobtop.core.model import Job
from jobtop.core.workflow.plan import JOB
from jobtop.core.workflow.progress import RunJob
from jobtop.store.jobs import Jobs
from jobtop.store.workflows import RunRow, WorkflowRow, Workflows

Found = tuple[Workflows, WorkflowRow, RunRow, list[RunJob]]


def find_run(app: App, reference: str, run_id: int | None) -> Found:
    """A workflow of this host's store, one run of it, and the jobs of that run as they are now."""
    workflows = Workflows(app.jobs().database)
    workflow = workflows.find(reference)
    run = workflows.run(workflow, run_id)
    return workflows, workflow, run, workflows.with_states(workflows.jobs(workflow.id, run.run_id))


def jobs_of(app: App, found: Found) -> list[tuple[Jobs, Job]]:
    """The last attempts at the jobs of a run that has started, with their store; deleted ones are left out."""
    jobs, chosen = app.jobs(), []
    for each in found[3]:
        if each.role != JOB or each.status is None or each.start_time is None:
            continue
        try:
            chosen.append((jobs, jobs.find(each.id)))
        except UnknownJob:
            continue
    return chosen


def named_run(app: App, words: tuple[str, ...], run_id: int | None) -> Found | None:
    """A run of the workflow that the only word means; None if it means no workflow."""
    if len(words) != 1 or app.stores or not app.has_store() or not Workflows(app.jobs().database).has(words[0]):
        return None
    return find_run(app, words[0], run_id)


def workflow_jobs(app: App, words: tuple[str, ...], run_id: int | None) -> tuple[int, list[tuple[Jobs, Job]]] | None:
    """The number of the workflow that a word means, and the jobs of one of its runs; None if it means no workflow."""
    found = named_run(app, words, run_id)
    return None if found is None else (found[1].id, jobs_of(app, found))


def run_title(workflow: WorkflowRow, run: RunRow) -> str:
    """What reports call a run."""
    return f"{workflow.name}, workflow {workflow.id}, run {run.run_id}"
