"""What the terminal shows, cell by cell: only what differs from it is written, with the shortest sequences."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from rich.cells import cell_len, get_character_cell_size
from rich.color import ColorSystem
from rich.segment import Segment

NEAR_CELLS = 6  # unchanged cells between two changed ones: writing them again is shorter than to move the cursor
PLAIN = ("", "", "")  # attributes, foreground, background

Codes = tuple[str, str, str]


@lru_cache(maxsize=4096)
def codes_of(sgr: str) -> Codes:
    """The attributes, the foreground and the background of a sequence such as 1;38;2;86;180;233;40."""
    parts: dict[str, list[str]] = {"attributes": [], "text": [], "behind": []}
    words = iter(sgr.split(";") if sgr else ())
    for word in words:
        number = int(word)
        kind = "text" if number in FOREGROUNDS else "behind" if number in BACKGROUNDS else "attributes"
        parts[kind].append(word)
        if number in (38, 48):
            form = next(words)
            parts[kind] += [form, *(next(words) for _ in range(3 if form == "2" else 1))]
    attributes, text, behind = (";".join(found) for found in parts.values())
    return attributes, text, behind


FOREGROUNDS = frozenset({*range(30, 40), *range(90, 98)})
BACKGROUNDS = frozenset({*range(40, 50), *range(100, 108)})


class ScreenMemory:
    """The cells of a screen: as they should be, and as they were sent.

    A cell is the text in it and its codes. The second cell of a wide character has no text. A cell that was sent as
    None is not known, and will be written.
    """

    def __init__(self, width: int, height: int, color_system: ColorSystem = ColorSystem.TRUECOLOR) -> None:
        self.width, self.height, self.color_system = width, height, color_system
        self._text = [[" "] * width for _ in range(height)]
        self._codes = [[PLAIN] * width for _ in range(height)]
        self._sent_text: list[list[str | None]] = [[None] * width for _ in range(height)]
        self._sent_codes = [[PLAIN] * width for _ in range(height)]
        self._touched = set(range(height))

    def forget(self) -> None:
        """Note that it is not known what the terminal shows."""
        for y in range(self.height):
            self._sent_text[y] = [None] * self.width
        self._touched.update(range(self.height))

    def put(self, x: int, y: int, segments: Iterable[Segment], end: int | None = None) -> int:
        """Set cells of a line from `x` on, and before `end`; return the cell behind them."""
        if not 0 <= y < self.height:
            return x
        text: list[str] = []
        codes: list[Codes] = []
        for segment in segments:
            cells = cells_of(segment.text)
            text += cells
            sgr = "" if segment.style is None else segment.style._make_ansi_codes(self.color_system)
            codes += [codes_of(sgr)] * len(cells)
        end = min(self.width, x + len(text), self.width if end is None else end)
        if end > x >= 0:
            self._text[y][x:end] = text[: end - x]
            self._codes[y][x:end] = codes[: end - x]
            self._touched.add(y)
        return x + len(text)

    def changes(self) -> str:
        """The sequence that makes the terminal show what it should; empty if it does."""
        written: list[str] = []
        codes = PLAIN
        for y in sorted(self._touched):
            at = None
            for begin, end in self._changed_runs(y):
                if at is None:
                    written.append(f"\x1b[{y + 1};{begin + 1}H" if begin else f"\x1b[{y + 1}H")
                else:
                    written.append(f"\x1b[{begin - at}C" if begin - at > 1 else "\x1b[C")
                codes = self._write_run(y, begin, end, codes, written)
                at = end
        self._touched.clear()
        if written:
            written.append("\x1b[m")
        return "".join(written)

    def _changed_runs(self, y: int) -> list[tuple[int, int]]:
        """The parts of a line that have to be written; those that are near each other are one."""
        text, codes, sent_text, sent_codes = self._text[y], self._codes[y], self._sent_text[y], self._sent_codes[y]
        if text == sent_text and codes == sent_codes:
            return []
        runs: list[tuple[int, int]] = []
        for x in range(self.width):
            if text[x] == sent_text[x] and codes[x] == sent_codes[x]:
                continue
            # A wide character is written as a whole, also if only its second cell has changed.
            begin = x - 1 if not text[x] and x else x
            end = x + 2 if x + 1 < self.width and not text[x + 1] else x + 1
            if runs and begin - runs[-1][1] <= NEAR_CELLS:
                runs[-1] = runs[-1][0], max(end, runs[-1][1])
            else:
                runs.append((begin, end))
        self._sent_text[y], self._sent_codes[y] = list(text), list(codes)
        return runs

    def _write_run(self, y: int, begin: int, end: int, codes: Codes, written: list[str]) -> Codes:
        line, line_codes = self._text[y], self._codes[y]
        for x in range(begin, end):
            if line_codes[x] is not codes and line_codes[x] != codes:
                written.append(transition(codes, line_codes[x]))
                codes = line_codes[x]
            written.append(line[x])
        return codes


def cells_of(text: str) -> list[str]:
    """The text of each cell; a wide character has a second cell without text, a combining one has none of its own."""
    if text.isascii() or cell_len(text) == len(text):
        return list(text)
    cells: list[str] = []
    for character in text:
        size = get_character_cell_size(character)
        if size == 0 and cells:
            cells[-1] += character
        else:
            cells += [character, *[""] * (size - 1)]
    return cells


@lru_cache(maxsize=4096)
def transition(before: Codes, after: Codes) -> str:
    """The sequence that changes the style; attributes can only be switched off all together."""
    if after == PLAIN:
        return "\x1b[m"
    if before[0] == after[0] and not (before[1] and not after[1]) and not (before[2] and not after[2]):
        return f"\x1b[{';'.join(new for old, new in zip(before[1:], after[1:], strict=True) if new != old)}m"
    return f"\x1b[{';'.join(['0', *filter(None, after)]) if before != PLAIN else ';'.join(filter(None, after))}m"
