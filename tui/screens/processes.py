"""The Processes page: everything that runs on this machine, and the job that each process belongs to."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from jobtop.core.errors import JobtopError
from jobtop.core.procfs import HAS_PROC
from jobtop.core.units import number_of
from jobtop.tui.actions import APP, PROCESSES, bindings
from jobtop.tui.data.processes.rows import (
    DEFAULT_SORT,
    JOB_SORT,
    SORTS,
    OwnerJob,
    Owners,
    ProcessRows,
    ShownProcess,
    as_tree,
    matching,
    sorted_processes,
    split_cpu,
    with_ancestors,
)
from jobtop.tui.data.rows import order_as_shown
from jobtop.tui.page import Page
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span, fitted, safe_text
from jobtop.tui.widgets.commands import short_command
from jobtop.tui.widgets.line_field import LineField
from jobtop.tui.widgets.prose import BLANK, Paragraph
from jobtop.tui.widgets.table import Table
from jobtop.tui.widgets.tables.machine_processes import Widths, machine_process_columns
from jobtop.tui.workers import in_daemon, start_work

if TYPE_CHECKING:
    from jobtop.core.measure.live.machine_processes import MachineProcess, ProcessMoment
    from jobtop.tui.actions import Action
    from jobtop.tui.data.processes.operations import ProcessOperation
    from jobtop.tui.dialogs.confirm import Confirm

PREFERENCES = "processes"
READ_SECONDS = 1.0
MOST_NAMED = 6
LABEL_CELLS = 50
WAITING = "Reading the processes of this machine …"
NO_PROC = "The Processes page needs /proc (as root: mount -t proc proc /proc)"
NONE_MATCH = "No matching processes.\nPress Esc to clear the filter."
NOT_MONITORED = "it is not monitored: no agent runs, and a job cannot start one (outside the job: jobtop agent start)"


class Processes(Page):
    """The page with the table of processes."""

    name_in_tabs = "processes"
    AUTO_FOCUS = "#list"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP, PROCESSES)]

    def __init__(self) -> None:
        super().__init__()
        self.sort = DEFAULT_SORT
        self.words: tuple[str, ...] = ()
        self.is_tree = False
        self.rows: ProcessRows | None = None
        self._owners = Owners()
        self._widths = Widths()
        self._offered: tuple[bool, bool] | None = None

    def panes(self) -> ComposeResult:
        yield LineField("/", "words of a command, a user or a job, or a pid", id="filter")
        yield Table(machine_process_columns(), empty=WAITING if HAS_PROC else NO_PROC, id="list")

    def on_mount(self) -> None:
        kept = self.console.preferences.sort(PREFERENCES)
        self.sort = kept if kept is not None and kept.key in (*SORTS, JOB_SORT) else self.sort
        self.table.sort = self.sort
        self.table.set_title([Span("Processes", Tone.TEXT, True)])
        self.table.focus()

    @property
    def table(self) -> Table[ShownProcess]:
        return self.query_one("#list", Table)

    @property
    def process_seconds(self) -> float | None:
        return max(READ_SECONDS, self.console.options.refresh_seconds)

    def show_processes(self, moment: ProcessMoment) -> None:
        table, view = self.table, self.console.view
        every = moment.processes
        if self.rows is None and not has_percentages(moment):
            return  # the next reading comes soon; until then the order would be another
        boot = self.console.process_feed.source.boot
        owners = self._owners.find(every, view.rows if view is not None else (), boot)
        found = matching(every, self.words, owners)
        unmatched: frozenset[tuple[int, int]] = frozenset()
        if self.is_tree and self.words:
            found, unmatched = with_ancestors(found, every)
        ordered = sorted_processes(found, self.sort, owners)
        if table.is_holding and self.rows is not None:
            ordered = order_as_shown(ordered, lambda each: each.key, [each.key for _, each in self.rows.order])
        order = as_tree(ordered) if self.is_tree else [(0, process) for process in ordered]
        widths = self._widths.including({process.user for process in every}, owners.values())
        if widths != self._widths:
            self._widths = widths
            table.columns = machine_process_columns(widths)
        self.rows = ProcessRows(moment, order, owners, unmatched)
        table.empty = NONE_MATCH if self.words else WAITING
        table.source = self.rows
        self.label_table(every)
        self.refresh_keys()

    def show_again(self) -> None:
        """Show the same processes in another order, or others of them."""
        if self.console.process_feed.now is not None:
            self.show_processes(self.console.process_feed.now)

    def label_table(self, every: Sequence[MachineProcess]) -> None:
        of_jobs, of_others = split_cpu(every, self._owners.by_key)
        machine = self.console.view.machine if self.console.view is not None else None
        cores = len(machine.detail.get("cores", ())) if machine is not None else 0
        cpu = f"  CPU: jobs {of_jobs:.0f}% + others {of_others:.0f}%" + (f" of {100 * cores}%" if cores else "")
        self.table.set_title([Span("Processes", Tone.TEXT, True), Span(cpu, Tone.GREY)])
        matches, marks = len(self.rows) if self.rows is not None else 0, len(self.table.marks)
        count = number_of(len(every), "process", "processes")
        words = [
            f"{matches} of {count}" if self.words else count,
            f"sort {self.sort.key}{self.sort.arrow}",
            *(["tree"] if self.is_tree else []),
            *([f"{marks} marked"] if marks else []),
        ]
        self.table.set_subtitle([Span(" · ".join(words), Tone.GREY)])

    @property
    def chosen(self) -> list[MachineProcess]:
        """The marked processes, or the one under the cursor."""
        marks = self.table.marks
        marked = [process for _, process in self.rows.order if process.key in marks] if marks and self.rows else []
        under = self.table.cursor_row
        return marked or ([under.process] if under is not None else [])

    @property
    def chosen_job(self) -> OwnerJob | None:
        under = self.table.cursor_row
        return under.job if under is not None else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable clearing while there is no filter."""
        return bool(self.words) if action == "clear_filter" else True

    def is_offered(self, action: Action) -> bool:
        """Offer to open a job where there is one, and to attach where there is none."""
        if action.id == "table.activate":
            return self.chosen_job is not None
        if action.id == "processes.attach" and (self.chosen_job is not None or not self.chosen):
            return False
        return super().is_offered(action)

    def refresh_keys(self) -> None:
        offered = self.chosen_job is not None, bool(self.chosen)
        if offered != self._offered:
            self._offered = offered
            self.update_keys()

    def action_filter(self) -> None:
        self.query_one(LineField).edit()

    def action_clear_filter(self) -> None:
        self.query_one(LineField).clear()

    def on_line_field_changed(self, message: LineField.Changed) -> None:
        self.words = tuple(message.text.split())
        if message.is_final:
            self.table.focus()
        self.show_again()
        self.update_keys()

    def action_tree(self) -> None:
        """Show processes below their parents, or as a list."""
        self.is_tree = not self.is_tree
        self.rows = None  # the order before means nothing now
        self.show_again()

    def on_table_sort_requested(self, message: Table.SortRequested) -> None:
        self.sort = self.table.sort = message.sort
        self.console.preferences.keep_sort(PREFERENCES, self.sort)
        self.rows = None
        self.show_again()

    def on_table_marks_changed(self) -> None:
        if (now := self.console.process_feed.now) is not None:
            self.label_table(now.processes)
        self.refresh_keys()

    def on_table_selected(self) -> None:
        self.refresh_keys()

    async def on_table_activated(self) -> None:
        if (job := self.chosen_job) is not None:
            await self.console.open_job(job.id)
        elif (under := self.table.cursor_row) is not None:
            self.say(f"process {under.process.pid} belongs to no job: a makes a job from it")

    def action_stop(self) -> None:
        from jobtop.tui.data.processes.operations import STOP

        self.ask_for(STOP)

    def action_kill(self) -> None:
        from jobtop.tui.data.processes.operations import KILL

        self.ask_for(KILL)

    def ask_for(self, operation: ProcessOperation) -> None:
        """Send a signal to the chosen processes, if they may get it and the user confirms."""
        from jobtop.tui.data.processes.operations import refusal

        processes = self.processes_to_change()
        refusals = [refusal(process, operation, os.geteuid(), os.getpid()) for process in processes]
        self.say_all([why for why in refusals if why is not None], "warning")
        ready = [process for process, why in zip(processes, refusals, strict=True) if why is None]
        if ready:
            start_work(self.app, self._ask_for, operation, ready, group="ask", exclusive=True)

    async def _ask_for(self, operation: ProcessOperation, processes: Sequence[MachineProcess]) -> None:
        from jobtop.tui.data.processes.operations import carry_out

        if not await self.app.push_screen_wait(question(operation, processes, self._owners)):
            return
        problems = await asyncio.gather(*(in_daemon(carry_out, process, operation) for process in processes))
        self.say_all([why for why in problems if why is not None], "error")
        done = [process for process, why in zip(processes, problems, strict=True) if why is None]
        self.say_all([f"{operation.done} {label(process)}" for process in done])
        self.table.marks = ()

    def action_attach(self) -> None:
        """Make a job from each chosen process."""
        if processes := self.processes_to_change():
            start_work(self.app, self._make_jobs, processes, group="act")

    async def _make_jobs(self, processes: Sequence[MachineProcess]) -> None:
        from jobtop.tui.data.processes.operations import attach_process

        for process in processes:
            try:
                job, is_monitored = await in_daemon(attach_process, self.console.options, process)
            except (JobtopError, OSError) as error:
                self.say(str(error), "warning")
                continue
            self.say(f"process {process.pid} is recorded as job {job.id[:8]} from now on; Enter opens the job")
            if not is_monitored:
                self.say(f"job {job.id[:8]}: {NOT_MONITORED}", "warning")
        self.table.marks = ()
        self.console.feed.poll_now()

    def action_copy_id(self) -> None:
        if pids := [str(process.pid) for process in self.chosen]:
            self.app.copy_to_clipboard(" ".join(pids))
            self.say(f"copied {pids[0]}" + (f" and {len(pids) - 1} more" if len(pids) > 1 else ""))

    def processes_to_change(self) -> Sequence[MachineProcess]:
        """The chosen processes, if this console may change them; tells the user why there are none."""
        if self.console.options.is_readonly:
            self.say(self.console.options.readonly_words, "warning")
            return ()
        if not (chosen := self.chosen):
            self.say("No process selected", "warning")
        return chosen

    def say(self, text: str, severity: str = "information") -> None:
        """Show a notification; control characters and markup in the text have no effect."""
        self.app.notify(safe_text(text), severity=severity, markup=False)  # type: ignore[arg-type]

    def say_all(self, texts: Sequence[str], severity: str = "information") -> None:
        """Show several texts in one notification, with a limit."""
        if texts:
            more = [f"and {len(texts) - MOST_NAMED} more"] if len(texts) > MOST_NAMED else []
            lines = [*map(safe_text, texts[:MOST_NAMED]), *more]
            self.app.notify("\n".join(lines), severity=severity, markup=False)  # type: ignore[arg-type]


def has_percentages(moment: ProcessMoment) -> bool:
    return any(process.cpu_percent is not None for process in moment.processes)


def question(operation: ProcessOperation, processes: Sequence[MachineProcess], owners: Owners) -> Confirm:
    """The dialog that asks whether to send a signal to these processes."""
    from jobtop.tui.dialogs.confirm import Confirm

    what = "this process" if len(processes) == 1 else number_of(len(processes), "process", "processes")
    more = [Paragraph(f"and {len(processes) - MOST_NAMED} more", Tone.GREY)] if len(processes) > MOST_NAMED else []
    in_jobs = [owners.by_key[process.key] for process in processes if process.key in owners.by_key]
    warning = f"It belongs to job {safe_text(in_jobs[0].name)}: other processes of the job go on." if in_jobs else ""
    lines = [
        *map(named, processes[:MOST_NAMED]),
        *more,
        BLANK,
        Paragraph(operation.meaning, Tone.GREY),
        *([Paragraph(warning, Tone.YELLOW)] if warning else []),
    ]
    return Confirm(f"{operation.title} {what}?", lines, operation.title, "Cancel")


def named(process: MachineProcess) -> Paragraph:
    user = [Span(f"{process.pid}  ", Tone.GREY), Span(f"{safe_text(process.user)[:LABEL_CELLS]}  ", Tone.GREY)]
    return Paragraph(fitted(short_command(process.command), LABEL_CELLS).rstrip(), Tone.TEXT, user, bold=True)


def label(process: MachineProcess) -> str:
    """The pid of a process and its command, shortened."""
    return f"{process.pid} {fitted(short_command(process.command), LABEL_CELLS).rstrip()}"
