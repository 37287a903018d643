"""Copies the output of a container to the runner's own, and its input to the container; exact across lost connections.

Engines keep the whole output of a container: what was copied is counted, and after a lost connection the copy goes on
behind it.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from jobtop.core.errors import EngineError
from jobtop.core.measure.collectors.docker.client import STDERR, STDOUT, Frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Iterator

    from jobtop.core.measure.collectors.docker.client import Engine

READ_BYTES = 1 << 16


class Output:
    """The output of one container on its way to our standard output and standard error."""

    def __init__(self, is_tty: bool, on_broken: Callable[[], None]) -> None:
        self.is_tty, self._on_broken = is_tty, on_broken
        self.copied = {STDOUT: 0, STDERR: 0}
        self.is_broken = False  # a reader has gone, or the disk is full
        self.is_whole = True

    def copy(self, connection: socket.socket) -> None:
        """Copy what comes from an attached container until the engine ends the connection, or it is lost."""
        frames = Frames()
        with suppress(OSError):
            while data := connection.recv(READ_BYTES):
                for stream, piece in [(STDOUT, data)] if self.is_tty else frames.take(data):
                    self._write(stream, piece)

    def follow(self, engine: Engine, container_id: str, until_end: bool) -> None:
        """Copy what the engine has kept behind what was copied; with `until_end` also what comes later."""
        try:
            pieces = engine.logs(container_id, follow=until_end, is_tty=self.is_tty)
            for stream, piece in skipped(pieces, dict(self.copied)):
                self._write(stream, piece)
        except EngineError:
            self.is_whole = False

    def _write(self, stream: int, piece: bytes) -> None:
        self.copied[stream] += len(piece)
        if self.is_broken:
            return
        try:
            data = memoryview(piece)
            while data:
                data = data[os.write(stream, data) :]
        except OSError:
            self.is_broken, self.is_whole = True, False
            self._on_broken()


def skipped(pieces: Iterable[tuple[int, bytes]], counts: dict[int, int]) -> Iterator[tuple[int, bytes]]:
    """The pieces without the first bytes of each stream."""
    for stream, piece in pieces:
        left = counts.get(stream, 0)
        counts[stream] = max(0, left - len(piece))
        if len(piece) > left:
            yield stream, piece[left:]


def feed_input(connection: socket.socket, is_tty: bool, on_keys: Callable[[bytes], None]) -> None:
    """Start to pass our standard input to the container, in a thread; its end is passed on too.

    `on_keys` is called with what was typed at a terminal, after the container got it.
    """

    def feed() -> None:
        with suppress(OSError):
            while data := os.read(0, READ_BYTES):
                connection.sendall(data)
                if is_tty:
                    on_keys(data)
        if not is_tty:
            import socket

            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)

    threading.Thread(target=feed, name="jobtop-input", daemon=True).start()
