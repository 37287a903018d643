"""The gantt of a run: one row a job, bars on a common time axis."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip

from jobtop.core.record import record
from jobtop.tui.chart.axes import label_line, moments
from jobtop.tui.data.rows import ListRows
from jobtop.tui.data.workflow_rows import ShownRunJob, by_start
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Align, Cell, Span, Words, fitted, short_duration
from jobtop.tui.widgets.columns import Column, placed
from jobtop.tui.widgets.painting import Inks
from jobtop.tui.widgets.panes import PlainTable
from jobtop.tui.widgets.table import GUTTER
from jobtop.tui.widgets.tables.run_jobs import critical, glyph, glyph_of, name

LIGHT, HEAVY = ("─", "╶", "╴"), ("━", "╺", "╸")  # the whole cell, its right half, its left half
BAR = "bar"


@record
class GanttBar:
    """From `begin` to `end` of `span` seconds, with a resolution of half a cell; at least half a cell."""

    begin: float | None
    end: float | None
    span: float
    tone: Tone
    is_critical: bool
    words: str

    def spans(self, width: int, align: Align) -> Sequence[Span]:
        if self.begin is None or self.end is None:
            return (Span(fitted(self.words, width), Tone.GREY),)
        most = 2 * width
        first = min(most - 1, max(0, int(self.begin / self.span * most)))
        last = min(most, max(first + 1, round(self.end / self.span * most)))
        whole, right, left = HEAVY if self.is_critical else LIGHT
        body = right * (first % 2)
        cells = (last - first - first % 2) // 2
        body += whole * cells + left * ((last - first - first % 2) % 2)
        return (Span(" " * (first // 2)), Span(body, self.tone), Span(" " * (width - first // 2 - len(body))))


class Gantt(PlainTable[ShownRunJob]):
    """The bars of the jobs of a run; its first line is the time axis."""

    span: float = 0.0

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(gantt_columns(), empty="no job has started yet", id=id, opens=True)

    def show(self, rows: Sequence[ShownRunJob]) -> None:
        self.span = rows[0].span if rows else 0.0
        self.source = ListRows(by_start(rows), lambda row: row.key)

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        strips = list(super().draw(inks, width, height))
        place = next((each for each in placed(self.columns, width - GUTTER) if each.column.key == BAR), None)
        if strips and place is not None and self.span > 0:
            axis = label_line(moments((0.0, self.span), False, place.width), place.width)
            left = GUTTER + place.left
            line = [Span(" " * left), Span(axis, Tone.GREY), Span(" " * (width - left - place.width))]
            strips[0] = inks.strip(line, width)
        return strips


def gantt_columns() -> tuple[Column[ShownRunJob], ...]:
    return (
        Column("glyph", "", glyph, 1, sortable=False),
        Column("critical", "", critical, 1, sortable=False),
        Column("name", "", name, 10, flex=1, most=20, sortable=False),
        Column(BAR, "", gantt_bar, 20, flex=4, sortable=False),
        Column("time", "", duration, 6, align=Align.RIGHT, sortable=False),
    )


def gantt_bar(row: ShownRunJob) -> Cell:
    words = "kept" if row.job.is_kept else ""
    return GanttBar(row.begin, row.end, row.span, glyph_of(row)[1], row.is_critical, words)


def duration(row: ShownRunJob) -> Cell:
    return Words("" if row.begin is None else short_duration(row.seconds), Tone.GREY)
