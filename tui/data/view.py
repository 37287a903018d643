"""What the console shows at a moment: one immutable picture of the opened stores, made by the feed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jobtop.core.model import Job
from jobtop.core.record import fresh, record
from jobtop.store.samples.live import Now, Tail

Number = float | int


@record
class StoreState:
    """One opened store: what is wrong with it in words, if anything is; `notice` is worth a word and no more."""

    path: Path
    problem: str | None = None
    notice: str | None = None


@record
class JobRow:
    """A live or recent job as a table shows it; its tail is its last minute."""

    job: Job
    store: Path
    now: Now | None = None
    tail: Tail | None = None
    elapsed: float | None = None
    is_stale: bool = False
    why: str | None = None  # it waits

    @property
    def key(self) -> str:
        return self.job.id

    @property
    def cpu_line(self) -> tuple[Number | None, ...]:
        """Of a thousand jobs twenty are in sight: only theirs are copied."""
        return () if self.tail is None else tuple(self.tail.cpu)

    @property
    def memory_line(self) -> tuple[Number | None, ...]:
        return () if self.tail is None else tuple(self.tail.memory)


@record
class Moment:
    """What is remembered of the machine for a minute."""

    at: float
    received: Number | None
    sent: Number | None
    gpus: dict[str, tuple[Number | None, Number | None, Number | None]]  # busy, memory, of how much


@record
class Machine:
    """The host now: its catalogue values as they are shown (rates per second), and each core, disk and interface."""

    name: str
    at: float
    values: dict[str, Number | None] = fresh(default_factory=dict)
    detail: dict[str, Any] = fresh(default_factory=dict)
    cpu_line: tuple[Number | None, ...] = ()
    past: tuple[Moment, ...] = ()  # of the last minute, this moment the last


@record
class View:
    """Everything at one moment."""

    at: float
    rows: tuple[JobRow, ...] = ()
    machine: Machine | None = None
    stores: tuple[StoreState, ...] = ()
    version: int = 0  # of what is in the stores: rises with every change of a job
    has_agent: bool | None = None  # whether somebody starts what waits in this host's store; None: it is not open

    @property
    def running(self) -> int:
        return sum(row.job.status == "running" for row in self.rows) - self.stale

    @property
    def stale(self) -> int:
        """Of which it is not known whether they still run."""
        return sum(row.is_stale and row.job.status == "running" for row in self.rows)

    @property
    def waiting(self) -> int:
        return sum(row.job.status == "queued" for row in self.rows)
