"""Past jobs as a table shows them: the order of all jobs of all stores, and the lines of the visible ones."""

from __future__ import annotations

import signal
import time
from array import array
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from jobtop.core.errors import StoreBusy, StoreError, UnknownJob
from jobtop.core.model import Job, Status
from jobtop.core.paths import hostname
from jobtop.core.query.conditions import Filter
from jobtop.core.record import record
from jobtop.core.units import ABSENT, format_duration
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs, Query
from jobtop.store.listing import (
    Group,
    JobLine,
    Order,
    group_by_name,
    merge_orders,
    merge_vocabularies,
    read_lines,
    read_order,
    read_runs,
    store_and_seq,
    vocabulary,
)
from jobtop.tui.data.reader import StoreFile, StoreReader
from jobtop.tui.palette import FLAG_GLYPHS, STATUS_GLYPHS, Tone
from jobtop.tui.widgets.cells import Align, Cell, Pieces, Span, Words, bounded, short_bytes
from jobtop.tui.widgets.columns import Column

Answer = TypeVar("Answer")
UNREADABLE = "(cannot be read)"
MOST_KNOWN = 1000
KEY_PATIENCE_SECONDS = 0.05  # the user waits for the visible lines


NO_WAITS: Mapping[str, str] = MappingProxyType({})


@record
class PastRow:
    """A line of the history, its number among the jobs of all stores, and the time that its job has run so far."""

    number: int
    line: JobLine
    elapsed: float | None
    is_stale: bool = False
    wait_words: str | None = None  # of a queued job: its position, and why it waits


class PastRows:
    """The ordered jobs of the history as rows of a table, at one moment."""

    def __init__(self, past: PastJobs, now: float, waits: Mapping[str, str]) -> None:
        self.past, self.numbers, self.now, self.waits = past, past.numbers, now, waits

    def __len__(self) -> int:
        return len(self.numbers)

    def window(self, start: int, stop: int) -> Sequence[PastRow]:
        numbers = self.numbers[max(0, start) : max(0, stop)]
        lines = self.past.lines(numbers)
        return [self._row(number, line) for number, line in zip(numbers, lines, strict=True)]

    def _row(self, number: int, line: JobLine) -> PastRow:
        is_stale = line.is_stale(self.now, self.past.host)
        return PastRow(number, line, _elapsed(line, self.now), is_stale, self.waits.get(line.id))

    def key(self, row: PastRow) -> int:
        return row.number

    def index(self, key: Hashable) -> int | None:
        try:
            return self.numbers.index(key)  # type: ignore[arg-type]
        except (ValueError, TypeError):
            return None


class PastStore:
    """The ordered jobs of one store; the reader's thread reads the order, the console's the few visible lines."""

    def __init__(self, reader: StoreReader, path: Path) -> None:
        self.path = path
        self.order: Order | None = None
        self.problem: str | None = None
        self.is_behind = False
        self._reader = reader
        self._file = StoreFile(path, KEY_PATIENCE_SECONDS)
        self._known: dict[int, JobLine] = {}
        self._seen: tuple[object, ...] = ()  # the connection that read the order, and the last commit then

    def ordered(self, database: Database, query: Query, with_keys: bool) -> tuple[Order, tuple[object, ...]]:
        """The order, read again only if another process wrote to the store; and the last commit that it includes."""
        before, seen = self.order, database.version_seen()
        if before is not None and seen == self._seen and before.query == query:
            return before, seen
        is_same_file = seen[:1] == self._seen[:1]
        return read_order(database, query, before if is_same_file else None, with_keys), seen

    def keep_order(self, found: tuple[Order, tuple[object, ...]] | StoreError) -> bool:
        """Keep a new order, or note the problem; return whether its numbers may now mean other jobs than before."""
        if isinstance(found, StoreBusy):
            self.is_behind = True
            return False
        before, seen = self.order, self._seen
        if isinstance(found, StoreError):
            self.close()
            self.problem, self.is_behind = str(found), True
            return before is not None
        self.order, self._seen = found
        self.problem, self.is_behind = None, False
        is_other = before is not None and self._seen[:1] != seen[:1]
        if is_other:
            self._file.close()
        return is_other

    async def answer(self, question: Callable[[Database], Answer]) -> Answer | None:
        """The answer of the store; None if it cannot be read."""
        try:
            return await self._reader.read(self.path, question) if self.order is not None else None
        except StoreError:
            return None

    def lines(self, seqs: Sequence[int]) -> list[JobLine]:
        """The current lines of some jobs; while the store is busy, the lines as last read."""
        try:
            if self._file.database is None:
                self._file.reopen_if_changed()
            with self._file.opened() as database:
                found = read_lines(database, seqs)
        except StoreError as error:  # the feed sees the same error, and reports it on every screen
            known = self._known if isinstance(error, StoreBusy) else {}
            return [known.get(seq) or JobLine(seq, "", UNREADABLE, Status.UNKNOWN) for seq in seqs]
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        self._known.update((line.seq, line) for line in found)
        return found

    def job(self, seq: int) -> Job | None:
        """The whole record of a job; None if it cannot be read or is gone."""
        (line,) = self.lines([seq])
        try:
            with self._file.opened() as database:
                return Jobs(database).find(line.id) if line.id else None
        except (StoreError, UnknownJob):
            return None

    def close(self) -> None:
        self._file.close()
        self.order = None
        self._known.clear()


class PastJobs:
    """The jobs of all stores in one order. A store that cannot be read is left out, and is listed in `problems`."""

    def __init__(self, reader: StoreReader, paths: Sequence[Path]) -> None:
        self._reader, self.host = reader, hostname()
        self.stores = [PastStore(reader, path) for path in paths]
        self.numbers: array[int] = array("q")
        self._merged_of: list[Order | None] = [None] * len(paths)

    @property
    def problems(self) -> list[str]:
        return [store.problem for store in self.stores if store.problem is not None]

    @property
    def is_behind(self) -> bool:
        """Whether a store could not be read the last time."""
        return any(store.is_behind for store in self.stores)

    async def read(self, query: Query) -> set[int]:
        """Read the order; return the places of stores with numbers that may now mean other jobs than before."""
        with_keys = len(self.stores) > 1
        found = await self._reader.read_each(
            [(store.path, partial(store.ordered, query=query, with_keys=with_keys)) for store in self.stores]
        )
        others = {place for place, store in enumerate(self.stores) if store.keep_order(found[place])}
        orders = [store.order for store in self.stores]
        if any(order is not before for order, before in zip(orders, self._merged_of, strict=True)):
            self.numbers, self._merged_of = merge_orders(orders), orders
        return others

    async def groups(self, wanted: Filter | None) -> list[Group]:
        """The jobs that match a filter, grouped by name."""
        runs = [await store.answer(lambda database: read_runs(database, wanted)) for store in self.stores]
        return group_by_name([found for found in runs if found is not None])

    async def vocabulary(self) -> dict[str, list[str]]:
        """The known words that a filter can be completed to, by field."""
        known = [await store.answer(vocabulary) for store in self.stores]
        return merge_vocabularies(words for words in known if words is not None)

    def rows(self, now: float, waits: Mapping[str, str] = NO_WAITS) -> PastRows:
        """The rows at a moment; `waits` says of queued jobs why they wait."""
        return PastRows(self, now, waits)

    def lines(self, numbers: Sequence[int]) -> list[JobLine]:
        """The lines of some jobs; each store is asked once."""
        wanted: dict[int, list[int]] = {}
        for number in numbers:
            place, seq = store_and_seq(number)
            wanted.setdefault(place, []).append(seq)
        found = {place: iter(self.stores[place].lines(seqs)) for place, seqs in wanted.items()}
        return [next(found[store_and_seq(number)[0]]) for number in numbers]

    def jobs(self, numbers: Collection[int]) -> list[tuple[Path, Job]]:
        """The whole records of some jobs and their stores, the oldest first; deleted jobs are left out."""
        found = []
        for place, seq in map(store_and_seq, sorted(numbers)):
            if (job := self.stores[place].job(seq)) is not None:
                found.append((self.stores[place].path, job))
        return sorted(found, key=lambda pair: pair[1].submitted_at or pair[1].start_time or 0.0)

    def close(self) -> None:
        for store in self.stores:
            store.close()


def past_columns(has_hosts: bool = False) -> tuple[Column[PastRow], ...]:
    """The columns of the history; the store sorts by their keys. With several hosts, the host is beside the name."""
    right = Align.RIGHT
    host: Column[PastRow] = Column(
        "host", "HOST", lambda row: text(row.line.host), 8, flex=1, most=16, priority=1 if has_hosts else 8
    )
    return (
        Column("glyph", "", glyph, 1, sortable=False),
        Column("begun", "ID", lambda row: Words(row.line.id[:8], Tone.GREY), 8),
        Column("name", "NAME", name, 14, flex=3, most=48),
        *([host] if has_hosts else []),
        Column("tool", "TOOL", lambda row: text(row.line.tool), 8, flex=1, most=14, priority=9),
        Column("status", "STATUS", status, 9, priority=4),
        Column("start", "STARTED", started, 11, priority=2),
        Column("duration", "TIME", elapsed, 8, align=right),
        Column("cpu", "CPU TIME", cpu_time, 8, align=right, priority=5),
        Column("efficiency", "EFF", efficiency, 5, align=right, priority=7),
        Column("memory", "MEM PK", memory, 6, align=right),
        Column("io", "I/O", lambda row: number(short_bytes(row.line.io_bytes)), 6, align=right, priority=6),
        Column("exit", "EXIT", ended, 5, align=right, priority=3),
        Column("limited", "LIMITED", limited, 10, priority=10, sortable=False),
        *([] if has_hosts else [host]),
    )


def glyph(row: PastRow) -> Cell:
    for flag, (sign, tone) in FLAG_GLYPHS.items():
        if flag in row.line.flags:
            return Words(sign, tone)
    sign, tone = STATUS_GLYPHS[str(row.line.status)]
    return Words("?" if row.is_stale else sign, tone)


def name(row: PastRow) -> Cell:
    """The name; behind that of a queued job, why it waits."""
    if row.wait_words is None:
        return Words(row.line.name)
    return Pieces([Span(row.line.name), Span("  "), Span(row.wait_words, Tone.GREY)])


def status(row: PastRow) -> Cell:
    return Words("stale" if row.is_stale else str(row.line.status), STATUS_GLYPHS[str(row.line.status)][1])


def started(row: PastRow) -> Cell:
    """Day and minute of the start; only the date if it was in another year."""
    moment = row.line.start_time
    if moment is None:
        return number(ABSENT)
    then = time.localtime(moment)
    this_year = then.tm_year == time.localtime().tm_year
    return Words(time.strftime("%m-%d %H:%M" if this_year else "%Y-%m-%d", then), Tone.GREY)


def elapsed(row: PastRow) -> Cell:
    return number(format_duration(row.elapsed, is_counting=not row.line.status.ended))


def cpu_time(row: PastRow) -> Cell:
    return number(format_duration(row.line.cpu_total_seconds))


def efficiency(row: PastRow) -> Cell:
    share = row.line.cpu_efficiency
    return number(ABSENT if share is None else f"{100 * share:.0f}%")


def memory(row: PastRow) -> Cell:
    """The memory peak; `≤` in front if only an upper bound is known."""
    peak = row.line.memory_peak_bytes
    return number(bounded(short_bytes(peak), row.line.memory_is_bound and peak is not None))


def ended(row: PastRow) -> Cell:
    """The exit code, or the name of the signal."""
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


def limited(row: PastRow) -> Cell:
    """What limited the job most."""
    return text(row.line.limited_by)


def text(words: str | None) -> Cell:
    return Words(words, Tone.GREY) if words else number(ABSENT)


def number(words: str) -> Cell:
    return Words(words, Tone.GREY if words == ABSENT else Tone.TEXT)


def _elapsed(line: JobLine, now: float) -> float | None:
    if line.duration_seconds is None and line.start_time is not None and not line.status.ended:
        return max(0.0, now - line.start_time)
    return line.duration_seconds
