"""A container job in the foreground: pauses its container, and waits for one that has lost its runner."""

from __future__ import annotations

import os
from contextlib import suppress

from jobtop.core.errors import EngineError
from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.run.containers.file import read_container
from jobtop.lifecycle.kinds.registry import kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.core.run.foreground import Foreground
    from jobtop.lifecycle.recorder import Recorder


def pausing(recorder: Recorder) -> Callable[[bool], None]:
    """Return the function that pauses the container of a job, or continues it."""

    def pause(is_paused: bool) -> None:
        kind = kind_of(recorder.job)
        with suppress(EngineError):  # it has ended
            (kind.pause if is_paused else kind.resume)(recorder.job)

    return pause


def wait_for_container(recorder: Recorder, foreground: Foreground, warn: Callable[[str], None]) -> RestOfOutput | None:
    """Wait for a container that has lost its runner; what it wrote meanwhile is to be printed after its end."""
    directory = recorder.directory
    if directory is None or not goes_on(directory):
        return None
    rest = RestOfOutput(directory)
    warn(f"a process of jobtop was killed; job {recorder.job.id[:8]} goes on, its output comes at its end")

    def send(number: int) -> None:
        with suppress(EngineError):
            kind_of(recorder.job).signal(recorder.job, number)

    foreground.outlast(lambda: not goes_on(directory), send)
    return rest


class RestOfOutput:
    """What is added to the logs of a job after its shim or its runner was killed, which could not pass it on."""

    def __init__(self, directory: str) -> None:
        self.logs = {1: f"{directory}/stdout.log", 2: f"{directory}/stderr.log"}
        self.sizes = {fd: os.path.getsize(path) for fd, path in self.logs.items() if os.path.exists(path)}

    def print(self) -> None:
        for fd, size in self.sizes.items():
            with suppress(OSError), open(self.logs[fd], "rb") as log:
                log.seek(size)
                while data := log.read(1 << 16):
                    os.write(fd, data)


def goes_on(directory: str) -> bool:
    """Return whether a container runs, or its runner has not written its end yet."""
    file = read_container(directory)
    if file is None or file.told is not None:
        return False
    return any(process is not None and is_alive(process) for process in (file.init, file.runner))
