"""The files in the directory of a job that alerts have captured."""

from __future__ import annotations

import os

PREFIX = "capture-"


def capture_names(directory: str) -> list[str]:
    """The names of the captures in a directory, the oldest first."""
    try:
        return sorted(name for name in os.listdir(directory) if name.startswith(PREFIX))
    except OSError:
        return []
