"""Paragraphs of text, wrapped to the width of a pane that scrolls."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Size
from textual.reactive import reactive
from textual.strip import Strip

from jobtop.core.record import record
from jobtop.tui.actions import TEXT, bindings
from jobtop.tui.palette import Tone, ascii_only
from jobtop.tui.widgets.cells import Span, aligned, fitted, safe_text, width_of
from jobtop.tui.widgets.painting import ASCII_CLASS, Inks, Painted
from jobtop.tui.widgets.scrolled import SCROLLED, Scrolled

NARROWEST, WIDEST = 12, 110  # cells of text beside a label; cells of a line that is easy to read


@record
class Paragraph:
    """A label and the text behind it; further lines are indented to the start of the text."""

    text: str = ""
    tone: Tone = Tone.TEXT
    label: Sequence[Span] = ()
    bold: bool = False

    def lines(self, width: int) -> Iterator[list[Span]]:
        """Lines of exactly `width` cells; if the label leaves too little room, the text starts below it."""
        indent = width_of(self.label)
        if indent and width - indent < NARROWEST and self.text:
            yield aligned(self.label, width)
            yield from Paragraph(self.text, self.tone, [Span("  ")], self.bold).lines(width)
            return
        first = list(self.label)
        for part in wrapped(self.text, max(1, width - indent)):
            yield aligned([*first, Span(part, self.tone, self.bold)], width)
            first = [Span(" " * indent)]


BLANK = Paragraph()


def heading(text: str) -> Paragraph:
    """A line above a group of paragraphs."""
    return Paragraph(text, Tone.TEXT, bold=True)


def cell(text: str, width: int, tone: Tone = Tone.TEXT, bold: bool = False) -> Span:
    """A label of at least `width` cells; a wider one is not cut."""
    return Span(fitted(text, max(width, cell_len(safe_text(text)))), tone, bold)


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` cells; long commands and paths are broken if necessary."""
    text = safe_text(text)
    lines = textwrap.wrap(text, width, break_on_hyphens=False) or [""]
    return lines if text.isascii() else [part for line in lines for part in cut(line, width)]


def cut(line: str, width: int) -> Iterator[str]:
    """Pieces of at most `width` cells; a wide character takes two cells."""
    piece, used = "", 0
    for character in line:
        wide = cell_len(character)
        if used + wide > width and piece:
            yield piece
            piece, used = "", 0
        piece, used = piece + character, used + wide
    yield piece


def set_border_texts(pane: Painted, title: str | None = None, subtitle: str | None = None) -> None:
    """Set the texts in the borders of a pane, in the colours of the theme."""
    is_ascii = pane.app.has_class(ASCII_CLASS)
    if title is not None:
        pane.border_title = Content(ascii_only(safe_text(title)) if is_ascii else safe_text(title))
    if subtitle is not None:
        pane.border_subtitle = Content(ascii_only(safe_text(subtitle)) if is_ascii else safe_text(subtitle))


class Prose(Scrolled, inherit_bindings=False):
    """Paragraphs in a pane that scrolls."""

    DEFAULT_CSS = f"""
    Prose {{ {SCROLLED} }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(TEXT)]
    text: reactive[Sequence[Paragraph]] = reactive((), repaint=False)
    _wrapped: Sequence[list[Span]] = ()
    _wrapped_for: int | None = None  # the width in cells

    def watch_text(self) -> None:
        self._wrapped_for = None
        self._measure()

    def on_resize(self) -> None:
        self._measure()

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        """The visible lines."""
        top = self.scroll_offset.y
        return [inks.strip(line, width) for line in self.lines(width)[top : top + height]]

    def lines(self, width: int) -> Sequence[list[Span]]:
        """All lines, not wider than is easy to read; they are wrapped once for each width."""
        if self._wrapped_for != width:
            used = min(width, WIDEST)
            rest = [Span(" " * (width - used))] if width > used else []
            self._wrapped = [[*line, *rest] for paragraph in self.text for line in paragraph.lines(used)]
            self._wrapped_for = width
        return self._wrapped

    def _measure(self) -> None:
        width = self.drawn_size.width
        if width:
            self.virtual_size = Size(1, len(self.lines(width)))
            self.scroll_y = min(self.scroll_y, self.max_scroll_y)
        self.repaint()
