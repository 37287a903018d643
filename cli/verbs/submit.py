"""`jobtop submit` as a click command: for its help, its completion and its error messages."""

import signal
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.completion import complete_job_id
from jobtop.cli.run.options import Option
from jobtop.cli.run.submission import SUBMIT
from jobtop.cli.run.submission import submit as enqueue
from jobtop.cli.verbs.run import click_option, job_command


@click.pass_obj
def callback(app: App, /, command: tuple[str, ...], **options: Any) -> int:
    """Queue COMMAND, print its id, and return; it starts when the host has room for it.

    A job needs the CPUs, memory and GPUs that it declares (--cpus, --memory, --gpus); one that declares nothing needs
    one CPU. Jobs with higher priority start first, then older ones. It runs in this directory and environment, without
    input, and outlives the terminal. jobtop queue lists what waits, and why.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # the job is queued even if the reader of our output goes away
    return enqueue(app, command, options)


def submit_option(option: Option) -> click.Option:
    """Return the click option for a row of the table; --after completes job ids."""
    if option.name != "--after":
        return click_option(option)
    return click.Option([option.name], multiple=True, metavar="ID", help=option.help, shell_complete=complete_job_id)


submit = job_command("submit", callback, map(submit_option, SUBMIT))
