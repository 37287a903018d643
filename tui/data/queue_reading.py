"""Reads the queues of the opened stores for the Queue page; called in the reader's thread."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jobtop.core.model import Job, Status
from jobtop.core.paths import StatePaths
from jobtop.core.record import record, replace
from jobtop.lifecycle.queue_listing import Medians, QueueEntry, QueueState, read_state
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs, Query
from jobtop.tui.data.queue_reasons import QUEUE_SINCE_VERSION
from jobtop.tui.data.rows import ListRows

if TYPE_CHECKING:
    from jobtop.core.run.scheduling import Capacity

CAPACITY_SECONDS = 60.0  # after which the machine's GPUs are counted again
WAITING = Query(statuses=(Status.QUEUED, Status.PAUSED), limit=None)


@record
class ShownEntry:
    """A row of the table: a queued job of a store, and how many seconds it has waited."""

    entry: QueueEntry
    store: Path
    waited: float | None = None
    starts_in: float | None = None

    @property
    def job(self) -> Job:
        return self.entry.job

    @property
    def key(self) -> str:
        return self.entry.job.id


class QueueReading:
    """The queue of one store. Only the host itself knows why its jobs wait, and what it gives out."""

    def __init__(self, store: Path, own: StatePaths | None, capacity: Capacity | None) -> None:
        self.store = store
        self._own = own if own is not None and own.store == store else None
        self._medians = Medians()
        self._capacity, self._is_fixed = capacity, capacity is not None
        self._counted_at = -float("inf")

    def read(self, database: Database) -> QueueState:
        if not database.has_tables_of(QUEUE_SINCE_VERSION):
            return QueueState()
        jobs = Jobs(database)
        return others_queue(jobs) if self._own is None else read_state(jobs, self._own, self.capacity, self._medians)

    def capacity(self) -> Capacity:
        """The resources of this host, or of the demo's."""
        from jobtop.core.run.capacity import capacity

        now = time.monotonic()
        if self._capacity is None or (not self._is_fixed and now - self._counted_at > CAPACITY_SECONDS):
            self._capacity, self._counted_at = capacity(with_gpus=True), now
        return self._capacity


def others_queue(jobs: Jobs) -> QueueState:
    """The queue of another host, whose free resources are not known here."""
    found = [job for job in jobs.select(WAITING) if job.queue is not None and job.shim is None]
    found.sort(key=lambda job: (-job.queue.priority if job.queue else 0, job.seq))
    return QueueState(
        tuple(QueueEntry(place, job, f"it waits in the queue of {job.host}") for place, job in enumerate(found, 1))
    )


def shown_entries(states: dict[Path, QueueState]) -> list[ShownEntry]:
    """The rows of the table, store by store."""
    return [ShownEntry(entry, store) for store, state in states.items() for entry in state.entries]


class TimedRows(ListRows[ShownEntry]):
    """The rows at a moment; only of visible rows it is computed how long their jobs wait."""

    def __init__(self, rows: Sequence[ShownEntry]) -> None:
        super().__init__(rows, lambda row: row.key)
        self.now = 0.0

    def window(self, start: int, stop: int) -> Sequence[ShownEntry]:
        return [timed(row, self.now) for row in super().window(start, stop)]


def timed(row: ShownEntry, now: float) -> ShownEntry:
    submitted, starts = row.job.submitted_at, row.entry.starts_at
    return replace(
        row,
        waited=None if submitted is None else coarse(now - submitted),
        starts_in=None if starts is None else coarse(starts - now),
    )


def coarse(seconds: float) -> float:
    """Whole seconds, above a minute tens of seconds, so that not every row is painted in every second."""
    step = 1 if seconds < 60 else 10
    return float(max(0, int(seconds) // step * step))
