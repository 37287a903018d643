"""The panel of the heaviest processes that belong to no job: what uses the rest of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Align, Span, fitted, short_bytes
from jobtop.tui.widgets.commands import LONGEST_COMMAND, short_command
from jobtop.tui.widgets.painting import FRAME, Inks, Painted

if TYPE_CHECKING:
    from jobtop.core.measure.live.machine_processes import MachineProcess

MOST_USER_CELLS, CPU_CELLS, MEMORY_CELLS = 8, 5, 6
SHOWN_PERCENT = 0.5
NUMBERS = "CPU%".rjust(CPU_CELLS) + "MEM".rjust(MEMORY_CELLS) + "  COMMAND"
NOTHING = "No other processes"


class OtherView(NamedTuple):
    """The heaviest processes outside of jobs, and the CPU percent of all of them."""

    processes: tuple[MachineProcess, ...] = ()
    cpu_percent: float | None = None  # None: not read yet


class OtherProcesses(Painted):
    """A line for each process that fits; a click opens the page of all processes."""

    DEFAULT_CSS = f"OtherProcesses {{ {FRAME} }}"
    view: reactive[OtherView] = reactive(OtherView, repaint=False)

    class Opened(Message):
        """The user wants to see all processes."""

    def watch_view(self) -> None:
        self.repaint()

    def on_click(self) -> None:
        self.post_message(self.Opened())

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        cpu = self.view.cpu_percent
        words = "" if cpu is None else f"  CPU {cpu:.0f}%"
        self.set_title([Span("Not in jobs"), Span(words, Tone.GREY)])
        if cpu is None:
            return []
        shown = self.view.processes[: max(0, height - 1)]
        user_cells = min(MOST_USER_CELLS, max([4, *(len(process.user) for process in shown)]))
        lines = [[Span(fitted(f" {'USER'.ljust(user_cells)}{NUMBERS}", width), Tone.GREY, True)]]
        lines += [process_line(process, user_cells, width) for process in shown]
        if not shown:
            lines.append([Span(fitted(f" {NOTHING}", width), Tone.GREY)])
        return [inks.strip(line, width) for line in lines]


def process_line(process: MachineProcess, user_cells: int, width: int) -> list[Span]:
    """`eve   98  1.2G  backup --all`, in exactly this width."""
    percent = process.cpu_percent
    is_busy = percent is not None and percent >= SHOWN_PERCENT
    cpu = Span("–" if percent is None else f"{percent:.0f}", Tone.BLUE if is_busy else Tone.GREY, is_busy)
    fixed = 1 + user_cells + CPU_CELLS + MEMORY_CELLS + 2
    name = short_command(process.command[:LONGEST_COMMAND])
    return [
        Span(" "),
        Span(fitted(process.user, user_cells), Tone.GREY),
        cpu._replace(text=fitted(cpu.text, CPU_CELLS, Align.RIGHT)),
        Span(fitted(short_bytes(process.memory_bytes), MEMORY_CELLS, Align.RIGHT)),
        Span(f"  {fitted(name, max(0, width - fixed))}", Tone.GREY if process.is_kernel else Tone.TEXT),
    ]
