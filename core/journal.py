"""jobtop's own log: one line per outcome. (Importing the logging package would add 10 ms to every `run`.)"""

import os
import time

from jobtop.core.clock import iso
from jobtop.core.model import Job, Status
from jobtop.core.units import format_duration, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

LEVELS = {Status.SUCCESS: "INFO", Status.TIMEOUT: "WARNING", Status.CANCELLED: "WARNING", Status.UNKNOWN: "INFO"}


def outcome(job: Job) -> tuple[str, str]:
    """Return the level and the line for an ended job."""
    parts = [f"job {job.id[:8]} {printable(job.name)}: {job.status}"]
    if job.duration_seconds is not None:
        parts.append(f"after {format_duration(job.duration_seconds)}")
    if job.usage.cpu_total_seconds is not None:
        parts.append(f"with {format_duration(job.usage.cpu_total_seconds)} of CPU")
    line = " ".join(parts) + (f" ({printable(job.reason)})" if job.reason else "")
    return LEVELS.get(job.status, "ERROR"), line


def write(log: "str | Path", level: str, text: str) -> None:
    """Append one entry; with O_APPEND the lines of several writers do not mix."""
    fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, f"{iso(time.time())} {level} {text}\n".encode("utf-8", "backslashreplace"))
    finally:
        os.close(fd)
