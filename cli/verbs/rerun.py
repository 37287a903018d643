"""`jobtop rerun ID`: runs the command of an earlier job again, as `jobtop run` would."""

import signal
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.completion import complete_job_id
from jobtop.cli.run.launch import run as launch
from jobtop.cli.run.options import RUN, unset_value
from jobtop.cli.verbs.run import click_option
from jobtop.store.references import FORMS_HELP

NOT_FOR_RERUN = ("--like", "--shell")


@click.pass_obj
def callback(app: App, /, reference: str, arguments: tuple[str, ...], **options: Any) -> int:
    """Run the command of an earlier job again: same directory, environment, name, parameters, tags and limits.

    Options replace what they name. --param lr=0.2 also changes the argument, where the command has --lr 0.1, --lr=0.1
    or lr=0.1. Arguments after -- replace all arguments of the program or script.

    \b
    jobtop rerun last
    jobtop rerun train --param lr=0.2
    jobtop rerun 3f8a -- --lr 0.2 --epochs 3
    """
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # the job is recorded even if the reader of our output goes away
    unset = {option.key: unset_value(option) for option in RUN}
    return launch(app, arguments, unset | options | {"like": reference, "keeps_program": True})


rerun = click.Command(
    "rerun",
    callback=callback,
    help=callback.__doc__,
    epilog=FORMS_HELP,
    params=[
        *(click_option(option) for option in RUN if option.name not in NOT_FOR_RERUN),
        click.Argument(["reference"], metavar="ID", shell_complete=complete_job_id),
        click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENT…]"),
    ],
)
