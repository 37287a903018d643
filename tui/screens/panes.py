"""What the screens of one job, container or run share: panes that share places where there is no room for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.css.query import QueryType
from textual.widget import Widget

from jobtop.core.record import record
from jobtop.tui.chart.chart import Chart
from jobtop.tui.chart.plotting import ChartView
from jobtop.tui.chart.window import TimeWindow
from jobtop.tui.page import Page
from jobtop.tui.widgets.tab_line import Tab, TabLine
from jobtop.tui.widgets.table import Table
from jobtop.tui.widgets.tables.processes import ProcessTree

WIDE, TALL = 110, 22
LEAST_CHART = 6  # rows, including the border


class PaneScreen(Page):
    """A screen with panes; Tab goes through all of them, also those that are hidden."""

    DEFAULT_CSS = """
    PaneScreen {
        TabLine { display: none; }
        &.-narrow TabLine { display: block; }
        .-hidden { display: none; }
        .-maximized { width: 100% !important; height: 100% !important; }
    }
    """
    tallest: ClassVar[int] = TALL  # rows from which panes do not share a place
    has_begun = False

    def on_mount(self) -> None:
        self.call_later(self.begin)

    def begin(self) -> None:
        """Show something for the first time, after all panes are mounted."""
        raise NotImplementedError

    @property
    def is_low(self) -> bool:
        return self.size.height < self.tallest

    @property
    def is_narrow(self) -> bool:
        """Whether panes share places."""
        return self.size.width < WIDE or self.is_low

    def tab_names(self) -> Sequence[str]:
        """The panes that can be opened, in their order."""
        raise NotImplementedError

    def visible_panes(self) -> Iterator[str]:
        """The panes that there is room for."""
        raise NotImplementedError

    def show_in(self, name: str) -> None:
        """Have a pane among the visible ones, and fill it."""
        raise NotImplementedError

    def open_pane(self, name: str) -> Widget:
        """Show a pane and focus it."""
        self.show_in(name)
        pane = self.query_one(f"#{name}")
        if self.maximized is not None:
            self.maximize(pane)
        self.set_focus(pane)
        return pane

    def hide_panes(self, titles: dict[str, str], boxes: dict[str, Sequence[str]]) -> None:
        """Hide the panes and boxes that have no room, and name in the tabs those that can be opened."""
        shown = set(self.visible_panes())
        self.set_class(self.is_narrow, "-narrow")
        for box, names in boxes.items():
            self.query_one(box).set_class(not shown.intersection(names), "-hidden")
        self.query_one(TabLine).tabs = [Tab(name, titles[name], name in shown) for name in self.tab_names()]

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

    def on_tab_line_clicked(self, message: TabLine.Clicked) -> None:
        self.open_pane(message.pane)


@record
class Arrangement:
    """Which panes of a screen with charts there are, by their ids, and where."""

    titles: dict[str, str]  # of all panes
    charts: tuple[str, ...]
    upper: tuple[str, ...]  # charts and panels; from the third on they are below each other, at the side
    lower: tuple[str, ...]
    lists: tuple[str, ...]  # of the lower ones, those that share a place also on a wide screen
    text: str  # of the lower ones, the one that is in the box #pane

    @property
    def side(self) -> tuple[str, ...]:
        return self.upper[2:]


class ChartScreen(PaneScreen):
    """A screen with charts above, and lists and text below."""

    DEFAULT_CSS = """
    ChartScreen {
        #upper { height: 2fr; min-height: 5; }
        #side { width: 3fr; }
        #cpu, #memory { width: 4fr; }
        #lower { height: 3fr; }
        #tree { width: 5fr; }
        #pane { width: 7fr; }
        &.-narrow #side, &.-narrow #cpu, &.-narrow #tree, &.-narrow #pane { width: 1fr; }
        &.-narrow #upper, &.-narrow #lower { height: 1fr; }
    }
    """
    arrangement: ClassVar[Arrangement]
    height_above = 0  # rows of what is above the charts
    charts_shown: list[str]
    upper_pane, lower_pane, list_pane = "cpu", "", "tree"

    def lay_out(self) -> None:
        """Show the panes that fit: all, or one of those that share a place."""
        these = self.arrangement
        self.set_class(self.is_low, "-low")
        boxes: dict[str, Sequence[str]] = {"#upper": these.upper, "#side": these.side, "#lower": these.lower}
        boxes |= {"#pane" if name == these.text else f"#{name}": (name,) for name in these.titles}
        self.hide_panes(these.titles, boxes)

    def visible_panes(self) -> Iterator[str]:
        """All panes on a wide screen; else one above and one below."""
        if self.is_narrow:
            yield from (self.upper_pane, self.lower_pane)
            return
        these = self.arrangement
        side = [name for name in self.charts_shown if name in these.side]
        room = (self.size.height - 5 - self.height_above) * 2 // 5 // LEAST_CHART
        side.sort(key=lambda name: name != self.upper_pane)
        yield from ("cpu", "memory", *side[: max(1, room)])
        yield from (name for name in these.lower if name not in these.lists or name == self.list_pane)

    def tab_names(self) -> Sequence[str]:
        charts = [name for name in self.charts_shown if name != "memory" or not self.is_narrow]
        return [*charts, *self.arrangement.lower]

    def others(self, name: str) -> str:
        """The titles of the other panes in the place of a list, for its title; a narrow screen has tabs."""
        titles = [self.arrangement.titles[other] for other in self.arrangement.lists if other != name]
        return "" if self.is_narrow else "".join(f" · {title}" for title in titles)

    def show_in(self, name: str) -> None:
        if name in self.arrangement.lists:
            self.list_pane = name
        if name in self.arrangement.upper:
            self.upper_pane = name
        else:
            self.lower_pane = name
        self.lay_out()
        self.draw_charts()

    def draw_charts(self) -> None:
        """Draw the charts that are visible; that of the CPU also has the memory if there is no room for both."""
        for name in self.arrangement.charts:
            widget = self.query_one(f"#{name}", Chart)
            if widget.display and (view := self.chart_view(name, name == "cpu" and self.is_narrow, widget.window)):
                widget.view = view

    def chart_view(self, name: str, has_memory: bool, window: TimeWindow) -> ChartView | None:
        """What a chart shows; None as long as nothing is known."""
        raise NotImplementedError

    def on_resize(self) -> None:
        if self.has_begun:
            self.lay_out()
            self.draw_charts()

    def on_chart_window_changed(self, message: Chart.WindowChanged) -> None:
        if message.chart.has_focus:
            for chart in self.query(Chart):
                chart.window = message.chart.window
            self.draw_charts()

    def on_table_sort_requested(self, message: Table.SortRequested) -> None:
        if isinstance(message.table, ProcessTree):
            message.table.sort_by(message.sort)
