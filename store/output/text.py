"""The output of a job as one text: both logs, interleaved at their marks; only the requested parts are read.

A place is a byte offset in that text. A mark holds the sizes of both logs at a moment: all bytes that were written
before a mark come before all bytes that were written after it.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from itertools import pairwise
from operator import attrgetter

from jobtop.core.record import record
from jobtop.core.run.facts import read_marks
from jobtop.core.text.terminal_text import ESCAPE_BYTES, PLAIN, plain_line, style_after
from jobtop.store.output.logs import STREAMS, Extent, extents, open_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from jobtop.core.run.facts import Mark
    from jobtop.core.text.terminal_text import TextStyle

BLOCK_BYTES = 64 * 1024
LONGEST_ROW = 8 * 1024  # a longer line is cut into rows at multiples of this
SEARCHED_BYTES = 1024 * 1024
OVERWRITTEN_BYTES = 8 * SEARCHED_BYTES  # overwritten rows are skipped for this many bytes
LONGEST_COLORS = 64  # of the escape sequences inside a match at the edge of two blocks
STYLE_BYTES = 64 * 1024  # before a row, in which the colours that are still set at its start are looked for


@record
class Row:
    """A line, or a part of a long line, between two places; for a hole, `left_out` is its size."""

    place: int
    stop: int
    stream: int
    raw: str  # without its newline, but with escape sequences and carriage returns
    left_out: int | None = None
    is_overwritten: bool = False  # a carriage return follows, and the line continues

    @property
    def text(self) -> str:
        """The row as a terminal shows it in the end, without colours."""
        return plain_line(self.raw)


@record
class Part:
    """A part of the text that comes from one log: its place, and its offsets in the log."""

    begin: int
    stream: int
    start: int
    stop: int


@record
class Found:
    """The place of a match, or the place to resume the search at; both None if the whole text was searched."""

    place: int | None = None
    resume: int | None = None


class Output:
    """The output of one job, for use by one thread; `refresh` reads how far the logs have grown."""

    def __init__(self, directory: Path, streams: Sequence[int] = (0, 1)) -> None:
        self.directory, self.streams = directory, tuple(streams)
        self.size = 0
        self.sizes = [0] * len(STREAMS)
        self._extents: list[list[Extent]] = [[] for _ in STREAMS]
        self._marks_read = 0
        self._times: list[float] = []
        self._totals: list[int] = []
        self._marked: list[Part] = []
        self._done = [0] * len(STREAMS)
        self._parts: list[Part] = []

    def refresh(self, stored: Iterable[Mark] = ()) -> None:
        """Read the sizes and the new marks of the logs; `stored` marks are used if the file of marks was deleted."""
        for stream in self.streams:
            self._extents[stream] = self._read_extents(stream)
            self.sizes[stream] = self._extents[stream][-1].stop if self._extents[stream] else 0
        new_marks, self._marks_read = read_marks(self.directory, self._marks_read)
        for elapsed, *sizes in new_marks or ([] if self._times else stored):
            for stream in self.streams:
                _extend(self._marked, self._done, stream, min(sizes[stream] or 0, self.sizes[stream]))
            self._times.append(elapsed)
            self._totals.append(sum(self._done))
        self._parts, done = self._marked.copy(), self._done.copy()
        for stream in self.streams:
            _extend(self._parts, done, stream, self.sizes[stream])
        self.size = sum(done)

    def moment(self, place: int) -> float | None:
        """The time of the first mark after a place, in seconds since the start; None if there is no such mark."""
        number = bisect_right(self._totals, place)
        return self._times[number] if number < len(self._times) else None

    def place_at(self, moment: float) -> int:
        """The place of the last mark up to a moment: the number of bytes that had been written by then."""
        number = bisect_right(self._times, moment)
        return self._totals[number - 1] if number else 0

    def rows(self, place: int, count: int) -> list[Row]:
        """At most `count` rows from a place on, which has to be the start of a row."""
        found: list[Row] = []
        skip_until = place + OVERWRITTEN_BYTES
        while len(found) < count and place < self.size:
            part, extent = self._around(place)
            new = self._rows_from(part, extent, place)
            if not new:
                break
            found += [row for row in new if not row.is_overwritten or row.place > skip_until]
            place = new[-1].stop
        return found[:count]

    def rows_before(self, place: int, count: int) -> list[Row]:
        """At most `count` rows before a place, which has to be the end of a row."""
        found: list[Row] = []
        skip_until = place - OVERWRITTEN_BYTES
        while len(found) < count and place > 0:
            part, extent = self._around(place - 1)
            new = self._rows_until(part, extent, place)
            if not new:
                break
            found = [row for row in new if not row.is_overwritten or row.place < skip_until] + found
            place = new[0].place
        return found[max(0, len(found) - count) :]

    def row_start(self, place: int) -> int:
        """The start of the row that contains a place."""
        part, extent = self._around(place)
        if extent.is_hole:
            return part.begin + extent.start - part.start
        offset = part.start + place - part.begin
        low = max(extent.start, offset - 4 * LONGEST_ROW)
        cuts = _cuts(self._read(part.stream, low, min(extent.stop, offset + LONGEST_ROW)), low)
        return part.begin + max((cut for cut in cuts if cut <= offset), default=low) - part.start

    def styles(self, rows: Sequence[Row]) -> list[TextStyle]:
        """The style at the start of each row: what the same log has set before it and not reset."""
        found, known = [], dict.fromkeys(self.streams, (0, PLAIN))  # known: the style at an offset of each log
        for row in rows:
            part, _ = self._around(row.place)
            offset = part.start + row.place - part.begin
            at, style = known[row.stream]
            if at != offset:
                style = style_after(self._read(row.stream, max(0, offset - STYLE_BYTES), offset))
            found.append(style)
            after = style_after(row.raw.encode(), style) if "\x1b" in row.raw else style
            known[row.stream] = offset + row.stop - row.place, after
        return found

    def find(self, needle: str, place: int, forward: bool = True, budget: int = 8 * SEARCHED_BYTES) -> Found:
        """The next match after a place, or the last before it, within `budget` bytes; lower case matches any case."""
        wanted, ignores_case = needle.encode("utf-8", "replace"), needle == needle.lower()
        while budget > 0 and wanted and (place < self.size if forward else place > 0):
            part, extent = self._around(place if forward else place - 1)
            begin, offset = part.begin - part.start, part.start + place - part.begin
            low = offset if forward else max(extent.start, offset - SEARCHED_BYTES)
            high = min(extent.stop, offset + SEARCHED_BYTES) if forward else offset
            budget -= high - low
            # A match across the edge of two blocks belongs to the block where it begins.
            edge = min(extent.stop, high + len(wanted) - 1 + LONGEST_COLORS)
            data = b"" if extent.is_hole else self._read(part.stream, low, edge)
            at = _match(data.lower() if ignores_case else data, wanted, high - low, forward)
            if at >= 0:
                return Found(place=begin + low + at)
            place = begin + (high if forward else low)
        is_at_end = place >= self.size if forward else place <= 0
        return Found(resume=None if is_at_end else place)

    def _read_extents(self, stream: int) -> list[Extent]:
        try:
            fd = open_log(self.directory, stream)
        except OSError:
            return []
        try:
            return extents(fd, os.fstat(fd).st_size)
        finally:
            os.close(fd)

    def _around(self, place: int) -> tuple[Part, Extent]:
        """The part that contains a place, and the extent within that part around the place."""
        part = self._parts[bisect_right(self._parts, place, key=attrgetter("begin")) - 1]
        offset = part.start + place - part.begin
        of_log = self._extents[part.stream]
        extent = of_log[bisect_right(of_log, offset, key=attrgetter("start")) - 1]
        return part, Extent(max(extent.start, part.start), min(extent.stop, part.stop), extent.is_hole)

    def _rows_from(self, part: Part, extent: Extent, place: int) -> list[Row]:
        if extent.is_hole:
            return [_hole(part, extent)]
        offset = part.start + place - part.begin
        low, high = max(extent.start, offset - LONGEST_ROW), min(extent.stop, offset + BLOCK_BYTES)
        data = self._read(part.stream, low, high)
        cuts = [cut for cut in _cuts(data, low) if offset < cut <= high]
        if high == extent.stop and (not cuts or cuts[-1] < high):
            cuts.append(high)
        return _rows(part, extent, data, low, [offset, *cuts])

    def _rows_until(self, part: Part, extent: Extent, place: int) -> list[Row]:
        if extent.is_hole:
            return [_hole(part, extent)]
        offset = part.start + place - part.begin
        low = max(extent.start, offset - BLOCK_BYTES)
        data = self._read(part.stream, low, offset)
        cuts = [cut for cut in _cuts(data, low) if cut < offset]
        if low == extent.start or not cuts:
            cuts.insert(0, low)
        return _rows(part, extent, data, low, [*cuts, offset])

    def _read(self, stream: int, start: int, stop: int) -> bytes:
        try:
            fd = open_log(self.directory, stream)
        except OSError:
            return b""
        try:
            return os.pread(fd, max(0, stop - start), start)
        finally:
            os.close(fd)


def _match(data: bytes, wanted: bytes, stop: int, forward: bool) -> int:
    """The first or the last match that begins before `stop`; escape sequences are skipped. -1 if there is none."""
    pieces: list[bytes] = []
    positions: list[int] = []  # of the escape sequences, in the data without them
    removed = [0]  # bytes of escape sequences up to and with each of them
    end = 0
    for sequence in ESCAPE_BYTES.finditer(data) if b"\x1b" in data else ():
        pieces.append(data[end : sequence.start()])
        positions.append(sequence.start() - removed[-1])
        removed.append(removed[-1] + len(sequence[0]))
        end = sequence.end()
    text = b"".join([*pieces, data[end:]]) if pieces else data
    search = text.find if forward else text.rfind
    before_stop = sum(position + skipped < stop for position, skipped in zip(positions, removed, strict=False))
    at = search(wanted, 0, stop - removed[before_stop] + len(wanted) - 1)
    return at if at < 0 else at + removed[bisect_right(positions, at)]


def _extend(parts: list[Part], done: list[int], stream: int, stop: int) -> None:
    """Append to the text what a log has up to an offset."""
    start = done[stream]
    if stop <= start:
        return
    if parts and parts[-1].stream == stream:
        last = parts[-1]
        parts[-1] = Part(last.begin, stream, last.start, stop)
    else:
        parts.append(Part(sum(done), stream, start, stop))
    done[stream] = stop


def _cuts(data: bytes, low: int) -> list[int]:
    """The offsets where rows end, in data that begins at the offset `low`.

    They depend on the text alone, not on where reading began. A row ends after each newline. A row also ends at a
    multiple of LONGEST_ROW if none has ended in the LONGEST_ROW bytes before it; if there is a carriage return in these
    bytes, the row ends after the last one instead.
    """
    ends = [low + match.end() for match in re.finditer(rb"\n", data)]
    first = -(-low // LONGEST_ROW) * LONGEST_ROW + LONGEST_ROW
    for aligned in range(first, low + len(data) + 1, LONGEST_ROW):
        position = bisect_right(ends, aligned)
        if not position or ends[position - 1] <= aligned - LONGEST_ROW:
            carriage_return = data.rfind(b"\r", aligned - LONGEST_ROW - low, aligned - 1 - low)
            ends.insert(position, aligned if carriage_return < 0 else low + carriage_return + 1)
    return ends


def _rows(part: Part, extent: Extent, data: bytes, low: int, cuts: Sequence[int]) -> list[Row]:
    shift = part.begin - part.start
    rows = []
    for start, stop in pairwise(cuts):
        line = data[start - low : stop - low]
        is_overwritten = line.endswith(b"\r") and stop < extent.stop
        raw = line.removesuffix(b"\n").decode("utf-8", "replace")
        rows.append(Row(shift + start, shift + stop, part.stream, raw, is_overwritten=is_overwritten))
    return rows


def _hole(part: Part, extent: Extent) -> Row:
    shift, left_out = part.begin - part.start, extent.stop - extent.start
    return Row(shift + extent.start, shift + extent.stop, part.stream, "", left_out)
