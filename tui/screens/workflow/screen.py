"""The screen of one run of a workflow: its jobs, their graph, their gantt, and what they use together."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical

from jobtop.core.errors import JobtopError
from jobtop.core.units import number_of
from jobtop.tui.actions import APP, WORKFLOW, WORKFLOWS, bindings
from jobtop.tui.chart.chart import Chart
from jobtop.tui.data.rows import ListRows
from jobtop.tui.data.view import View
from jobtop.tui.data.workflow_reading import RunReading, RunView
from jobtop.tui.data.workflow_rows import ORDER, ShownRunJob, axis_seconds, shown_jobs, sorted_jobs
from jobtop.tui.page import TopLine
from jobtop.tui.palette import Tone
from jobtop.tui.screens.panes import PaneScreen
from jobtop.tui.screens.workflow.actions import ChosenRun, WorkflowPage
from jobtop.tui.screens.workflow.chart import usage_chart
from jobtop.tui.screens.workflow.header import RunHeader, RunHeaderView
from jobtop.tui.widgets.cells import Span
from jobtop.tui.widgets.gantt import Gantt
from jobtop.tui.widgets.job_graph import JobGraph
from jobtop.tui.widgets.tab_line import TabLine
from jobtop.tui.widgets.table import Table
from jobtop.tui.widgets.tables.run_jobs import job_columns
from jobtop.tui.workers import RepeatedWork

TALL, WITH_CHART = 26, 22
READ_SECONDS = 0.25
PANES = ("jobs", "graph", "gantt", "usage")
TITLES = {"jobs": "Jobs", "graph": "Graph", "gantt": "Gantt", "usage": "CPU+mem"}
GONE = "This run was deleted from the store"


class RunJobTable(Table[ShownRunJob]):
    """The jobs of a run; rows cannot be marked."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "mark"


class WorkflowScreen(PaneScreen, WorkflowPage):
    """The screen that Enter opens for a workflow."""

    name_in_tabs = "workflows"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP, WORKFLOWS, WORKFLOW)]
    DEFAULT_CSS = """
    WorkflowScreen {
        #left, #right { width: 1fr; }
        #jobs, #graph { height: 1fr; }
        #gantt { height: 3fr; }
        #usage { height: 2fr; }
        &.-narrow #usage { height: 8; }
        &.-narrow.-alone #usage { height: 1fr; }
    }
    """
    tallest = TALL

    def __init__(self, store: Path, workflow_id: int, run_id: int | None = None) -> None:
        super().__init__()
        self.reading = RunReading(store, workflow_id, run_id)
        self.run_view: RunView | None = None
        self.problem: str | None = None
        self.pane, self.sort = "jobs", ORDER
        self.rows: list[ShownRunJob] = []
        self._read_at = -float("inf")
        self._readings = RepeatedWork(self, self._read, "workflow")

    def panes(self) -> ComposeResult:
        yield RunHeader()
        yield TabLine()
        with Horizontal(id="panes"):
            with Vertical(id="left"):
                yield RunJobTable(job_columns(), id="jobs", empty="reading …")
                yield JobGraph(id="graph")
            with Vertical(id="right"):
                yield Gantt(id="gantt")
                yield Chart(id="usage")

    def begin(self) -> None:
        """Read the run for the first time, after all panes are mounted."""
        self.has_begun = True
        self.query_one("#jobs", RunJobTable).sort = self.sort
        self.lay_out()
        self.query_one("#jobs").focus()
        self._readings.request()
        if self.console.view is not None and self.query(TopLine):
            self.show(self.console.view)

    def show(self, view: View) -> None:
        if not self.has_begun or not self.is_attached:
            return
        super().show(view)
        now = time.monotonic()
        if now - self._read_at >= READ_SECONDS:
            self._read_at = now
            self._readings.request()
        if self.run_view is not None and not self.run_view.is_over:
            self.show_run()

    async def _read(self) -> None:
        reading, before = self.reading, self.run_view
        try:
            found = await self.console.reader.read(reading.store, reading.read)
            self.problem = None if found is not None else GONE
        except (JobtopError, OSError) as error:
            found, self.problem = self.run_view, str(error)
        if reading is not self.reading or not self.query(RunHeader):
            return
        self.run_view = found or self.run_view
        if self.run_view is not before or self.problem is not None:
            self.show_run()
        if found is not None and not found.is_complete:
            self._readings.request()

    def show_run(self) -> None:
        """Show the run as it was read last, with the times of now, in all visible panes."""
        view, shown = self.run_view, self.console.view
        if view is None:
            self.query_one(RunHeader).view = RunHeaderView(None, None, self.problem)
            return
        now = shown.at if shown is not None and not view.is_over else time.time()
        summary = view.summary(now)
        live = {row.key: row for row in shown.rows} if shown is not None and not view.is_over else {}
        span = axis_seconds(summary.elapsed_seconds, view.is_over)
        self.rows = shown_jobs(view, summary, live, now, span)
        self.query_one(RunHeader).view = RunHeaderView(view, summary, self.problem)
        self.show_panes()
        self.refresh_keys()

    def show_panes(self) -> None:
        """Hand the rows to the panes that are visible."""
        if self.run_view is None:
            return
        jobs, gantt, graph = self.query_one("#jobs", RunJobTable), self.query_one(Gantt), self.query_one(JobGraph)
        usage = self.query_one("#usage", Chart)
        if jobs.display:
            jobs.empty = "it has no jobs"
            jobs.source = ListRows(sorted_jobs(self.rows, self.sort), lambda row: row.key)
            jobs.set_title([Span("Jobs", Tone.TEXT, True)])
            words = f"{number_of(len(self.rows), 'job')} · sort {self.sort.key}{self.sort.arrow}"
            jobs.set_subtitle([Span(words, Tone.GREY)])
        if graph.display:
            graph.show(self.rows)
            stages = max((row.stage for row in self.rows), default=-1) + 1
            graph.set_title([Span("Graph", Tone.TEXT, True), Span(f" · {number_of(stages, 'stage')}", Tone.GREY)])
        if gantt.display:
            gantt.show(self.rows)
            gantt.set_title([Span("Gantt", Tone.TEXT, True)])
        if usage.display:
            usage.view = usage_chart(self.run_view)

    @property
    def chosen_run(self) -> ChosenRun | None:
        view = self.run_view
        if view is None:
            return None
        return ChosenRun(view.store, view.workflow, view.run.run_id, not view.is_over, view.run.run_id == view.runs[-1])

    def visible_panes(self) -> Iterator[str]:
        """All panes on a wide screen; else one, and the chart below the gantt if there is room."""
        if not self.is_narrow:
            yield from PANES
            return
        yield self.pane
        if self.pane == "gantt" and self.size.height >= WITH_CHART:
            yield "usage"

    def tab_names(self) -> Sequence[str]:
        return PANES

    def lay_out(self) -> None:
        """Show the panes that fit."""
        self.set_class(set(self.visible_panes()) == {"usage"}, "-alone")
        boxes: dict[str, Sequence[str]] = {"#left": PANES[:2], "#right": PANES[2:]}
        self.hide_panes(TITLES, boxes | {f"#{name}": (name,) for name in PANES})

    def on_resize(self) -> None:
        if self.has_begun:
            self.lay_out()
            self.show_panes()

    def show_in(self, name: str) -> None:
        self.pane = name
        self.lay_out()
        self.show_panes()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the keys of other runs if there are none."""
        if action != "step":
            return True
        return self._neighbour(int(str(parameters[0]))) is not None

    def _neighbour(self, by: int) -> int | None:
        view = self.run_view
        if view is None or view.run.run_id not in view.runs:
            return None
        place = view.runs.index(view.run.run_id) + by
        return view.runs[place] if 0 <= place < len(view.runs) else None

    def action_step(self, by: int) -> None:
        """Show the run before or after this one."""
        if (run_id := self._neighbour(by)) is not None:
            self.go_to(run_id)

    def go_to(self, run_id: int) -> None:
        """Show another run of the workflow."""
        self.reading = RunReading(self.reading.store, self.reading.workflow_id, run_id)
        self._readings.request()

    def changed(self, run_id: int) -> None:
        if self.run_view is not None and self.run_view.run.run_id != run_id:
            self.go_to(run_id)
        else:
            self._readings.request()

    def on_table_sort_requested(self, message: Table.SortRequested) -> None:
        self.sort = self.query_one("#jobs", RunJobTable).sort = message.sort
        self.show_panes()

    async def on_table_activated(self, message: Table.Activated) -> None:
        await self.open(message.key)

    async def on_job_graph_activated(self, message: JobGraph.Activated) -> None:
        await self.open(message.key)

    async def open(self, key: Hashable) -> None:
        """Open the last attempt at a job."""
        row = next((row for row in self.rows if row.key == key), None)
        if row is not None and row.job.status is not None:
            await self.console.open_job(row.job.id)
        elif row is not None:
            self.say("This job was deleted from the store", "warning")
