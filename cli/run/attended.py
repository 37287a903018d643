"""`jobtop run` at a terminal: the job runs by itself, as a detached one does, and the console shows it."""

from __future__ import annotations

import os
import shutil
import signal
import sys

from jobtop.cli.app import App
from jobtop.cli.run.launch import conclude, exit_code, say, tell
from jobtop.cli.verbs.console import console_options
from jobtop.cli.verbs.control import end
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


def run_attended(app: App, supervisor: Supervisor, request: Request, options: dict[str, Any]) -> int:
    """Start the job, show it until the user leaves, and say how it went; the exit code."""
    job, heard = start_and_stay(app.paths, app.config, replace(request, detached=True), app.warn, supervisor)
    if heard is None or "exec_error" in heard:
        conclude(app, job, options["record"], options["quiet"])
        return exit_code(job, heard)
    from jobtop.tui.app import Console
    from jobtop.tui.dialogs.leaving import STOP
    from jobtop.tui.opening import options_for_terminal, run_console

    code, wish = 0, None
    if not has_ended(app, job):
        console = Console(options_for_terminal(console_options(app, job_id=job.id, is_attended=True)))
        code = run_console(console)
        wish = STOP if code == 128 + signal.SIGTERM else console.answer
    elif not options["quiet"]:
        print_output(app, job)  # it was over before there was anything to see
    if wish == STOP:
        stop(app, job)
    elif not has_ended(app, job):
        say(job.id)
        return code
    done = Control(app.jobs(), app.paths, app.warn).finished(job)
    tell(app, done, options["record"], options["quiet"])
    return code or outcome.exit_code(done)


def has_ended(app: App, job: Job) -> bool:
    """Whether its supervisor has told its end."""
    return os.path.exists(app.paths.job(job.id) / "ended")


def stop(app: App, job: Job) -> None:
    """TERM and its grace; another Ctrl-C kills."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    app.warn(f"stopping job {job.id[:8]} (Ctrl-C kills it)")
    try:
        end(app, (job.id,), by_force=False)
    except KeyboardInterrupt:
        end(app, (job.id,), by_force=True)


def print_output(app: App, job: Job) -> None:
    """What it wrote, where it would have gone without the console."""
    for number, stream in enumerate((sys.stdout, sys.stderr)):
        try:
            with open(open_log(app.paths.job(job.id), number), "rb") as log:
                shutil.copyfileobj(log, stream.buffer)
                stream.flush()
        except OSError:
            continue
