"""Finds the kind of a job by the name in its record; a kind is imported when it is first needed."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.model import Job
    from jobtop.lifecycle.kinds.kind import Kind

PROCESS, ATTACHED = "process", "attached"
MODULES = {
    PROCESS: "jobtop.lifecycle.kinds.process",
    ATTACHED: "jobtop.lifecycle.kinds.attached",
}
_KINDS: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    """Add a kind under its name, or replace it."""
    _KINDS[kind.name] = kind


def kind_of(job: Job) -> Kind:
    """The kind of a job; for a kind that this version does not have, one that refuses every request."""
    if job.kind not in _KINDS:
        if job.kind not in MODULES:
            from jobtop.lifecycle.kinds.unknown import UnknownKind

            return UnknownKind(job.kind)
        __import__(MODULES[job.kind])  # importing importlib would cost `run` 0.5 ms
        register(sys.modules[MODULES[job.kind]].KIND)
    return _KINDS[job.kind]
