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
    """Where the last `count` lines of a log begin; 0 if it is not there."""
    try:
        with open(open_log(directory, stream), "rb") as file:
            end = file.seek(0, os.SEEK_END)
            begin, newlines = end, 0
            while begin > 0 and newlines <= count:
                begin = max(0, begin - CHUNK_BYTES)
                file.seek(begin)
                block = file.read(min(CHUNK_BYTES, end - begin))
                newlines += block.count(b"\n")
            file.seek(begin)
            text = file.read(end - begin)
    except OSError:
        return 0
    lines = [line + b"\n" for line in text.removesuffix(b"\n").split(b"\n")]
    missing = 0 if text.endswith(b"\n") else 1
    return end - max(0, sum(map(len, lines[-count:] if count else [])) - missing)
