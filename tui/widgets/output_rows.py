"""The rows of a job's output that a view shows: which ones are read, and how each looks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from jobtop.core.model import Job
from jobtop.core.record import record
from jobtop.core.run.terminal_input import has_terminal
from jobtop.core.text.job_text import are_samples_deleted, not_started_text
from jobtop.core.text.terminal_text import PLAIN, Run, TextStyle, line_runs
from jobtop.core.units import format_bytes, printable
from jobtop.lifecycle.kinds.registry import why_no_output as why_not_kept
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs
from jobtop.store.output.logs import is_one_log
from jobtop.store.output.text import Output, Row
from jobtop.tui.data.reader import StoreReader
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import safe_text

Answer = TypeVar("Answer")
TAB_CELLS = 8
_CONTROLS = re.compile(r"[^\S ]|[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]+")


class Piece(NamedTuple):
    """A piece of a row: in the style that its program chose, or in a tone of the console."""

    text: str
    ink: TextStyle | Tone = PLAIN
    bold: bool = False


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
    """The shown rows, when each was written, the style at its start, and how much output there is."""

    rows: tuple[Row, ...] = ()
    times: tuple[float | None, ...] = ()
    styles: tuple[TextStyle, ...] = ()
    size: int = 0
    is_there: bool = True
    is_one_log: bool = False  # both streams were one terminal or one file
    has_terminal: bool = False

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
    if (why := why_not_kept(job)) is not None:
        return why
    return not_started_text(job) or (
        "deleted: it was old (jobtop pin keeps all data)" if are_samples_deleted(job) else None
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
    facts = (output.directory.is_dir(), is_one_log(output.directory), has_terminal(output.directory))
    return ShownRows(tuple(rows), times, tuple(output.styles(rows)), output.size, *facts)


def row_pieces(
    row: Row,
    style: TextStyle = PLAIN,
    needle: str = "",
    longest: int = 4096,
    find: Callable[[str], Sequence[tuple[int, int]]] | None = None,
) -> list[Piece]:
    """A row as it is shown: in its colours, with visible and faint control characters, and marked matches.

    Matches are those of the needle, or what `find` returns.
    """
    if row.left_out is not None:
        return [Piece(f"[{format_bytes(row.left_out)} left out here: run.log_max]", Tone.YELLOW)]
    runs = _expanded(line_runs(row.raw, style)[0], longest)
    text = "".join(run.text for run in runs)
    matches = _matches(text, needle) if find is None else find(text)
    return [part for piece in _marked(runs, matches) for part in _with_controls(piece)]


def _expanded(runs: Sequence[Run], longest: int) -> list[Run]:
    """The first characters of the runs, with spaces instead of tabs."""
    found: list[Run] = []
    column = 0
    for text, style in runs:
        if "\t" in text:
            shift = column % TAB_CELLS
            text = (" " * shift + text[:longest]).expandtabs(TAB_CELLS)[shift:]  # noqa: PLW2901
        found.append(Run(text[: longest - column], style))
        column += len(text)
        if column >= longest:
            break
    return found


def _matches(text: str, needle: str) -> list[tuple[int, int]]:
    """Where the matches of a search begin and end."""
    searched = text.lower() if needle == needle.lower() else text
    found: list[tuple[int, int]] = []
    end = 0
    if needle and len(searched) == len(text):
        while (start := searched.find(needle, end)) >= 0:
            end = start + len(needle)
            found.append((start, end))
    return found


def _marked(runs: Sequence[Run], matches: Sequence[tuple[int, int]]) -> Iterator[Piece]:
    """The runs, cut at the edges of the matches; matches have a tone of their own."""
    edges = [edge for match in matches for edge in match]
    position, passed = 0, 0
    for text, style in runs:
        start, stop = position, position + len(text)
        while position < stop:
            while passed < len(edges) and edges[passed] <= position:
                passed += 1
            until = min(stop, edges[passed]) if passed < len(edges) else stop
            words, is_match = text[position - start : until - start], passed % 2 == 1
            yield Piece(words, Tone.ORANGE, True) if is_match else Piece(words, style)
            position = until


def _with_controls(piece: Piece) -> Iterator[Piece]:
    end = 0
    for control in _CONTROLS.finditer(piece.text):
        if control.start() > end:
            yield piece._replace(text=safe_text(piece.text[end : control.start()]))
        yield Piece(printable(control[0]), Tone.FAINT)
        end = control.end()
    if end < len(piece.text):
        yield piece._replace(text=safe_text(piece.text[end:]))
