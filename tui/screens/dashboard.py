"""The first page: the machine, the live jobs, what went wrong, and a preview of the selected job."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Center, Horizontal, Middle, Vertical

from jobtop.core.errors import StoreError
from jobtop.core.measure.live.newest_gpus import gpu_number
from jobtop.core.metrics import find_metric
from jobtop.core.model import Job
from jobtop.core.record import replace
from jobtop.core.text.job_text import not_monitored_text
from jobtop.core.text.telling_apart import differences
from jobtop.tui.actions import APP, JOBS, Action, bindings
from jobtop.tui.chart.chart import SmallChart
from jobtop.tui.chart.host_chart import machine_chart
from jobtop.tui.chart.plotting import Axis, ChartSeries, ChartView, Side, Whole
from jobtop.tui.chart.window import TimeWindow
from jobtop.tui.data.incidents import Incidents, is_unused
from jobtop.tui.data.last_minute import columns_of
from jobtop.tui.data.rows import ListRows, order_as_shown
from jobtop.tui.data.view import JobRow, MachineMoment, MachineView, View
from jobtop.tui.keymap import keys_of_action, shown_key
from jobtop.tui.palette import Tone
from jobtop.tui.screens.job_actions import JobActions
from jobtop.tui.widgets.alerts_panel import AlertsPanel
from jobtop.tui.widgets.cells import Span
from jobtop.tui.widgets.columns import Sort, sorted_by
from jobtop.tui.widgets.first_card import FirstCard
from jobtop.tui.widgets.gpu_panel import GpuPanel, machine_cards
from jobtop.tui.widgets.host_strip import GpuView, HostStrip, HostView
from jobtop.tui.widgets.job_columns import SORTS, live_columns, with_alerts, with_names, with_wait
from jobtop.tui.widgets.other_processes import OtherProcesses, OtherView
from jobtop.tui.widgets.table import Table
from jobtop.tui.workers import start_work

if TYPE_CHECKING:
    from jobtop.core.measure.live.machine_processes import ProcessMoment
    from jobtop.store.incidents import Incident
    from jobtop.tui.data.processes.rows import Owners
    from jobtop.tui.data.row_filter import RowFilter
    from jobtop.tui.widgets.filter_line import FilterLine

NONE_MATCH = "No matching jobs here.\nPress Esc to clear the filter, or 2 to filter all jobs of the history."
CPU, MEMORY = find_metric("cpu.percent"), find_metric("mem.used")
WIDE, TALL, VERY_TALL = 110, 36, 50  # columns with side panels; rows with charts, with taller charts
IDLE_REDRAW_SECONDS = 3.5  # between two drawings of the machine's last minute while no job runs
NO_PREVIEW = ChartView(empty="No job selected")
PREVIEW_NOTE = "preview · Enter opens"
OTHERS_SECONDS = 3.0  # between two readings of the machine's processes
MOST_OTHERS = 16
LAST_MINUTE, WHOLE_RUN = TimeWindow(60.0), TimeWindow()


class Dashboard(JobActions):
    """The page that the console opens with."""

    name_in_tabs = "dashboard"
    AUTO_FOCUS = "#jobs"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP, JOBS)]
    DEFAULT_CSS = """
    Dashboard {
        #strip { height: auto; }
        #jobs { height: 1fr; }
        #first { display: none; height: 1fr; }
        &.-first #first { display: block; }
        &.-first #panes, &.-first ProblemLine { display: none; }
        #filter { display: none; }
        #filter.-open { display: block; }
        #side { width: 27%; min-width: 32; max-width: 62; }
        SmallChart { height: 11; }
        #gpus { height: auto; max-height: 40%; display: none; }
        &.-gpus #gpus { display: block; }
        #others { height: 11; display: none; }
        &.-others #others { display: block; }
        &.-others #machine { display: none; }
        &.-others.-very-tall #machine { display: block; }
        &.-very-tall SmallChart { height: 17; }
        &.-low SmallChart { display: none; }
        &.-narrow #side { display: none; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.sort = Sort("cpu", descending=True)
        self.rows: list[JobRow] = []
        self.told_apart: frozenset[str] = frozenset()  # the jobs with names that were compared last
        self.shown: list[JobRow] = []  # those that match the filter
        self.row_filter: RowFilter | None = None
        self.job_to_select: str | None = None
        self.previewed: JobRow | None = None
        self.past: tuple[MachineMoment, ...] = ()
        self.past_shown_at = 0.0
        self.version: int | None = None
        self.is_painted = False  # whether a view was shown: other processes are read after that
        self.owners: Owners | None = None

    def panes(self) -> ComposeResult:
        yield HostStrip(id="strip")
        with Middle(id="first"), Center():
            yield FirstCard(self.console.options.is_readonly)
        with Horizontal(id="panes"):
            with Vertical(id="main"):
                yield Table(live_columns(len(self.console.options.stores) > 1), id="jobs")
                yield SmallChart(id="preview")
            with Vertical(id="side"):
                yield AlertsPanel(id="alerts")
                yield GpuPanel(id="gpus")
                yield OtherProcesses(id="others")
                yield SmallChart(id="machine")

    @property
    def table(self) -> Table[JobRow]:
        return self.query_one("#jobs", Table)

    def on_mount(self) -> None:
        self.sort = self.console.preferences.sort("dashboard") or self.sort
        self.table.set_title([Span("Jobs")])
        self.table.sort = self.sort
        self.table.focus()
        self.query_one("#preview", SmallChart).view = NO_PREVIEW
        self.query_one("#machine", SmallChart).view = machine_chart(self.past)
        self.query_one("#machine", SmallChart).window = LAST_MINUTE

    def on_resize(self) -> None:
        width, height = self.size
        self.set_class(width < WIDE, "-narrow")
        self.set_class(height < TALL, "-low")
        self.set_class(height >= VERY_TALL, "-very-tall")
        self.previewed = None
        self.pace_processes()
        self.preview()
        self.show_past()

    def on_screen_resume(self) -> None:
        """Draw the machine's last minute at once."""
        self.past_shown_at = 0.0

    def show(self, view: View) -> None:
        super().show(view)
        is_first, is_unchanged = self.version is None, self.is_unchanged(view)
        if not is_unchanged:
            self.show_rows(view)
        if is_first:  # the jobs are painted before the rest
            self.call_after_refresh(self.show_rest, view, is_unchanged)
        else:
            self.show_rest(view, is_unchanged)

    def show_rest(self, view: View, is_unchanged: bool) -> None:
        """Show everything except the jobs."""
        if not self.is_painted:
            self.is_painted = True
            self.pace_processes()
        self.preview()
        if view.machine is not None:
            self.query_one(HostStrip).view = host_view(view.machine)
            self.show_gpus(view)
            is_new, self.past = view.machine.past[-1:] != self.past[-1:], view.machine.past
            if is_new and (not is_unchanged or view.at - self.past_shown_at > IDLE_REDRAW_SECONDS):
                self.past_shown_at = view.at
                self.show_past()

    @property
    def process_seconds(self) -> float | None:
        """Read processes slowly, and only if there is room for them; a machine that is not read has none."""
        options = self.console.options
        has_source = options.machine is None or options.processes is not None
        has_room = not (self.has_class("-narrow") or self.has_class("-low") or self.has_class("-first"))
        return OTHERS_SECONDS if has_source and has_room and self.is_painted else None

    def pace_processes(self) -> None:
        """Show other processes in place of the machine's chart, if they are read."""
        self.set_class(self.process_seconds is not None, "-others")
        self.console.pace_processes()

    def show_processes(self, moment: ProcessMoment) -> None:
        from jobtop.tui.data.processes.rows import Owners, heaviest_others, split_cpu

        if self.owners is None:
            self.owners = Owners()
        view, boot = self.console.view, self.console.process_feed.source.boot
        owners = self.owners.find(moment.processes, view.rows if view is not None else (), boot)
        if any(process.cpu_percent is not None for process in moment.processes):
            heaviest = heaviest_others(moment.processes, owners, MOST_OTHERS)
            percent = split_cpu(moment.processes, owners)[1]
            key = shown_key(next(iter(keys_of_action(self, "go.processes")), "8"), self.console.options.is_ascii)
            self.query_one(OtherProcesses).set_subtitle([Span(f"{key} lists all", Tone.GREY)])
            self.query_one(OtherProcesses).view = OtherView(tuple(heaviest), percent)

    async def on_other_processes_opened(self) -> None:
        await self.console.action_go("processes")

    def show_gpus(self, view: View) -> None:
        """Show the GPUs of the machine beside the jobs, if it has any."""
        cards = machine_cards(view.machine, view.rows) if view.machine is not None else ()
        self.set_class(bool(cards), "-gpus")
        self.query_one(GpuPanel).cards = cards

    def is_unchanged(self, view: View) -> bool:
        """Whether the table stays as it is: no job has changed, and no running time has to be updated."""
        before, self.version = self.version, view.version
        return before == view.version and not self.table.is_holding and all(row.job.status.ended for row in view.rows)

    def show_rows(self, view: View) -> None:
        table = self.table
        rows = sorted_rows([with_wait(row, view.at) for row in view.rows], self.sort)
        if table.is_holding and self.rows:
            rows = order_as_shown(rows, lambda row: row.key, [row.key for row in self.rows])
            self.version = None  # the order is not final: show the rows again later
        self.rows, self.shown = rows, self.row_filter.matching(rows) if self.row_filter is not None else rows
        problems = [state.problem for state in view.stores if state.problem and not is_unused(state.problem)]
        table.empty = "\n".join(problems) if problems else NONE_MATCH
        self.show_card(not rows and not problems)
        self.tell_apart(rows)
        table.source = ListRows(self.shown, lambda row: row.key)
        if self.job_to_select is not None and table.select(self.job_to_select):
            self.job_to_select = None
        self.label_table()
        self.refresh_keys()

    def tell_apart(self, rows: Sequence[JobRow]) -> None:
        """Have the names of the table followed by what differs between jobs of the same name."""
        keys = frozenset(row.key for row in rows)
        if keys == self.told_apart:
            return
        self.told_apart, table = keys, self.table
        apart = differences(row.job for row in rows)
        table.columns = with_names(table.columns, apart)
        self.every_column[table.id] = with_names(self.every_column[table.id], apart)

    def show_card(self, is_first: bool) -> None:
        """Show the card about the first job in place of all panes, or the panes."""
        if self.has_class("-first") is not is_first:
            self.query_one(HostStrip).can_focus = False  # the table gets the focus, once it is there
            self.set_class(is_first, "-first")
            self.pace_processes()
            self.update_keys()
            if not is_first:
                self.call_after_refresh(self.focus_jobs)

    def focus_jobs(self) -> None:
        self.table.focus()
        self.query_one(HostStrip).can_focus = True

    def is_offered(self, action: Action) -> bool:
        """Without jobs, offer only the keys of the whole console."""
        return super().is_offered(action) and (action.place == APP or not self.has_class("-first"))

    def label_table(self) -> None:
        marks = len(self.table.marks)
        count = count_words(len(self.rows))
        if self.is_filtered:
            count = f"{len(self.shown)} of {count}"
        words = f"{count} · sort {self.sort.key}{self.sort.arrow}"
        self.table.set_subtitle([Span(words + (f" · {marks} marked" if marks else ""), Tone.GREY)])

    def on_table_marks_changed(self) -> None:
        self.label_table()
        self.refresh_keys()

    def show_past(self) -> None:
        """Draw the last minute of the machine, if there is room for it."""
        is_hidden = self.has_class("-others") and not self.has_class("-very-tall")
        if not self.has_class("-narrow") and not self.has_class("-low") and not is_hidden:
            self.query_one("#machine", SmallChart).view = machine_chart(self.past)

    def show_incidents(self, incidents: Incidents) -> None:
        self.query_one(AlertsPanel).incidents = incidents
        table = self.table
        alerts = incidents.alerts_by_job()
        table.columns = with_alerts(table.columns, alerts)
        self.every_column[table.id] = with_alerts(self.every_column[table.id], alerts)

    def preview(self) -> None:
        """Show the job under the cursor: its last minute, or the whole run of an ended job."""
        row = self.table.cursor_row
        if self.has_class("-low") or row is self.previewed:
            return
        before, self.previewed = self.previewed, row
        chart = self.query_one("#preview", SmallChart)
        if row is None:
            chart.view = NO_PREVIEW
        elif not row.job.status.ended:
            chart.window = LAST_MINUTE
            chart.view = preview_of(row, self.memory_total(row.job))
        elif before is None or before.job is not row.job:
            self.preview_past(row)

    @work(group="preview", exclusive=True, description="preview")
    async def preview_past(self, row: JobRow) -> None:
        """Show the run of an ended job from the store."""
        from jobtop.tui.data.job_reading import JobReading, Viewport
        from jobtop.tui.screens.job.charts import PREVIEW, chart_view

        chart = self.query_one("#preview", SmallChart)
        reading, viewport = JobReading(row.key, row.store), Viewport(columns=max(20, self.size.width))
        try:
            job_view = await self.console.reader.read(row.store, lambda database: reading.read(database, viewport))
        except (StoreError, OSError):
            job_view = None
        if chart.is_attached and self.previewed is not None and self.previewed.key == row.key:
            view = ChartView(empty="no samples")
            if job_view is not None:
                view = chart_view(job_view, PREVIEW, whole=whole_memory(row.job, self.memory_total(row.job)))
            chart.window = WHOLE_RUN
            chart.view = replace(view, title=row.job.name, note=PREVIEW_NOTE)

    def memory_total(self, job: Job) -> float | None:
        """The memory of the job's machine; None if it is not the machine of this console."""
        machine = self.console.view.machine if self.console.view is not None else None
        if machine is None or machine.name != job.host.split(".")[0]:
            return None
        return machine.values.get("mem.total")

    def on_table_selected(self) -> None:
        self.preview()
        self.refresh_keys()

    async def on_small_chart_pressed(self, message: SmallChart.Pressed) -> None:
        if message.chart.id == "preview" and self.previewed is not None:
            await self.console.open_job(self.previewed.key)

    async def on_host_strip_opened(self) -> None:
        await self.console.action_host()

    async def on_alerts_panel_opened(self, message: AlertsPanel.Opened) -> None:
        await self.console.open_incident(message.incident)

    def on_alerts_panel_acknowledged(self, message: AlertsPanel.Acknowledged) -> None:
        if self.console.options.is_readonly:
            self.say(self.console.options.readonly_words, "warning")
        else:
            start_work(self.app, self._acknowledge_incident, message.incident, group="act")

    async def _acknowledge_incident(self, incident: Incident) -> None:
        from jobtop.tui.data.alert_operations import acknowledge

        store = self.query_one(AlertsPanel).incidents.stores.get(incident.key)
        if store is not None:
            decision = await asyncio.to_thread(acknowledge, [(store, incident)])
            self.say_all(decision.refusals, "warning")
            self.incident_watch.forget()
            self.console.feed.poll_now()

    def on_table_sort_requested(self, message: Table.SortRequested) -> None:
        self.sort = message.sort
        self.console.preferences.keep_sort("dashboard", self.sort)
        self.table.sort = self.sort
        if self.console.view is not None:
            self.show_rows(self.console.view)

    @property
    def is_filtered(self) -> bool:
        return self.row_filter is not None and bool(self.row_filter.text)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the filter key while the user types a filter, and clearing while there is none."""
        if action == "clear_filter":
            return self.is_filtered
        is_typing = self.focused is not None and any(line in self.focused.ancestors for line in self.query("#filter"))
        return action != "filter" or not is_typing

    async def action_filter(self) -> None:
        """Open the filter line above the jobs; it is made when it is first used."""
        from jobtop.tui.widgets.filter_line import FilterLine

        if not self.query("#filter"):
            await self.query_one("#main", Vertical).mount(FilterLine(id="filter", in_memory=True), before=self.table)
        line = self.query_one(FilterLine)
        line.add_class("-open")
        line.remove_class("-short")
        line.edit()
        line.values = await self.read_vocabulary()

    async def read_vocabulary(self) -> dict[str, list[str]]:
        """The known words that a filter can be completed to, by field."""
        from jobtop.store.listing import merge_vocabularies, vocabulary

        known = []
        for store in self.console.options.stores:
            with suppress(StoreError, OSError):  # the screen reports stores that cannot be read
                known.append(await self.console.reader.read(store, vocabulary))
        return merge_vocabularies(known)

    def action_clear_filter(self) -> None:
        from jobtop.tui.widgets.filter_line import FilterLine

        self.query_one(FilterLine).clear()

    def on_filter_line_applied(self, message: FilterLine.Applied) -> None:
        from jobtop.tui.data.row_filter import RowFilter

        self.row_filter = RowFilter(message.text, self.console.prices)
        if message.is_final:
            self.query_one("#filter").set_class(bool(message.text), "-open")
            self.query_one("#filter").add_class("-short")
            self.table.focus()
        self.update_keys()
        if self.console.view is not None:
            self.show_rows(self.console.view)
            self.preview()

    async def on_table_activated(self, message: Table.Activated) -> None:
        await self.console.open_job(str(message.key))

    def select(self, job_id: str) -> None:
        """Put the cursor on a job; if it is not listed yet, as soon as it is."""
        if not self.table.select(job_id):
            self.job_to_select = job_id

    @property
    def chosen_rows(self) -> Sequence[JobRow]:
        """The rows of the marked jobs, or of the job under the cursor."""
        marked = [row for row in self.rows if row.key in self.table.marks]
        under = self.table.cursor_row
        return marked or ([under] if under is not None else [])


def count_words(number: int) -> str:
    return "1 job" if number == 1 else f"{number} jobs"


def sorted_rows(rows: Sequence[JobRow], sort: Sort) -> list[JobRow]:
    """Live jobs first; both parts sorted by the column, with missing values last."""
    newest_first = sorted(rows, key=lambda row: row.job.start_time or 0.0, reverse=True)
    live = [row for row in newest_first if not row.job.status.ended]
    ended = [row for row in newest_first if row.job.status.ended]
    value = SORTS.get(sort.key, SORTS["cpu"])
    return sorted_by(live, value, sort.descending) + sorted_by(ended, value, sort.descending)


def whole_memory(job: Job, total: float | None) -> Whole | None:
    """What the memory of a job is a percentage of: its limit, else the machine's memory."""
    if job.limits.memory_bytes:
        return Whole(job.limits.memory_bytes)
    return Whole(total, " of host") if total else None


def empty_words(row: JobRow) -> str:
    """The reason why a live job has no curve."""
    if row.job.start_time is None:
        return row.wait_words or "it waits for its turn"
    return not_monitored_text(row.job) or "no samples yet"


def preview_of(row: JobRow, memory_total: float | None = None) -> ChartView:
    """The last minute of a live job; of a stale job, the last minute that is known."""
    minute = columns_of(row.last_minute)
    whole = whole_memory(row.job, memory_total)
    return ChartView(
        title=row.job.name,
        series=(
            ChartSeries("cpu", CPU, minute.times, minute.cpu_percent, is_filled=True),
            ChartSeries("mem", MEMORY, minute.times, minute.memory_bytes, Side.RIGHT, False, whole),
        ),
        left=Axis(least=100.0),
        right=Axis(limit=row.job.limits.memory_bytes),
        is_live=not row.is_stale,
        note=PREVIEW_NOTE,
        empty=empty_words(row),
    )


def host_view(machine: MachineView) -> HostView:
    """The machine in the form that the strip shows."""
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
        gpus=tuple(gpu_view(name, gpu) for name, gpu in detail.get("gpus", {}).items()),
        history=machine.cpu_line,
    )


def gpu_view(name: str, values: Mapping[str, float | None]) -> GpuView:
    used, total = values.get("gpu.mem_used"), values.get("gpu.mem_total")
    is_slowed = bool(values.get("gpu.throttled"))
    return GpuView(values.get("gpu.util"), used, total, values.get("gpu.temp"), gpu_number(name), is_slowed)
