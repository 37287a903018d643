"""Draws a terminal's cells as SVG that looks the same everywhere: lines, blocks and dots are paths, words are text."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

CELL, LINE, FONT_SIZE, MARGIN, RADIUS = 9, 20, 15, 16, 10
BASELINE = 14.5
LIGHT, HEAVY, DOT = 1.2, 3, 2.3
FONTS = "'DejaVu Sans Mono', 'SF Mono', Menlo, Consolas, 'Liberation Mono', monospace"
PAPER, INK, EDGE = "#0e1217", "#d3d9e2", "#2b3644"
# The arms of a line from the middle of its cell: left, right, up, down; 2 is heavy.
ARMS = {
    "─": (1, 1, 0, 0),
    "━": (2, 2, 0, 0),
    "╸": (2, 0, 0, 0),
    "╺": (0, 2, 0, 0),
    "╴": (1, 0, 0, 0),
    "╶": (0, 1, 0, 0),
    "│": (0, 0, 1, 1),
    "┃": (0, 0, 2, 2),
    "┌": (0, 1, 0, 1),
    "┐": (1, 0, 0, 1),
    "└": (0, 1, 1, 0),
    "┘": (1, 0, 1, 0),
    "├": (0, 1, 1, 1),
    "┤": (1, 0, 1, 1),
    "┬": (1, 1, 0, 1),
    "┴": (1, 1, 1, 0),
    "┼": (1, 1, 1, 1),
}
DASHES = {"╌": (2, 1), "╍": (2, 2), "┄": (3, 1), "┅": (3, 2)}  # number of dashes, weight
CORNERS = {"╭": (1, 1), "╮": (-1, 1), "╰": (1, -1), "╯": (-1, -1)}  # direction of the arms: right or left, down or up
BLOCKS = "▁▂▃▄▅▆▇█"
BRAILLE = 0x2800
# The column and row of each dot of a cell, by its bit.
DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))


def draw_svg(rows: Sequence[Sequence[Segment]], columns: int, title: str) -> str:
    """Return the SVG of these rows, `columns` cells wide."""
    width, height = columns * CELL + 2 * MARGIN, len(rows) * LINE + 2 * MARGIN
    layers = SvgLayers()
    for number, row in enumerate(rows):
        layers.add_row(number, row)
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    frame = f'x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="{RADIUS}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} xml:space="preserve">',
            f"<title>{escape(title)}</title>",
            "<style>",
            f"text {{ font: {FONT_SIZE}px {FONTS}; }} .b {{ font-weight: bold; }} .m {{ text-anchor: middle; }}",
            "</style>",
            f'<rect {frame} fill="{PAPER}" stroke="{EDGE}"/>',
            f'<g transform="translate({MARGIN} {MARGIN})">',
            *layers.elements(),
            "</g>",
            "</svg>",
            "",
        ]
    )


class SvgLayers:
    """The parts of a drawing, grouped by colour."""

    def __init__(self) -> None:
        self._grounds: dict[str, list[str]] = defaultdict(list)
        self._fills: dict[str, list[str]] = defaultdict(list)
        self._strokes: dict[tuple[str, float], list[str]] = defaultdict(list)
        self._texts: list[str] = []

    def add_row(self, number: int, row: Sequence[Segment]) -> None:
        left, top = 0, number * LINE
        for words, style, _ in row:
            cells = cell_len(words)
            ink, ground = colors(style)
            if ground != PAPER:
                self._grounds[ground].append(rectangle(left * CELL, top, cells * CELL, LINE))
            for run in drawn_runs(words):
                self._add_run(left * CELL, top, run, ink, bool(style and style.bold))
                left += cell_len(run)

    def elements(self) -> Iterator[str]:
        for fills in (self._grounds, self._fills):
            for color, paths in fills.items():
                yield f'<path fill="{color}" d="{"".join(paths)}"/>'
        for (color, weight), paths in self._strokes.items():
            cap = ' stroke-linecap="round"' if weight == DOT else ""
            yield f'<path fill="none" stroke="{color}" stroke-width="{weight:g}"{cap} d="{"".join(paths)}"/>'
        yield from self._texts

    def _add_run(self, x: float, y: float, run: str, ink: str, is_bold: bool) -> None:
        first, width, middle = run[0], cell_len(run) * CELL, y + LINE / 2
        if run.isspace():
            return
        if first in ARMS:
            for place in range(len(run)) if any(ARMS[first][2:]) else (0,):
                self._add_arms(x + place * CELL, middle, width, first, ink)
        elif first in DASHES:
            count, weight = DASHES[first]
            step = CELL / count
            dashes = (f"M{x + step * (n + 0.2):.4g} {middle:g}h{step * 0.6:.3g}" for n in range(count * len(run)))
            self._strokes[ink, HEAVY if weight == 2 else LIGHT].extend(dashes)
        elif first in CORNERS:
            right, down = CORNERS[first]
            center, radius = x + CELL / 2, CELL / 2
            self._strokes[ink, LIGHT].append(
                f"M{center + right * CELL / 2:g} {middle:g}Q{center:g} {middle:g} {center:g} {middle + down * radius:g}"
                f"V{middle + down * LINE / 2:g}"
            )
        elif first in BLOCKS:
            height = LINE * (BLOCKS.index(first) + 1) / len(BLOCKS)
            self._fills[ink].append(rectangle(x, y + LINE - height, width, height))
        elif first in "▌▐":
            for place in range(len(run)):
                self._fills[ink].append(rectangle(x + (place + 0.5 * (first == "▐")) * CELL, y, CELL / 2, LINE))
        elif BRAILLE <= ord(first) < BRAILLE + 256:
            self._add_dots(x, y, run, ink)
        else:
            self._add_text(x, y, run, ink, is_bold)

    def _add_arms(self, x: float, middle: float, width: float, sign: str, ink: str) -> None:
        left, right, up, down = ARMS[sign]
        if left == right and not up and not down:
            self._strokes[ink, HEAVY if left == 2 else LIGHT].append(f"M{x:g} {middle:g}h{width:g}")
            return
        center = x + CELL / 2
        for weight, path in (
            (left, f"M{x:g} {middle:g}H{center:g}"),
            (right, f"M{center:g} {middle:g}h{CELL / 2:g}"),
            (up, f"M{center:g} {middle:g}v{-LINE / 2:g}"),
            (down, f"M{center:g} {middle:g}v{LINE / 2:g}"),
        ):
            if weight:
                self._strokes[ink, HEAVY if weight == 2 else LIGHT].append(path)

    def _add_dots(self, x: float, y: float, run: str, ink: str) -> None:
        for place, sign in enumerate(run):
            for bit, (column, row) in enumerate(DOTS):
                if ord(sign) - BRAILLE >> bit & 1:
                    dot_x = x + (place + 0.25 + 0.5 * column) * CELL
                    self._strokes[ink, DOT].append(f"M{dot_x:g} {y + (row + 0.5) * LINE / 4:g}h0.01")

    def _add_text(self, x: float, y: float, run: str, ink: str, is_bold: bool) -> None:
        cells, base = cell_len(run), y + BASELINE
        if is_symbol(run[0]):
            place = f'class="m{" b" if is_bold else ""}" x="{x + cells * CELL / 2:g}" y="{base:g}"'
        else:
            kind = 'class="b" ' if is_bold else ""
            place = f'{kind}x="{x:g}" y="{base:g}" textLength="{cells * CELL}" lengthAdjust="spacingAndGlyphs"'
        self._texts.append(f'<text {place} fill="{ink}">{escape(run)}</text>')


def drawn_runs(text: str) -> Iterator[str]:
    """Yield the parts of a text that are drawn together: a symbol, equal lines or blocks, words with single spaces."""
    for kind, signs in groupby(text, key=lambda sign: sign if is_drawn(sign) or is_symbol(sign) else ""):
        run = "".join(signs)
        if kind and BRAILLE <= ord(kind) < BRAILLE + 256:
            yield run
        elif kind and is_symbol(kind):
            yield from run
        elif kind:
            yield run
        else:
            yield from split_words(run)


def split_words(run: str) -> Iterator[str]:
    """Yield words and spaces; single spaces stay within words."""
    rest = run
    while rest:
        blanks = len(rest) - len(rest.lstrip(" "))
        if blanks:
            yield rest[:blanks]
        rest = rest[blanks:]
        end = rest.find("  ")
        words = rest if end < 0 else rest[:end]
        if words.rstrip(" "):
            yield words.rstrip(" ")
        rest = rest[len(words.rstrip(" ")) :]


def is_drawn(sign: str) -> bool:
    return "\u2500" <= sign <= "\u259f" or BRAILLE <= ord(sign) < BRAILLE + 256


def is_symbol(sign: str) -> bool:
    """Return whether a font may lack this character, or have it in another width."""
    return not sign.isascii() and not sign.isalpha() and not is_drawn(sign)


def rectangle(x: float, y: float, width: float, height: float) -> str:
    return f"M{x:g} {y:g}h{width:g}v{height:g}h{-width:g}z"


def colors(style: Style | None) -> tuple[str, str]:
    """Return the foreground and the background colour."""
    ink = INK if style is None or style.color is None else style.color.get_truecolor().hex
    ground = PAPER if style is None or style.bgcolor is None else style.bgcolor.get_truecolor().hex
    return (ground, ink) if style is not None and style.reverse else (ink, ground)
