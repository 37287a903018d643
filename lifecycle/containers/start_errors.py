"""Understands why an engine could not start a container: as for commands, 127 not found, 126 not executable. Pure."""

from __future__ import annotations

import re

from jobtop.core.errors import ExitCode
from jobtop.core.units import printable

NOT_FOUND = ("executable file not found", "no such file or directory", "executable file `", "not found in $path")
NOT_EXECUTABLE = ("permission denied", "exec format error", "is a directory")
NO_GPU = ("could not select device driver", "nvidia-container-cli", "unresolvable cdi devices")
OF_COMMAND = re.compile(r"exec(ve|utable|:| user process)|starting container process|init process", re.IGNORECASE)


def failure_of(text: str, program: str) -> tuple[str, ExitCode]:
    """The reason in words, and the exit code, of a container that could not be started."""
    words = text.lower()
    shown = printable(program)
    if OF_COMMAND.search(text):
        if any(sign in words for sign in NOT_FOUND):
            return f"{shown}: command not found in the image", ExitCode.NOT_FOUND
        if any(sign in words for sign in NOT_EXECUTABLE):
            why = "is a directory" if "is a directory" in words else "cannot be executed"
            return f"{shown}: {why} in the image", ExitCode.NOT_EXECUTABLE
    if any(sign in words for sign in NO_GPU):
        return f"{text} (jobtop doctor says whether containers can reach the GPU)", ExitCode.FAILED
    return text, ExitCode.FAILED
