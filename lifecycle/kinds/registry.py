"""Finds the kind of a job by the name in its record; a kind is imported when it is first needed."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.model import Job
    from jobtop.lifecycle.kinds.kind import Kind

PROCESS, ATTACHED, CONTAINER, PYTHON = "process", "attached", "container", "python"
ATTACHED_CONTAINER = "attached-container"  # a container with the flag `attached`: jobtop did not start it
MODULES = {
    PROCESS: "jobtop.lifecycle.kinds.process",
    ATTACHED: "jobtop.lifecycle.kinds.attached",
    CONTAINER: "jobtop.lifecycle.kinds.container",
    ATTACHED_CONTAINER: "jobtop.lifecycle.kinds.container_attached",
    PYTHON: "jobtop.lifecycle.kinds.python",
}
_KINDS: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    """Add a kind under its name, or replace it."""
    _KINDS[kind.name] = kind


def is_attached_container(job: Job) -> bool:
    """Whether a job is a container that jobtop did not start."""
    return job.kind == CONTAINER and ATTACHED in job.flags


def kind_of(job: Job) -> Kind:
    """The kind of a job; for a kind that this version does not have, one that refuses every request."""
    name = ATTACHED_CONTAINER if job.kind == CONTAINER and ATTACHED in job.flags else job.kind
    if name not in _KINDS:
        if name not in MODULES:
            from jobtop.lifecycle.kinds.unknown import UnknownKind

            return UnknownKind(name)
        __import__(MODULES[name])  # importing importlib would cost `run` 0.5 ms
        register(sys.modules[MODULES[name]].KIND)
    return _KINDS[name]


def why_no_output(job: Job) -> str | None:
    """Why jobtop has no output of jobs of this kind, and where it is; None if it keeps their output."""
    why = kind_of(job).why_no_output
    if why is None or "{name}" not in why:
        return why
    from jobtop.core.run.containers.facts import container_facts
    from jobtop.core.units import printable

    facts = container_facts(job)
    return why.replace("{name}", printable(facts.name or facts.id or job.name) if facts else job.name)
