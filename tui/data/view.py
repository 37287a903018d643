"""What the console shows at one moment: an immutable copy of the opened stores, which the feed makes.

The feed's thread hands each view to the console's thread. Nothing in a view changes after that: sequences are tuples,
mappings are read-only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jobtop.core.model import Job
from jobtop.core.record import record
from jobtop.store.samples.live import Now
from jobtop.tui.data.last_minute import PackedSamples

Number = float | int
NOTHING: Mapping[str, Any] = MappingProxyType({})


@record
class StoreState:
    """One opened store: `problem` says why it cannot be read, `notice` is a less serious message."""

    path: Path
    problem: str | None = None
    notice: str | None = None


@record
class JobRow:
    """A live or recent job as a table shows it."""

    job: Job
    store: Path
    now: Now | None = None
    last_minute: PackedSamples | None = None  # `columns_of` unpacks it
    elapsed: float | None = None
    is_stale: bool = False
    wait_reason: str | None = None  # of a queued job
    gpus: Mapping[str, tuple[Number | None, Number | None]] = NOTHING  # by name: percent, bytes that it uses
    queue_place: int | None = None  # the position of a queued job

    @property
    def key(self) -> str:
        return self.job.id

    @property
    def wait_words(self) -> str | None:
        """`#2 in the queue: waits for 1 CPU`; None if the job does not wait, or nothing is known."""
        if self.queue_place is None:
            return self.wait_reason
        place = f"#{self.queue_place} in the queue"
        return place if self.wait_reason is None else f"{place}: {self.wait_reason}"


@record
class MachineMoment:
    """The machine's network and GPUs at one moment of the last minute."""

    at: float
    received: Number | None  # bytes a second
    sent: Number | None
    gpus: Mapping[str, tuple[Number | None, Number | None, Number | None]]  # busy percent, used bytes, total bytes


@record
class MachineView:
    """The host now: its catalogue values as they are shown (rates per second), and each core, disk and interface."""

    name: str
    at: float
    values: Mapping[str, Number | None] = NOTHING
    detail: Mapping[str, Any] = NOTHING
    cpu_line: tuple[Number | None, ...] = ()
    past: tuple[MachineMoment, ...] = ()  # the last minute, oldest first; the last one is now


@record
class View:
    """All that the console shows at one moment."""

    at: float
    rows: tuple[JobRow, ...] = ()
    machine: MachineView | None = None
    stores: tuple[StoreState, ...] = ()
    version: int = 0  # rises with every change of a job in any store
    has_agent: bool | None = None  # whether an agent starts the queued jobs of this host; None: its store is not open

    @property
    def running(self) -> int:
        return sum(row.job.status == "running" for row in self.rows) - self.stale

    @property
    def stale(self) -> int:
        """The number of running jobs without recent samples or heartbeats: they may have ended."""
        return sum(row.is_stale and row.job.status == "running" for row in self.rows)

    @property
    def waiting(self) -> int:
        return sum(row.job.status == "queued" for row in self.rows)


def read_only(value: Any) -> Any:
    """A copy of JSON-like data in which mappings are read-only and lists are tuples."""
    if isinstance(value, dict):
        return MappingProxyType({key: read_only(item) for key, item in value.items()})
    return tuple(map(read_only, value)) if isinstance(value, list | tuple) else value
