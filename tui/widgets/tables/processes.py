"""The processes of a job as a tree, or sorted by a column."""

from __future__ import annotations

from jobtop.core.measure.process_order import SORTS, family
from jobtop.core.measure.snapshot import ProcessRow, ThreadLine
from jobtop.core.record import record
from jobtop.core.units import ABSENT
from jobtop.tui.data.job_reading import ProcessList
from jobtop.tui.data.rows import ListRows
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Align, Cell, Pieces, Span, Words, percent_words, short_bytes, short_duration
from jobtop.tui.widgets.columns import Column, Sort
from jobtop.tui.widgets.commands import LONGEST_COMMAND, short_command
from jobtop.tui.widgets.table import Table

DEEPEST = 12
TREE = "command"  # sorting by this column gives the tree
STOPPED = {"T": "stopped", "t": "traced", "Z": "zombie", "D": "waits for a disk", "X": "dead"}


@record
class TreeRow:
    """A process and its depth in the tree; or one of its threads."""

    depth: int
    row: ProcessRow
    thread: ThreadLine | None = None

    @property
    def number(self) -> int:
        return self.row.pid if self.thread is None else self.thread.tid

    @property
    def key(self) -> tuple[int, int | None]:
        return self.row.pid, None if self.thread is None else self.thread.tid


def columns() -> tuple[Column[TreeRow], ...]:
    """The columns; age, threads and pid are dropped first if there is little room."""
    return (
        Column("pid", "PID", lambda shown: Words(str(shown.number), Tone.GREY), 7, align=Align.RIGHT, priority=1),
        Column("cpu", "CPU%", cpu, 5, align=Align.RIGHT),
        Column("memory", "MEM", memory, 5, align=Align.RIGHT),
        Column("threads", "THR", threads, 4, align=Align.RIGHT, priority=2),
        Column("age", "AGE", age, 8, align=Align.RIGHT, priority=3),
        Column("command", "COMMAND", command, 20, flex=1),
    )


def cpu(shown: TreeRow) -> Cell:
    percent = shown.row.cpu_percent if shown.thread is None else shown.thread.cpu_percent
    return Words(percent_words(percent).rstrip("%"), Tone.BLUE if percent and percent >= 0.5 else Tone.GREY)


def memory(shown: TreeRow) -> Cell:
    return Words(short_bytes(shown.row.memory_bytes) if shown.thread is None else "")


def threads(shown: TreeRow) -> Cell:
    if shown.thread is not None:
        return Words("")
    return Words(ABSENT if shown.row.threads is None else str(shown.row.threads))


def age(shown: TreeRow) -> Cell:
    return Words(short_duration(shown.row.age_seconds) if shown.thread is None else "")


def command(shown: TreeRow) -> Cell:
    indent = "  " * min(shown.depth - 1, DEEPEST) + "└ " if shown.depth else ""
    if shown.thread is not None:
        return Pieces([Span(" " * len(indent) + "· ", Tone.FAINT), Span(shown.thread.name, Tone.GREY)])
    state = STOPPED.get(shown.row.state)
    state_words = [Span(f"({state}) ", Tone.YELLOW)] if state else []
    return Pieces([Span(indent, Tone.FAINT), *state_words, Span(short_command(shown.row.command[:LONGEST_COMMAND]))])


class ProcessTree(Table[TreeRow]):
    """The processes of a job; sorted by command, they are shown as a tree."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(columns(), id=id)
        self._shown = ProcessList()
        self.shows_threads = False

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable marking and opening: there are no actions on a single process."""
        return action not in ("activate", "mark")

    def show(self, processes: ProcessList, empty: str, others: str = "") -> None:
        """Show these processes, or the reason why there are none; `others` are the panes that share its place."""
        self._shown, self.empty = processes, empty
        self._list()
        count = len(processes.rows)
        number = Span(f" {count}" if count else "", Tone.GREY)
        self.set_title([Span("Processes", Tone.TEXT, True), number, Span(others, Tone.FAINT)])
        when = "" if processes.at is None or not count else f"after {short_duration(processes.at)}"
        self.set_subtitle([Span(when, Tone.GREY)])

    def sort_by(self, sort: Sort) -> None:
        """Sort by another column; the command column always gives the tree."""
        self.sort = None if sort.key == TREE else sort
        self._list()

    def _list(self) -> None:
        rows = [row for process in self._rows() for row in self._with_threads(process)]
        self.source = ListRows(rows, lambda shown: shown.key)

    def _with_threads(self, process: TreeRow) -> list[TreeRow]:
        """A process, and below it its busiest threads if they are shown; a process with one thread is that thread."""
        busiest = process.row.busiest if self.shows_threads and len(process.row.busiest) > 1 else ()
        return [process, *(TreeRow(process.depth, process.row, thread) for thread in busiest)]

    def _rows(self) -> list[TreeRow]:
        if self.sort is None:
            return [TreeRow(depth, row) for depth, row in family(self._shown.rows)]
        rows = sorted(self._shown.rows, key=SORTS[self.sort.key], reverse=self.sort.descending)
        return [TreeRow(0, row) for row in rows]
