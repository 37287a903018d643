"""One line of tabs for panes that share a place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span, aligned, width_of
from jobtop.tui.widgets.painting import Inks, Painted

LONGEST = 99  # letters of a title


class Tab(NamedTuple):
    """A pane: its id, its title, and whether it is visible."""

    pane: str
    title: str
    is_shown: bool


class TabLine(Painted):
    """`Processes  Output  Timeline`: visible panes are bright; a click shows another one."""

    DEFAULT_CSS = "TabLine { height: 1; padding: 0 1; background: $background; }"
    tabs: reactive[Sequence[Tab]] = reactive((), repaint=False)

    class Clicked(Message):
        """The user wants to see a pane."""

        def __init__(self, pane: str) -> None:
            super().__init__()
            self.pane = pane

    def watch_tabs(self) -> None:
        self.repaint()

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        line = [span for spans in fitting(self.tabs, width) for span in spans]
        return [inks.strip(aligned(line, width), width)]

    def on_click(self, event: events.Click) -> None:
        offset, left = event.get_content_offset(self), 0
        for tab, spans in zip(self.tabs, fitting(self.tabs, self.drawn_size.width), strict=True):
            right = left + width_of(spans)
            if offset is not None and left <= offset.x < right:
                self.post_message(self.Clicked(tab.pane))
            left = right


def fitting(tabs: Sequence[Tab], width: int) -> list[list[Span]]:
    """The pieces of each tab: with narrower gaps, then with short titles of hidden panes, if there is little room."""
    spans: list[list[Span]] = []
    for gap, letters in ((2, LONGEST), (1, LONGEST), (0, LONGEST), (0, 4), (0, 3), (0, 2)):
        spans = [_spans(tab, gap if place < len(tabs) - 1 else 0, letters) for place, tab in enumerate(tabs)]
        if sum(map(width_of, spans)) <= width:
            break
    return spans


def _spans(tab: Tab, gap: int, letters: int) -> list[Span]:
    edge, title = Span(" "), Span(tab.title[:letters], Tone.GREY)
    if tab.is_shown:
        edge, title = Span("▌", Tone.ORANGE), Span(tab.title, Tone.TEXT, True)
    return [edge, title, Span(" " * gap)]
