"""The Workflows page: the workflows that were run, each with its last run and how far that is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from jobtop.core.errors import JobtopError
from jobtop.core.units import number_of
from jobtop.tui.actions import APP, WORKFLOWS, bindings
from jobtop.tui.data.rows import ListRows
from jobtop.tui.data.view import View
from jobtop.tui.data.workflow_reading import WorkflowEntry, WorkflowList
from jobtop.tui.data.workflow_rows import WORKFLOW_SORTS, ShownWorkflow, shown_workflow
from jobtop.tui.palette import Tone
from jobtop.tui.screens.workflow.actions import ChosenRun, WorkflowPage
from jobtop.tui.widgets.cells import Span
from jobtop.tui.widgets.columns import Sort, sorted_by
from jobtop.tui.widgets.table import Table
from jobtop.tui.widgets.tables.workflows import workflow_columns
from jobtop.tui.workers import RepeatedWork

READ_SECONDS = 0.25
PREFERENCES = "workflows"
EMPTY = (
    "no workflow was run yet\n\njobtop workflow init sweep.yaml --example sweep   writes a file to start from\n"
    "jobtop workflow run sweep.yaml   runs it"
)


class WorkflowTable(Table[ShownWorkflow]):
    """The workflows; rows cannot be marked."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "mark"


class Workflows(WorkflowPage):
    """The page with the table of workflows."""

    name_in_tabs = "workflows"
    AUTO_FOCUS = "#list"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP, WORKFLOWS)]

    def __init__(self) -> None:
        super().__init__()
        self.sort = Sort("id", True)
        self.entries: dict[tuple[Path, int], WorkflowEntry] = {}
        self.problem: str | None = None
        self._lists: dict[Path, WorkflowList] = {}
        self._read_at = -float("inf")
        self._version = -1
        self._readings = RepeatedWork(self, self._read, "workflows")

    def panes(self) -> ComposeResult:
        yield WorkflowTable(workflow_columns(False), id="list", empty="reading …")

    def on_mount(self) -> None:
        kept = self.console.preferences.sort(PREFERENCES)
        self.sort = kept if kept is not None and kept.key in WORKFLOW_SORTS else self.sort
        self.table.sort = self.sort
        self.table.columns = workflow_columns(len(self.console.options.stores) > 1)
        self.table.focus()
        self._readings.request()

    @property
    def table(self) -> Table[ShownWorkflow]:
        return self.query_one("#list", WorkflowTable)

    def show(self, view: View) -> None:
        super().show(view)
        now = time.monotonic()
        if view.version != self._version and now - self._read_at >= READ_SECONDS:
            self._version, self._read_at = view.version, now
            self._readings.request()
        self.show_entries()

    async def _read(self) -> None:
        stores = self.console.options.stores
        lists = [self._lists.setdefault(store, WorkflowList(store)) for store in stores]
        answers = await self.console.reader.read_each([(each.store, each.read) for each in lists])
        self.problem = next((str(answer) for answer in answers if isinstance(answer, JobtopError)), None)
        found = [entry for answer in answers if isinstance(answer, list) for entry in answer]
        self.entries = {entry.key: entry for entry in found}
        if self.query("#list"):
            self.table.empty = self.problem or EMPTY
            self.show_entries()

    def show_entries(self) -> None:
        now = self.console.view.at if self.console.view is not None else time.time()
        rows: Sequence[ShownWorkflow] = [shown_workflow(entry, now) for entry in self.entries.values()]
        rows = sorted_by(rows, WORKFLOW_SORTS[self.sort.key], self.sort.descending)
        self.table.source = ListRows(rows, lambda row: row.key)
        running = sum(not row.status.ended for row in rows)
        going = [Span(f" · {running} going on", Tone.GREEN)] if running else []
        self.table.set_title([Span("Workflows", Tone.TEXT, True), *going])
        words = f"{number_of(len(rows), 'workflow')} · sort {self.sort.key}{self.sort.arrow}"
        self.table.set_subtitle([Span(words, Tone.GREY)])
        self.refresh_keys()

    @property
    def chosen_run(self) -> ChosenRun | None:
        key = self.table.cursor_key
        entry = self.entries.get(key) if key is not None else None  # type: ignore[call-overload]
        if entry is None:
            return None
        is_live = any(job.is_live or job.will_retry for job in entry.jobs)
        return ChosenRun(entry.store, entry.workflow, entry.run.run_id, is_live, True)

    def changed(self, run_id: int) -> None:
        self._readings.request()

    def on_table_sort_requested(self, message: Table.SortRequested) -> None:
        if message.sort.key in WORKFLOW_SORTS:
            self.sort = self.table.sort = message.sort
            self.console.preferences.keep_sort(PREFERENCES, self.sort)
            self.show_entries()

    def on_table_selected(self) -> None:
        self.refresh_keys()

    async def on_table_activated(self) -> None:
        if (run := self.chosen_run) is not None:
            await self.console.open_workflow(run.store, run.workflow.id, run.run_id)
