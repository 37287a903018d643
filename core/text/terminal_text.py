"""The output of programs as a terminal shows it: text with colours. No escape sequence has any other effect. Pure.

SGR sequences (`ESC [ 1;31 m`) set the style of the text behind them, also on the next lines. Carriage returns,
backspaces and "erase line" act inside their own line, so that a progress bar is shown in its last state. All other
escape sequences are dropped; of a sequence without an end, only the introducer. Other control characters stay in the
text: `printable` makes them visible.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Color = int | tuple[int, int, int]  # a number from 0 to 255 of the terminal's palette, or red, green and blue

RESET = "\x1b[0m"
LONGEST_SGR = 256  # characters; a longer one has no effect
# Possessive quantifiers: an escape sequence without an end is read once, whatever its length.
# SI (\x0f) behind it: `tput sgr0` prints that in tmux and screen.
_SEQUENCE = r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]\x0f?|[\]PX^_][^\x00-\x1f\x7f]*+(?:\x07|\x1b\\)|[ -/]*+[0-~])?"
ESCAPE = re.compile(_SEQUENCE)
ESCAPE_BYTES = re.compile(_SEQUENCE.encode())
_SGR = re.compile(r"\x1b\[([0-9;:]*+)m\x0f?")
_SGR_BYTES = re.compile(rb"\x1b\[[0-9;:]*+m")
_TOKEN = re.compile(rf"[^\x1b\r\b]++|[\r\b]|{_SEQUENCE}")
_REWINDING = re.compile(r"[\r\b]|\x1b\[[0-2]?K")  # text behind these can overwrite text before them
_CONTROLS = re.compile(r"[\x1b\r\b]")
_ERASURES = {"\x1b[K": 0, "\x1b[0K": 0, "\x1b[1K": 1, "\x1b[2K": 2}
_SWITCHES = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 21: "underline"}
_OFF: dict[int, tuple[str, ...]] = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",)}
_EXTENDED = (38, 48, 58)  # the foreground, the background, and the colour of underlines, which is not shown


class TextStyle(NamedTuple):
    """The colours and the weight of a piece of text; None is the terminal's own colour."""

    foreground: Color | None = None
    background: Color | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False


class Run(NamedTuple):
    """A piece of text in one style."""

    text: str
    style: TextStyle


PLAIN = TextStyle()


class Line:
    """One line of a terminal: text is written at the cursor, over what is there."""

    def __init__(self, style: TextStyle = PLAIN) -> None:
        self.style = style
        self.characters: list[str] = []
        self.changed_from: int | None = None  # the first position that was written since this was last set to None
        self._styles: list[TextStyle] = []
        self._cursor = 0

    def write(self, text: str) -> None:
        """Write text without newlines; the style behind it is kept in `style`."""
        for token in _TOKEN.finditer(text):
            words = token[0]
            if words == "\r":
                self._cursor = 0
            elif words == "\b":
                self._cursor = max(0, self._cursor - 1)
            elif words[0] != "\x1b":
                self._put(words)
            elif (erasure := _ERASURES.get(words)) is not None:
                self._erase(erasure)
            else:
                self.style = after_sequence(self.style, words)

    def runs(self, start: int = 0) -> list[Run]:
        """The line from a position on, in pieces of one style."""
        found: list[Run] = []
        for style, same in groupby(self._styles[start:]):
            stop = start + sum(1 for _ in same)
            found.append(Run("".join(self.characters[start:stop]), style))
            start = stop
        return found

    def _put(self, text: str) -> None:
        start, stop = self._cursor, self._cursor + len(text)
        self.characters[start:stop] = text
        self._styles[start:stop] = [self.style] * len(text)
        self._mark(start)
        self._cursor = stop

    def _erase(self, erasure: int) -> None:
        """Erase to the end (0), from the start (1), or the whole line (2), which is then written from its start."""
        if erasure == 1:
            count = min(self._cursor, len(self.characters))
            self.characters[:count], self._styles[:count] = [" "] * count, [PLAIN] * count
            self._mark(0)
            return
        self._cursor = 0 if erasure == 2 else self._cursor
        if self._cursor < len(self.characters):
            del self.characters[self._cursor :], self._styles[self._cursor :]
            self._mark(self._cursor)

    def _mark(self, position: int) -> None:
        self.changed_from = position if self.changed_from is None else min(self.changed_from, position)


def line_runs(text: str, style: TextStyle = PLAIN) -> tuple[list[Run], TextStyle]:
    """A line as a terminal shows it in the end, and the style for the text behind it."""
    text = text.rstrip("\r")
    if _CONTROLS.search(text) is None:
        return ([Run(text, style)] if text else []), style
    if _REWINDING.search(text) is not None:
        line = Line(style)
        line.write(text)
        return line.runs(), line.style
    runs: list[Run] = []
    words: list[str] = []  # of the next run
    end = 0
    for sequence in ESCAPE.finditer(text):
        if sequence.start() > end:
            words.append(text[end : sequence.start()])
        before, style, end = style, after_sequence(style, sequence[0]), sequence.end()
        if words and style != before:
            runs.append(Run("".join(words), before))
            words.clear()
    if words or end < len(text):
        runs.append(Run("".join([*words, text[end:]]), style))
    return runs, style


def plain_line(text: str) -> str:
    """A line as a terminal shows it in the end, without its colours."""
    return "".join(run.text for run in line_runs(text)[0])


def colored_lines(data: bytes, color: bool) -> list[str]:
    """The lines of some output, safe to print on a terminal; each begins with its own colours and ends without any."""
    lines, style = data.decode("utf-8", "replace").split("\n"), PLAIN
    found = []
    for line in lines if lines[-1] else lines[:-1]:
        runs, style = line_runs(line, style)
        found.append(printed(runs, color))
    return found


def printed(runs: list[Run], color: bool) -> str:
    """Runs as text for a terminal that is in its own colours, and is so again behind them."""
    if not color:
        return "".join(safe_with_tabs(run.text) for run in runs)
    pieces, before = [], PLAIN
    for run in runs:
        if run.style != before:
            pieces.append(sgr(run.style, before))
            before = run.style
        pieces.append(safe_with_tabs(run.text))
    return "".join(pieces) + (RESET if before != PLAIN else "")


def safe_with_tabs(text: str) -> str:
    """Text without newlines as harmless text; tabs stay, all other control characters become visible."""
    return text if text.isprintable() else "\t".join(map(printable, text.split("\t")))


def without_escapes(data: bytes) -> bytes:
    """Output for a file: no escape sequences, and lines that end with a newline alone; all other bytes stay."""
    if b"\x1b" in data:
        data = ESCAPE_BYTES.sub(b"", data)
    if b"\r\n" not in data:
        return data
    *lines, rest = data.split(b"\n")
    return b"\n".join([*(line.rstrip(b"\r") for line in lines), rest])


def style_after(data: bytes, style: TextStyle = PLAIN) -> TextStyle:
    """The style for the text behind some output."""
    reset = max(data.rfind(b"\x1b[m"), data.rfind(b"\x1b[0m"))
    if reset >= 0:
        data, style = data[reset:], PLAIN
    for found in _SGR_BYTES.finditer(data):
        style = after_sequence(style, found[0].decode())
    return style


@lru_cache(maxsize=1024)
def after_sequence(style: TextStyle, sequence: str) -> TextStyle:
    """The style after an escape sequence, which is the same unless the sequence is SGR."""
    found = _SGR.fullmatch(sequence)
    return style if found is None else with_sgr(style, found[1])


def with_sgr(style: TextStyle, parameters: str) -> TextStyle:
    """The style after an SGR sequence with these parameters: `1;31`, `38;5;208`, `38:2::255:128:0`, nothing."""
    if len(parameters) > LONGEST_SGR:
        return style
    fields = iter(parameters.split(";"))
    for field in fields:
        first, *rest = field.split(":")
        code = _number(first)
        if code in _EXTENDED:
            color = _color([_number(part) for part in rest] if rest else _color_fields(fields), has_colons=bool(rest))
            if color is not None and code != 58:
                style = style._replace(foreground=color) if code == 38 else style._replace(background=color)
        elif code == 4 and rest:
            style = style._replace(underline=_number(rest[0]) != 0)
        else:
            style = _switched(style, code)
    return style


def _switched(style: TextStyle, code: int) -> TextStyle:
    if code == 0:
        return PLAIN
    if code in _SWITCHES:
        return style._replace(**{_SWITCHES[code]: True})
    if code in _OFF:
        return style._replace(**dict.fromkeys(_OFF[code], False))
    tens, digit = divmod(code, 10)
    if tens not in (3, 4, 9, 10) or (digit > 7 and code not in (39, 49)):
        return style
    color = None if digit > 7 else digit if tens < 9 else digit + 8
    return style._replace(foreground=color) if tens in (3, 9) else style._replace(background=color)


def _number(field: str) -> int:
    """A field as a number; an empty one is 0, and one that is too long is larger than any code."""
    return int(field or "0") if len(field) < 6 else 99999


def _color_fields(fields: Iterator[str]) -> list[int]:
    """The fields behind 38 or 48 that belong to it."""
    kind = _number(next(fields, ""))
    count = {5: 1, 2: 3}.get(kind, 0)
    return [kind, *(_number(next(fields, "")) for _ in range(count))]


def _color(values: list[int], has_colons: bool) -> Color | None:
    """The colour of `5;N` or `2;R;G;B`, with colons also `2:SPACE:R:G:B`; None if it has another form."""
    if values[:1] == [5] and len(values) >= 2 and values[1] < 256:
        return values[1]
    if values[:1] == [2]:
        parts = values[2:5] if has_colons and len(values) > 4 else values[1:4]
        if len(parts) == 3 and max(parts) < 256:
            return parts[0], parts[1], parts[2]
    return None


def sgr(style: TextStyle, before: TextStyle = PLAIN) -> str:
    """The SGR sequence that changes a terminal from one style to another."""
    if style == PLAIN:
        return RESET
    codes = [] if before == PLAIN else ["0"]
    codes += [str(code) for code, name in _SWITCHES.items() if code != 21 and getattr(style, name)]
    codes += _color_codes(style.foreground, 30) + _color_codes(style.background, 40)
    return f"\x1b[{';'.join(codes)}m"


def _color_codes(color: Color | None, base: int) -> list[str]:
    if color is None:
        return []
    if isinstance(color, tuple):
        return [f"{base + 8};2;{color[0]};{color[1]};{color[2]}"]
    if color >= 16:
        return [f"{base + 8};5;{color}"]
    return [str(base + color if color < 8 else base + 60 + color - 8)]
