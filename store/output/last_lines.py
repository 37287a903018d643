"""The end of a job's output that explains why it failed: its last traceback, or its last lines."""

from __future__ import annotations

import os

from jobtop.core.text.terminal_text import without_escapes
from jobtop.store.output.logs import open_log
from jobtop.store.output.text import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TRACEBACK = "Traceback (most recent call last):"
LAST_LINES = 10
LONGEST_TRACEBACK = 40  # lines; of a longer one the end, which has the error
SEARCHED_LINES = 60  # a traceback may have a little other output after it
LONGEST_LINE = 2000


def read_error_lines(directory: Path) -> tuple[str, ...]:
    """The last traceback of stderr, else its last lines; of stdout if stderr is empty or both streams are one log.

    Colours and other escape sequences are removed. Empty if there is no output.
    """
    for stream in (1, 0):
        output = Output(directory, [stream])
        output.refresh()
        rows = output.rows_before(output.size, SEARCHED_LINES)
        lines = [_plain(row.text) for row in rows if row.left_out is None]
        if written := [line for line in lines if line]:
            return tuple(_traceback(written) or written[-LAST_LINES:])
    return ()


def _plain(text: str) -> str:
    return without_escapes(text.encode("utf-8", "replace")).decode("utf-8", "replace")[:LONGEST_LINE].rstrip()


def _traceback(lines: Sequence[str]) -> Sequence[str]:
    """The last traceback, up to its error; empty if there is none."""
    starts = [index for index, line in enumerate(lines) if line.strip() == TRACEBACK]
    if not starts:
        return ()
    start = starts[-1]
    indent = len(lines[start]) - len(lines[start].lstrip())
    body = lines[start + 1 :]
    end = next((at for at, line in enumerate(body) if not line[indent:].startswith(" ")), len(body) - 1)
    found = lines[start : start + end + 2]
    return found if len(found) <= LONGEST_TRACEBACK else (found[0], *found[1 - LONGEST_TRACEBACK :])


def read_end(directory: Path, stream: int, most_bytes: int) -> str | None:
    """The last bytes of stdout (0) or stderr (1) as text, from the start of a character; None if it was not kept."""
    try:
        fd = open_log(directory, stream)
    except OSError:
        return None
    try:
        size = os.fstat(fd).st_size
        data = os.pread(fd, most_bytes, max(0, size - most_bytes))
    finally:
        os.close(fd)
    cut = size > most_bytes
    while cut and data and data[0] & 0xC0 == 0x80:  # the rest of a character in UTF-8
        data = data[1:]
    return data.decode("utf-8", "replace")
