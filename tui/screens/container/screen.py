"""The screen of one container: its state, charts, processes, logs, events, and all that its engine says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical

from jobtop.tui.actions import APP, CONTAINER, CONTAINERS, bindings
from jobtop.tui.chart.chart import Chart
from jobtop.tui.data.containers.rows import job_of
from jobtop.tui.page import TopLine
from jobtop.tui.screens.container.actions import ContainerPage
from jobtop.tui.screens.container.charts import BOTH, CHARTS, container_chart
from jobtop.tui.screens.container.header import ContainerHeader, ContainerHeaderView
from jobtop.tui.screens.container.inside import Inside
from jobtop.tui.screens.panes import Arrangement, ChartScreen
from jobtop.tui.widgets.log_view import LogPane
from jobtop.tui.widgets.prose import Prose
from jobtop.tui.widgets.tab_line import TabLine
from jobtop.tui.widgets.tables.container_events import ContainerEvents
from jobtop.tui.widgets.tables.processes import ProcessTree

if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.snapshot import ContainerRow, EngineState
    from jobtop.tui.chart.plotting import ChartView
    from jobtop.tui.chart.window import TimeWindow
    from jobtop.tui.data.containers.feed import Key

UPPER = tuple(chart.name for chart in CHARTS)
SIDE = UPPER[2:]
LISTS = ("tree", "inspect")  # share a place also on a wide screen
LOWER = ("tree", "logs", "events", "inspect")
TITLES = {
    "cpu": "CPU+mem",
    "memory": "Memory",
    "net": "Network",
    "io": "I/O",
    "gpu": "GPU",
    "tree": "Processes",
    "inspect": "Inspect",
    "logs": "Logs",
    "events": "Events",
}
CHART_BY_NAME = {chart.name: chart for chart in CHARTS}
GONE = "it was removed"


class ContainerPanes(Vertical):
    """Everything below the header."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(CONTAINER)]

    def action_open_pane(self, name: str) -> None:
        assert isinstance(self.screen, ContainerScreen)
        self.screen.open_pane(name)


class ContainerScreen(ChartScreen, ContainerPage):
    """The screen that Enter opens for a container."""

    name_in_tabs = "containers"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP, CONTAINERS)]
    DEFAULT_CSS = """
    ContainerScreen {
        #inspect { width: 9fr; }
        #events { width: 36; }
        &.-narrow #events, &.-narrow #inspect { width: 1fr; }
        &.-low ContainerHeader { height: 2; }
    }
    """
    arrangement = Arrangement(TITLES, UPPER, UPPER, LOWER, LISTS, text="logs")

    def __init__(self, key: Key) -> None:
        super().__init__()
        self.key = key
        self.row: ContainerRow | None = None
        self.lower_pane = "logs"
        self.charts_shown = [name for name in UPPER if name != "gpu"]
        self.inside = Inside(self)

    def panes(self) -> ComposeResult:
        yield ContainerHeader()
        with ContainerPanes():
            with Horizontal(id="upper"):
                yield Chart(id="cpu")
                yield Chart(id="memory")
                with Vertical(id="side"):
                    yield from (Chart(id=name) for name in SIDE)
            yield TabLine()
            with Horizontal(id="lower"):
                yield ProcessTree(id="tree")
                yield Prose(id="inspect")
                yield LogPane(id="pane")
                yield ContainerEvents(id="events")

    def begin(self) -> None:
        """Show the container for the first time, after all panes are mounted."""
        self.has_begun = True
        self.lay_out()
        self.query_one("#logs").focus()
        self.look(at_once=True)
        if self.console.view is not None and self.query(TopLine):
            self.show(self.console.view)

    def on_unmount(self) -> None:
        self.container_feed.track(self.key).keep_usual()

    @property
    def engine(self) -> EngineState | None:
        return self.container_feed.engine(self.key[0])

    @property
    def chosen_rows(self) -> Sequence[ContainerRow]:
        return [self.row] if self.row is not None else []

    def show_containers(self) -> None:
        """Show the newest reading; a container that is gone stays as it was last."""
        if not self.has_begun or not self.query(ContainerHeader):
            return
        found = self.container_feed.row(self.key)
        self.row = found or self.row
        self.show_header(found is None)
        if self.row is None:
            return
        self.container_feed.track(self.key).keep_longer()
        self.charts_shown = [name for name in UPPER if name != "gpu" or self.row.gpus]
        self.lay_out()
        self.draw_charts()
        self.query_one(ContainerEvents).show(self.row)
        self.inside.look(self.row, self.engine, found is None)

    def show_header(self, is_gone: bool) -> None:
        engine, row, config = self.engine, self.row, self.console.options.config
        problem = engine.problem if engine is not None else None
        if problem is None and is_gone:
            problem = GONE
        job_id = job_of(row, self.jobs) if row is not None else None
        secret = tuple(config.texts("run.redact")) if config is not None else ()
        self.query_one(ContainerHeader).view = ContainerHeaderView(row, job_id, problem, secret)

    def chart_view(self, name: str, has_memory: bool, window: TimeWindow) -> ChartView | None:
        if self.row is None:
            return None
        track = self.container_feed.track(self.key)
        return container_chart(BOTH if has_memory else CHART_BY_NAME[name], self.row, track, window)

    def show_in(self, name: str) -> None:
        super().show_in(name)
        if self.row is not None:
            self.inside.look(self.row, self.engine, is_gone=False)

    def on_chart_cursor_moved(self, message: Chart.CursorMoved) -> None:
        """Move the cursors of all charts together."""
        if message.chart.has_focus:
            for chart in self.query(Chart):
                chart.cursor = message.chart.cursor
