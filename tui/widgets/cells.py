"""The contents of table cells: words, numbers, bars and sparklines, as pieces of text of an exact width. Pure."""

import math
import re
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol
from unicodedata import category

from rich.cells import cell_len, set_cell_size

from jobtop.core.record import record
from jobtop.core.series.drawing import BARS
from jobtop.core.units import ABSENT, format_duration, printable
from jobtop.tui.palette import Tone, load_tone

# Invisible characters (Unicode: Default_Ignorable_Code_Point, U+FFF9 to B) and emoji skin tones: they reverse text
# or join their neighbours, and terminals disagree about the width. Without them terminals agree.
UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U0001f3fb-\U0001f3ff\U000e0000-\U000e0fff]"
)
# More than three combining marks on one letter overlap the lines above and below.
_MARKS = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
STACKED = re.compile(f"({_MARKS}{{3}}){_MARKS}+")
CHARACTERS_PER_CELL = 4  # more than one, because some characters have no width; the rest is cut off
PERCENT_WIDTH = 5  # " 100%"
UNITS = "BKMGTPE"
LEVELS = 7  # a full block would touch the row above


class Align(Enum):
    LEFT = "left"
    RIGHT = "right"


class Span(NamedTuple):
    """A piece of a line, with its tone and weight."""

    text: str
    tone: Tone = Tone.TEXT
    bold: bool = False


class Cell(Protocol):
    """What a column shows of a row."""

    def spans(self, width: int, align: Align) -> Sequence[Span]:
        """Pieces with widths that add up to `width`."""
        ...


@record
class Words:
    """Text from anywhere, cut with `…` if it is too long. Numbers are text in a column that is aligned right."""

    text: str
    tone: Tone = Tone.TEXT
    bold: bool = False

    def spans(self, width: int, align: Align) -> Sequence[Span]:
        return (Span(fitted(self.text, width, align), self.tone, self.bold),)


@record
class Pieces:
    """Several pieces of text side by side, cut as one."""

    pieces: Sequence[Span]

    def spans(self, width: int, align: Align) -> Sequence[Span]:
        return aligned(self.pieces, width, align)


@record
class Sparkline:
    """The latest values, newest at the right, on a fixed scale from 0 to `top`; None is a gap."""

    values: Sequence[float | None]
    top: float = 100.0
    tone: Tone = Tone.BLUE

    def spans(self, width: int, align: Align) -> Sequence[Span]:
        return (Span(spark(self.values, self.top, width), self.tone),)


@record
class Bar:
    """A bar with its percentage, or text in grey if there is no percentage."""

    percent: float | None
    absent: str = ABSENT

    def spans(self, width: int, align: Align) -> Sequence[Span]:
        if self.percent is None:
            return (Span(fitted(self.absent, width, align), Tone.GREY),)
        label = Span(percent_words(self.percent).rjust(PERCENT_WIDTH)[-width:])
        return (*bar(self.percent, width - PERCENT_WIDTH), label)


def safe_text(text: str) -> str:
    """Text that is safe on any terminal and as wide as it seems: control characters are shown as escapes."""
    if text.isascii() and text.isprintable():
        return text
    text = STACKED.sub(r"\1", UNSEEN.sub("", printable(text)))
    return text if text.isprintable() else "".join(map(_assigned, text))


def _assigned(character: str) -> str:
    """The character, or an escape if Unicode assigns it no meaning: terminals disagree on whether to show it."""
    if character.isprintable() or category(character) != "Cn":
        return character
    return f"\\u{ord(character):04x}"


def fitted(text: str, width: int, align: Align = Align.LEFT) -> str:
    """The text in exactly `width` cells."""
    most = CHARACTERS_PER_CELL * max(0, width)
    is_endless, text = len(text) > most, safe_text(text[:most])
    used = len(text) if text.isascii() else cell_len(text)
    if is_endless or used > width:
        return set_cell_size(text, width - 1) + "…" if width > 0 else ""
    return text + " " * (width - used) if align is Align.LEFT else " " * (width - used) + text


def cut_middle(text: str, width: int, kept: int = 0) -> str:
    """The text in at most `width` cells: if it is too long, `…` stands for its middle, and the last `kept` stay."""
    text = safe_text(text)
    if cell_len(text) <= width:
        return text
    tail = min(max(0, width - 1), max(kept, (width + kept) // 2))
    end = ""
    for character in reversed(text[-tail:] if tail else ""):
        if cell_len(character + end) > tail:
            break
        end = character + end
    return (set_cell_size(text, width - 1 - cell_len(end)) + "…" + end) if width > 0 else ""


def aligned(pieces: Sequence[Span], width: int, align: Align = Align.LEFT) -> list[Span]:
    """The pieces in exactly `width` cells; the first piece that does not fit is cut, the rest is left out."""
    line: list[Span] = []
    left = width
    for position, (raw, tone, bold) in enumerate(pieces):
        most = CHARACTERS_PER_CELL * left
        text = safe_text(raw[: most + 1])
        used = cell_len(text)
        if len(raw) > most or used > left or (used == left and any(piece.text for piece in pieces[position + 1 :])):
            line.append(Span(fitted(f"{text} ", left), tone, bold))
            return line
        line.append(Span(text, tone, bold))
        left -= used
    if left:
        line.insert(len(line) if align is Align.LEFT else 0, Span(" " * left))
    return line


def width_of(pieces: Sequence[Span]) -> int:
    """The number of cells that escaped pieces take."""
    return sum(cell_len(piece.text) for piece in pieces)


def spark(values: Sequence[float | None], top: float, width: int) -> str:
    """One block character for each value, newest at the right."""
    shown = values[-width:] if width > 0 else ()
    scale = LEVELS / top if top > 0 else 0.0
    blocks = [" " if value is None else BARS[min(LEVELS - 1, max(0, int(value * scale)))] for value in shown]
    return "".join(blocks).rjust(width)


def area(values: Sequence[float | None], top: float, width: int, rows: int) -> list[str]:
    """The values as an area over several rows; a known value always shows at least a low block."""
    shown = [*[None] * (width - len(values)), *values[-width:]] if width > 0 else []
    scale = (8 * rows - 1) / top if top > 0 else 0.0
    heights = [0 if value is None else 1 + min(8 * rows - 2, max(0, int(value * scale))) for value in shown]
    blocks = " " + BARS
    return ["".join(blocks[min(8, max(0, height - 8 * row))] for height in heights) for row in reversed(range(rows))]


def bar(percent: float | None, width: int, tone: Tone | None = None) -> Sequence[Span]:
    """`━━━╸───`: a bar with a resolution of half a cell; without a given tone, its colour depends on the percentage."""
    if width <= 0:
        return ()
    if percent is None:
        return (Span("─" * width, Tone.FAINT),)
    halves = min(2 * width, max(1 if percent > 0 else 0, round(percent * width / 50)))
    filled = "━" * (halves // 2) + "╸" * (halves % 2)
    rest = Span("─" * (width - len(filled)), Tone.FAINT)
    return (Span(filled, load_tone(percent) if tone is None else tone), rest) if filled else (rest,)


def percent_words(percent: float | None) -> str:
    """`42%`, `380%`: without decimals, because the bar beside it is precise enough."""
    return ABSENT if percent is None or not math.isfinite(percent) else f"{percent:.0f}%"


def short_bytes(size: float | None) -> str:
    """`512B`, `4.4G`, `570M`: at most five cells, in binary units."""
    if size is None or not math.isfinite(size):
        return ABSENT
    if size < 999.5:
        return f"{size:.0f}B"
    power = 1
    while size >= 999.5 * 1024**power and power < len(UNITS) - 1:
        power += 1
    size /= 1024**power
    return f"{size:.1f}{UNITS[power]}" if size < 99.95 else f"{size:.0f}{UNITS[power]}"


def bounded(words: str, is_bound: bool) -> str:
    """`≤6.6M`: the value is an upper bound."""
    return f"≤{words}" if is_bound else words


def short_rate(rate: float | None) -> str:
    """`9.1M/s`: at most seven cells."""
    return ABSENT if rate is None else f"{short_bytes(rate)}/s"


def short_duration(seconds: float | None) -> str:
    """A time that counts up: `37s`, `1m06s`, `2h05m`, `12d03h`: at most seven cells, without decimals."""
    return format_duration(seconds, is_counting=True)
