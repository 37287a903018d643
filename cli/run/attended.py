"""`jobtop run` at a terminal: the job runs detached, and the console shows it."""

from __future__ import annotations

import os
import signal

from jobtop.cli.app import App
from jobtop.cli.failure import print_error
from jobtop.cli.run.last_output import copy_output, print_last_output
from jobtop.cli.run.launch import exit_code, failing_on, print_outcome, report_outcome
from jobtop.cli.verbs.console import console_options
from jobtop.cli.verbs.control import end_job
from jobtop.core.errors import ExitCode
from jobtop.core.record import replace
from jobtop.core.run import outcome
from jobtop.core.run.foreground import terminal_descriptors
from jobtop.core.units import printable
from jobtop.lifecycle.control import Control
from jobtop.lifecycle.start import start_and_stay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from jobtop.core.model import Job
    from jobtop.core.run.request import Request
    from jobtop.core.run.supervisor import Supervisor


def run_in_console(app: App, supervisor: Supervisor, request: Request, options: dict[str, Any]) -> int:
    """Start the job, show it until the user leaves, print its outcome; return the exit code."""
    if supervisor.terminal is not None:
        supervisor.terminal.replaced = terminal_descriptors()
    supervisor.copied = tuple(fd for fd in (1, 2) if not os.isatty(fd))
    job, shim_report = start_and_stay(app.paths, app.config, replace(request, detached=True), app.warn, supervisor)
    if shim_report is None or "exec_error" in shim_report:
        report_outcome(app, job, options["record"], options["quiet"])
        return exit_code(job, shim_report)
    from jobtop.tui.app import Console
    from jobtop.tui.dialogs.leaving import STOP
    from jobtop.tui.opening import options_for_terminal, run_console

    code = 0
    if has_ended(app, job):  # before the console could open
        copy_output(app, job)
    else:
        when_done = app.config.text("run.when_done")
        console = Console(
            options_for_terminal(console_options(app, job_id=job.id, is_attended=True, when_done=when_done))
        )
        code = run_console(console)
        is_stop_wanted = console.answer == STOP or code == 128 + signal.SIGTERM
        if is_stop_wanted and not has_ended(app, job):
            stop_job(app, job)
        if not has_ended(app, job):
            print_detached(job)
            return code or ExitCode.NOT_FINISHED
        print_last_output(app, job)
    ended_job = Control(app.jobs(), app.paths, app.warn).finished(job)
    print_outcome(app, ended_job, options["record"], options["quiet"])
    return failing_on(app, ended_job, code or outcome.exit_code(ended_job), options)


def print_detached(job: Job) -> None:
    """Print that the job keeps running, and the commands that show it again."""
    short = job.id[:8]
    print_error(f"jobtop: {printable(job.name)} keeps running as job {short}")
    print_error(f"  see it again: jobtop show {short} or jobtop logs -f {short}")


def has_ended(app: App, job: Job) -> bool:
    """Return whether the job's shim has written its end."""
    return os.path.exists(app.paths.job(job.id) / "ended")


def stop_job(app: App, job: Job) -> None:
    """Stop the job with SIGTERM and its grace period; a second Ctrl-C kills it."""
    from jobtop.tui.data.operations import REQUESTED_BY

    signal.signal(signal.SIGINT, signal.default_int_handler)
    app.warn(f"stopping job {job.id[:8]} (Ctrl-C kills it)")
    try:
        end_job(app, job.id, False, REQUESTED_BY)
    except KeyboardInterrupt:
        end_job(app, job.id, True, REQUESTED_BY)
