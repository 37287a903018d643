"""`jobtop alerts send`: send the messages about alerts that wait, now."""

import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.text.alert_lines import message_json, sending_state
from jobtop.cli.text.tables import format_options, print_records
from jobtop.core.alerts.model import Action
from jobtop.core.errors import ExitCode
from jobtop.core.model import SCHEMA_VERSION
from jobtop.core.units import format_duration, number_of, printable
from jobtop.lifecycle.alerts.book import Book
from jobtop.lifecycle.alerts.messages import Messages, action_of, book_of
from jobtop.store.alerts.outbox import Outbox, Outgoing

SEND_SECONDS = 60.0  # nothing more is begun after this time
SENT, GIVEN_UP = "sent", "given_up"
NOT_CONFIGURED = "this action is not configured any more"
BEHIND = "an earlier message of this action has to be sent first"
BUSY = "there was no time left, or another process sends messages now"
NO_MESSAGE = dict.fromkeys(
    ("schema_version", "rule", "alerts", "id", "action", "state", "created_at", "sent_at", "given_up_at")
) | dict.fromkeys(("next_try_at", "tries", "problem"))


@click.command("send", short_help="Send the messages that wait, now.")
@format_options
@click.pass_obj
def send(app: App, style: str) -> int:
    """Send the messages about alerts that wait, and print which were sent.

    A message waits for its next try after a failure, for more alerts of its rule, or for the end of the quiet hours.
    This command tries each of them once. Its exit code is 1 if a message was not sent.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a server that hangs up is an error to report
    records = send_waiting(app) if app.has_store() else []
    if style == "table":
        for line in lines_of(records, time.time()):
            print(line)
    else:
        print_records(style, [shown_record(message, why) for message, why in records], empty=NO_MESSAGE)
    return ExitCode.OK if all(sending_state(message) == SENT for message, _ in records) else ExitCode.BAD_ANSWER


def send_waiting(app: App) -> list[tuple[Outgoing, str | None]]:
    """Try each message that waits; return all of them as they are then, each with why it was not sent."""
    outbox = Outbox(app.store_to_write())
    waiting = outbox.unsent()
    if not waiting:
        return []
    if sys.stderr.isatty():
        print(f"sending {number_of(len(waiting), 'message')} …", file=sys.stderr)
    messages = Messages(app.paths, app.config.switch("store.network"), book_of(app.config), heeds_quiet_hours=False)
    messages.close(SEND_SECONDS, tries_again=False)
    tried = [(before, message) for before in waiting if (message := outbox.find(before.id)) is not None]
    book, projects = Book(app.config), dict[str, Mapping[str, Action]]()
    found: list[tuple[Outgoing, str | None]] = []
    failed: set[tuple[str, str]] = set()
    for before, message in tried:
        key = message.action, message.origin
        why = message.problem
        if sending_state(message) == SENT:
            why = None
        elif message.tries == before.tries and sending_state(message) != GIVEN_UP:
            is_known = action_of(book, *key, projects) is not None
            why = NOT_CONFIGURED if not is_known else BEHIND if key in failed else BUSY
        if sending_state(message) not in (SENT, GIVEN_UP):
            failed.add(key)
        found.append((message, why))
    return found


def shown_record(message: Outgoing, why: str | None) -> dict[str, Any]:
    """A message as a record for programs, without what it says."""
    known = {"schema_version": SCHEMA_VERSION, "rule": message.rule, "alerts": list(message.members)}
    return known | message_json(message) | {"problem": why}


def lines_of(records: Sequence[tuple[Outgoing, str | None]], now: float) -> Iterator[str]:
    """A line for each message, and one that counts them."""
    if not records:
        yield "No messages wait."
        return
    for message, why in records:
        state = sending_state(message)
        what = f'rule "{printable(message.rule)}", {message.state}, to {printable(message.action)}'
        if state == SENT:
            yield f"sent: {what}"
            continue
        wait = message.due_at - now
        then = "given up" if state == GIVEN_UP else f"next try in {format_duration(wait)}" if wait > 0 else "it waits"
        yield f"not sent: {what}: {printable(why or 'no reason is known')}; {then}"
    sent = sum(sending_state(message) == SENT for message, _ in records)
    left = len(records) - sent
    yield f"{number_of(sent, 'message')} sent" + (f", {left} not sent" if left else "")
