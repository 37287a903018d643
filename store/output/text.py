"""What a job wrote as one text: both logs in the order of their marks, read by place and never whole.

A place is a number of bytes into that text. Up to a mark it holds what both logs held then, whatever comes later.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from itertools import pairwise
from operator import attrgetter

from jobtop.core.record import record
from jobtop.core.run.facts import read_marks
from jobtop.store.output.logs import STREAMS, Extent, extents, open_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from jobtop.core.run.facts import Mark

BLOCK_BYTES = 64 * 1024
LONGEST_ROW = 8 * 1024  # a line may have any length; in longer ones a row ends at multiples of this
SEARCHED_BYTES = 1024 * 1024
OVERWRITTEN_BYTES = 8 * SEARCHED_BYTES  # that are passed over at once, in search of what stayed
_ERASING = re.compile("\x1b\\[[02]?K")  # what stood on the line before


@record
class Row:
    """A line, or a piece of a long one, between two places; of a hole, how many bytes were left out."""

    place: int
    stop: int
    stream: int
    text: str
    left_out: int | None = None
    is_overwritten: bool = False  # by what follows on the same line


@record
class Part:
    """A stretch of the text that comes from one log; `begin` is its place."""

    begin: int
    stream: int
    start: int
    stop: int


@record
class Found:
    """Where something was found, or from where to go on looking; both None at the end."""

    place: int | None = None
    resume: int | None = None


class Output:
    """The logs of one job. Belongs to one thread; `refresh` takes in what was written since."""

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
        """Look at the logs again; `stored` are the marks where the file of them is gone."""
        for stream in self.streams:
            self._extents[stream] = self._look(stream)
            self.sizes[stream] = self._extents[stream][-1].stop if self._extents[stream] else 0
        news, self._marks_read = read_marks(self.directory, self._marks_read)
        for elapsed, *sizes in news or ([] if self._times else stored):
            for stream in self.streams:
                _extend(self._marked, self._done, stream, min(sizes[stream] or 0, self.sizes[stream]))
            self._times.append(elapsed)
            self._totals.append(sum(self._done))
        self._parts, done = self._marked.copy(), self._done.copy()
        for stream in self.streams:
            _extend(self._parts, done, stream, self.sizes[stream])
        self.size = sum(done)

    def moment(self, place: int) -> float | None:
        """By when the byte at a place had been written, in seconds since the start; None if no mark says so."""
        number = bisect_right(self._totals, place)
        return self._times[number] if number < len(self._times) else None

    def place_at(self, moment: float) -> int:
        """How much had been written by a moment: the place behind it."""
        number = bisect_right(self._times, moment)
        return self._totals[number - 1] if number else 0

    def rows(self, place: int, count: int) -> list[Row]:
        """So many rows from a place on where one begins."""
        found: list[Row] = []
        patience = place + OVERWRITTEN_BYTES
        while len(found) < count and place < self.size:
            part, extent = self._around(place)
            new = self._rows_from(part, extent, place)
            if not new:
                break
            found += [row for row in new if not row.is_overwritten or row.place > patience]
            place = new[-1].stop
        return found[:count]

    def rows_before(self, place: int, count: int) -> list[Row]:
        """So many rows that end at a place where one ends."""
        found: list[Row] = []
        patience = place - OVERWRITTEN_BYTES
        while len(found) < count and place > 0:
            part, extent = self._around(place - 1)
            new = self._rows_until(part, extent, place)
            if not new:
                break
            found = [row for row in new if not row.is_overwritten or row.place < patience] + found
            place = new[0].place
        return found[max(0, len(found) - count) :]

    def row_start(self, place: int) -> int:
        """Where the row begins that has this place in it."""
        part, extent = self._around(place)
        if extent.is_hole:
            return part.begin + extent.start - part.start
        offset = part.start + place - part.begin
        low = max(extent.start, offset - 4 * LONGEST_ROW)
        cuts = _cuts(self._read(part.stream, low, min(extent.stop, offset + LONGEST_ROW)), low)
        return part.begin + max((cut for cut in cuts if cut <= offset), default=low) - part.start

    def find(self, needle: str, place: int, forward: bool = True, budget: int = 8 * SEARCHED_BYTES) -> Found:
        """The next (or last) match behind (or before) a place, within so many bytes; small letters fit both."""
        wanted, ignores_case = needle.encode("utf-8", "replace"), needle == needle.lower()
        while budget > 0 and wanted and (place < self.size if forward else place > 0):
            part, extent = self._around(place if forward else place - 1)
            begin, offset = part.begin - part.start, part.start + place - part.begin
            low = offset if forward else max(extent.start, offset - SEARCHED_BYTES)
            high = min(extent.stop, offset + SEARCHED_BYTES) if forward else offset
            budget -= high - low
            # What lies across the edge of a block belongs to the block where it begins.
            edge = min(extent.stop, high + len(wanted) - 1)
            data = b"" if extent.is_hole else self._read(part.stream, low, edge)
            data = data.lower() if ignores_case else data
            at = data.find(wanted) if forward else data.rfind(wanted)
            if at >= 0:
                return Found(place=begin + low + at)
            place = begin + (high if forward else low)
        is_over = place >= self.size if forward else place <= 0
        return Found(resume=None if is_over else place)

    def _look(self, stream: int) -> list[Extent]:
        try:
            fd = open_log(self.directory, stream)
        except OSError:
            return []
        try:
            return extents(fd, os.fstat(fd).st_size)
        finally:
            os.close(fd)

    def _around(self, place: int) -> tuple[Part, Extent]:
        """The part of the text that has a place, and what of it is kept, or left out, around that."""
        part = self._parts[bisect_right(self._parts, place, key=attrgetter("begin")) - 1]
        offset = part.start + place - part.begin
        kept = self._extents[part.stream]
        extent = kept[bisect_right(kept, offset, key=attrgetter("start")) - 1]
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


def _extend(parts: list[Part], done: list[int], stream: int, stop: int) -> None:
    """Let the text go on with what a log holds up to an offset."""
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
    """The offsets where rows end in data that begins at `low`.

    They depend on the text alone, not on where reading began: behind the end of each line, and once up to every
    multiple of LONGEST_ROW before which there has been none for as long: where a program last began to paint over the
    line, or at the multiple itself.
    """
    ends = [low + match.end() for match in re.finditer(rb"\n", data)]
    first = -(-low // LONGEST_ROW) * LONGEST_ROW + LONGEST_ROW
    for aligned in range(first, low + len(data) + 1, LONGEST_ROW):
        position = bisect_right(ends, aligned)
        if not position or ends[position - 1] <= aligned - LONGEST_ROW:
            begun = data.rfind(b"\r", aligned - LONGEST_ROW - low, aligned - 1 - low)
            ends.insert(position, aligned if begun < 0 else low + begun + 1)
    return ends


def _rows(part: Part, extent: Extent, data: bytes, low: int, cuts: Sequence[int]) -> list[Row]:
    shift = part.begin - part.start
    rows = []
    for start, stop in pairwise(cuts):
        line = data[start - low : stop - low]
        is_overwritten = line.endswith(b"\r") and stop < extent.stop
        rows.append(Row(shift + start, shift + stop, part.stream, _text(line), is_overwritten=is_overwritten))
    return rows


def _hole(part: Part, extent: Extent) -> Row:
    shift, left_out = part.begin - part.start, extent.stop - extent.start
    return Row(shift + extent.start, shift + extent.stop, part.stream, "", left_out)


def _text(line: bytes) -> str:
    """What is seen of a line in the end: a carriage return leads back to its beginning, and what follows stands there.

    What is longer than that goes on behind it, unless it was erased.
    """
    text = line.removesuffix(b"\n").decode("utf-8", "replace")
    first, *later = text.split("\r")
    for painted in filter(None, later):
        kept, erasures = _ERASING.subn("", painted)
        first = kept if erasures else kept + first[len(kept) :]
    return first
