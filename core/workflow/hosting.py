"""Says which jobs of a workflow ask for more than this host has."""

from __future__ import annotations

from jobtop.core.model import Limits
from jobtop.core.record import replace
from jobtop.core.run.capacity import capacity
from jobtop.core.run.scheduling import impossible
from jobtop.core.units import printable
from jobtop.core.workflow.model import Problem, Requirements
from jobtop.core.workflow.reading import Loaded

ACCEPTED = "(--any-host accepts that)"


def limits_of(asked: Requirements | None) -> Limits:
    """What a job declares in the queue."""
    if asked is None:
        return Limits()
    return Limits(asked.cpus, asked.memory_bytes, asked.runtime_seconds, asked.gpus)


def impossible_requests(found: Loaded) -> Loaded:
    """The same, with a mistake for each kind of request that this host can never fulfil."""
    if found.workflow is None:
        return found
    jobs = found.workflow.jobs.values()
    host = capacity(with_gpus=any(job.requirements and job.requirements.gpus for job in jobs))
    problems: dict[tuple[object, str], Problem] = {}
    for job in jobs:
        why = impossible(limits_of(job.requirements), host)
        if why is not None:
            text = f"it {why} {ACCEPTED}"
            problems.setdefault((job.place, why), Problem(text, f"jobs.{printable(job.name)}", job.line))
    return replace(found, workflow=None, problems=tuple(problems.values())) if problems else found
