"""Curves as dots in character cells: eight dots of braille a cell, or one where a terminal has none. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from itertools import groupby

BRAILLE = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # by column and row of a cell
SINGLE = ((1,),)
BRAILLE_BLANK = 0x2800
NOBODY = -1

Extent = tuple[float, float]  # the least and the greatest value that a column of dots shows


class Layer:
    """The dots of one curve."""

    def __init__(self, columns: int, rows: int, dots: tuple[tuple[int, ...], ...] = BRAILLE) -> None:
        self.dots = dots
        self.width, self.height = columns * len(dots), rows * len(dots[0])
        self.rows = [bytearray(columns) for _ in range(rows)]

    def run(self, x: int, top: int, bottom: int) -> None:
        """Set the dots of a column from one row to another, both included."""
        across, down = len(self.dots), len(self.dots[0])
        bits = self.dots[x % across]
        for row in range(top // down, bottom // down + 1):
            first, last = max(0, top - row * down), min(down - 1, bottom - row * down)
            self.rows[row][x // across] |= sum(bits[first : last + 1])

    def trace(self, extents: Sequence[Extent | None], top: float) -> None:
        """Set the dots of a curve on a scale from 0 to `top`; what is beyond it lies on its edge."""
        highest = self.height - 1
        scale = highest / top if top > 0 else 0.0
        before: tuple[int, int] | None = None
        for x, extent in enumerate(extents):
            if extent is None:
                before = None
                continue
            upper = highest - min(highest, max(0, round(extent[1] * scale)))
            lower = highest - min(highest, max(0, round(extent[0] * scale)))
            first, last = thinned_run(upper, lower, before)
            self.run(x, first, last)
            before = upper, lower


def thinned_run(upper: int, lower: int, before: tuple[int, int] | None) -> tuple[int, int]:
    """Where the next column of a slope begins: its neighbour's last dot need not be repeated beside it."""
    if before is not None and upper < lower:
        if upper == before[1] and upper > before[0]:
            return upper + 1, lower
        if lower == before[0] and lower < before[1]:
            return upper, lower - 1
    return upper, lower


def extents(
    times: Sequence[float],
    values: Sequence[float | None],
    bounds: tuple[float, float],
    width: int,
    breaks: Collection[int] = (),
) -> list[Extent | None]:
    """What each of `width` columns of the time shows: straight lines between known values, no value lost.

    A line is not drawn to or from None, nor into a position of `breaks`.
    """
    start, end = bounds
    shown: list[Extent | None] = [None] * width
    if not times or end <= start or width <= 0:
        return shown
    scale = width / (end - start)
    first = max(0, bisect_left(times, start) - 1)
    last = min(len(times), bisect_right(times, end) + 1)
    before: tuple[float, float] | None = None
    for position in range(first, last):
        value = values[position]
        if value is None:
            before = None
            continue
        x = (times[position] - start) * scale
        if before is None or position in breaks:
            _widen(shown, x, value, x, value)
        else:
            _widen(shown, before[0], before[1], x, value)
        before = x, value
    return shown


def _widen(shown: list[Extent | None], x: float, value: float, until: float, after: float) -> None:
    """Let every column that a straight line crosses show the part of it that lies there."""
    width = len(shown)
    # The last moment of a window belongs to its last column.
    column = min(int(x), width - 1) if 0 <= x <= width else int(x // 1)
    last = min(int(until), width - 1) if 0 <= until <= width else int(until // 1)
    slope = (after - value) / (until - x) if until > x else 0.0
    if column < 0:
        value, column = value - slope * x, 0
        x = 0.0
    while column <= min(last, width - 1):
        edge = after if column == last else value + slope * (column + 1 - x)
        low, high = (value, edge) if value <= edge else (edge, value)
        known = shown[column]
        shown[column] = (low, high) if known is None else (min(low, known[0]), max(high, known[1]))
        value, x, column = edge, float(column + 1), column + 1


class Sheet:
    """Characters in cells, each with an owner that says how it is painted."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns = columns
        self.characters = [[" "] * columns for _ in range(rows)]
        self.owners = [[NOBODY] * columns for _ in range(rows)]

    def put(self, x: int, y: int, character: str, owner: int) -> None:
        """Set one cell; nothing outside."""
        if 0 <= y < len(self.characters) and 0 <= x < self.columns:
            self.characters[y][x] = character
            self.owners[y][x] = owner

    def lay(self, layer: Layer, owner: int, marker: str) -> None:
        """Put a curve above everything else: its dots, or where a cell has only one, its marker."""
        is_braille = len(layer.dots) > 1
        for y, row in enumerate(layer.rows):
            if any(row):
                characters, owners = self.characters[y], self.owners[y]
                for x, bits in enumerate(row):
                    if bits:
                        characters[x] = chr(BRAILLE_BLANK | bits) if is_braille else marker
                        owners[x] = owner

    def runs(self, y: int) -> list[tuple[str, int]]:
        """A row as pieces of text of one owner each."""
        line, position = [], 0
        characters = self.characters[y]
        for owner, group in groupby(self.owners[y]):
            length = sum(1 for _ in group)
            line.append(("".join(characters[position : position + length]), owner))
            position += length
        return line
