"""The types of actions that tell people, and the one place that sends a message through one of them."""

from __future__ import annotations

from importlib import import_module

from jobtop.core.alerts.actions.delivery import DeliveryFailed
from jobtop.core.alerts.message_text import plain
from jobtop.core.alerts.secrets import SecretUnavailable
from jobtop.core.record import replace
from jobtop.core.units import parse_duration, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.alerts.model import Action, Message
    from jobtop.core.alerts.secrets import Secrets

PACKAGE = "jobtop.core.alerts.actions"
# The module of each type; imported when a message is sent: e-mail and HTTP cost 50 ms.
MODULES = {
    "webhook": "webhook",
    "slack": "webhook",
    "ntfy": "webhook",
    "mail": "mail",
    "command": "command",
    "desktop": "desktop",
    "log": "log",
    "bell": "bell",
}
TIMEOUT_SECONDS = 10.0
LONGEST_TIMEOUT_SECONDS = 120.0


def send(message: Message, action: Action, secrets: Secrets, log: str) -> None:
    """Send a message through an action; DeliveryFailed says why not, without any secret."""
    if action.type not in MODULES:
        raise DeliveryFailed(f'"{printable(action.type)}" is not a type of action', is_final=True)
    if action.type == "log":
        action = replace(action, fields={"path": log, **action.fields})
    sender = import_module(f"{PACKAGE}.{MODULES[action.type]}")
    try:
        sender.send(plain(message), action, secrets, timeout_of(action))
    except SecretUnavailable as error:
        raise DeliveryFailed(str(error)) from None
    except DeliveryFailed as error:
        raise DeliveryFailed(secrets.hide(error.reason), error.is_final, error.wait_seconds) from None


def timeout_of(action: Action) -> float:
    """The seconds that one try may take."""
    given = action.fields.get("timeout")
    if given is None:
        return TIMEOUT_SECONDS
    seconds = float(given) if isinstance(given, int | float) else parse_duration(str(given))
    return min(max(seconds, 0.1), LONGEST_TIMEOUT_SECONDS)
