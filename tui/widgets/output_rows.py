"""The rows of a job's output that a view shows: which ones are read, and how each looks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from rich.cells import cell_len

from jobtop.core.model import Job
from jobtop.core.record import record
from jobtop.core.text.job_text import are_samples_deleted, not_started_text
from jobtop.core.units import format_bytes, printable
from jobtop.lifecycle.kinds.registry import kind_of
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs
from jobtop.store.output.text import Output, Row
from jobtop.tui.data.reader import StoreReader
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span, safe_text

Answer = TypeVar("Answer")
_CONTROLS = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)|[^\S ]|[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


@record
class Follow:
    """Show the last rows."""


@record
class Scroll:
    """Show the rows a number of rows further down, or further up if negative."""

    rows: int


@record
class GoTo:
    """Show the row at a place, with some rows above it."""

    place: int
    above: int = 0


@record
class Until:
    """Show the last rows that were written before a moment."""

    moment: float


Movement = Follow | Scroll | GoTo | Until


@record
class ShownRows:
    """The shown rows, when each was written, and how much output there is."""

    rows: tuple[Row, ...] = ()
    times: tuple[float | None, ...] = ()
    size: int = 0
    is_there: bool = True

    @property
    def start(self) -> int:
        return self.rows[0].place if self.rows else 0

    @property
    def is_end(self) -> bool:
        return not self.rows or self.rows[-1].stop >= self.size


class Logs:
    """The logs of a job, read in the thread of the store reader."""

    def __init__(self, reader: StoreReader, store: Path, directory: Path) -> None:
        self.reader, self.store, self.directory = reader, store, directory
        self._outputs: dict[tuple[int, ...], Output] = {}

    async def read(self, streams: tuple[int, ...], question: Callable[[Output], Answer]) -> Answer:
        def answer(database: Database) -> Answer:
            output = self._outputs.setdefault(streams, Output(self.directory, streams))
            has_marks = (self.directory / "marks").exists()
            output.refresh(() if has_marks else _stored_marks(database, self.directory.name))
            return question(output)

        return await self.reader.read(self.store, answer)


def _stored_marks(database: Database, job_id: str) -> list[tuple[float, int, int | None]]:
    jobs = Jobs(database)
    return jobs.log_marks(jobs.find(job_id))


def why_no_output(job: Job) -> str | None:
    """The reason why a job has no output; None if it should have some."""
    if (why := kind_of(job).why_no_output) is not None:
        return why
    return not_started_text(job) or (
        "let go: it is old (jobtop pin keeps jobs whole)" if are_samples_deleted(job) else None
    )


def rows_after(output: Output, movement: Movement, start: int, height: int) -> ShownRows:
    """The rows after a movement from those that are shown now."""
    match movement:
        case Follow():
            rows = output.rows_before(output.size, height)
        case Until(moment):
            rows = output.rows_before(output.place_at(moment), height)
        case GoTo(place, above):
            begin = output.row_start(place) if place < output.size else output.size
            before = output.rows_before(begin, above)
            rows = output.rows(before[0].place if before else begin, height)
        case Scroll(count) if count < 0:
            before = output.rows_before(start, -count)
            rows = output.rows(before[0].place if before else start, height)
        case Scroll(count):
            rows = output.rows(start, count + height)[count:]
    if len(rows) < height and not isinstance(movement, Until):
        rows = output.rows_before(output.size, height)
    times = tuple(output.moment(row.stop - 1) for row in rows)  # the shown part of a line was written last
    return ShownRows(tuple(rows), times, output.size, output.directory.is_dir())


def row_spans(row: Row, needle: str = "", longest: int = 4096) -> list[Span]:
    """A row as it is shown: control characters are visible and faint, matches of a search are marked."""
    if row.left_out is not None:
        return [Span(f"[{format_bytes(row.left_out)} left out here: run.log_max]", Tone.YELLOW)]
    text = row.text[:longest].expandtabs(8)
    spans: list[Span] = []
    for piece, is_match in _matches(text, needle):
        spans += _with_controls(piece, Tone.ORANGE if is_match else Tone.TEXT, is_match)
    return spans


def _matches(text: str, needle: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, each with whether it is a match."""
    searched = text.lower() if needle == needle.lower() else text
    end = 0
    if needle and len(searched) == len(text):
        while (found := searched.find(needle, end)) >= 0:
            yield text[end:found], False
            end = found + len(needle)
            yield text[found:end], True
    yield text[end:], False


def _with_controls(text: str, tone: Tone, bold: bool) -> Iterator[Span]:
    end = 0
    for control in _CONTROLS.finditer(text):
        if control.start() > end:
            yield Span(safe_text(text[end : control.start()]), tone, bold)
        yield Span(printable(control[0]), Tone.FAINT)
        end = control.end()
    if end < len(text):
        yield Span(safe_text(text[end:]), tone, bold)


def dropped(spans: Sequence[Span], cells: int) -> list[Span]:
    """The pieces without their first cells."""
    if not cells:
        return list(spans)
    kept: list[Span] = []
    for text, tone, bold in spans:
        position = 0
        while position < len(text) and cells > 0:
            cells -= cell_len(text[position])
            position += 1
        if position < len(text):
            kept.append(Span(text[position:], tone, bold))
    return kept
