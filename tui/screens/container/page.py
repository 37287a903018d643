"""The Containers page: every container of this machine with what it uses, by compose project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from jobtop.core.record import replace
from jobtop.tui.actions import APP, CONTAINER_LIST, CONTAINERS, bindings
from jobtop.tui.chart.chart import SmallChart
from jobtop.tui.chart.plotting import ChartView
from jobtop.tui.chart.window import TimeWindow
from jobtop.tui.data.containers.rows import (
    BY_PROJECT,
    SORTS,
    ShownContainer,
    count_words,
    empty_words,
    shown_containers,
)
from jobtop.tui.data.rows import ListRows, order_as_shown
from jobtop.tui.keymap import keys_of_action, shown_key
from jobtop.tui.palette import Tone
from jobtop.tui.screens.container.actions import ContainerPage
from jobtop.tui.screens.container.charts import BOTH, NETWORK, container_chart
from jobtop.tui.widgets.cells import Span
from jobtop.tui.widgets.columns import Sort
from jobtop.tui.widgets.engine_lines import EngineLines, engine_spans
from jobtop.tui.widgets.line_field import LineField
from jobtop.tui.widgets.table import Table
from jobtop.tui.widgets.tables.containers import container_columns

if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.snapshot import ContainerRow
    from jobtop.tui.data.view import View

PREFERENCES = "containers"
WIDE, TALL = 110, 32  # columns and rows of a screen with charts below the containers
LAST_MINUTE = TimeWindow(60.0)
PREVIEW_NOTE = "preview · Enter opens"
TABLE_NAME = "containers.list"  # under which hidden columns are remembered


class Containers(ContainerPage):
    """The page with the table of containers."""

    name_in_tabs = "containers"
    AUTO_FOCUS = "#list"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP, CONTAINERS, CONTAINER_LIST)]
    DEFAULT_CSS = """
    Containers {
        #previews { height: 11; display: none; }
        &.-tall #previews { display: block; }
        #preview { width: 2fr; }
        #preview-net { width: 1fr; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.sort = Sort(BY_PROJECT)
        self.words: tuple[str, ...] = ()
        self.shown: list[ShownContainer] = []
        self._hidden: frozenset[str] = frozenset()
        self._layout: tuple[bool, bool, frozenset[str]] | None = None

    def panes(self) -> ComposeResult:
        yield EngineLines()
        yield LineField("/", "words of a name, image, project, state or engine", id="filter")
        yield Table(container_columns(False, False), id="list")
        with Horizontal(id="previews"):
            yield SmallChart(id="preview")
            yield SmallChart(id="preview-net")

    def on_mount(self) -> None:
        kept = self.console.preferences.sort(PREFERENCES)
        self.sort = kept if kept is not None and kept.key in SORTS else self.sort
        self._hidden = self.console.preferences.hidden(TABLE_NAME)
        self.table.sort = self.sort
        self.table.focus()
        self.show_containers()

    @property
    def table(self) -> Table[ShownContainer]:
        return self.query_one("#list", Table)

    def show(self, view: View) -> None:
        super().show(view)
        if view.rows:  # their jobs may be new ones
            self.look()

    def show_containers(self) -> None:
        now, table = self.container_feed.now, self.table
        rows = shown_containers(self.container_feed, self.jobs, self.words, self.sort)
        if table.is_holding and self.shown:
            rows = order_as_shown(rows, lambda shown: shown.key, [shown.key for shown in self.shown])
        self.shown = rows
        self.choose_layout(len(now.engines) > 1, any(row.gpus for row in now.rows))
        all_key = shown_key(next(iter(keys_of_action(self, "containers.all")), "a"), True)
        tried = self.container_feed.source.tried_places() if not now.engines else ()
        table.empty = empty_words(now, tried, self.container_feed.every, bool(self.words), all_key)
        table.source = ListRows(rows, lambda shown: shown.key)
        # An empty table says it itself.
        problems = [engine.problem for engine in now.engines if engine.problem is not None]
        is_said = not rows and len(problems) == len(now.engines)
        self.query_one(EngineLines).problems = () if is_said else tuple(problems)
        self.label_table()
        self.preview()

    def on_resize(self) -> None:
        self.set_class(self.size.height >= TALL and self.size.width >= WIDE, "-tall")
        self.preview()

    def preview(self) -> None:
        """Draw what the container under the cursor used lately, if there is room."""
        under = self.table.cursor_row
        if not self.has_class("-tall"):
            return
        for name, chart in (("#preview", BOTH), ("#preview-net", NETWORK)):
            widget = self.query_one(name, SmallChart)
            widget.window = LAST_MINUTE
            if under is None:
                widget.view = ChartView(empty="No container selected")
            else:
                view = container_chart(chart, under.row, self.container_feed.track(under.key), LAST_MINUTE)
                is_first = chart is BOTH
                widget.view = replace(
                    view,
                    title=under.row.container.name if is_first else view.title,
                    note=PREVIEW_NOTE if is_first else LAST_MINUTE.words,
                )

    async def on_small_chart_pressed(self) -> None:
        await self.on_table_activated()

    def choose_layout(self, has_engines: bool, has_gpus: bool) -> None:
        """Show the engine only if there are several, GPUs only if a container uses one, and no hidden column."""
        if self._layout != (has_engines, has_gpus, self._hidden):
            self._layout = has_engines, has_gpus, self._hidden
            every = container_columns(has_engines, has_gpus)
            self.table.columns = tuple(column for column in every if column.key not in self._hidden)

    def label_table(self) -> None:
        now, marks = self.container_feed.now, len(self.table.marks)
        self.table.set_title([Span("Containers", Tone.TEXT, True), *engine_spans(now.engines)])
        words = [
            count_words(now, len(self.shown), self.container_feed.every, bool(self.words)),
            f"sort {self.sort.key}{self.sort.arrow}",
            *(["stopped ones too"] if self.container_feed.every else []),
            *([f"{marks} marked"] if marks else []),
        ]
        self.table.set_subtitle([Span(" · ".join(words), Tone.GREY)])

    @property
    def chosen_rows(self) -> Sequence[ContainerRow]:
        marked = [shown.row for shown in self.shown if shown.key in self.table.marks]
        under = self.table.cursor_row
        return marked or ([under.row] if under is not None else [])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable clearing while there is no filter."""
        return bool(self.words) if action == "clear_filter" else True

    def action_filter(self) -> None:
        self.query_one(LineField).edit()

    def action_clear_filter(self) -> None:
        self.query_one(LineField).clear()

    def on_line_field_changed(self, message: LineField.Changed) -> None:
        self.words = tuple(message.text.split())
        if message.is_final:
            self.table.focus()
        self.show_containers()
        self.update_keys()

    def action_all(self) -> None:
        """List stopped containers too, or only those that run."""
        self.container_feed.list_every(not self.container_feed.every)
        self.show_containers()

    async def action_choose_columns(self) -> None:
        from jobtop.tui.dialogs.choose_columns import ChooseColumns

        now = self.container_feed.now
        every = container_columns(len(now.engines) > 1, any(row.gpus for row in now.rows))

        def choose(hidden: frozenset[str]) -> None:
            self._hidden = hidden
            self.console.preferences.keep_hidden(TABLE_NAME, hidden)
            self.show_containers()

        await self.app.push_screen(ChooseColumns(every, self._hidden, choose))

    def on_table_sort_requested(self, message: Table.SortRequested) -> None:
        self.sort = self.table.sort = message.sort
        self.console.preferences.keep_sort(PREFERENCES, self.sort)
        self.show_containers()

    def on_table_marks_changed(self) -> None:
        self.label_table()
        self.refresh_keys()

    def on_table_selected(self) -> None:
        self.refresh_keys()
        self.preview()

    async def on_table_activated(self) -> None:
        if (shown := self.table.cursor_row) is not None:
            await self.console.open_container(shown.key)
