"""Starts the process that reads one container beside a tracked block, and gets its answer; nothing here raises."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from contextlib import suppress

from jobtop.lifecycle.tracking.client import SHELL, START

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MODULE = "jobtop.core.track.container_process"
ANSWER_SECONDS = 5.0  # for its last reading; an engine that hangs gives none
INFO_SECONDS = 10.0
PART_BYTES = 65536
NO_ANSWER = "the container engine does not answer"


class ContainerWatch:
    """Reads a container from now on, in a process of its own; `close` ends it and returns what the container used."""

    def __init__(self, name: str, interval_seconds: float) -> None:
        self.problem: str | None = None
        self._socket: socket.socket | None = None
        try:
            self._socket = _start("watch", name, f"{interval_seconds:g}", str(os.getpid()))
        except (OSError, ValueError) as error:
            self.problem = str(error)

    def close(self) -> dict[str, Any]:
        """The container's part of a profile; empty, with a `problem`, if nothing was read."""
        connection, self._socket = self._socket, None
        if connection is None:
            return {}
        answer = _answer(connection, ANSWER_SECONDS)
        self.problem = answer.get("problem")
        stats = answer.get("stats")
        return stats if isinstance(stats, dict) else {}


def read_container_info(name: str) -> tuple[dict[str, Any], str | None]:
    """What the engine says about a container, and why nothing, if so."""
    try:
        answer = _answer(_start("info", name), INFO_SECONDS)
    except (OSError, ValueError) as error:
        return {}, str(error)
    info = answer.get("info")
    return (info if isinstance(info, dict) else {}), answer.get("problem")


def _start(*arguments: str) -> socket.socket:
    """Start the process, which is no child of this one: a block would count it."""
    if not sys.executable:
        raise ValueError("this Python does not know its own path")
    ours, theirs = socket.socketpair()
    with theirs:
        actions: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), 3)]
        actions += [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
        command = [SHELL, "-c", START, "sh", sys.executable, "-P", "-m", MODULE, *arguments]
        try:
            starter = os.posix_spawn(SHELL, command, os.environ, file_actions=actions, setsid=True)
        except BaseException:
            ours.close()
            raise
    with suppress(ChildProcessError):
        os.waitpid(starter, 0)
    return ours


def _answer(connection: socket.socket, seconds: float) -> dict[str, Any]:
    """Ask for the answer, which comes before the process exits."""
    due, received = time.monotonic() + seconds, b""
    with connection, suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        while True:
            connection.settimeout(max(0.001, due - time.monotonic()))
            part = connection.recv(PART_BYTES)
            if not part:
                break
            received += part
    try:
        answer = json.loads(received)
    except ValueError:
        return {"problem": NO_ANSWER}
    return answer if isinstance(answer, dict) else {"problem": NO_ANSWER}
