"""The output of a program as it comes, in chunks of any size: for a terminal with its colours, for a pipe without."""

from __future__ import annotations

import codecs
import re

from jobtop.core.text.terminal_text import (
    PLAIN,
    RESET,
    Line,
    Run,
    TextStyle,
    line_runs,
    safe_with_tabs,
    sgr,
    without_escapes,
)

LONGEST_HELD = 4096  # an escape sequence without an end is waited for only up to this length
LONGEST_LINE = 16 * 1024  # a longer line is not overwritten from its start any more
_INCOMPLETE = r"\x1b(?:\[[0-?]*+[ -/]*+|[\]PX^_][^\x00-\x1f\x7f]*+\x1b?|[ -/]*+)?\Z|(?<!\r)\r++\Z"
_INCOMPLETE_TEXT = re.compile(_INCOMPLETE)
_INCOMPLETE_BYTES = re.compile(_INCOMPLETE.encode())


class TerminalStream:
    """Output for a terminal: colours pass, no other escape sequence does; control characters become visible.

    A line that is drawn again, such as a progress bar, is printed once if that happened between two chunks, else it
    is printed again in its place. Between two chunks the terminal is always in its own colours.
    """

    def __init__(self, color: bool) -> None:
        self.color = color
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._line = Line()
        self._shown = 0  # cells of the line that are on the terminal
        self._style = PLAIN  # of the terminal
        self._pieces: list[str] = []

    def begin_with(self, style: TextStyle) -> None:
        """Begin in a style that earlier output has set."""
        self._line = Line(style)

    def feed(self, data: bytes, is_end: bool = False) -> str:
        """What to print for the next chunk."""
        text = self._held + self._decoder.decode(data, is_end)
        self._held = ""
        if not is_end and (found := _INCOMPLETE_TEXT.search(text, max(0, len(text) - LONGEST_HELD))) is not None:
            text, self._held = text[: found.start()], found[0]
        *lines, rest = text.split("\n")
        for line in lines:
            self._finish_line(line)
        if rest:
            self._line.write(rest)
            self._show_changes()
            if len(self._line.characters) > LONGEST_LINE:
                self._line, self._shown = Line(self._line.style), 0
        if self._style != PLAIN:
            self._pieces.append(RESET)
            self._style = PLAIN
        printed, self._pieces = "".join(self._pieces), []
        return printed

    def _finish_line(self, text: str) -> None:
        if self._shown or self._line.characters:
            self._line.write(text.rstrip("\r"))
            self._show_changes()
            style = self._line.style
        else:
            runs, style = line_runs(text, self._line.style)
            self._print(runs)
        self._pieces.append("\n")
        self._line, self._shown = Line(style), 0

    def _show_changes(self) -> None:
        line = self._line
        changed, line.changed_from = line.changed_from, None
        if changed is None:
            return
        length = len(line.characters)
        if changed >= self._shown:
            self._print(line.runs(self._shown))
        else:
            self._pieces.append("\r")
            self._print([*line.runs(), Run(" " * (self._shown - length), PLAIN)])
        self._shown = max(self._shown, length)

    def _print(self, runs: list[Run]) -> None:
        for text, style in runs:
            if self.color and style != self._style and text:
                self._pieces.append(sgr(style, self._style))
                self._style = style
            self._pieces.append(safe_with_tabs(text))


class PlainStream:
    """Output for a pipe: without escape sequences, and with lines that end with a newline alone."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes, is_end: bool = False) -> bytes:
        """What to write for the next chunk."""
        data, self._held = self._held + data, b""
        if not is_end and (found := _INCOMPLETE_BYTES.search(data, max(0, len(data) - LONGEST_HELD))) is not None:
            data, self._held = data[: found.start()], found[0]
        return without_escapes(data)
