"""Writes a message to jobtop's own log, one line."""

from __future__ import annotations

import os

from jobtop.core import journal
from jobtop.core.alerts.actions.delivery import DeliveryFailed
from jobtop.core.alerts.model import Severity, State
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.alerts.model import Action, Message
    from jobtop.core.alerts.secrets import Secrets

LEVELS = {Severity.INFO: "INFO", Severity.WARNING: "WARNING", Severity.CRITICAL: "ERROR"}


def send(message: Message, action: Action, _secrets: Secrets, _timeout: float) -> None:
    """Write one message to the log that the action names in `path`."""
    path = action.fields.get("path")
    if not isinstance(path, str):
        raise DeliveryFailed("there is no log to write to", is_final=True)
    level = "INFO" if message.state is State.RESOLVED else LEVELS[message.severity]
    try:
        journal.write(path, level, printable(f"alert: {message.title}: {message.text}"))
    except OSError as error:
        raise DeliveryFailed(f"{printable(path)}: {os.strerror(error.errno or 0)}") from None
