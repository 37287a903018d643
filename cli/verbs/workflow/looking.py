"""`jobtop workflow status`, `show`, `list` and `cancel`: the runs of workflows."""

from __future__ import annotations

import time
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.text.tables import format_options, print_records, table
from jobtop.cli.text.workflow_lines import LIST_COLUMNS, closing_lines, heading, job_table, list_cells, run_json
from jobtop.cli.values import Count
from jobtop.cli.verbs.workflow.starting import REFERENCE, refuse_elsewhere
from jobtop.cli.workflow_jobs import find_run
from jobtop.core.errors import ExitCode
from jobtop.core.model import Status
from jobtop.core.units import number_of
from jobtop.core.workflow.progress import RunJob, summarize
from jobtop.lifecycle.control import Control
from jobtop.lifecycle.workflows.running import cancel_run
from jobtop.store.workflows import NO_WORKFLOW, RunRow, WorkflowRow, Workflows

RUN_ID = click.option("--run-id", type=Count(1, 1_000_000_000), metavar="N", help="This run, instead of the last one.")


@click.command()
@REFERENCE
@RUN_ID
@format_options
@click.pass_obj
def status(app: App, reference: str, run_id: int | None, style: str) -> int:
    """Say how far a run of a workflow is: its status, how many jobs have ended, and which failed or run now.

    WORKFLOW is its number, its name, or last. The exit code is 1 if a job of the run did not succeed.
    """
    _, workflow, run, jobs = find_run(app, reference, run_id)
    summary = summarize(jobs, time.time())
    if style != "table":
        print_records(style, [run_json(workflow, run, jobs, with_jobs=False)], single=True)
    else:
        print(heading(workflow, run, summary))
        print(f"jobs           {', '.join(f'{count} {name}' for name, count in sorted(summary.counts.items()))}")
        for line in closing_lines(summary):
            print(line)
        shown = [job for job in jobs if job.status not in (Status.SUCCESS, Status.QUEUED, Status.CANCELLED)]
        if shown:
            print(f"\n{job_table(shown, time.time())}")
    bad = summary.status in (Status.FAILED, Status.CANCELLED)
    return ExitCode.BAD_ANSWER if bad else ExitCode.OK


@click.command()
@REFERENCE
@RUN_ID
@format_options
@click.pass_obj
def show(app: App, reference: str, run_id: int | None, style: str) -> int:
    """List all jobs of a run of a workflow, with what each used.

    WORKFLOW is its number, its name, or last. JOB is the number of a job: jobtop show '#17' tells more of it.
    """
    _, workflow, run, jobs = find_run(app, reference, run_id)
    if style == "csv":
        print_records(style, run_json(workflow, run, jobs)["jobs"])
    elif style != "table":
        print_records(style, [run_json(workflow, run, jobs)], single=True)
    else:
        summary = summarize(jobs, time.time())
        print(f"{heading(workflow, run, summary)}\n\n{job_table(jobs, time.time())}")
        if lines := closing_lines(summary):
            print("\n".join(("", *lines)))
    return ExitCode.OK


@click.command("list")
@click.option("-n", "--limit", type=Count(1, 1_000_000), default=20, show_default=True, help="At most so many.")
@format_options
@click.pass_obj
def list_(app: App, limit: int, style: str) -> int:
    """List the workflows that were run, the newest first, each with its last run."""
    rows: list[tuple[WorkflowRow, RunRow, list[RunJob]]] = []
    if app.has_store():
        workflows = Workflows(app.jobs().database)
        for workflow in workflows.newest(limit):
            run = workflows.run(workflow)
            rows.append((workflow, run, workflows.with_states(workflows.jobs(workflow.id, run.run_id))))
    if style != "table":
        shapes: list[dict[str, Any]] = [run_json(*row, with_jobs=False) for row in rows]
        print_records(style, shapes)
    elif rows:
        now = time.time()
        print(table(LIST_COLUMNS, (list_cells(workflow, run, summarize(jobs, now)) for workflow, run, jobs in rows)))
    else:
        print(NO_WORKFLOW)
    return ExitCode.OK


@click.command()
@REFERENCE
@click.pass_obj
def cancel(app: App, reference: str) -> int:
    """Cancel the last run of a workflow: its queued jobs are not started, its running jobs are stopped."""
    workflows, workflow, run, jobs = find_run(app, reference, None)
    refuse_elsewhere(app, workflow)
    live = [job for job in jobs if job.is_live]
    if not live:
        print(f"run {run.run_id} of workflow {workflow.id} has ended already: {summarize(jobs, time.time()).status}")
        return ExitCode.OK
    left = cancel_run(Control(app.jobs(), app.paths, app.warn), jobs, "jobtop workflow cancel")
    now = workflows.with_states(jobs)
    ended = sum(not job.is_live for job in now if job.id in {each.id for each in live})
    print(f"cancelled run {run.run_id} of workflow {workflow.id}: {number_of(ended, 'job')} stopped or not started")
    return ExitCode.BAD_ANSWER if left else ExitCode.OK
