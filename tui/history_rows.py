"""Past jobs as a table shows them: read from one store where somebody looks, in an order of any length."""

from __future__ import annotations

import os
import signal
import time
from array import array
from collections.abc import Collection, Hashable, Sequence
from pathlib import Path

from jobtop.core.errors import StoreError, UnknownJob
from jobtop.core.model import Job
from jobtop.core.record import record
from jobtop.core.units import ABSENT
from jobtop.store.database import Database, open_to_read
from jobtop.store.jobs import Jobs, Query
from jobtop.store.listing import JobLine, Listing, Order, read_order
from jobtop.tui.cells import Align, Cell, Words, short_bytes, short_duration
from jobtop.tui.columns import Column
from jobtop.tui.palette import FLAG_GLYPHS, STATUS_GLYPHS, Tone
from jobtop.tui.reading import Reader


@record
class PastRow:
    """A line of the history, and for how long its job has run so far."""

    line: JobLine
    elapsed: float | None


class PastRows:
    """The lines of a listing at a moment; a store that cannot be read has none."""

    def __init__(self, listing: Listing, now: float) -> None:
        self.listing, self.now = listing, now

    def __len__(self) -> int:
        return len(self.listing)

    def window(self, start: int, stop: int) -> Sequence[PastRow]:
        try:
            lines = self.listing.window(start, stop)
        except StoreError:  # which the feed meets too, and every screen then says
            return ()
        return [PastRow(line, _elapsed(line, self.now)) for line in lines]

    def key(self, row: PastRow) -> int:
        return row.line.seq

    def index(self, key: Hashable) -> int | None:
        return self.listing.index(key)


class PastJobs:
    """The jobs of one store. Their order is read in the reader's thread, the few lines in sight in the caller's."""

    def __init__(self, reader: Reader, path: Path) -> None:
        self.path = path
        self.order: Order | None = None
        self._reader = reader
        self._database: Database | None = None
        self._identity: tuple[int, int] | None = None

    async def read(self, query: Query) -> bool:
        """Read the order; whether the file is another than it was. Raises StoreError and OSError."""
        before = self.order
        order = await self._reader.read(self.path, lambda database: read_order(database, query, before))
        is_other = self._open()
        self.order = order
        return is_other

    def rows(self, now: float) -> PastRows | None:
        if self._database is None or self.order is None:
            return None
        return PastRows(Listing(self._database, self.order), now)

    def ids(self, seqs: Collection[int]) -> list[str]:
        """The ids of some jobs by their numbers, in the order of these; those that are gone are left out."""
        if self._database is None or self.order is None:
            return []
        some = Order(self.order.query, array("q", sorted(seqs)), self.order.state)
        try:
            return [line.id for line in Listing(self._database, some).window(0, len(seqs)) if line.id]
        except StoreError:
            return []

    def jobs(self, seqs: Collection[int]) -> list[Job]:
        """Whole records."""
        if self._database is None:
            return []
        try:
            return [Jobs(self._database).find(job_id) for job_id in self.ids(seqs)]
        except (StoreError, UnknownJob):
            return []

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database = self.order = self._identity = None

    def _open(self) -> bool:
        found = os.stat(self.path)
        identity = found.st_dev, found.st_ino
        if identity == self._identity:
            return False
        is_other = self._identity is not None
        self.close()
        self._database, self._identity = open_to_read(self.path), identity
        return is_other


def past_columns() -> tuple[Column[PastRow], ...]:
    """Of the history; their keys are those that the store sorts by."""
    right = Align.RIGHT
    return (
        Column("glyph", "", glyph, 1, sortable=False),
        Column("seq", "ID", lambda row: Words(row.line.id[:8], Tone.GREY), 8),
        Column("name", "NAME", lambda row: Words(row.line.name), 14, flex=3, most=48),
        Column("tool", "TOOL", lambda row: text(row.line.tool), 8, flex=1, most=14, priority=9),
        Column("status", "STATUS", status, 9, priority=3),
        Column("start", "STARTED", started, 11, priority=1),
        Column("duration", "TIME", lambda row: number(short_duration(row.elapsed)), 8, align=right),
        Column("cpu", "CPU TIME", cpu_time, 8, align=right, priority=4),
        Column("efficiency", "EFF", efficiency, 5, align=right, priority=6),
        Column("memory", "MEM PK", memory, 6, align=right),
        Column("io", "I/O", lambda row: number(short_bytes(row.line.io_bytes)), 6, align=right, priority=5),
        Column("exit", "EXIT", ended, 5, align=right, priority=2),
        Column("host", "HOST", lambda row: text(row.line.host), 8, flex=1, most=16, priority=8),
    )


def glyph(row: PastRow) -> Cell:
    for flag, (sign, tone) in FLAG_GLYPHS.items():
        if flag in row.line.flags:
            return Words(sign, tone)
    return Words(*STATUS_GLYPHS[str(row.line.status)])


def status(row: PastRow) -> Cell:
    return Words(str(row.line.status), STATUS_GLYPHS[str(row.line.status)][1])


def started(row: PastRow) -> Cell:
    """The day and minute; of other years the day."""
    moment = row.line.start_time or row.line.submitted_at
    if moment is None:
        return number(ABSENT)
    then = time.localtime(moment)
    this_year = then.tm_year == time.localtime().tm_year
    return Words(time.strftime("%m-%d %H:%M" if this_year else "%Y-%m-%d", then), Tone.GREY)


def cpu_time(row: PastRow) -> Cell:
    return number(short_duration(row.line.cpu_total_seconds))


def efficiency(row: PastRow) -> Cell:
    share = row.line.cpu_efficiency
    return number(ABSENT if share is None else f"{100 * share:.0f}%")


def memory(row: PastRow) -> Cell:
    """The peak; `≥` where only the largest process is known."""
    bound = "≥" if row.line.memory_is_bound else ""
    return number(bound + short_bytes(row.line.memory_peak_bytes))


def ended(row: PastRow) -> Cell:
    """The exit code, or the signal."""
    line = row.line
    if line.signal is not None:
        try:
            name = signal.Signals(line.signal).name.removeprefix("SIG")
        except ValueError:
            name = f"#{line.signal}"
        return Words(name, Tone.PURPLE)
    if line.exit_code is None:
        return number(ABSENT)
    return Words(str(line.exit_code), Tone.VERMILION if line.exit_code else Tone.GREY)


def text(words: str | None) -> Cell:
    return Words(words, Tone.GREY) if words else number(ABSENT)


def number(words: str) -> Cell:
    return Words(words, Tone.GREY if words == ABSENT else Tone.TEXT)


def _elapsed(line: JobLine, now: float) -> float | None:
    if line.duration_seconds is None and line.start_time is not None and not line.status.ended:
        return max(0.0, now - line.start_time)
    return line.duration_seconds
