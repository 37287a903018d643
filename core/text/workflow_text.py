"""Words about workflows and their runs. Pure."""

from __future__ import annotations

from jobtop.core.model import Status
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobtop.core.workflow.progress import RunJob

MOST_PATH_NAMES = 6
MOST_AWAITED = 3


def path_words(names: Sequence[str]) -> str:
    """The names with arrows; of many, the first and the last."""
    shown = list(map(printable, names))
    if len(shown) > MOST_PATH_NAMES:
        shown = [*shown[: MOST_PATH_NAMES - 1], "…", shown[-1]]
    return " → ".join(shown)


def awaited(job: RunJob, jobs: Mapping[str, RunJob]) -> list[str]:
    """The names of the jobs that a queued job waits for."""
    needed = [name for name in job.after if (other := jobs.get(name)) and other.status is not Status.SUCCESS]
    ended = [name for name in job.after_end if (other := jobs.get(name)) and (other.is_live or other.will_retry)]
    return [*needed, *ended]


def why_words(job: RunJob, jobs: Mapping[str, RunJob], wait_reason: str | None = None) -> str:
    """Why a job is as it is: what it waits for, or how it failed."""
    if job.status is None:
        return "it was deleted"
    if job.is_kept:
        return "kept from an earlier run"
    if job.status is Status.QUEUED:
        names = awaited(job, jobs)
        more = f" and {len(names) - MOST_AWAITED} more" if len(names) > MOST_AWAITED else ""
        return f"after {', '.join(names[:MOST_AWAITED])}{more}" if names else wait_reason or "waits for its turn"
    if job.will_retry:
        return f"{job.reason or job.status}; it is tried again soon"
    return "" if job.status is Status.SUCCESS else job.reason or ""
