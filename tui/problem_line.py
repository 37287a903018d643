"""A line on every screen that says what is wrong with a store, and is gone when nothing is."""

from __future__ import annotations

from collections.abc import Sequence

from textual.reactive import reactive
from textual.strip import Strip

from jobtop.tui.cells import Span, aligned
from jobtop.tui.painting import Inks, Painted
from jobtop.tui.palette import Tone
from jobtop.tui.view import StoreState


class ProblemLine(Painted):
    """`! /home/ada/…/atlas.db: damaged …`; what is only worth a word is said more quietly."""

    DEFAULT_CSS = """
    ProblemLine {
        height: 1;
        dock: top;
        background: $panel;
        display: none;
        &.-shown { display: block; }
    }
    """
    stores: reactive[Sequence[StoreState]] = reactive((), repaint=False)

    def watch_stores(self) -> None:
        self.set_class(bool(self.words()), "-shown")
        self.repaint()

    def words(self) -> list[Span]:
        """The first problem, else the first notice, and how many more there are."""
        problems = [state.problem for state in self.stores if state.problem]
        notices = [state.notice for state in self.stores if state.notice]
        if not problems and not notices:
            return []
        more = f"({len(problems) + len(notices) - 1} more) " if len(problems) + len(notices) > 1 else ""
        glyph, tone = (" ! ", Tone.VERMILION) if problems else (" · ", Tone.GREY)
        said = (problems or notices)[0]
        return [Span(glyph, tone, True), Span(more, Tone.GREY), Span(said, Tone.TEXT if problems else Tone.GREY)]

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        return [inks.strip(aligned(self.words(), width), width)]
