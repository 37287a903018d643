"""The whole output of a job as bytes, both streams in the order in which they were written."""

from __future__ import annotations

import os

from jobtop.core.units import format_bytes
from jobtop.store.output.logs import CHUNK_BYTES, extent_at, open_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from jobtop.core.run.facts import Mark


def read_output(directory: Path, streams: Sequence[int], marks: Iterable[Mark] = ()) -> bytes:
    """What a job has written to stdout (0), stderr (1) or both; `marks` place the output of both in time."""
    logs = [_Log(directory, stream) for stream in streams]
    parts: list[bytes] = []
    for _, *sizes in marks if len(streams) > 1 else ():
        parts += [log.read(size) for log, size in zip(logs, sizes, strict=True)]
    parts += [log.read(None) for log in logs]
    return b"".join(parts)


class _Log:
    """One log, read from its start on."""

    def __init__(self, directory: Path, stream: int) -> None:
        self.directory, self.stream, self.offset = directory, stream, 0

    def read(self, until: int | None) -> bytes:
        """What follows, up to an offset, or to the end; a hole is a line that says how much is missing."""
        try:
            fd = open_log(self.directory, self.stream)
        except OSError:
            return b""
        parts = []
        try:
            size = os.fstat(fd).st_size
            end = size if until is None else min(until, size)
            while self.offset < end:
                extent = extent_at(fd, self.offset, end)
                if extent.is_hole:
                    parts.append(left_out_line(extent.stop - extent.start))
                    self.offset = extent.stop
                    continue
                parts.append(os.pread(fd, min(CHUNK_BYTES, extent.stop - self.offset), self.offset))
                self.offset += len(parts[-1])
        finally:
            os.close(fd)
        return b"".join(parts)


def left_out_line(size: int) -> bytes:
    """The line in place of the middle of a long log, which was removed."""
    return f"\n[jobtop: {format_bytes(size)} left out here: run.log_max]\n".encode()
