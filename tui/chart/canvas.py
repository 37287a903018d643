"""Curves as dots in character cells: eight braille dots for each cell, or one on a terminal without braille. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from itertools import pairwise
from math import floor

BRAILLE = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # by column and row within a cell
SINGLE = ((1,),)
Dots = tuple[tuple[int, ...], ...]
# The dots of one column of a cell, by the column, the first row and the last row.
MASKS: dict[Dots, tuple[tuple[tuple[int, ...], ...], ...]] = {
    dots: tuple(
        tuple(tuple(sum(bits[top : bottom + 1]) for bottom in range(len(bits))) for top in range(len(bits)))
        for bits in dots
    )
    for dots in (BRAILLE, SINGLE)
}
BRAILLE_BLANK, FULL = 0x2800, "⣿"
NO_OWNER = 0

Extent = tuple[float, float]  # the lowest and the highest value that a column of dots shows


class Layer:
    """The dots of one curve."""

    def __init__(self, columns: int, rows: int, dots: Dots = BRAILLE) -> None:
        self.dots = dots
        self.width, self.height = columns * len(dots), rows * len(dots[0])
        self.rows = [bytearray(columns) for _ in range(rows)]

    def run(self, x: int, top: int, bottom: int) -> None:
        """Set the dots of a column from one row to another, both included."""
        across, down = len(self.dots), len(self.dots[0])
        masks = MASKS[self.dots][x % across]
        column, first, last = x // across, top // down, bottom // down
        if first == last:
            self.rows[first][column] |= masks[top % down][bottom % down]
            return
        self.rows[first][column] |= masks[top % down][-1]
        for row in range(first + 1, last):
            self.rows[row][column] |= masks[0][-1]
        self.rows[last][column] |= masks[0][bottom % down]

    def trace(self, extents: Sequence[Extent | None], top: float) -> None:
        """Set the dots of a curve on a scale from 0 to `top`; higher values are drawn at the edge."""
        highest = self.height - 1
        scale = highest / top if top > 0 else 0.0
        rows, across, down, masks = self.rows, len(self.dots), len(self.dots[0]), MASKS[self.dots]
        before: tuple[int, int] | None = None
        for x, extent in enumerate(extents):
            if extent is None:
                before = None
                continue
            upper = highest - min(highest, max(0, round(extent[1] * scale)))
            lower = highest - min(highest, max(0, round(extent[0] * scale)))
            first, last = thinned_run(upper, lower, before) if upper < lower else (upper, lower)
            row = first // down
            if row == last // down:
                rows[row][x // across] |= masks[x % across][first % down][last % down]
            else:
                self.run(x, first, last)
            before = upper, lower

    def floors(self) -> list[int]:
        """The row below the lowest dot of each column of cells; for a column without dots, the row behind the last."""
        floors = [len(self.rows)] * len(self.rows[0])
        for y, row in enumerate(self.rows):
            for x, bits in enumerate(row):
                if bits:
                    floors[x] = y + 1
        return floors


def thinned_run(upper: int, lower: int, before: tuple[int, int] | None) -> tuple[int, int]:
    """Where the next column of a slope starts: the last dot of its neighbour is not repeated."""
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
    """The lowest and highest value in each of `width` columns: straight lines between known values, no peak lost.

    No line is drawn to or from None, nor to a position in `breaks`.
    """
    start, end = bounds
    shown: list[Extent | None] = [None] * width
    if not times or end <= start or width <= 0:
        return shown
    scale = width / (end - start)
    column, low, high = -1, 0.0, 0.0  # the values of the current column so far
    x, value = 0.0, None
    for position in range(max(0, bisect_left(times, start) - 1), min(len(times), bisect_right(times, end) + 1)):
        before_x, before = x, None if position in breaks else value
        value = values[position]
        if value is None:
            continue
        x = (times[position] - start) * scale
        # The last moment belongs to the last column.
        here = floor(x) if x != width else width - 1
        if here != column:
            edge = value
            if before is not None:
                slope = (value - before) / (x - before_x)
                edge = before + slope * (column + 1 - before_x)
                low, high = min(low, edge), max(high, edge)
                for crossed in range(max(0, column + 1), min(here, width)):
                    left = before + slope * (crossed - before_x)
                    shown[crossed] = (left, left + slope) if slope >= 0 else (left + slope, left)
                edge = before + slope * (max(0, here) - before_x)
            if 0 <= column < width:
                shown[column] = low, high
            column, low, high = here, edge, edge
        if value < low:
            low = value
        elif value > high:
            high = value
    if 0 <= column < width:
        shown[column] = low, high
    return shown


class Sheet:
    """Characters in cells; each cell has an owner, which decides its colour."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns = columns
        self.characters = [[" "] * columns for _ in range(rows)]
        self.owners = [[NO_OWNER] * columns for _ in range(rows)]

    def put(self, x: int, y: int, character: str, owner: int) -> None:
        """Set one cell; a cell outside the sheet is ignored."""
        if 0 <= y < len(self.characters) and 0 <= x < self.columns:
            self.characters[y][x] = character
            self.owners[y][x] = owner

    def lay(self, layer: Layer, owner: int, marker: str) -> None:
        """Draw a curve above everything else: its dots, or its marker in a cell with a single dot."""
        is_braille = len(layer.dots) > 1
        for y, row in enumerate(layer.rows):
            if any(row):
                characters, owners = self.characters[y], self.owners[y]
                for x, bits in enumerate(row):
                    if bits:
                        characters[x] = chr(BRAILLE_BLANK | bits) if is_braille else marker
                        owners[x] = owner

    def fill(self, layer: Layer, owner: int) -> None:
        """Fill the cells below a curve, without those of the curve itself and of lines."""
        rows = len(self.characters)
        for x, top in enumerate(layer.floors()):
            for y in range(top, rows):
                if self.owners[y][x] in (NO_OWNER, owner):
                    self.characters[y][x] = FULL
                    self.owners[y][x] = owner

    def runs(self, y: int) -> list[tuple[str, int]]:
        """A row as pieces of text, each with one owner."""
        line, begin = [], 0
        characters, owners = self.characters[y], self.owners[y]
        for position, (before, owner) in enumerate(pairwise(owners), 1):
            if owner != before:
                line.append(("".join(characters[begin:position]), before))
                begin = position
        return [*line, ("".join(characters[begin:]), owners[-1])] if owners else []
