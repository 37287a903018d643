"""`jobtop workflow run`, `submit` and `retry`: queue the jobs of a workflow; `run` and `retry` wait for their ends."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.run.launch import wants_console
from jobtop.cli.run.submission import call_agent, open_queue
from jobtop.cli.text.tables import format_options, print_records
from jobtop.cli.text.workflow_lines import closing_lines, end_line, heading, job_table, run_json
from jobtop.cli.values import Count
from jobtop.core.errors import ExitCode, UsageError
from jobtop.core.model import SCHEMA_VERSION, Status
from jobtop.core.text.workflow_graph import plan_lines
from jobtop.core.units import number_of, printable
from jobtop.core.workflow.hosting import ACCEPTED, impossible_requests
from jobtop.core.workflow.model import Workflow
from jobtop.core.workflow.plan import JOB, PlannedJob
from jobtop.core.workflow.progress import RunJob, summarize
from jobtop.core.workflow.reading import load
from jobtop.lifecycle.control import Control
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.workflows.running import cancel_run, followed
from jobtop.lifecycle.workflows.submission import RunOptions, StartedRun, Submission, settings_of
from jobtop.store.workflows import LAST, RunRow, WorkflowRow, Workflows

NO_JOB_OPTIONS: dict[str, Any] = {"pty": False, "report": None}  # of `jobtop run`
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OUTPUT_DIR = click.option(
    "-o", "--output-dir", default="output", metavar="DIR", show_default=True, help="Where files of the run are written."
)
PARALLEL = click.option(
    "-j", "--jobs", "parallel", type=Count(1, 1_000_000), metavar="N", help="Run at most N of its jobs at once."
)
DRY_RUN = click.option("--dry-run", is_flag=True, help="Print the jobs in the order of their stages, and run nothing.")
NO_UI = click.option("--no-ui", is_flag=True, help="Print a line for each job that ends; do not open the console.")
REFERENCE = click.argument("reference", metavar="[WORKFLOW]", default=LAST)


@click.command()
@click.argument("file", metavar="FILE")
@PARALLEL
@OUTPUT_DIR
@DRY_RUN
@NO_UI
@format_options
@click.pass_obj
def run(app: App, file: str, parallel: int | None, output_dir: str, dry_run: bool, no_ui: bool, style: str) -> int:
    """Run the jobs of a workflow file, and wait for them; the exit code is 1 if one did not succeed.

    The agent runs them: each starts when what it depends on has succeeded and the host has room for it. Ctrl-C cancels
    the run; it goes on if this command is killed or the terminal is closed. On a terminal the console opens on the run;
    the exit code is 75 if you leave it before the end of the run, which then goes on.
    """
    queue, started = queue_file(app, file, RunOptions(os.getcwd(), output_dir, parallel), dry_run, style)
    if started is None:
        return ExitCode.OK
    return watch(app, queue, started.workflow_id, started.run_id, style, no_ui)


@click.command()
@click.argument("file", metavar="FILE")
@PARALLEL
@OUTPUT_DIR
@DRY_RUN
@format_options
@click.pass_obj
def submit(app: App, file: str, parallel: int | None, output_dir: str, dry_run: bool, style: str) -> int:
    """Queue the jobs of a workflow file, print the number of the workflow, and return."""
    _, started = queue_file(app, file, RunOptions(os.getcwd(), output_dir, parallel), dry_run, style)
    if started is not None and style == "table":
        print(started.workflow_id)
    elif started is not None:
        shape = {"workflow_id": started.workflow_id, "run_id": started.run_id, "jobs": len(started.jobs)}
        print_records(style, [{"schema_version": SCHEMA_VERSION} | shape], single=True)
    return ExitCode.OK


@click.command()
@REFERENCE
@click.option("--file", help="Read this file instead of the one that was run.")
@click.option("--detach", is_flag=True, help="Queue the jobs, and do not wait for them.")
@DRY_RUN
@NO_UI
@format_options
@click.pass_obj
def retry(app: App, reference: str, file: str | None, detach: bool, dry_run: bool, no_ui: bool, style: str) -> int:
    """Run again what failed, was cancelled or has changed, and all that comes after it, as the next run of a workflow.

    A job has changed if its command, its environment, or a file that it reads and no job writes is different, or if a
    file that it writes is gone. A run that still goes on is waited for instead.
    """
    queue = open_queue(app)
    workflows = Workflows(queue.jobs.database)
    workflow = workflows.find(reference)
    refuse_elsewhere(app, workflow)
    last = workflows.run(workflow)
    earlier = workflows.with_states(workflows.jobs(workflow.id, last.run_id))
    if any(job.is_live for job in earlier):
        app.warn(f"run {last.run_id} of workflow {workflow.id} has not ended yet; nothing is queued again")
        call_agent(app, queue)
        return ExitCode.OK if detach or dry_run else watch(app, queue, workflow.id, last.run_id, style, no_ui)
    options = settings_of(last.settings, workflow.cwd)
    if file is None and not os.path.exists(workflow.file):
        raise UsageError(f"{printable(workflow.file)}: there is no such file any more (--file names another)")
    again = Submission(queue, checked(app, file or workflow.file, workflow.cwd), file or workflow.file, options)
    names = again.to_run_again(workflow.id, earlier)
    if dry_run:
        print_plan([plan for plan in again.plans if plan.name in names], style)
        return ExitCode.OK
    if not any(plan.job is not None for plan in again.plans if plan.name in names):
        print(f"workflow {workflow.id} has nothing to run again: all jobs have succeeded, and none has changed")
        return ExitCode.OK
    started = again.start_again(workflow, earlier, app.environ, app.sets)
    call_agent(app, queue)
    if detach:
        print(f"{started.workflow_id}.{started.run_id}")
        return ExitCode.OK
    return watch(app, queue, started.workflow_id, started.run_id, style, no_ui)


def print_plan(plans: Sequence[PlannedJob], style: str) -> None:
    """Print the jobs that would be queued; in stages as a table."""
    if style == "table":
        print("\n".join(plan_lines(plans)) or "nothing has to run again")
        return
    keys = ("name", "role", "command", "after", "after_end")
    print_records(style, [{key: getattr(plan, key) for key in keys} for plan in plans])


def queue_file(app: App, file: str, options: RunOptions, dry_run: bool, style: str) -> tuple[Queue, StartedRun | None]:
    """Queue the jobs of a file and call the agent; with `dry_run` only print what would be queued."""
    workflow = checked(app, file, options.cwd)
    queue = open_queue(app)
    submission = Submission(queue, workflow, file, options)
    if dry_run:
        print_plan(submission.plans, style)
        return queue, None
    started = submission.start(app.environ, app.sets)
    call_agent(app, queue)
    return queue, started


def checked(app: App, file: str, cwd: str) -> Workflow:
    """The workflow of a file; UsageError names all mistakes."""
    found = impossible_requests(load(file, cwd))
    if found.workflow is None:
        *first, last = (sentence.removesuffix(f" {ACCEPTED}") for sentence in found.sentences())
        for sentence in first:
            print(sentence, file=sys.stderr)
        raise UsageError(last)
    for warning in found.workflow.warnings:
        app.warn(f"{printable(file)}: {warning}")
    return found.workflow


def refuse_elsewhere(app: App, workflow: WorkflowRow) -> None:
    """UsageError if a workflow runs on another host."""
    if workflow.host != app.paths.host:
        raise UsageError(f"workflow {workflow.id} belongs to {printable(workflow.host)}: act on it there")


class Signals:
    """Notes the signals that ask this command to end; its jobs belong to the agent."""

    def __init__(self) -> None:
        self.caught: int | None = None
        self.count = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        for number in HANDLED:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.caught, self.count = number, self.count + 1


def watch(app: App, queue: Queue, workflow_id: int, run_id: int, style: str, no_ui: bool) -> int:
    """Show a run in the console if a user can see it, else as lines, until it has ended; return the exit code."""
    if style == "table" and os.isatty(0) and os.isatty(1) and wants_console(app, {"no_ui": no_ui} | NO_JOB_OPTIONS):
        from jobtop.cli.verbs.workflow.attended import show_run

        return show_run(app, queue, workflow_id, run_id)
    return follow(app, queue, workflow_id, run_id, style)


def follow(app: App, queue: Queue, workflow_id: int, run_id: int, style: str) -> int:
    """Print a line for each job that ends, until all have; Ctrl-C and TERM cancel the run, HUP leaves it to the agent.

    Returns 1 if a job did not succeed, and 128 + N after signal N.
    """
    workflows = Workflows(queue.jobs.database)
    workflow = workflows.find(str(workflow_id))
    run = workflows.run(workflow, run_id)
    jobs: list[RunJob] = workflows.with_states(workflows.jobs(workflow_id, run_id))
    lines = Lines(jobs, is_quiet=style != "table")
    lines.begin(f"{printable(workflow.name)}, workflow {workflow_id}, run {run_id}: {number_of(lines.total, 'job')}")
    network = app.config.switch("store.network")
    with Signals() as signals:
        for jobs in followed(queue, workflow_id, run_id, network, lambda: signals.caught is not None):
            lines.update(jobs)
        lines.end()
        caught = signals.caught
        if caught == signal.SIGHUP:
            app.warn(f"workflow {workflow_id} goes on: jobtop workflow status {workflow_id}")
            return 128 + caught
        if caught is not None:
            app.warn(f"run {run_id} of workflow {workflow_id} is cancelled (Ctrl-C once more kills its jobs)")
            name = signal.Signals(caught).name
            control, by = Control(queue.jobs, queue.paths, app.warn), f"{name} to jobtop workflow run"
            cancel_run(control, jobs, by, lambda: signals.count > 1)
            jobs = workflows.with_states(jobs)
            lines.update(jobs)
    if style == "table":
        code = print_end(workflow, run, jobs)
    else:
        print_records(style, [run_json(workflow, run, jobs)], single=True)
        code = end_code(jobs)
    return code if caught is None else 128 + caught


def print_end(workflow: WorkflowRow, run: RunRow, jobs: Sequence[RunJob]) -> int:
    """Print the jobs of a run and how it ended; return the exit code."""
    print(job_table(jobs, time.time()))
    summary = summarize(jobs, time.time())
    print("\n".join(("", heading(workflow, run, summary), *closing_lines(summary))))
    return end_code(jobs)


def end_code(jobs: Sequence[RunJob]) -> int:
    is_good = summarize(jobs, time.time()).status is Status.SUCCESS
    return ExitCode.OK if is_good else ExitCode.BAD_ANSWER


class Lines:
    """Prints a line on standard error for each job that has ended; on a terminal, a progress bar below them."""

    def __init__(self, jobs: Sequence[RunJob], is_quiet: bool, now: Callable[[], float] = time.time) -> None:
        self.total = sum(job.role == JOB for job in jobs)
        self.is_quiet, self.now = is_quiet, now
        self.has_bar = not is_quiet and os.isatty(2)
        self.printed = {job.id for job in jobs if job.is_kept}
        self.kept = sum(job.is_kept and job.role == JOB for job in jobs)

    def begin(self, text: str) -> None:
        self._print(f"{text}, {self.kept} of them kept from an earlier run" if self.kept else text)

    def update(self, jobs: Sequence[RunJob]) -> None:
        ended = [job for job in jobs if job.status is not None and not job.is_live and job.id not in self.printed]
        for job in sorted(ended, key=lambda job: job.end_time or 0.0):
            self.printed.add(job.id)
            if job.role == JOB:
                own = sum(each.role == JOB and each.id in self.printed for each in jobs)
                self._print(end_line(job, own, self.total, self.now()))
        self._bar(jobs)

    def end(self) -> None:
        if self.has_bar:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _print(self, text: str) -> None:
        if not self.is_quiet:
            print(f"\r\x1b[K{text}" if self.has_bar else text, file=sys.stderr, flush=True)

    def _bar(self, jobs: Sequence[RunJob]) -> None:
        if not self.has_bar:
            return
        own = [job for job in jobs if job.role == JOB]
        done, running = sum(not job.is_live for job in own), sum(job.status is Status.RUNNING for job in own)
        cells = 30 * done // max(1, len(own))
        bar = "━" * cells + "─" * (30 - cells)
        print(f"\r\x1b[K{bar} {done}/{len(own)}, {running} running", end="", file=sys.stderr, flush=True)
