"""The columns of workflows: what each shows, and which are dropped first if there is little room."""

from __future__ import annotations

from collections.abc import Sequence

from jobtop.core.clock import local
from jobtop.core.model import Status
from jobtop.core.record import record
from jobtop.tui.data.workflow_rows import ShownWorkflow
from jobtop.tui.palette import STATUS_GLYPHS, Tone
from jobtop.tui.widgets.cells import Align, Cell, Span, Words, bar, short_duration
from jobtop.tui.widgets.columns import Column
from jobtop.tui.widgets.job_columns import ABSENT, NOTHING


def workflow_columns(has_hosts: bool) -> tuple[Column[ShownWorkflow], ...]:
    """The columns; the host only if several stores are open."""
    host = Column[ShownWorkflow]("host", "HOST", host_name, 8, flex=1, most=16, priority=2, sortable=False)
    return (
        Column("glyph", "", glyph, 1, sortable=False),
        Column("id", "ID", number, 5, align=Align.RIGHT),
        Column("name", "NAME", name, 14, flex=3, most=44),
        *((host,) if has_hosts else ()),
        Column("run", "RUN", run, 4, align=Align.RIGHT),
        Column("state", "STATE", state, 9, priority=1),
        Column("jobs", "JOBS DONE", jobs, 16, flex=1, most=34),
        Column("failed", "FAILED", failed, 6, align=Align.RIGHT, priority=3, sortable=False),
        Column("started", "SUBMITTED", started, 19, priority=4),
        Column("time", "TIME", duration, 7, align=Align.RIGHT),
        Column("speed", "SPEED-UP", speed, 8, align=Align.RIGHT, priority=5),
        Column("user", "USER", user, 8, flex=1, most=14, priority=6),
    )


@record
class Progress:
    """`━━━━━╸─── 12/19`: a bar in the tone of the state, and numbers of a fixed width."""

    done: int
    total: int
    tone: Tone

    def spans(self, width: int, align: Align) -> Sequence[Span]:
        label = f"{self.done}/{self.total}".rjust(2 * len(str(self.total)) + 1)
        room = width - max(8, len(label) + 1)
        percent = 100 * self.done / self.total if self.total else 0.0
        return (*bar(percent, room, self.tone), Span(label[:width].rjust(width - max(0, room))))


def tone_of(status: Status | None) -> Tone:
    return STATUS_GLYPHS[str(status or "unknown")][1]


def glyph(row: ShownWorkflow) -> Cell:
    return Words(*STATUS_GLYPHS[str(row.status)])


def number(row: ShownWorkflow) -> Cell:
    return Words(str(row.id), Tone.GREY)


def name(row: ShownWorkflow) -> Cell:
    return Words(row.name)


def host_name(row: ShownWorkflow) -> Cell:
    return Words(row.host, Tone.GREY)


def run(row: ShownWorkflow) -> Cell:
    return Words(str(row.run), Tone.GREY if row.run == 1 else Tone.TEXT)


def state(row: ShownWorkflow) -> Cell:
    return Words(str(row.status), tone_of(row.status))


def jobs(row: ShownWorkflow) -> Cell:
    return Progress(row.done, row.total, tone_of(row.status))


def failed(row: ShownWorkflow) -> Cell:
    return Words(str(row.failed), Tone.VERMILION) if row.failed else NOTHING


def started(row: ShownWorkflow) -> Cell:
    return Words(local(row.at), Tone.GREY)


def duration(row: ShownWorkflow) -> Cell:
    return ABSENT if row.seconds is None else Words(short_duration(row.seconds))


def speed(row: ShownWorkflow) -> Cell:
    return ABSENT if row.speed_up is None else Words(f"{row.speed_up:.1f}×", Tone.GREY)


def user(row: ShownWorkflow) -> Cell:
    return Words(row.user, Tone.GREY)
