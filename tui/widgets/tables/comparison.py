"""The table of the Compare page: a row for each measure and each difference, a column for each job. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from jobtop.core.analysis.comparison import ChangeVerdict, Difference, NumberFormat, Total, differences, totals
from jobtop.core.model import Job
from jobtop.core.record import record
from jobtop.core.text.metric_text import format_count
from jobtop.core.units import ABSENT
from jobtop.tui.chart.plotting import tone_of
from jobtop.tui.palette import MARKERS, Tone
from jobtop.tui.widgets.cells import Align, Cell, Span, Words, aligned, fitted, short_bytes, short_duration
from jobtop.tui.widgets.columns import Column

BETTER, WORSE = "✓", "!"
SIGNS = {
    ChangeVerdict.BETTER: (BETTER, Tone.GREEN),
    ChangeVerdict.WORSE: (WORSE, Tone.VERMILION),
    ChangeVerdict.SAME: ("=", Tone.GREY),
    ChangeVerdict.UNJUDGED: (" ", Tone.GREY),
}
VALUE, SHARE, DIFFERENCE = 8, 6, 9
LEAST = VALUE + SHARE + 2

Row = Total | Difference


@record
class ComparedCell:
    """A number, its difference as a share, whether that is good, and the absolute difference if there is room."""

    total: Total
    position: int

    def spans(self, width: int, align: Align) -> Sequence[Span]:
        kind, value = self.total.measure.kind, self.total.values[self.position]
        number = Span(fitted(words(kind, value), VALUE, Align.RIGHT), Tone.GREY if value is None else Tone.TEXT)
        if not self.position:
            return aligned([number], width)
        change = self.total.change(self.position)
        sign, tone = SIGNS[change.verdict]
        pieces = [number]
        if width >= LEAST + DIFFERENCE:
            pieces.append(Span(fitted(signed(kind, change.difference), DIFFERENCE, Align.RIGHT), Tone.GREY))
        pieces.append(Span(fitted(share_words(change.share), SHARE, Align.RIGHT), tone))
        return aligned([*pieces, Span(f" {sign}", tone, True)], width)


def rows(jobs: Sequence[Job]) -> list[Row]:
    """The rows: what the jobs used, then the parameters that are not the same."""
    return [*totals(jobs), *differences(jobs)]


def columns(jobs: Sequence[Job]) -> tuple[Column[Row], ...]:
    """The columns: all jobs are compared with the first; if there is little room, the last ones are dropped."""
    return (
        Column("label", "", label, 11, flex=1, most=18, sortable=False),
        *(column(job, position) for position, job in enumerate(jobs)),
    )


def column(job: Job, position: int) -> Column[Row]:
    return Column(
        job.id,
        f"{MARKERS[position % len(MARKERS)]} {job.id[:8]}",
        lambda row: cell(row, position),
        LEAST if position else VALUE,
        flex=2 if position else 1,
        most=40,
        priority=max(0, position - 1),
        sortable=False,
    )


def label(row: Row) -> Cell:
    if isinstance(row, Difference):
        return Words(row.label, Tone.BLUE)
    return Words(row.measure.label, Tone.GREY)


def cell(row: Row, position: int) -> Cell:
    if isinstance(row, Total):
        return ComparedCell(row, position)
    value = row.values[position]
    if value is None:
        return Words(ABSENT, Tone.GREY)
    return Words(value, Tone.TEXT if value == row.values[0] else tone_of(position))


def words(kind: NumberFormat, value: float | None) -> str:
    """A number in at most eight cells."""
    if value is None:
        return ABSENT
    match kind:
        case NumberFormat.SECONDS:
            return f"{value:.1f}s" if abs(value) < 60 else short_duration(value)
        case NumberFormat.BYTES:
            return short_bytes(value)
        case NumberFormat.SHARE:
            return f"{100 * value:.0f}%"
        case NumberFormat.COUNT:
            return format_count(value)


def signed(kind: NumberFormat, difference: float | None) -> str:
    if difference is None:
        return ""
    return ("-" if difference < 0 else "+") + words(kind, abs(difference)) if difference else ""


def share_words(share: float | None) -> str:
    """A relative difference: `+12%`, `-3%`, and `×12` from a factor of ten on."""
    if share is None:
        return ""
    return f"×{1 + share:.0f}" if share >= 9 else f"{100 * share:+.0f}%"
