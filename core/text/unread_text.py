"""Why what a job has open cannot be read now: words that files and connections share."""

from __future__ import annotations

from jobtop.core.model import Job
from jobtop.core.units import number_of, printable


def unread_text(job: Job, is_here: bool, what: str) -> str | None:
    """Why the open things of a job that has not ended cannot be read, or that it never ran; None if it has ended."""
    if job.start_time is None and job.queue is not None:
        return "it was not run" if job.status.ended else f"it is queued and has no {what} yet (jobtop queue)"
    if job.status.ended:
        return None
    if not is_here:
        return f"it runs on {printable(job.host)}: its {what} can only be seen there"
    return f"its processes are not known, so its {what} cannot be seen"


def denied_words(count: int, what: str, reason: str = "") -> str | None:
    """That processes of another user cannot be read, and what helps; None if there are none."""
    if not count:
        return None
    processes = number_of(count, "process", "processes")
    why = f": {reason}" if reason else ""
    return f"the {what} of {processes} cannot be read{why} (another user's; try as that user or as root)"
