"""The line above the queue: the CPUs, memory and GPUs that running jobs have declared, of what there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.reactive import reactive
from textual.strip import Strip

from jobtop.core.units import ABSENT
from jobtop.lifecycle.queue_listing import Given, QueueState
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span, aligned, bar, short_bytes, width_of
from jobtop.tui.widgets.painting import FRAME, Inks, Painted

GAP = 3
WIDEST_BAR, LEAST_BAR = 30, 4


class GivenOut(Painted):
    """`CPUS ━━━━── 6 of 8   MEM ━━── 12.0G of 64.0G   GPUS ━━── 1 of 2`."""

    DEFAULT_CSS = f"GivenOut {{ {FRAME} height: 3; }}"
    state: reactive[QueueState | None] = reactive(None, repaint=False)

    def watch_state(self) -> None:
        self.repaint()

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        state = self.state
        if state is None or state.cpus is None:
            words = "reading …" if state is None else "what other hosts give out is not known here"
            return [inks.strip(aligned([Span(f" {words}", Tone.GREY)], width), width)]
        gpus = [("GPUS", state.gpus, whole)] if state.gpus is not None else []
        parts = [("CPUS", state.cpus, whole), ("MEM", state.memory, short_bytes), *gpus]
        room = (width - 2 - GAP * (len(parts) - 1)) // len(parts)
        line = [Span(" ")]
        for number, (title, given, form) in enumerate(parts):
            line += [*([Span(" " * GAP)] if number else []), *part(title, given, form, room)]
        return [inks.strip(aligned(line, width), width)]


def part(title: str, given: Given | None, form: Callable[[float], str], room: int) -> list[Span]:
    """A title, a bar, and the numbers; the bar is left out if there is little room."""
    if given is None:
        return [Span(f"{title} ", Tone.GREY, True), Span(ABSENT, Tone.GREY)]
    total = ABSENT if given.total is None else form(given.total)
    begin, end = Span(f"{title} ", Tone.GREY, True), Span(f" {form(given.used)} of {total}")
    left = min(WIDEST_BAR, room - width_of([begin, end]))
    percent = 100 * given.used / given.total if given.total else None
    return [begin, *(bar(percent, left) if left >= LEAST_BAR else ()), end]


def whole(number: float) -> str:
    return f"{round(number, 2):g}"
