"""What all senders share: a failed delivery, a deadline for all that one message takes, and the fields of an action."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

from jobtop.core.errors import JobtopError
from jobtop.core.units import format_duration, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from types import TracebackType
    from typing import Self

    from jobtop.core.alerts.model import Action
    from jobtop.core.alerts.secrets import Secrets


class DeliveryFailed(JobtopError):  # noqa: N818 — as in core/errors.py
    """A message was not delivered. The text has no secret in it.

    With `is_final` this message will never be accepted, so that it must not hold back later ones. A server may say
    that the next try makes sense only after `wait_seconds`.
    """

    def __init__(self, reason: str, is_final: bool = False, wait_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.is_final, self.wait_seconds = reason, is_final, wait_seconds


class Deadline:
    """Ends connections after a total time: a server that sends one byte a second passes every other timeout."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True
        self.has_expired = False

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            for connection in self._sockets:
                connection.close()

    def left(self) -> float:
        """The seconds left; never 0, which means no time limit to a socket."""
        return max(0.001, self._end - time.monotonic())

    def watch(self, connection: socket.socket) -> None:
        """End this connection at the deadline; through a copy, since TLS takes the socket itself over."""
        with self._lock:
            self._sockets.append(connection.dup())
        if self.has_expired:
            self._expire()

    def words(self) -> str:
        """What to say when the time is over."""
        return f"no answer within {format_duration(self.seconds)}"

    def _expire(self) -> None:
        import socket

        self.has_expired = True
        with self._lock:
            for connection in self._sockets:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


def text_field(action: Action, name: str, secrets: Secrets, default: str | None = None) -> str:
    """A field of an action as text, with its secret in place; DeliveryFailed if it is missing."""
    value = action.fields.get(name)
    if value is None:
        value = default
    if value is None:
        raise DeliveryFailed(f'action "{printable(action.name)}" has no {name}')
    return secrets.value(str(value), os.path.dirname(action.origin) or "/")


def problem_text(error: BaseException, deadline: Deadline) -> str:
    """Why a connection failed. Texts of other exceptions are left out: they may quote an address."""
    if deadline.has_expired or isinstance(error, TimeoutError):
        return deadline.words()
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        return printable(error.strerror)
    if isinstance(error, ConnectionError):
        return "the server closed the connection"
    return f"the connection failed ({type(error).__name__})"
