"""Rings the bell of the terminal that this process belongs to."""

from __future__ import annotations

import os

from jobtop.core.alerts.actions.delivery import DeliveryFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.alerts.model import Action, Message
    from jobtop.core.alerts.secrets import Secrets

TERMINAL = "/dev/tty"
BELL = b"\a"


def send(_message: Message, _action: Action, _secrets: Secrets, _timeout: float) -> None:
    """Ring once; final if there is no terminal: a bell a day later is of no use."""
    try:
        terminal = os.open(TERMINAL, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        raise DeliveryFailed("the process that sends messages has no terminal to ring", is_final=True) from None
    try:
        os.write(terminal, BELL)
    except OSError as error:  # for example a terminal whose output is stopped
        raise DeliveryFailed(f"the terminal cannot be written: {os.strerror(error.errno or 0)}", True) from None
    finally:
        os.close(terminal)
