"""One log file of a job: its parts with data, the hole where its middle was removed, the start of its last lines."""

from __future__ import annotations

import os

from jobtop.core.record import record
from jobtop.core.state_files import open_job_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

CHUNK_BYTES = 256 * 1024
STREAMS = ("stdout", "stderr")


@record
class Extent:
    """A part of a log with data, or a hole: a part that was removed because the log grew too long."""

    start: int
    stop: int
    is_hole: bool


def log_path(directory: Path, stream: int) -> Path:
    """The log file of a job's stdout (0) or stderr (1)."""
    return directory / f"{STREAMS[stream]}.log"


def open_log(directory: Path, stream: int) -> int:
    """A descriptor to read a log; OSError if it does not exist."""
    return open_job_file(directory, f"{STREAMS[stream]}.log")


def is_one_log(directory: Path) -> bool:
    """Whether both streams of a job are kept in one log, because they were one terminal or one file."""
    out, err = log_sizes(directory)
    return out is not None and err is None


def log_sizes(directory: Path | str) -> tuple[int | None, ...]:
    """The sizes of a job's logs; None for one that does not exist."""
    return tuple(_size(f"{directory}/{stream}.log") for stream in STREAMS)


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def extent_at(fd: int, offset: int, end: int) -> Extent:
    """The data from an offset on, up to `end` at most, or the whole hole that begins there."""
    try:
        data_at = os.lseek(fd, offset, os.SEEK_DATA)
        if data_at > offset:
            return Extent(offset, data_at, True)
        return Extent(offset, min(os.lseek(fd, offset, os.SEEK_HOLE), end), False)
    except OSError:  # ENXIO: no data follows
        return Extent(offset, end, True)


def extents(fd: int, end: int) -> list[Extent]:
    """All extents of a log with `end` bytes, in order."""
    found: list[Extent] = []
    offset = 0
    while offset < end:
        extent = extent_at(fd, offset, end)
        offset = min(extent.stop, end)
        found.append(Extent(extent.start, offset, extent.is_hole))
    return found


def tail_start(directory: Path, stream: int, count: int) -> int:
    """The offset of the last `count` lines of a log; 0 if it does not exist. Holes have no lines and are not read."""
    try:
        fd = open_log(directory, stream)
    except OSError:
        return 0
    try:
        return _tail_start(fd, os.fstat(fd).st_size, count)
    except OSError:
        return 0
    finally:
        os.close(fd)


def _tail_start(fd: int, end: int, count: int) -> int:
    if not count or not end:
        return end
    missing = count + (os.pread(fd, 1, end - 1) == b"\n")  # line ends to find, from the end backwards
    for extent in reversed(extents(fd, end)):
        stop = extent.start if extent.is_hole else extent.stop
        while stop > extent.start:
            begin = max(extent.start, stop - CHUNK_BYTES)
            block = os.pread(fd, stop - begin, begin)
            if (newlines := block.count(b"\n")) >= missing:
                return begin + _newline_from_end(block, missing) + 1
            missing, stop = missing - newlines, begin
    return 0


def _newline_from_end(block: bytes, number: int) -> int:
    """The index of a newline, counted from the end: 1 is the last one."""
    index = len(block)
    for _ in range(number):
        index = block.rindex(b"\n", 0, index)
    return index
