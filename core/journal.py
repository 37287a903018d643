"""jobtop's own log: a line per outcome, appended whole. (The logging package would cost every `run` 10 ms.)"""

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
    """The level and the line for a job that ended."""
    words = [f"job {job.id[:8]} {printable(job.name)}: {job.status}"]
    if job.duration_seconds is not None:
        words.append(f"after {format_duration(job.duration_seconds)}")
    if job.usage.cpu_total_seconds is not None:
        words.append(f"with {format_duration(job.usage.cpu_total_seconds)} of CPU")
    line = " ".join(words) + (f" ({printable(job.reason)})" if job.reason else "")
    return LEVELS.get(job.status, "ERROR"), line


def write(log: "str | Path", level: str, text: str) -> None:
    """Append one entry; O_APPEND keeps the lines of many writers apart."""
    fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, f"{iso(time.time())} {level} {text}\n".encode("utf-8", "backslashreplace"))
    finally:
        os.close(fd)
