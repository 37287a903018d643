"""Starts the process that reads one container beside a tracked block, and gets its answer; nothing here raises."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MODULE = "jobtop.core.track.container_process"
ANSWER_SECONDS = 5.0  # for its last reading; an engine that hangs gives none
INFO_SECONDS = 10.0


class ContainerWatch:
    """Reads a container from now on, in a process of its own; `close` ends it and returns what the container used."""

    def __init__(self, name: str, interval_seconds: float) -> None:
        self.problem: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        try:
            # A session of its own: Ctrl-C is for the program that is tracked.
            self._process = subprocess.Popen(
                _command("watch", name, f"{interval_seconds:g}"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self.problem = str(error)

    def close(self) -> dict[str, Any]:
        """The container's part of a profile; empty, with a `problem`, if nothing was read."""
        process, self._process = self._process, None
        if process is None:
            return {}
        output = b""
        try:
            output, _ = process.communicate(b"\n", ANSWER_SECONDS)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            self.problem = "the container engine does not answer"
            _end(process)
        answer = _parsed(output)
        self.problem = answer.get("problem") or self.problem
        stats = answer.get("stats")
        return stats if isinstance(stats, dict) else {}


def read_container_info(name: str) -> tuple[dict[str, Any], str | None]:
    """What the engine says about a container, and why nothing, if so."""
    try:
        done = subprocess.run(
            _command("info", name),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=INFO_SECONDS,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {}, str(error)
    answer = _parsed(done.stdout)
    info = answer.get("info")
    return (info if isinstance(info, dict) else {}), answer.get("problem")


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", MODULE, *arguments]


def _parsed(output: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        answer = json.loads(output)
        if isinstance(answer, dict):
            return answer
    return {"problem": "the process that reads containers failed"}


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(ANSWER_SECONDS)
