"""The first screen: the machine, the jobs that run now, what went wrong, and a preview of the selected job."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical

from jobtop.core.metrics import find_metric
from jobtop.tui.actions import APP, JOBS, bindings
from jobtop.tui.cells import Span
from jobtop.tui.chart import Chart
from jobtop.tui.columns import Sort
from jobtop.tui.host import GpuView, HostStrip, HostView
from jobtop.tui.job_columns import SORTS, live_columns
from jobtop.tui.jobs_pane import JobActions
from jobtop.tui.page import Page
from jobtop.tui.palette import Tone
from jobtop.tui.plotting import Axis, ChartView, Series, Side
from jobtop.tui.rows import ListRows, held_order
from jobtop.tui.table import Table
from jobtop.tui.view import JobRow, Machine, View

EMPTY = "No job runs and none has been recorded yet. Press n to run one, or type: jobtop run -- COMMAND"
CPU, MEMORY = find_metric("cpu.percent"), find_metric("mem.used")


class Dashboard(Page, JobActions):
    """What a person sees first."""

    name_in_tabs = "dashboard"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP, JOBS)]
    DEFAULT_CSS = """
    Dashboard {
        #strip { height: auto; }
        #jobs { height: 1fr; }
        #preview { height: 12; }
        #preview.-hidden { display: none; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.sort = Sort("cpu", descending=True)
        self.shown: list[JobRow] = []
        self.wanted: str | None = None
        self.previewed: JobRow | None = None

    def panes(self) -> ComposeResult:
        yield HostStrip(id="strip")
        with Horizontal(), Vertical():
            yield Table(live_columns(), empty=EMPTY, id="jobs")
            yield Chart(id="preview")

    def on_mount(self) -> None:
        self.sort = self.console.preferences.sort("dashboard") or self.sort
        table = self.query_one("#jobs", Table)
        table.set_title([Span("Jobs")])
        table.sort = self.sort
        table.focus()

    def on_resize(self) -> None:
        self.query_one("#preview").set_class(self.size.height < 36, "-hidden")

    def show(self, view: View) -> None:
        super().show(view)
        if view.machine is not None:
            self.query_one(HostStrip).view = host_view(view.machine)
        table: Table[JobRow] = self.query_one("#jobs", Table)
        rows = sorted_rows(view.rows, self.sort)
        if table.is_holding and self.shown:
            rows = held_order(rows, lambda row: row.key, [row.key for row in self.shown])
        self.shown = rows
        problems = [state.problem for state in view.stores if state.problem]
        table.empty = "\n".join(problems) if problems else EMPTY
        table.source = ListRows(rows, lambda row: row.key)
        marked = f" · {len(table.marks)} marked" if table.marks else ""
        words = f"{len(rows)} jobs · sort {self.sort.key}{'▼' if self.sort.descending else '▲'}{marked}"
        table.set_subtitle([Span(words, Tone.GREY)])
        if self.wanted is not None and table.select(self.wanted):
            self.wanted = None
        self.preview()

    def preview(self) -> None:
        """The last minute of the job under the cursor."""
        chart = self.query_one("#preview", Chart)
        row = self.query_one("#jobs", Table).cursor_row
        if chart.has_class("-hidden") or row is None or row is self.previewed:
            return
        self.previewed = row
        chart.view = preview_of(row)

    def on_table_selected(self) -> None:
        self.preview()

    def on_table_sort_requested(self, message: Table.SortRequested) -> None:
        self.sort = message.sort
        self.console.preferences.keep_sort("dashboard", self.sort)
        self.query_one("#jobs", Table).sort = self.sort
        if self.console.view is not None:
            self.show(self.console.view)

    async def on_table_activated(self, message: Table.Activated) -> None:
        await self.console.open_job(str(message.key))

    def select(self, job_id: str) -> None:
        """Put the cursor on a job; one that is not shown yet, when it is."""
        if not self.query_one("#jobs", Table).select(job_id):
            self.wanted = job_id

    @property
    def chosen_rows(self) -> Sequence[JobRow]:
        """The marked jobs, or the one under the cursor."""
        table: Table[JobRow] = self.query_one("#jobs", Table)
        marked = [row for row in self.shown if row.key in table.marks]
        under = table.cursor_row
        return marked or ([under] if under is not None else [])


def sorted_rows(rows: Sequence[JobRow], sort: Sort) -> list[JobRow]:
    """Live ones first; in each part by the column, what has no value last."""
    live = [row for row in rows if not row.job.status.ended]
    ended = [row for row in rows if row.job.status.ended]
    return by_value(live, sort) + by_value(ended, sort)


def by_value(rows: Sequence[JobRow], sort: Sort) -> list[JobRow]:
    value = SORTS.get(sort.key, SORTS["cpu"])
    valued = [(value(row), row) for row in sorted(rows, key=lambda row: row.job.start_time or 0.0, reverse=True)]
    known = [pair for pair in valued if pair[0] is not None]
    known.sort(key=itemgetter(0), reverse=sort.descending)
    return [row for _, row in known] + [row for asked, row in valued if asked is None]


def preview_of(row: JobRow) -> ChartView:
    count = len(row.cpu_line)
    now = row.now.elapsed if row.now is not None else 0.0
    times = [now - count + 1 + place for place in range(count)]
    return ChartView(
        title=row.job.name,
        series=(
            Series("cpu", CPU, times, row.cpu_line),
            Series("mem", MEMORY, times, row.memory_line, Side.RIGHT),
        ),
        left=Axis(),
        right=Axis(limit=row.job.limits.memory_bytes),
    )


def host_view(machine: Machine) -> HostView:
    """The machine as the strip wants it."""
    values, detail = machine.values, machine.detail
    loads = tuple(values.get(f"load.{minutes}") for minutes in (1, 5, 15))
    share = {key: None if (value := values.get(key)) is None else 100 * value for key in values if "pressure" in key}
    busy = values.get("disk.busy")
    return HostView(
        name=machine.name,
        cores=tuple(core[0] for core in detail.get("cores", {}).values()),
        load=loads if None not in loads else None,  # type: ignore[arg-type]
        uptime_seconds=detail.get("uptime_seconds"),
        memory_used=values.get("mem.used"),
        memory_total=values.get("mem.total"),
        swap_used=values.get("swap.used"),
        swap_total=values.get("swap.total"),
        disk_read=values.get("disk.read_bytes"),
        disk_write=values.get("disk.write_bytes"),
        disk_busy=None if busy is None else 100 * busy,
        net_rx=values.get("net.rx_bytes"),
        net_tx=values.get("net.tx_bytes"),
        cpu_pressure=share.get("cpu.pressure"),
        memory_pressure=share.get("mem.pressure"),
        io_pressure=share.get("io.pressure"),
        temperature=values.get("temp"),
        gpus=tuple(
            GpuView(gpu.get("gpu.util"), gpu.get("gpu.mem_used"), gpu.get("gpu.mem_total"), gpu.get("gpu.temp"))
            for gpu in detail.get("gpus", {}).values()
        ),
        history=machine.cpu_line,
    )
