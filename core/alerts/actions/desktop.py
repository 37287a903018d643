"""Shows a message on the desktop, by notify-send."""

from __future__ import annotations

import shutil
from html import escape

from jobtop.core.alerts.actions.command import run_program
from jobtop.core.alerts.actions.delivery import DeliveryFailed
from jobtop.core.alerts.message_text import advice_text
from jobtop.core.alerts.model import Severity, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.alerts.model import Action, Message
    from jobtop.core.alerts.secrets import Secrets

PROGRAM = "notify-send"
URGENCIES = {Severity.INFO: "low", Severity.WARNING: "normal", Severity.CRITICAL: "critical"}


def send(message: Message, _action: Action, secrets: Secrets, timeout: float) -> None:
    """Show one message; final if there is no notify-send: on a desktop it is of no use a day later."""
    program = shutil.which(PROGRAM, path=secrets.environ.get("PATH"))
    if program is None:
        raise DeliveryFailed(f"{PROGRAM} is not installed here (Debian: libnotify-bin)", is_final=True)
    run_program(notification(program, message), secrets.environ, b"", timeout)


def notification(program: str, message: Message) -> list[str]:
    """The arguments of notify-send. Desktops show the body as markup, so it is escaped."""
    urgency = "low" if message.state is State.RESOLVED else URGENCIES[message.severity]
    body = "\n".join(filter(None, [message.text, message.consequence, advice_text(message)]))
    return [program, "--app-name=jobtop", f"--urgency={urgency}", "--", message.title, escape(body, quote=False)]
