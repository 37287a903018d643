"""Rings the bell of the terminal that this process belongs to."""

from __future__ import annotations

import os
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.alerts.model import Action, Message
    from jobtop.core.alerts.secrets import Secrets

TERMINAL = "/dev/tty"
BELL = b"\a"


def send(_message: Message, _action: Action, _secrets: Secrets, _timeout: float) -> None:
    """Ring once. Without a terminal there is nothing to ring, now or later, and that is no failure."""
    with suppress(OSError):  # also for a terminal with stopped output
        ring()


def ring() -> None:
    """Ring once; OSError if there is no terminal, or it takes nothing."""
    terminal = os.open(TERMINAL, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.write(terminal, BELL)
    finally:
        os.close(terminal)
