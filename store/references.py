"""The errors for a job reference that matches several jobs, or none."""

from __future__ import annotations

from collections.abc import Sequence

from jobtop.core.errors import AmbiguousJob, UnknownJob
from jobtop.core.units import printable
from jobtop.store.jobs import SHORTEST_ID_PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.model import Job

MOST_NAMED = 8


def ambiguous_job(reference: str, matches: Sequence[tuple[Job, str]]) -> AmbiguousJob:
    """The error for several matching jobs; the text beside a job says where it is."""
    candidates = ", ".join(f"{job.id[:13]} ({printable(job.name)}){where}" for job, where in matches[:MOST_NAMED])
    more = ", …" if len(matches) > MOST_NAMED else ""
    return AmbiguousJob(f'"{printable(reference)}" fits several jobs: {candidates}{more}')


def unknown_job(reference: str, where: str) -> UnknownJob:
    """The error for a reference without a matching job."""
    shown = printable(reference)
    if len(reference) < SHORTEST_ID_PREFIX:
        return UnknownJob(f'no job "{shown}": give at least {SHORTEST_ID_PREFIX} characters of its id (jobtop history)')
    if reference.strip("0123456789abcdefABCDEF-"):
        import shlex

        words = shlex.quote(f"name:{shown}")
        return UnknownJob(f'no job "{shown}" in {where}: an id is wanted (for a name: jobtop history {words})')
    return UnknownJob(f'no job "{shown}" in {where} (jobtop history lists them)')
