"""The Queue page: queued jobs in start order, why each waits, groups with their slots, and what is given out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from jobtop.core.errors import JobtopError
from jobtop.core.units import number_of
from jobtop.lifecycle.queue_listing import GroupUse, QueueState
from jobtop.tui.actions import APP, JOBS, QUEUE, bindings
from jobtop.tui.data.queue_reading import QueueReading, ShownEntry, TimedRows, shown_entries
from jobtop.tui.data.rows import ListRows
from jobtop.tui.data.view import JobRow, View
from jobtop.tui.palette import Tone
from jobtop.tui.screens.job_actions import JobActions
from jobtop.tui.widgets.cells import Span
from jobtop.tui.widgets.given_out import GivenOut
from jobtop.tui.widgets.table import Table
from jobtop.tui.widgets.tables.queue import group_use_columns, queue_columns
from jobtop.tui.workers import RepeatedWork, start_work

READ_SECONDS = 1.0
LATEST_SECONDS = 30.0  # reasons change with time too, such as "until 14:30"
SHARE = 40  # a reading takes at most this part of the time
MOST_GROUPS = 6  # rows
WITH_GROUPS = 20  # lines of the screen from which groups are listed
EMPTY = "No queued jobs.\n\njobtop submit -- COMMAND   queues one"


class QueueTable(Table[ShownEntry]):
    """Queued jobs; they are always in start order."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action not in ("sort", "reverse")


class GroupTable(Table[GroupUse]):
    """Groups with their slots; there is nothing to open or to mark."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action not in ("sort", "reverse", "mark", "activate")


class QueuePage(JobActions):
    """The page with the queue of this host, and of the other opened stores."""

    name_in_tabs = "queue"
    AUTO_FOCUS = "#queue"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP, JOBS, QUEUE)]
    DEFAULT_CSS = "QueuePage GroupTable { height: auto; display: none; &.-shown { display: block; } }"

    def __init__(self) -> None:
        super().__init__()
        self.states: dict[Path, QueueState] = {}
        self.problem: str | None = None
        self.rows: Sequence[ShownEntry] = ()
        self._source = TimedRows(())
        self._sources: dict[Path, QueueReading] = {}
        self._version = -1
        self._group_rows = 0
        self._next_start = float("inf")  # the next expected start: then the estimates are made again
        self._read_at, self._took = -float("inf"), 0.0
        self._readings = RepeatedWork(self, self._read, "queue")

    def panes(self) -> ComposeResult:
        yield GivenOut(id="given")
        yield QueueTable(queue_columns(len(self.console.options.stores) > 1), id="queue", empty="reading …")
        yield GroupTable(group_use_columns(), id="slots")

    def on_mount(self) -> None:
        self.query_one(GivenOut).set_title([Span("Given out to running jobs", Tone.TEXT, True)])
        self.query_one(GroupTable).set_title([Span("Groups", Tone.TEXT, True)])
        self.table.focus()
        self._readings.request()

    @property
    def table(self) -> Table[ShownEntry]:
        return self.query_one("#queue", QueueTable)

    def show(self, view: View) -> None:
        super().show(view)
        since = time.monotonic() - self._read_at
        has_changed = view.version != self._version or view.at > self._next_start
        is_due = has_changed and since >= max(READ_SECONDS, SHARE * self._took)
        if is_due or since >= max(LATEST_SECONDS, SHARE * self._took):
            self._version = view.version
            self._readings.request()
        self.show_queue()

    async def _read(self) -> None:
        options = self.console.options
        for store in options.stores:
            self._sources.setdefault(store, QueueReading(store, options.own, options.capacity))
        began = time.monotonic()
        answers = await self.console.reader.read_each(
            [(source.store, source.read) for source in self._sources.values()]
        )
        self._read_at = time.monotonic()
        self._took = self._read_at - began
        self.problem = next((str(answer) for answer in answers if isinstance(answer, JobtopError)), None)
        found = zip(self._sources, answers, strict=True)
        self.states = {store: answer for store, answer in found if isinstance(answer, QueueState)}
        self.rows = shown_entries(self.states)
        self._source = TimedRows(self.rows)
        starts = [row.entry.starts_at for row in self.rows if row.entry.starts_at is not None]
        self._next_start = min((start for start in starts if start > time.time()), default=float("inf"))
        if self.query("#queue"):
            self.table.empty = self.problem or EMPTY
            self.show_queue()

    def show_queue(self) -> None:
        """Show what was read last, with the current waiting times."""
        now = self.console.view.at if self.console.view is not None else time.time()
        self._source.now = now
        self.table.source = self._source
        own = next((state for state in self.states.values() if state.cpus is not None), None)
        self.query_one(GivenOut).state = own or next(iter(self.states.values()), None)
        self.show_groups(own.groups if own is not None else ())
        self.label_table()

    def show_groups(self, groups: Sequence[GroupUse]) -> None:
        table = self.query_one(GroupTable)
        table.source = ListRows(groups, lambda use: use.name)
        rows = min(MOST_GROUPS, len(groups), self.size.height // 4)
        if rows != self._group_rows:
            self._group_rows = rows
            table.styles.height = rows + 3  # the border and the titles
        table.set_class(bool(groups) and self.size.height >= WITH_GROUPS, "-shown")

    def label_table(self) -> None:
        view = self.console.view
        no_agent = view is not None and view.has_agent is False and bool(self.rows)
        warning = [Span(" · no agent starts them: jobtop agent start", Tone.YELLOW)] if no_agent else []
        self.table.set_title([Span("Queue", Tone.TEXT, True), *warning])
        marks = [f"{len(self.table.marks)} marked"] if self.table.marks else []
        words = [f"{number_of(len(self.rows), 'job')} in start order", *marks]
        self.table.set_subtitle([Span(" · ".join(words), Tone.GREY)])
        self.refresh_keys()

    @property
    def chosen_rows(self) -> Sequence[JobRow]:
        marked = [row for row in self.rows if row.key in self.table.marks]
        under = self.table.cursor_row
        chosen = marked or ([under] if under is not None else [])
        return [JobRow(row.job, row.store, wait_reason=row.entry.why, queue_place=row.entry.place) for row in chosen]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The queue has no filter."""
        return action not in ("filter", "clear_filter")

    def action_change_priority(self, step: int) -> None:
        """Let the chosen jobs start sooner or later than others."""
        if rows := self.rows_to_change():
            start_work(self.app, self._change_priority, rows, step, group="act")

    async def _change_priority(self, rows: Sequence[JobRow], step: int) -> None:
        from jobtop.tui.data.operations import change_priority
        from jobtop.tui.workers import in_daemon

        refusals = [await in_daemon(change_priority, row, step) for row in rows]
        self.say_all([why for why in refusals if why is not None], "warning")
        self.console.feed.poll_now()
        self._readings.request()

    def on_table_marks_changed(self) -> None:
        self.label_table()

    def on_table_selected(self) -> None:
        self.refresh_keys()

    async def on_table_activated(self) -> None:
        if (row := self.table.cursor_row) is not None:
            await self.console.open_job(row.key)
