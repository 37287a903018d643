"""The events of a job, oldest first; Enter on an event shows the job at that moment."""

from __future__ import annotations

from collections.abc import Sequence

from textual.message import Message

from jobtop.core.model import Job
from jobtop.core.record import record
from jobtop.core.text.event_text import BAD, GOOD, PLAIN, WARNING, event_text, severity
from jobtop.store.jobs import Event
from jobtop.tui.data.rows import ListRows
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Align, Cell, Pieces, Span, Words, short_duration
from jobtop.tui.widgets.columns import Column
from jobtop.tui.widgets.prose import wrapped
from jobtop.tui.widgets.table import GUTTER, Table

SIGNS = {
    BAD: Span("▲ ", Tone.VERMILION),
    WARNING: Span("△ ", Tone.YELLOW),
    GOOD: Span("✓ ", Tone.BLUE),
    PLAIN: Span("· ", Tone.GREY),
}
TIME_WIDTH = 9
NARROWEST = 16
LONGEST = 500  # characters of an event's text


@record
class TimelineLine:
    """A line of the timeline; only the first line of an event has its time. `is_past`: not after the shown moment."""

    number: int
    line: int
    moment: float | None
    words: str
    weight: str
    is_past: bool = True


def columns() -> tuple[Column[TimelineLine], ...]:
    return (
        Column("time", "AFTER", time, TIME_WIDTH, align=Align.RIGHT, sortable=False),
        Column("words", "WHAT HAPPENED", words, NARROWEST, flex=1, sortable=False),
    )


def time(entry: TimelineLine) -> Cell:
    if entry.line or entry.moment is None:
        return Words("")
    sign = "-" if entry.moment <= -1 else "+"
    return Words(sign + short_duration(abs(entry.moment)), Tone.GREY if entry.is_past else Tone.FAINT)


def words(entry: TimelineLine) -> Cell:
    sign = SIGNS[entry.weight]
    tone = (Tone.VERMILION if entry.weight == BAD else Tone.TEXT) if entry.is_past else Tone.FAINT
    mark = Span("  ") if entry.line else Span(sign.text, sign.tone if entry.is_past else Tone.FAINT)
    return Pieces([mark, Span(entry.words, tone)])


def entries(job: Job, events: Sequence[Event], width: int, moment: float | None = None) -> list[TimelineLine]:
    """The events in the order of time, each wrapped into as many lines as it needs."""
    found: list[TimelineLine] = []
    for number, event in enumerate(sorted(events, key=lambda event: event.at)):
        after = None if job.start_time is None else event.at - job.start_time
        is_past = moment is None or after is None or after <= moment
        weight = severity(event.kind, event.detail)
        happened = event_text(event.kind, event.detail)[:LONGEST]
        for line, text in enumerate(wrapped(happened, max(NARROWEST, width) - 2)):
            found.append(TimelineLine(number, line, after, text, weight, is_past))
    return found


class Timeline(Table[TimelineLine]):
    """The events of a job."""

    class Chosen(Message):
        """The user wants to see the job at the moment of an event."""

        def __init__(self, moment: float) -> None:
            super().__init__()
            self.moment = moment

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(columns(), empty="no events yet", id=id)
        self._shown: tuple[Job, Sequence[Event], float | None] | None = None
        self._width = 0

    def show(self, job: Job, events: Sequence[Event], moment: float | None) -> None:
        """Show these events; those after `moment` are faint."""
        width = self.drawn_size.width - GUTTER - TIME_WIDTH - 1
        if (self._shown, self._width) == ((job, events, moment), width):
            return
        self._shown, self._width = (job, events, moment), width
        found = entries(job, events, width, moment)
        self.source = ListRows(found, lambda entry: (entry.number, entry.line))
        self.set_title([Span("Timeline", Tone.TEXT, True), Span(f" {len(events)}" if events else "", Tone.GREY)])
        if moment is not None:
            past = [entry for entry in found if entry.is_past and not entry.line]
            if past:
                self.select((past[-1].number, 0))

    def on_resize(self) -> None:
        self._wrap_again()

    def watch_show_vertical_scrollbar(self) -> None:
        """Wrap the events for the width beside the scrollbar; Textual sends no Resize when it appears."""
        self.call_next(self._wrap_again)

    def _wrap_again(self) -> None:
        if self._shown is not None:
            self.show(*self._shown)

    def action_activate(self) -> None:
        """Show the job at the moment of the event."""
        entry = self.cursor_row
        if entry is not None and entry.moment is not None:
            self.post_message(self.Chosen(max(0.0, entry.moment)))
