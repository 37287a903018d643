"""A few grey sentences between the panes of a page; nothing is drawn if there are none."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Size
from textual.reactive import reactive
from textual.strip import Strip

from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span
from jobtop.tui.widgets.painting import Inks, Painted
from jobtop.tui.widgets.prose import Paragraph

MOST_LINES = 4


class Sentences(Painted):
    """One paragraph for each sentence; what does not fit into a few lines is left out."""

    DEFAULT_CSS = """
    Sentences {
        height: auto;
        padding: 0 1;
        background: $background;
        display: none;
        &.-shown { display: block; }
    }
    """
    sentences: reactive[Sequence[str]] = reactive((), repaint=False)

    def watch_sentences(self, before: Sequence[str], sentences: Sequence[str]) -> None:
        if before != sentences:
            self.set_class(bool(sentences), "-shown")
            self.refresh(layout=True)
            self.repaint()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.lines(width))

    def lines(self, width: int) -> list[list[Span]]:
        paragraphs = [Paragraph(sentence, Tone.GREY) for sentence in self.sentences]
        return [line for paragraph in paragraphs for line in paragraph.lines(max(1, width))][:MOST_LINES]

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        return [inks.strip(line, width) for line in self.lines(width)]
