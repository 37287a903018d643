"""`jobtop alerts try-action`: send a test message, to see whether an action works."""

import signal
import time
import uuid

import click

from jobtop.cli.app import App
from jobtop.cli.completion import CompletionApp
from jobtop.cli.text.tables import json_option, print_records
from jobtop.core.errors import ExitCode, JobtopError, UsageError
from jobtop.core.model import SCHEMA_VERSION
from jobtop.core.units import printable


def complete_action(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of configured actions that begin so; an empty list instead of an error."""
    app = CompletionApp(ctx)
    try:
        return [table.name for table in app.config.actions if table.name.startswith(incomplete)]
    except JobtopError:
        return []
    finally:
        app.close()


@click.command("try-action", short_help="Send a test message through an action.")
@click.argument("name", shell_complete=complete_action)
@json_option
@click.pass_obj
def try_action(app: App, name: str, as_json: bool) -> int:
    """Send a test message through an action, and say whether it was accepted. The exit code is 1 if it was not.

    NAME is the name of an [[action]] table, or a short form such as bell or webhook:https://example.org/hook.
    """
    from jobtop.core.alerts.action_tables import find_action
    from jobtop.core.alerts.actions.addresses import shown_word
    from jobtop.core.alerts.actions.delivery import DeliveryFailed
    from jobtop.core.alerts.actions.senders import send
    from jobtop.core.alerts.actions.trial import trial_message
    from jobtop.core.alerts.rule_set import load_rule_set
    from jobtop.core.alerts.secrets import Secrets
    from jobtop.core.state_files import make_state_dirs

    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a server that hangs up is an error to report
    found = load_rule_set(app.config)
    for problem in found.problems:
        if not problem.is_rule:
            app.warn(problem.text)
    action = find_action(name, found.actions, "the command line")
    if action is None:
        raise UsageError(f"{printable(name)} acts on a job; only actions that send messages can be tried")
    if action.type == "log":
        make_state_dirs(app.paths.names.root)
    message = trial_message(str(uuid.uuid4()), app.paths.host, time.time())
    shown = printable(shown_word(name))
    why: str | None = None
    try:
        if action.type == "bell":
            _ring()
        else:
            send(message, action, Secrets(app.environ), app.paths.names.log)
    except DeliveryFailed as error:
        why = error.reason
    if as_json:
        said = {"action": shown, "type": action.type, "is_sent": why is None, "problem": why}
        print_records("json", [{"schema_version": SCHEMA_VERSION, **said}], single=True)
    elif why is None:
        print(f"sent a test message to {shown}")
    else:
        app.warn(f"{shown}: not sent: {why}")
    return ExitCode.OK if why is None else ExitCode.BAD_ANSWER


def _ring() -> None:
    """Ring the bell; other than for an alert, it is a failure if there is no terminal."""
    from jobtop.core.alerts.actions.bell import ring
    from jobtop.core.alerts.actions.delivery import DeliveryFailed

    try:
        ring()
    except OSError:
        raise DeliveryFailed("there is no terminal to ring") from None
