"""The lines above the containers that name each engine with a problem, and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.geometry import Size
from textual.reactive import reactive
from textual.strip import Strip

from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span
from jobtop.tui.widgets.painting import Inks, Painted
from jobtop.tui.widgets.prose import Paragraph

if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.snapshot import EngineState

MOST_LINES = 3  # for each engine


class EngineLines(Painted):
    """`! podman (unix:///…): permission denied (as root: …)`; nothing is drawn if all engines answer."""

    DEFAULT_CSS = """
    EngineLines {
        height: auto;
        background: $panel;
        display: none;
        &.-shown { display: block; }
    }
    """
    problems: reactive[Sequence[str]] = reactive((), repaint=False)

    def watch_problems(self, before: Sequence[str], problems: Sequence[str]) -> None:
        if before != problems:
            self.set_class(bool(problems), "-shown")
            self.refresh(layout=True)
            self.repaint()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.lines(width))

    def lines(self, width: int) -> list[list[Span]]:
        sign = Span(" ! ", Tone.VERMILION, True)
        found = (Paragraph(problem, Tone.TEXT, [sign]) for problem in self.problems)
        return [line for paragraph in found for line in list(paragraph.lines(max(1, width)))[:MOST_LINES]]

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        return [inks.strip(line, width) for line in self.lines(width)]


def engine_spans(engines: Sequence[EngineState]) -> list[Span]:
    """`  ● docker 24.0.7  ! podman`: each engine with its version, or the sign of a problem."""
    spans: list[Span] = []
    for engine in engines:
        sign, tone = ("●", Tone.GREEN) if engine.is_asked else ("◌", Tone.GREY)
        version = f" {engine.info.version}" if engine.info is not None else ""
        if engine.problem is not None:
            sign, tone = "!", Tone.VERMILION
        spans += [Span(f"  {sign} ", tone), Span(engine.name), Span(version, Tone.GREY)]
    return spans
