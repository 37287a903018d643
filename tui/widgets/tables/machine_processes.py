"""The columns of the machine's processes: what each shows, and which are dropped first if there is little room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len

from jobtop.core.procfs import SHIM_NAME
from jobtop.core.record import record
from jobtop.tui.data.processes.rows import OwnerJob, ShownProcess
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import (
    Align,
    Cell,
    Pieces,
    Span,
    Words,
    aligned,
    fitted,
    safe_text,
    short_bytes,
    short_duration,
)
from jobtop.tui.widgets.columns import Column
from jobtop.tui.widgets.commands import LONGEST_COMMAND, short_command
from jobtop.tui.widgets.job_columns import ABSENT, NOTHING, SHOWN_PERCENT
from jobtop.tui.widgets.tables.processes import DEEPEST

SHORT_ID = 8
LEAST_USER, MOST_USER = 4, 12
LEAST_JOB, NARROW_JOB, MOST_JOB = 3, 12, 30
LEAST_NAME = 10  # cells that a name needs beside its id
STATES = {
    "R": ("running", Tone.GREEN),
    "S": ("sleeping", Tone.GREY),
    "I": ("idle", Tone.GREY),
    "D": ("disk", Tone.YELLOW),
    "T": ("stopped", Tone.YELLOW),
    "t": ("traced", Tone.YELLOW),
    "Z": ("zombie", Tone.VERMILION),
    "X": ("dead", Tone.VERMILION),
}


@record
class JobName:
    """The name of a job and its id, dimmed; in little room only the name."""

    job: OwnerJob

    def spans(self, width: int, align: Align) -> Sequence[Span]:
        room = width - SHORT_ID - 1
        if room < min(LEAST_NAME, len(self.job.name)):
            return (Span(fitted(self.job.name, width), Tone.BLUE),)
        name = fitted(self.job.name, min(room, cell_len(safe_text(self.job.name))))
        return aligned([Span(name, Tone.BLUE), Span(f" {self.job.id[:SHORT_ID]}", Tone.GREY)], width)


@record
class StateName:
    """The state of a process in words; in little room as the letter that the kernel has for it."""

    letter: str

    def spans(self, width: int, align: Align) -> Sequence[Span]:
        words, tone = STATES.get(self.letter, (self.letter, Tone.GREY))
        return (Span(fitted(words if len(words) <= width else self.letter, width), tone),)


class Widths(NamedTuple):
    """The cells that the longest user and the longest job of the shown processes need."""

    user: int = LEAST_USER
    job: int = LEAST_JOB

    def including(self, users: Iterable[str], jobs: Iterable[OwnerJob]) -> Widths:
        """Widths that also suffice for these: columns never shrink while the page is open."""
        user = max(map(len, users), default=0)
        job = max((len(job.name) + 1 + SHORT_ID for job in jobs), default=0)
        return Widths(max(self.user, min(user, MOST_USER)), max(self.job, min(job, MOST_JOB)))


def machine_process_columns(widths: Widths = Widths()) -> tuple[Column[ShownProcess], ...]:  # noqa: B008
    """The columns; dropped in the order threads, age, user, job."""
    job_cells = min(widths.job, NARROW_JOB)
    return (
        Column("pid", "PID", lambda shown: Words(str(shown.process.pid), Tone.GREY), 7, align=Align.RIGHT),
        Column("user", "USER", user, widths.user, priority=2),
        Column("cpu", "CPU%", cpu, 5, align=Align.RIGHT),
        Column("memory", "MEM", memory, 5, align=Align.RIGHT),
        Column("threads", "THR", threads, 4, align=Align.RIGHT, priority=4),
        Column("age", "AGE", lambda shown: Words(short_duration(shown.age_seconds)), 7, align=Align.RIGHT, priority=3),
        Column("state", "STATE", state, 1, flex=1, most=8),
        Column("job", "JOB", job, job_cells, flex=2, most=widths.job, priority=1),
        Column("command", "COMMAND", command, 18, flex=6),
    )


def user(shown: ShownProcess) -> Cell:
    return Words(shown.process.user, Tone.GREY if shown.process.uid == 0 else Tone.TEXT)


def cpu(shown: ShownProcess) -> Cell:
    """CPU percent of one core; a process with many threads uses several."""
    percent = shown.process.cpu_percent
    if percent is None:
        return ABSENT
    if percent < SHOWN_PERCENT:
        return NOTHING
    return Words(f"{percent:.0f}", Tone.BLUE, True)


def memory(shown: ShownProcess) -> Cell:
    used = shown.process.memory_bytes
    return ABSENT if used is None else Words(short_bytes(used))


def threads(shown: ShownProcess) -> Cell:
    count = shown.process.threads
    return Words(str(count), Tone.TEXT if count > 1 else Tone.GREY)


def state(shown: ShownProcess) -> Cell:
    return StateName(shown.process.state)


def job(shown: ShownProcess) -> Cell:
    return Words("") if shown.job is None else JobName(shown.job)


def command(shown: ShownProcess) -> Cell:
    """The command after its place in the tree; faint for kernel threads and for ancestors of what matches."""
    indent = "  " * min(shown.depth - 1, DEEPEST) + "└ " if shown.depth else ""
    is_shim = shown.process.name == SHIM_NAME
    is_faint = shown.process.is_kernel or is_shim or not shown.is_match
    words = SHIM_NAME if is_shim else short_command(shown.process.command[:LONGEST_COMMAND])
    return Pieces([Span(indent, Tone.FAINT), Span(words, Tone.GREY if is_faint else Tone.TEXT)])
