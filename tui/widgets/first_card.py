"""The card that the dashboard shows while there are no jobs: how to run the first one."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip

from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span, aligned
from jobtop.tui.widgets.painting import ASCII_CLASS, Inks, Painted

TITLE = "No jobs yet"
WAYS = (("n", "run one"), ("jobtop run -- COMMAND", "run one from a shell"), ("jobtop --demo", "look around"))
READONLY_WAYS = WAYS[1:]
WAY_CELLS = 24


class FirstCard(Painted):
    """A box in the middle: no jobs yet, and the ways to get one."""

    DEFAULT_CSS = """
    FirstCard {
        width: 56;
        max-width: 100%;
        height: auto;
        border: round $border-blurred;
        padding: 1 2;
        &.-ascii { border: ascii $border-blurred; }
    }
    """

    def __init__(self, is_readonly: bool, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.ways = READONLY_WAYS if is_readonly else WAYS

    def on_mount(self) -> None:
        self.set_class(self.app.has_class(ASCII_CLASS), ASCII_CLASS)

    def get_content_height(self, *_: object) -> int:
        return 2 + len(self.ways)

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        title = [Span(" " * max(0, (width - len(TITLE)) // 2)), Span(TITLE, Tone.TEXT, True)]
        lines = [title, [], *([Span(way.ljust(WAY_CELLS), Tone.ORANGE, True), Span(words)] for way, words in self.ways)]
        return [inks.strip(aligned(line, width), width) for line in lines]
