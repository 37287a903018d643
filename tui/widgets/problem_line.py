"""The line that every screen shows while there is a problem with a store."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Size
from textual.reactive import reactive
from textual.strip import Strip

from jobtop.tui.data.incidents import is_unused
from jobtop.tui.data.view import StoreState
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span, width_of
from jobtop.tui.widgets.painting import Inks, Painted
from jobtop.tui.widgets.prose import Paragraph

MOST_LINES = 3


class ProblemLine(Painted):
    """`! /home/ada/…/atlas.db: damaged …`; a notice is less bright than a problem."""

    DEFAULT_CSS = """
    ProblemLine {
        height: auto;
        background: $panel;
        display: none;
        &.-shown { display: block; }
    }
    """
    stores: reactive[Sequence[StoreState]] = reactive((), repaint=False)

    def watch_stores(self, before: Sequence[StoreState], stores: Sequence[StoreState]) -> None:
        if before != stores:
            self.set_class(any(state.problem or state.notice for state in stores), "-shown")
            self.refresh(layout=True)
            self.repaint()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """One line if the text fits, else a few."""
        return len(self.lines(width))

    def lines(self, width: int) -> list[list[Span]]:
        """The first problem, else the first notice; if there is little room, only the file name of the store."""
        said = [(state, state.problem or state.notice or "") for state in self.stores]
        said = [(state, words) for state, words in said if words]
        if not said:
            return []
        said.sort(key=lambda item: not is_wrong(item[0]))
        (state, words), *others = said
        sign = Span(" ! ", Tone.VERMILION, True) if is_wrong(state) else Span(" · ", Tone.GREY, True)
        tone = Tone.TEXT if is_wrong(state) else Tone.GREY
        label = [sign, *([Span(f"({len(others)} more) ", Tone.GREY)] if others else [])]
        if len(words) + width_of(label) > width:
            words = words.replace(str(state.path), state.path.name)
        return list(Paragraph(words, tone, label).lines(width))[:MOST_LINES]

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        return [inks.strip(line, width) for line in self.lines(width)]


def is_wrong(state: StoreState) -> bool:
    """Whether a store has a problem; that it does not exist yet is none."""
    return state.problem is not None and not is_unused(state.problem)
