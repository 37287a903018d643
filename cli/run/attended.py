"""`jobtop run` at a terminal: the job runs detached, and the console shows it."""

from __future__ import annotations

import os
import shutil
import signal
import sys

from jobtop.cli.app import App
from jobtop.cli.run.launch import exit_code, print_job_id, print_outcome, report_outcome
from jobtop.cli.verbs.console import console_options
from jobtop.cli.verbs.control import end_jobs
from jobtop.core.record import replace
from jobtop.core.run import outcome
from jobtop.lifecycle.control import Control
from jobtop.lifecycle.start import start_and_stay
from jobtop.store.output.logs import open_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from jobtop.core.model import Job
    from jobtop.core.run.request import Request
    from jobtop.core.run.supervisor import Supervisor


def run_in_console(app: App, supervisor: Supervisor, request: Request, options: dict[str, Any]) -> int:
    """Start the job, show it until the user leaves, print its outcome; return the exit code."""
    job, shim_report = start_and_stay(app.paths, app.config, replace(request, detached=True), app.warn, supervisor)
    if shim_report is None or "exec_error" in shim_report:
        report_outcome(app, job, options["record"], options["quiet"])
        return exit_code(job, shim_report)
    from jobtop.tui.app import Console
    from jobtop.tui.dialogs.leaving import STOP
    from jobtop.tui.opening import options_for_terminal, run_console

    code, choice = 0, None
    if not has_ended(app, job):
        console = Console(options_for_terminal(console_options(app, job_id=job.id, is_attended=True)))
        code = run_console(console)
        choice = STOP if code == 128 + signal.SIGTERM else console.answer
    elif not options["quiet"]:
        copy_output(app, job)  # the job ended before the console could open
    if choice == STOP:
        stop_job(app, job)
    elif not has_ended(app, job):
        print_job_id(job.id)
        return code
    ended_job = Control(app.jobs(), app.paths, app.warn).finished(job)
    print_outcome(app, ended_job, options["record"], options["quiet"])
    return code or outcome.exit_code(ended_job)


def has_ended(app: App, job: Job) -> bool:
    """Return whether the job's shim has written its end."""
    return os.path.exists(app.paths.job(job.id) / "ended")


def stop_job(app: App, job: Job) -> None:
    """Stop the job with SIGTERM and its grace period; a second Ctrl-C kills it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    app.warn(f"stopping job {job.id[:8]} (Ctrl-C kills it)")
    try:
        end_jobs(app, (job.id,), by_force=False)
    except KeyboardInterrupt:
        end_jobs(app, (job.id,), by_force=True)


def copy_output(app: App, job: Job) -> None:
    """Copy the job's logs to standard output and standard error, where they would have gone without the console."""
    for number, stream in enumerate((sys.stdout, sys.stderr)):
        try:
            with open(open_log(app.paths.job(job.id), number), "rb") as log:
                shutil.copyfileobj(log, stream.buffer)
                stream.flush()
        except OSError:
            continue
