"""The screen of one job: its state, charts, processes, output and timeline, now or at a moment of its past."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical

from jobtop.core.analysis.ending import explain_end
from jobtop.core.errors import JobtopError, UnknownJob
from jobtop.core.model import Job, Status
from jobtop.core.text.job_text import are_samples_deleted, not_started_text
from jobtop.store.jobs import Jobs
from jobtop.tui.actions import APP, JOB, JOBS, Action, bindings
from jobtop.tui.chart.chart import Chart
from jobtop.tui.chart.plotting import ChartView
from jobtop.tui.chart.window import TimeWindow
from jobtop.tui.data.job_reading import JobReading, JobView, Viewport
from jobtop.tui.data.view import JobRow, View
from jobtop.tui.page import KeyLine, Page, TopLine
from jobtop.tui.screens.job.charts import BOTH, CHARTS, chart_view, shown_charts
from jobtop.tui.screens.job.connections import JobConnections
from jobtop.tui.screens.job.files import JobFiles
from jobtop.tui.screens.job.header import HeaderView, JobHeader
from jobtop.tui.screens.job.terminal import JobTerminal
from jobtop.tui.screens.job.why import Why, waiting
from jobtop.tui.screens.job_actions import JobActions
from jobtop.tui.screens.panes import Arrangement, ChartScreen
from jobtop.tui.widgets.alert_table import AlertTable
from jobtop.tui.widgets.gpu_panel import GpuPanel, job_card
from jobtop.tui.widgets.job_columns import with_wait
from jobtop.tui.widgets.output_rows import Logs, why_no_output
from jobtop.tui.widgets.output_view import OutputPane, OutputView
from jobtop.tui.widgets.tab_line import TabLine
from jobtop.tui.widgets.tables.connections import ConnectionTable
from jobtop.tui.widgets.tables.files import FileTable
from jobtop.tui.widgets.tables.processes import ProcessTree
from jobtop.tui.widgets.timeline import Timeline
from jobtop.tui.workers import RepeatedWork

READ_SECONDS = 0.95  # between two readings of a running job
SILENT_SECONDS = 3.0
HOST_SECONDS = 60.0  # of the host around a moment of the job
ACTIONS = (
    *("jobs.stop", "jobs.kill", "jobs.pause", "jobs.again", "jobs.retry", "jobs.pin"),
    *("jobs.export", "jobs.copy", "jobs.acknowledge"),
)
UPPER = tuple(chart.name for chart in CHARTS)
PER_GPU = "gpus"
SIDE = (*UPPER[2:], PER_GPU)
LISTS = ("tree", "files", "connections", "alerts")  # share a place also on a wide screen
LOWER = ("tree", "files", "output", "timeline", "connections", "alerts")
TITLES = {
    "cpu": "CPU+mem",
    "memory": "Memory",
    "io": "I/O",
    "gpu": "GPU",
    "gpus": "GPUs",
    "net": "Network",
    "energy": "Power",
    "pressure": "Stalls",
    "why": "Why",
    "tree": "Processes",
    "files": "Files",
    "connections": "Connections",
    "alerts": "Alerts",
    "output": "Output",
    "timeline": "Timeline",
}
CHART_BY_NAME = {chart.name: chart for chart in CHARTS}
GONE = "This job was deleted from the store"


class Panes(Vertical):
    """Everything below the header; Escape first returns from the past to now, then leaves the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(JOB)]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "live" or (isinstance(self.screen, JobScreen) and self.screen.moment is not None)

    def action_live(self) -> None:
        assert isinstance(self.screen, JobScreen)
        self.screen.go_to(None)

    def action_open_pane(self, name: str) -> None:
        assert isinstance(self.screen, JobScreen)
        self.screen.open_pane(name)

    def action_show_threads(self) -> None:
        assert isinstance(self.screen, JobScreen)
        self.screen.show_threads()

    def action_type_into_job(self) -> None:
        assert isinstance(self.screen, JobScreen)
        self.screen.terminal.begin_typing()


class JobScreen(ChartScreen, JobActions):
    """The screen that Enter opens for a job."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(APP),
        *(binding for binding in bindings(JOBS) if binding.id in ACTIONS),
    ]
    DEFAULT_CSS = """
    JobScreen {
        #gpus { height: auto; max-height: 60%; }
        &.-narrow #gpus { height: 1fr; max-height: 100%; }
        #files, #connections, #alerts { width: 5fr; }
        #timeline { width: 36; }
        &.-narrow #timeline, &.-narrow #files, &.-narrow #connections, &.-narrow #alerts { width: 1fr; }
        &.-low JobHeader { height: 2; }
    }
    """
    arrangement = Arrangement(TITLES, UPPER, (*UPPER, PER_GPU), LOWER, LISTS, text="output")

    def __init__(self, job_id: str, moment: float | None = None, at: float | None = None) -> None:
        """`moment` is in seconds since the start of the job, `at` by the wall clock: it is shown at that moment."""
        super().__init__()
        self.job_id, self.moment, self.read_seconds = job_id, moment, READ_SECONDS
        self._at = at  # until the start of the job is known
        self.row: JobRow | None = None
        self.job_view: JobView | None = None
        self.problem: str | None = None
        self.charts_shown = ["cpu", "memory", "io"]
        self.lower_pane = "output"
        self._reading: JobReading | None = None
        self._read_at = -float("inf")
        self._version = -1
        self._readings = RepeatedWork(self, self._read, "reading")
        self.terminal = JobTerminal(self)
        self.files, self.connections = JobFiles(self), JobConnections(self)

    def panes(self) -> ComposeResult:
        yield JobHeader()
        with Panes():
            yield Why(id="why")
            with Horizontal(id="upper"):
                yield Chart(id="cpu")
                yield Chart(id="memory")
                with Vertical(id="side"):
                    yield from (GpuPanel(id=name) if name == PER_GPU else Chart(id=name) for name in SIDE)
            yield TabLine()
            with Horizontal(id="lower"):
                yield ProcessTree(id="tree")
                yield FileTable(id="files")
                yield ConnectionTable(id="connections")
                yield AlertTable(id="alerts")
                yield OutputPane(id="pane")
                yield Timeline(id="timeline")

    def begin(self) -> None:
        """Read the job for the first time, after all panes are mounted."""
        self.has_begun = True
        opener = self.app.screen_stack[-2]
        if isinstance(opener, Page):
            self.query_one(TopLine).current = opener.name_in_tabs
        self.lay_out()
        self.point_charts()
        self.query_one("#cpu").focus()
        if self.console.view is not None:
            self.show(self.console.view)
        self.request_reading()

    def on_unmount(self) -> None:
        self.terminal.close()
        if self._reading is not None:
            self.console.reader.finish(self._reading.close)

    @property
    def job(self) -> Job | None:
        return self.job_view.job if self.job_view is not None else self.row.job if self.row is not None else None

    @property
    def output_directory(self) -> Path | None:
        """Where the logs and the terminal of the job are, once its store is known."""
        return None if self._reading is None else self._reading.directory

    def window_of_host(self) -> TimeWindow | None:
        """The run of an ended job, or the moment under the cursor."""
        job = self.job
        own = self.console.options.own
        if job is None or job.start_time is None or own is None or job.host != own.host:
            return None
        if self.moment is not None:
            return TimeWindow(HOST_SECONDS, job.start_time + self.moment + HOST_SECONDS / 2)
        if job.end_time is None or not job.status.ended:
            return None
        return TimeWindow(max(HOST_SECONDS, job.end_time - job.start_time), job.end_time)

    def is_offered(self, action: Action) -> bool:
        """Offer only the end of typing while all keys go to the job; offer to type only where that can work."""
        if self.query_one(OutputView).takes_all_keys:
            return action.id == "typing.end"
        if action.id == "job.type":
            return self.has_live_choice and super().is_offered(action)
        return super().is_offered(action)

    def update_keys(self) -> None:
        self.query_one(KeyLine).has_palette = not self.query_one(OutputView).takes_all_keys
        super().update_keys()

    def on_output_view_typed(self, message: OutputView.Typed) -> None:
        self.terminal.send(message.data)

    def on_output_view_typing_ended(self) -> None:
        self.update_keys()

    def on_output_view_size_changed(self) -> None:
        self.terminal.fit()

    @property
    def chosen_rows(self) -> Sequence[JobRow]:
        """The row of this job."""
        if self.job_view is None or self._reading is None:
            return [self.row] if self.row is not None else []
        return [self.row or JobRow(self.job_view.job, self._reading.store, elapsed=self.job_view.job.duration_seconds)]

    def show(self, view: View) -> None:
        if not self.has_begun or not self.is_attached:
            return
        super().show(view)
        self.row = next((row for row in view.rows if row.key == self.job_id), None)
        has_changed, self._version = view.version != self._version, view.version
        is_over = self.job_view is not None and self.job_view.job.settled and self.problem is None
        if not is_over or has_changed:
            self.request_reading(at_once=False)
        self.show_header()

    def request_reading(self, at_once: bool = True) -> None:
        """Read the job again: now, or if the last reading is old enough."""
        if not at_once and time.monotonic() - self._read_at < self.read_seconds:
            return
        self._read_at = time.monotonic()
        self._readings.request()

    async def _read(self) -> None:
        try:
            await self._read_job()
        except (JobtopError, OSError) as error:
            self.problem = str(error)
        self.show_header()

    async def _read_job(self) -> None:
        reading = await self._find_reading()
        if reading is None:
            self.problem = GONE
        else:
            chart = self.query_one("#cpu", Chart)
            with_threads = self.query_one(ProcessTree).shows_threads
            viewport = Viewport(chart.window, max(20, self.size.width), self.moment, with_threads)
            job_view = await self.console.reader.read(reading.store, lambda database: reading.read(database, viewport))
            self.problem = GONE
            if job_view is not None and self.query(JobHeader):
                self.problem = f"{job_view.damaged} damaged samples are left out" if job_view.damaged else None
                self.show_job_view(job_view)
                self.terminal.fit()
                await self.terminal.look(job_view)

    async def _find_reading(self) -> JobReading | None:
        """The reading of this job, once its store is known; raises StoreError if no store can tell."""
        if self._reading is None:
            stores = [self.row.store] if self.row is not None else self.console.options.stores
            try:
                store, _ = await self.console.reader.read_first(
                    stores, lambda database: Jobs(database).find(self.job_id)
                )
            except UnknownJob:
                return None
            config = self.console.options.config
            self._reading = JobReading(self.job_id, store, config.texts("run.redact") if config else ())
            self.query_one(OutputView).logs = Logs(self.console.reader, store, self._reading.directory)
        return self._reading

    def show_job_view(self, job_view: JobView) -> None:
        """Show what was read in all panes."""
        is_first, self.job_view = self.job_view is None, job_view
        self.go_to_first_moment(job_view.job)
        new = [chart.name for chart in shown_charts(job_view) if chart.name not in self.charts_shown]
        self.charts_shown += new
        self.show_gpus(job_view)
        self.explain(job_view, is_first)
        self.lay_out()
        self.draw_charts()
        self.query_one(ProcessTree).show(job_view.processes, self.no_processes(job_view), self.others("tree"))
        self.files.look(job_view)
        self.connections.look(job_view)
        self.query_one(AlertTable).show(job_view.job, job_view.alerts, self.console.rules, self.others("alerts"))
        self.query_one(Timeline).show(job_view.job, job_view.events, self.moment)
        view = self.query_one(OutputView)
        view.go_to(self.moment)
        view.update_output(not job_view.job.status.ended, why_no_output(job_view.job), self.is_silent(job_view.job))
        self.refresh_keys()

    def go_to_first_moment(self, job: Job) -> None:
        """Go to the moment that the screen was opened for, once the start of the job is known."""
        at, self._at = self._at, None
        if at is not None and job.start_time is not None:
            self.go_to(max(0.0, at - job.start_time))

    def show_gpus(self, job_view: JobView) -> None:
        """Show each GPU of the job with the job's share of it; the charts of GPUs come before those of storage."""
        if job_view.gpus and PER_GPU not in self.charts_shown:
            self.charts_shown = [name for name in self.charts_shown if name != "gpu"]
            self.charts_shown[2:2] = ["gpu", PER_GPU]
        panel = self.query_one(GpuPanel)
        panel.title = f"Per GPU{' · peaks' if any(gpu.are_peaks for gpu in job_view.gpus) else ''}"
        panel.cards = tuple(map(job_card, job_view.gpus))

    def explain(self, job_view: JobView, is_first: bool) -> None:
        """Explain why the job waits or ended; on a low screen, open the explanation first."""
        view = self.console.view
        events = [(event.at, event.kind, event.detail) for event in job_view.events]
        waits = waiting(
            job_view.job, self.row.wait_words if self.row is not None else None, view.has_agent if view else None
        )
        lines = waits or explain_end(job_view.job, events, job_view.last_lines)
        self.query_one("#why", Why).explain(lines, bool(waits))
        if is_first and lines and self.is_low:
            self.open_pane("why")
        elif not lines and self.lower_pane == "why":
            self.open_pane("output")

    def is_silent(self, job: Job) -> bool:
        """Whether the job has run long enough to have written something."""
        elapsed = self.row.elapsed if self.row is not None else None
        return job.status is Status.RUNNING and (elapsed or 0.0) >= SILENT_SECONDS

    def chart_view(self, name: str, has_memory: bool, window: TimeWindow) -> ChartView | None:
        if self.job_view is None:
            return None
        return chart_view(self.job_view, BOTH if has_memory else CHART_BY_NAME[name], window, rules=self.console.rules)

    def show_header(self) -> None:
        if not self.query(JobHeader):
            return  # a reading may end while the console closes
        job_view, row = self.job_view, self.row
        elapsed = None if job_view is None else job_view.job.duration_seconds
        if elapsed is None and row is not None:
            elapsed = with_wait(row, time.time()).elapsed
        is_stale = row is not None and row.is_stale
        view = HeaderView(job_view, elapsed, self.moment, self.problem, is_stale, self.console.prices)
        self.query_one(JobHeader).view = view

    @staticmethod
    def no_processes(job_view: JobView) -> str:
        job = job_view.job
        if (words := not_started_text(job)) is not None:
            return words
        if are_samples_deleted(job):
            return "deleted with its samples"
        if not job.status.ended:
            return "no processes yet"
        return (
            "processes were not recorded" if not job_view.is_sampled else "it ended before its processes were recorded"
        )

    def on_resize(self) -> None:
        if self.has_begun:
            self.request_reading()

    def lay_out(self) -> None:
        self.fit_why()
        super().lay_out()

    def fit_why(self) -> None:
        """Give the explanation a quarter of the screen, or all of it if it is shown alone."""
        why, height = self.query_one("#why", Why), self.size.height
        is_alone = self.is_narrow and self.lower_pane == "why"
        rows = why.fit(max(20, self.size.width - 6), max(3, height - 7 if is_alone else height // 4))
        self.height_above = rows + 2 if why.explanation else 0
        why.styles.height = self.height_above

    @property
    def has_why(self) -> bool:
        return bool(self.query_one("#why", Why).explanation)

    def visible_panes(self) -> Iterator[str]:
        """The explanation first; on a low screen it is alone."""
        if self.has_why and (not self.is_low or self.lower_pane == "why"):
            yield "why"
        if not self.is_narrow or self.lower_pane != "why":
            yield from super().visible_panes()

    def tab_names(self) -> Sequence[str]:
        return [*(["why"] if self.has_why else []), *super().tab_names()]

    def show_in(self, name: str) -> None:
        if self.lower_pane == "why":
            self.lower_pane = "output"
        if name != "why" or self.is_low:
            super().show_in(name)
        else:
            self.lay_out()
            self.draw_charts()
        self.files.look(self.job_view)
        self.connections.look(self.job_view)

    def show_threads(self) -> None:
        """Show the busiest threads below their processes, or hide them again."""
        tree = self.query_one(ProcessTree)
        tree.shows_threads = not tree.shows_threads
        self.open_pane("tree")
        self.request_reading()

    def go_to(self, moment: float | None, by: Chart | None = None) -> None:
        """Show a moment of the past, or now again; the chart that asked for it is already there."""
        if moment != self.moment:
            self.moment = moment
            self.point_charts(by)
            self.show_header()
            self.update_keys()
            self.request_reading()

    def point_charts(self, but: Chart | None = None) -> None:
        for chart in self.query(Chart):
            if chart is not but:
                chart.cursor = self.moment

    def on_chart_cursor_moved(self, message: Chart.CursorMoved) -> None:
        if message.chart.has_focus:
            self.go_to(message.chart.cursor, message.chart)

    def on_chart_window_changed(self, message: Chart.WindowChanged) -> None:
        if message.chart.has_focus:
            self.request_reading()

    def on_alert_table_chosen(self, message: AlertTable.Chosen) -> None:
        self.go_to(message.moment)

    def on_timeline_chosen(self, message: Timeline.Chosen) -> None:
        self.go_to(message.moment)
