"""The columns of the jobs of a run: what each shows, and which are dropped first if there is little room."""

from __future__ import annotations

from jobtop.tui.data.workflow_rows import ShownRunJob
from jobtop.tui.palette import CRITICAL, STATUS_GLYPHS, Tone
from jobtop.tui.widgets.cells import Align, Cell, Words, short_bytes, short_duration
from jobtop.tui.widgets.columns import Column
from jobtop.tui.widgets.job_columns import ABSENT, NOTHING, SHOWN_PERCENT

DELETED = ("–", Tone.GREY)


def job_columns() -> tuple[Column[ShownRunJob], ...]:
    """The columns; dropped in the order stage, attempt, memory, CPU, why."""
    return (
        Column("glyph", "", glyph, 1, sortable=False),
        Column("critical", "", critical, 1, sortable=False),
        Column("name", "NAME", name, 12, flex=2, most=32),
        Column("stage", "STAGE", stage, 6, align=Align.RIGHT, priority=5),
        Column("time", "TIME", duration, 6, align=Align.RIGHT),
        Column("cpu", "CPU%", cpu, 5, align=Align.RIGHT, priority=2),
        Column("mem", "MEM", memory, 5, align=Align.RIGHT, priority=3),
        Column("try", "TRY", attempt, 3, align=Align.RIGHT, priority=4),
        Column("why", "WHY", why, 10, flex=3, priority=1, sortable=False),
    )


def glyph_of(row: ShownRunJob) -> tuple[str, Tone]:
    return DELETED if row.job.status is None else STATUS_GLYPHS[str(row.job.status)]


def name_tone(row: ShownRunJob) -> Tone:
    """Kept jobs, and jobs that have not started, are dim."""
    return Tone.GREY if row.job.is_kept or row.job.start_time is None else Tone.TEXT


def shown_name(row: ShownRunJob) -> str:
    """The name; that of an action or of the report in brackets."""
    return row.job.name if row.is_own else f"({row.job.name})"


def glyph(row: ShownRunJob) -> Cell:
    sign, tone = glyph_of(row)
    return Words(sign, Tone.GREY if row.job.is_kept else tone)


def critical(row: ShownRunJob) -> Cell:
    return Words(CRITICAL if row.is_critical else " ", Tone.ORANGE)


def name(row: ShownRunJob) -> Cell:
    return Words(shown_name(row), name_tone(row), row.is_critical)


def stage(row: ShownRunJob) -> Cell:
    return Words(str(row.stage + 1), Tone.GREY)


def duration(row: ShownRunJob) -> Cell:
    if row.seconds is None:
        return ABSENT
    return Words(short_duration(row.seconds), Tone.GREY if row.job.is_kept else Tone.TEXT)


def cpu(row: ShownRunJob) -> Cell:
    if row.cpu is None:
        return ABSENT
    if row.cpu < SHOWN_PERCENT:
        return NOTHING
    return Words(f"{row.cpu:.0f}", Tone.BLUE if row.job.is_live else Tone.GREY, row.job.is_live)


def memory(row: ShownRunJob) -> Cell:
    if row.memory is None:
        return ABSENT
    return Words(short_bytes(row.memory), Tone.TEXT if row.job.is_live else Tone.GREY)


def attempt(row: ShownRunJob) -> Cell:
    return Words(str(row.job.attempt) if row.job.attempt > 1 else "", Tone.YELLOW)


def why(row: ShownRunJob) -> Cell:
    is_bad = row.job.status is not None and row.job.status.ended and not row.job.is_kept
    return Words(row.why, glyph_of(row)[1] if is_bad else Tone.GREY)
