"""`jobtop submit` as click knows it: for the help, the completion, and to say what is wrong."""

import signal
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.completion import job_ids
from jobtop.cli.run.options import Option
from jobtop.cli.run.submission import SUBMIT
from jobtop.cli.run.submission import submit as enqueue
from jobtop.cli.verbs.run import click_option, command_words


@click.pass_obj
def callback(app: App, /, command: tuple[str, ...], **options: Any) -> int:
    """Queue COMMAND, print its id, and return; it starts when its turn has come.

    That is when what it declares (--cpus, --memory, --gpus) is free on this host; without a word it counts as one CPU.
    Higher priority comes first, then age. It runs in this directory and environment, without input, and outlives the
    terminal. See jobtop queue for what waits, and why.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # whoever stops reading, the job has to get its turn
    return enqueue(app, command, options)


def with_ids(option: Option) -> click.Option:
    """An option for click; a shell completes the ids of --after."""
    if option.name != "--after":
        return click_option(option)
    return click.Option([option.name], multiple=True, metavar="ID", help=option.help, shell_complete=job_ids)


submit = click.Command(
    "submit",
    callback=callback,
    help=callback.__doc__,
    params=[*map(with_ids, SUBMIT), command_words],
    options_metavar="[OPTIONS] [--]",
    context_settings={"allow_interspersed_args": False},
)
