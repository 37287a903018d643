"""One log of a job: what is kept of it, where its middle was left out, where its last lines begin."""

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
    """A part of a log that is kept, or one that was left out because the log grew too long."""

    start: int
    stop: int
    is_hole: bool


def log_path(directory: Path, stream: int) -> Path:
    """Where the output of a job (0) or its errors (1) are kept."""
    return directory / f"{STREAMS[stream]}.log"


def open_log(directory: Path, stream: int) -> int:
    """A descriptor to read a log; OSError if there is none."""
    return open_job_file(directory, f"{STREAMS[stream]}.log")


def extent_at(fd: int, offset: int, end: int) -> Extent:
    """What is kept from an offset on, up to `end`, or all that is left out there."""
    try:
        data_at = os.lseek(fd, offset, os.SEEK_DATA)
        if data_at > offset:
            return Extent(offset, data_at, True)
        return Extent(offset, min(os.lseek(fd, offset, os.SEEK_HOLE), end), False)
    except OSError:  # ENXIO: nothing but hole from here on
        return Extent(offset, end, True)


def extents(fd: int, end: int) -> list[Extent]:
    """All of a log that long, in order."""
    found: list[Extent] = []
    offset = 0
    while offset < end:
        extent = extent_at(fd, offset, end)
        offset = min(extent.stop, end)
        found.append(Extent(extent.start, offset, extent.is_hole))
    return found


def tail_start(directory: Path, stream: int, count: int) -> int:
    """Where the last `count` lines of a log begin; 0 if it is not there. Holes have no lines and are not read."""
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
    missing = count + (os.pread(fd, 1, end - 1) == b"\n")  # ends of lines still to be found, going backwards
    for extent in reversed(extents(fd, end)):
        stop = extent.start if extent.is_hole else extent.stop
        while stop > extent.start:
            begin = max(extent.start, stop - CHUNK_BYTES)
            block = os.pread(fd, stop - begin, begin)
            if (found := block.count(b"\n")) >= missing:
                return begin + _last_newline(block, missing) + 1
            missing, stop = missing - found, begin
    return 0


def _last_newline(block: bytes, number: int) -> int:
    """Where the last end of a line is, or the one so many before it."""
    place = len(block)
    for _ in range(number):
        place = block.rindex(b"\n", 0, place)
    return place
