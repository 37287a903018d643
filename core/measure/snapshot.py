"""The processes of a job at a moment, as they are kept and shown."""

from __future__ import annotations

from jobtop.core.record import record


@record
class ThreadLine:
    """A thread at a moment; None is not known."""

    tid: int
    name: str
    state: str
    cpu_seconds: float
    cpu_percent: float | None


@record
class ProcessRow:
    """One process; its memory is its share of what it shares where that is known, else all that is resident.

    None is not known. `busiest` are its busiest threads, if they were read.
    """

    pid: int
    parent: int
    command: str
    cpu_seconds: float
    cpu_percent: float | None
    memory_bytes: int | None
    threads: int | None
    age_seconds: float | None
    state: str
    busiest: tuple[ThreadLine, ...] = ()


@record
class Snapshot:
    """The heaviest processes of a job at a moment, so many seconds after its start."""

    elapsed: float
    members: tuple[ProcessRow, ...]
