"""The columns of queued jobs and of groups: what each shows, and which are dropped first if there is little room."""

from __future__ import annotations

from jobtop.core.model import Queued, Status
from jobtop.core.run.scheduling import longest
from jobtop.core.units import format_duration
from jobtop.lifecycle.queue_listing import GroupUse
from jobtop.tui.data.queue_reading import ShownEntry
from jobtop.tui.palette import STATUS_GLYPHS, Tone
from jobtop.tui.widgets.cells import Align, Cell, Words, short_bytes, short_duration
from jobtop.tui.widgets.columns import Column
from jobtop.tui.widgets.job_columns import ABSENT

RIGHT = Align.RIGHT


def queue_columns(has_hosts: bool) -> tuple[Column[ShownEntry], ...]:
    """The columns; dropped in the order GPUS, TIME, GROUP, MEM, CPUS, HOST, STARTS IN, WAITS."""
    host = Column[ShownEntry]("host", "HOST", lambda row: Words(row.job.host, Tone.GREY), 8, priority=3, sortable=False)
    return (
        Column("glyph", "", glyph, 1, sortable=False),
        Column("place", "#", lambda row: Words(str(row.entry.place)), 3, align=RIGHT, sortable=False),
        Column("id", "ID", lambda row: Words(row.job.id[:8], Tone.GREY), 8, sortable=False),
        Column("name", "NAME", lambda row: Words(row.job.name), 10, flex=1, most=30, sortable=False),
        *((host,) if has_hosts else ()),
        Column("priority", "PRIO", priority, 4, align=RIGHT, sortable=False),
        Column("group", "GROUP", group, 8, flex=1, most=14, priority=6, sortable=False),
        Column("cpus", "CPUS", cpus, 4, align=RIGHT, priority=4, sortable=False),
        Column("mem", "MEM", memory, 6, align=RIGHT, priority=5, sortable=False),
        Column("gpus", "GPUS", gpus, 4, align=RIGHT, priority=8, sortable=False),
        Column("limit", "TIME", declared, 6, align=RIGHT, priority=7, sortable=False),
        Column("waited", "WAITS", waited, 7, align=RIGHT, priority=1, sortable=False),
        Column("starts", "STARTS IN", starts, 9, align=RIGHT, priority=2, sortable=False),
        Column("why", "WHY", why, 26, flex=4, sortable=False),
    )


def group_use_columns() -> tuple[Column[GroupUse], ...]:
    """The columns of groups."""
    return (
        Column("name", "GROUP", lambda use: Words(use.name), 12, flex=1, most=40, sortable=False),
        Column("slots", "SLOTS", slots, 8, align=RIGHT, sortable=False),
        Column("running", "RUNNING", lambda use: number(use.running, Tone.GREEN), 7, align=RIGHT, sortable=False),
        Column("waiting", "WAITING", lambda use: number(use.waiting, Tone.TEXT), 7, align=RIGHT, sortable=False),
        Column("state", "", state, 12, flex=1, sortable=False),
    )


def queued(row: ShownEntry) -> Queued:
    return row.job.queue or Queued()


def glyph(row: ShownEntry) -> Cell:
    return Words(*STATUS_GLYPHS[str(row.job.status)])


def priority(row: ShownEntry) -> Cell:
    value = queued(row).priority
    return Words(str(value), Tone.TEXT if value else Tone.GREY, bool(value))


def group(row: ShownEntry) -> Cell:
    name = queued(row).group
    return ABSENT if name is None else Words(name)


def cpus(row: ShownEntry) -> Cell:
    value = row.job.limits.cpus
    return ABSENT if value is None else Words(f"{value:g}")


def memory(row: ShownEntry) -> Cell:
    value = row.job.limits.memory_bytes
    return ABSENT if value is None else Words(short_bytes(value))


def gpus(row: ShownEntry) -> Cell:
    value = row.job.limits.gpus
    return ABSENT if value is None else Words(str(value))


def declared(row: ShownEntry) -> Cell:
    """The longest time that the job takes, as it was declared."""
    seconds = longest(row.job.limits)
    return ABSENT if seconds is None else Words(format_duration(seconds))


def waited(row: ShownEntry) -> Cell:
    return ABSENT if row.waited is None else Words(short_duration(row.waited))


def starts(row: ShownEntry) -> Cell:
    """How soon the job is expected to start; absent if the past does not tell."""
    if row.starts_in is None:
        return ABSENT
    return Words("now" if row.starts_in < 1 else f"≈{short_duration(row.starts_in)}", Tone.GREEN)


def why(row: ShownEntry) -> Cell:
    return Words(row.entry.why, Tone.YELLOW if row.job.status is Status.PAUSED else Tone.GREY)


def number(value: int, tone: Tone) -> Cell:
    return Words(str(value), tone if value else Tone.GREY)


def slots(use: GroupUse) -> Cell:
    return Words("no limit", Tone.GREY) if use.slots is None else Words(str(use.slots))


def state(use: GroupUse) -> Cell:
    if use.slots is None:
        return Words("")
    free = use.slots - use.running
    return Words(f"{free} free", Tone.GREY) if free > 0 else Words("full", Tone.YELLOW)
