"""The connection of a tracked process to its sampler: lines of JSON over a socket, in both directions.

Nothing here raises: if the sampler cannot be started or has exited, answers are None.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import threading
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Answer = dict[str, Any]

MODULE = "jobtop.lifecycle.tracking.sampler"
# The sampler must not be a child of this process, which would count it for its blocks: a shell starts it and exits.
SHELL, START = "/bin/sh", '"$@" <&3 3<&- &'
NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)  # a program may have set SIGPIPE to end it
SEND_SECONDS, EXIT_SECONDS = 1.0, 2.0
PART_BYTES = 65536


class SamplerClient:
    """A sampler process of this process; `problem` says why there is none."""

    def __init__(self, root: str) -> None:
        self.problem: str | None = None
        self.is_ready = False
        self._lock = threading.Lock()
        self._number = 0
        self._received = b""
        self._socket: socket.socket | None = None
        try:
            self._start(root)
        except (OSError, ValueError) as error:
            self._give_up(f"the sampler could not be started: {error}")

    def _start(self, root: str) -> None:
        if not sys.executable:
            raise ValueError("this Python does not know its own path")
        ours, theirs = socket.socketpair()
        with theirs:
            environment = {key: value for key, value in os.environ.items() if key != "JOBTOP_JOB_ID"}
            actions: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), 3)]
            actions += [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
            arguments = [SHELL, "-c", START, "sh", sys.executable, "-P", "-m", MODULE, root, str(os.getpid())]
            try:
                starter = os.posix_spawn(SHELL, arguments, environment, file_actions=actions, setsid=True)
            except BaseException:
                ours.close()
                raise
        with suppress(ChildProcessError):
            os.waitpid(starter, 0)
        self._socket = apart_from_standard_streams(ours)
        self._file = os.fstat(self._socket.fileno())

    def send(self, message: Answer) -> bool:
        """Send a message that needs no answer; False if the sampler is gone."""
        with self._lock:
            return self._send(message)

    def ask(self, message: Answer, seconds: float) -> Answer | None:
        """Send a message and wait for its answer; None if there is none in time."""
        deadline = time.monotonic() + seconds
        with self._lock:
            self._number += 1
            if not self._send(message | {"number": self._number}):
                return None
            while (line := self._line(deadline)) is not None:
                if line.get("number") == self._number:
                    return line
        return None

    def poll_ready(self, seconds: float = 0.0) -> bool:
        """Whether the sampler has started up."""
        with self._lock:
            deadline = time.monotonic() + seconds
            while not self.is_ready and self._line(deadline) is not None:
                pass
        return self.is_ready

    def close(self) -> None:
        """Let the sampler exit, and wait for that a moment, so that it does not outlive this process."""
        if self._socket is None or not self._is_ours():
            self.forget()
            return
        with suppress(OSError), self._lock:
            self._socket.shutdown(socket.SHUT_WR)
            deadline = time.monotonic() + EXIT_SECONDS
            while self._line(deadline) is not None:
                pass
        self.forget()

    def forget(self) -> None:
        """Close the connection; in a forked child it is that of the parent."""
        if self._socket is not None:
            if self._is_ours():
                self._socket.close()
            else:
                self._socket.detach()
            self._socket = None

    def _is_ours(self) -> bool:
        """Whether the descriptor is still that of the socket: a program may close all, and reuse their numbers."""
        try:
            return self._socket is not None and os.path.samestat(os.fstat(self._socket.fileno()), self._file)
        except OSError:
            return False

    def _send(self, message: Answer) -> bool:
        if self._socket is None:
            return False
        if not self._is_ours():
            self._give_up("the program closed the connection to the sampler")
            return False
        try:
            self._socket.settimeout(SEND_SECONDS)
            data = json.dumps(message).encode() + b"\n"
            while data:
                data = data[self._socket.send(data, NO_SIGNAL) :]
        except (OSError, ValueError) as error:
            self._give_up(f"the sampler does not answer: {error}")
            return False
        return True

    def _line(self, deadline: float) -> Answer | None:
        """The next line; None if there is none until then, or never."""
        while self._socket is not None and self._is_ours():
            line, newline, rest = self._received.partition(b"\n")
            if newline:
                self._received = rest
                found = json.loads(line)
                self.is_ready = self.is_ready or "ready" in found
                return found if isinstance(found, dict) else {}
            try:
                self._socket.settimeout(max(0.0001, deadline - time.monotonic()))
                part = self._socket.recv(PART_BYTES)
            except TimeoutError:
                return None
            except OSError as error:
                self._give_up(f"the sampler does not answer: {error}")
                return None
            if not part:
                self._give_up("the sampler has exited")
                return None
            self._received += part
        return None

    def _give_up(self, why: str) -> None:
        self.problem = self.problem or why
        self.forget()


def apart_from_standard_streams(link: socket.socket) -> socket.socket:
    """The socket with a number above those of the standard streams, which a program may have closed."""
    if link.fileno() > 2:
        return link
    with link:
        return socket.socket(fileno=fcntl.fcntl(link.fileno(), fcntl.F_DUPFD_CLOEXEC, 3))
