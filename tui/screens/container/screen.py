"""The screen of one container: its state, charts, processes, logs, events, and all that its engine says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.css.query import QueryType
from textual.widget import Widget

from jobtop.tui.actions import APP, CONTAINER, CONTAINERS, bindings
from jobtop.tui.chart.chart import Chart
from jobtop.tui.data.containers.rows import job_of
from jobtop.tui.page import TopLine
from jobtop.tui.screens.container.actions import ContainerPage
from jobtop.tui.screens.container.charts import BOTH, CHARTS, container_chart
from jobtop.tui.screens.container.header import ContainerHeader, ContainerHeaderView
from jobtop.tui.screens.container.inside import Inside
from jobtop.tui.widgets.log_view import LogPane
from jobtop.tui.widgets.prose import Prose
from jobtop.tui.widgets.tab_line import Tab, TabLine
from jobtop.tui.widgets.table import Table
from jobtop.tui.widgets.tables.container_events import ContainerEvents
from jobtop.tui.widgets.tables.processes import ProcessTree

if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.snapshot import ContainerRow, EngineState
    from jobtop.tui.data.containers.feed import Key

WIDE, TALL = 110, 22
LEAST_CHART = 6  # rows, including the border
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
GONE = "it was removed"


class ContainerPanes(Vertical):
    """Everything below the header."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(CONTAINER)]

    def action_open_pane(self, name: str) -> None:
        assert isinstance(self.screen, ContainerScreen)
        self.screen.open_pane(name)


class ContainerScreen(ContainerPage):
    """The screen that Enter opens for a container."""

    name_in_tabs = "containers"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP, CONTAINERS)]
    DEFAULT_CSS = """
    ContainerScreen {
        #upper { height: 2fr; min-height: 5; }
        #side { width: 3fr; }
        #cpu, #memory { width: 4fr; }
        #lower { height: 3fr; }
        #tree { width: 5fr; }
        #inspect { width: 9fr; }
        #pane { width: 7fr; }
        #events { width: 36; }
        TabLine { display: none; }
        &.-narrow TabLine { display: block; }
        &.-narrow #side, &.-narrow #cpu, &.-narrow #tree, &.-narrow #pane, &.-narrow #events { width: 1fr; }
        &.-narrow #inspect { width: 1fr; }
        &.-narrow #upper, &.-narrow #lower { height: 1fr; }
        &.-low ContainerHeader { height: 2; }
        .-hidden { display: none; }
        .-maximized { width: 100% !important; height: 100% !important; }
    }
    """

    def __init__(self, key: Key) -> None:
        super().__init__()
        self.key = key
        self.row: ContainerRow | None = None
        self.upper_pane, self.lower_pane, self.list_pane = "cpu", "logs", "tree"
        self.inside = Inside(self)
        self._has_begun = False

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

    def on_mount(self) -> None:
        self.call_later(self.begin)

    def begin(self) -> None:
        """Show the container for the first time, after all panes are mounted."""
        self._has_begun = True
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
        if not self._has_begun or not self.query(ContainerHeader):
            return
        found = self.container_feed.row(self.key)
        self.row = found or self.row
        self.show_header(found is None)
        if self.row is None:
            return
        self.container_feed.track(self.key).keep_longer()
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

    def draw_charts(self) -> None:
        if self.row is None:
            return
        track = self.container_feed.track(self.key)
        for chart in CHARTS:
            widget = self.query_one(f"#{chart.name}", Chart)
            if widget.display:
                is_both = chart.name == "cpu" and self.is_narrow
                widget.view = container_chart(BOTH if is_both else chart, self.row, track, widget.window)

    @property
    def charts_shown(self) -> list[str]:
        """The charts of this container; that of GPUs only if it uses one."""
        has_gpus = self.row is not None and bool(self.row.gpus)
        return [name for name in UPPER if name != "gpu" or has_gpus]

    @property
    def is_narrow(self) -> bool:
        """Whether panes share places."""
        return self.size.width < WIDE or self.is_low

    @property
    def is_low(self) -> bool:
        return self.size.height < TALL

    def on_resize(self) -> None:
        if self._has_begun:
            self.lay_out()
            self.draw_charts()

    def lay_out(self) -> None:
        """Show the panes that fit: all, or one of those that share a place."""
        self.set_class(self.is_narrow, "-narrow")
        self.set_class(self.is_low, "-low")
        shown = set(self.visible_panes())
        for name in (*UPPER, *LISTS, "events"):
            self.query_one(f"#{name}").set_class(name not in shown, "-hidden")
        self.query_one("#pane").set_class("logs" not in shown, "-hidden")
        for box, names in (("#upper", UPPER), ("#side", SIDE), ("#lower", LOWER)):
            self.query_one(box).set_class(not shown.intersection(names), "-hidden")
        self.query_one(TabLine).tabs = [Tab(name, TITLES[name], name in shown) for name in self.tab_names()]

    def visible_panes(self) -> Iterator[str]:
        """All panes on a wide screen; else one above and one below."""
        if self.is_narrow:
            yield from (self.upper_pane, self.lower_pane)
            return
        side = [name for name in self.charts_shown if name in SIDE]
        room = (self.size.height - 5) * 2 // 5 // LEAST_CHART
        side.sort(key=lambda name: name != self.upper_pane)
        yield from ("cpu", "memory", *side[: max(1, room)])
        yield from (name for name in LOWER if name not in LISTS or name == self.list_pane)

    def tab_names(self) -> list[str]:
        """The panes that can be opened, in their order."""
        return [*(name for name in self.charts_shown if name != "memory" or not self.is_narrow), *LOWER]

    def others(self, name: str) -> str:
        """The titles of the other panes in the place of a list, for its title; a narrow screen has tabs."""
        titles = [TITLES[other] for other in LISTS if other != name]
        return "" if self.is_narrow else "".join(f" · {title}" for title in titles)

    def focus_next(self, selector: str | type[QueryType] = "*") -> Widget | None:
        return self.step_focus(1)

    def focus_previous(self, selector: str | type[QueryType] = "*") -> Widget | None:
        return self.step_focus(-1)

    def step_focus(self, direction: int) -> Widget | None:
        """Focus the next pane, and show it if it is hidden."""
        names = self.tab_names()
        here = self.focused.id if self.focused is not None else None
        place = names.index(here) + direction if here in names else 0
        return self.open_pane(names[place % len(names)])

    def open_pane(self, name: str) -> Widget:
        """Show a pane and focus it."""
        if name in LISTS:
            self.list_pane = name
        if name in UPPER:
            self.upper_pane = name
        else:
            self.lower_pane = name
        self.lay_out()
        self.draw_charts()
        if self.row is not None:
            self.inside.look(self.row, self.engine, is_gone=False)
        pane = self.query_one(f"#{name}")
        if self.maximized is not None:
            self.maximize(pane)
        self.set_focus(pane)
        return pane

    def on_tab_line_clicked(self, message: TabLine.Clicked) -> None:
        self.open_pane(message.pane)

    def on_chart_cursor_moved(self, message: Chart.CursorMoved) -> None:
        """Move the cursors of all charts together."""
        if message.chart.has_focus:
            for chart in self.query(Chart):
                chart.cursor = message.chart.cursor

    def on_chart_window_changed(self, message: Chart.WindowChanged) -> None:
        if message.chart.has_focus:
            for chart in self.query(Chart):
                chart.window = message.chart.window
            self.draw_charts()

    def on_table_sort_requested(self, message: Table.SortRequested) -> None:
        if isinstance(message.table, ProcessTree):
            message.table.sort_by(message.sort)
