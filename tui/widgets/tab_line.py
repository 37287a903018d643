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
        line = [span for tab in self.tabs for span in _spans(tab)][:-1]
        return [inks.strip(aligned(line, width), width)]

    def on_click(self, event: events.Click) -> None:
        offset, left = event.get_content_offset(self), 0
        for tab in self.tabs:
            right = left + width_of(_spans(tab))
            if offset is not None and left <= offset.x < right:
                self.post_message(self.Clicked(tab.pane))
            left = right


def _spans(tab: Tab) -> list[Span]:
    edge, title = Span(" "), Span(tab.title, Tone.GREY)
    if tab.is_shown:
        edge, title = Span("▌", Tone.ORANGE), Span(tab.title, Tone.TEXT, True)
    return [edge, title, Span("  ")]
