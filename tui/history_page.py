"""The second screen: all jobs there ever were, those that fit a filter, in some order or by name."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from jobtop.core.conditions import Filter
from jobtop.core.errors import StoreError
from jobtop.core.filter import parse
from jobtop.store.jobs import SORT_KEYS, Query
from jobtop.store.listing import Group, Order, read_groups, vocabulary
from jobtop.tui.actions import APP, HISTORY, JOBS, bindings
from jobtop.tui.cells import Span
from jobtop.tui.columns import Sort
from jobtop.tui.filter_line import Field, FilterLine
from jobtop.tui.groups_table import NEWEST, group_columns, name_word, sorted_groups
from jobtop.tui.history_rows import PastJobs, PastRow, past_columns
from jobtop.tui.jobs_pane import JobActions
from jobtop.tui.page import Page, TopLine
from jobtop.tui.palette import Tone
from jobtop.tui.rows import ListRows
from jobtop.tui.table import Table
from jobtop.tui.view import JobRow, View

NO_JOBS = "No job has been recorded yet.\nPress n to run one, or type: jobtop run -- COMMAND"
NONE_FITS = "No job fits the filter.\nPress / to change it; an empty one shows all."
READING = "reading …"
READ_SECONDS = 1.0  # between two looks for jobs that are new
FILTER_SECONDS = 60.0  # until `since:7d` is meant from a later now


class History(Page, JobActions):
    """A filter, and the table of what fits."""

    name_in_tabs = "history"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP, JOBS, HISTORY)]
    DEFAULT_CSS = "History Table.-hidden { display: none; }"

    def __init__(self) -> None:
        super().__init__()
        self.sort, self.group_sort = Sort("seq", descending=True), NEWEST
        self.is_grouped = False
        self.text = ""
        self.filter: Filter | None = None
        self.past: PastJobs | None = None
        self.groups: Sequence[Group] = ()
        self.problem = ""
        self._grouped_of: Order | None = None
        self._is_asked = self._is_reading = False
        self._read_version, self._read_at = -1, -float("inf")

    def panes(self) -> ComposeResult:
        yield FilterLine(id="filter")
        yield Table(past_columns(), empty=READING, id="past")
        yield Table(group_columns(), empty=READING, id="groups", classes="-hidden")

    def on_mount(self) -> None:
        if self.console.options.stores:
            self.past = PastJobs(self.console.reader, self.store)
        kept = self.console.preferences.sort("history")
        self.sort = kept if kept is not None and kept.key in SORT_KEYS else self.sort
        self.lines.set_title([Span("History")])
        self.lines.sort = self.sort
        self.group_table.set_title([Span("History by name")])
        self.group_table.sort = self.group_sort
        self.lines.focus()
        self.ask()

    def on_unmount(self) -> None:
        if self.past is not None:
            self.past.close()

    @property
    def store(self) -> Path:
        """The one that is shown: of this host, if it is among those that are open."""
        own, stores = self.console.options.own, self.console.options.stores
        return own.store if own is not None and own.store in stores else stores[0]

    @property
    def lines(self) -> Table[PastRow]:
        return self.query_one("#past", Table)

    @property
    def group_table(self) -> Table[Group]:
        return self.query_one("#groups", Table)

    @property
    def table(self) -> Table[PastRow] | Table[Group]:
        """The one that is seen."""
        return self.group_table if self.is_grouped else self.lines

    def show(self, view: View) -> None:
        if not self.query(TopLine):
            return  # a picture that comes while the console closes
        super().show(view)
        is_due = time.monotonic() - self._read_at >= READ_SECONDS
        if view.version != self._read_version and is_due and not self.table.is_holding:
            self._read_version = view.version
            self.ask()
        self.paint()

    def ask(self) -> None:
        """Read the store anew; what is asked for during a read is read after it."""
        self._is_asked = True
        if not self._is_reading:
            self._is_reading = True
            self.run_worker(self._read_all(), group="history")

    async def _read_all(self) -> None:
        try:
            while self._is_asked:
                self._is_asked = False
                await self._read()
                self._read_at = time.monotonic()
                self.paint()
        finally:
            self._is_reading = False

    async def _read(self) -> None:
        past = self.past
        if past is None:
            self.problem = "No store is open: jobtop run -- COMMAND makes one"
            return
        if self.filter is not None and time.time() - self.filter.now > FILTER_SECONDS:
            self.filter = parse(self.text, time.time())
        wanted = self.filter
        query = Query(filter=wanted, sort=self.sort.key, reverse=not self.sort.descending, limit=None)
        try:
            if await past.read(query):
                self.lines.marks = ()
            if self.is_grouped and self._grouped_of is not past.order:
                self.groups = await self.console.reader.read(past.path, lambda database: read_groups(database, wanted))
                self._grouped_of = past.order
            self.problem = ""
        except StoreError as error:
            self.lose(str(error))
        except FileNotFoundError:
            self.lose("")
        except OSError as error:
            self.lose(f"{past.path}: {error.strerror}")

    def lose(self, problem: str) -> None:
        """The store cannot be read, or is not there yet."""
        if self.past is not None:
            self.past.close()
        self.groups, self._grouped_of, self.problem = (), None, problem

    def paint(self) -> None:
        """What was read last, with the times of jobs that run as they are now."""
        table = self.table
        table.empty = self.problem or (NONE_FITS if self.filter is not None else NO_JOBS)
        if self.is_grouped:
            self.group_table.source = ListRows(sorted_groups(self.groups, self.group_sort), lambda group: group.name)
        else:
            self.lines.source = self.past.rows(time.time()) if self.past is not None else None
        table.set_subtitle([Span(self.words(), Tone.GREY)])

    def words(self) -> str:
        """`1 204 jobs · sort name▲ · 2 marked`, and what is left out."""
        sort = self.group_sort if self.is_grouped else self.sort
        count = f"{len(self.table.source or ()):,}".replace(",", " ")
        by = "newest" if sort.key in ("seq", NEWEST.key) else sort.key
        parts = [f"{count} {'names' if self.is_grouped else 'jobs'}", f"sort {by}{sort.arrow}"]
        parts += [f"{len(self.lines.marks)} marked, c compares"] if self.lines.marks else []
        others = len(self.console.options.stores) - 1
        parts += [f"{others} other store{'s' * (others > 1)} not shown"] if others > 0 else []
        return " · ".join(parts)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whoever types a filter need not be told how to begin."""
        return action != "filter" or not isinstance(self.focused, Field)

    async def action_filter(self) -> None:
        line = self.query_one(FilterLine)
        line.edit()
        if self.past is not None:
            try:
                line.values = await self.console.reader.read(self.past.path, vocabulary)
            except (StoreError, OSError):
                line.values = {}

    def on_filter_line_applied(self, message: FilterLine.Applied) -> None:
        self.apply(message.text)

    def on_filter_line_left(self) -> None:
        self.table.focus()

    def apply(self, text: str) -> None:
        """Show what fits a filter that makes sense."""
        self.text, self.filter = text, parse(text, time.time()) if text else None
        self.table.focus()
        self.ask()

    def action_group(self) -> None:
        """By name, and back to single jobs."""
        self.is_grouped = not self.is_grouped
        self.lines.set_class(self.is_grouped, "-hidden")
        self.group_table.set_class(not self.is_grouped, "-hidden")
        self.table.focus()
        self.ask()

    def on_table_sort_requested(self, message: Table.SortRequested) -> None:
        if self.is_grouped:
            self.group_sort = self.group_table.sort = message.sort
            self.paint()
        else:
            self.sort = self.lines.sort = message.sort
            self.console.preferences.keep_sort("history", self.sort)
            self.ask()

    async def on_table_activated(self, message: Table.Activated) -> None:
        if self.is_grouped:
            text = f"{self.text} {name_word(str(message.key))}".strip()
            self.query_one(FilterLine).put(text)
            self.action_group()
            self.apply(text)
        elif self.past is not None:
            for job_id in self.past.ids([row.line.seq] if (row := self.lines.cursor_row) else []):
                await self.console.open_job(job_id)

    def on_table_marks_changed(self) -> None:
        self.group_table.marks = ()  # groups are not compared
        self.table.set_subtitle([Span(self.words(), Tone.GREY)])

    @property
    def chosen(self) -> list[int]:
        """The numbers of the marked jobs, or of the one under the cursor."""
        if self.is_grouped:
            return []
        row = self.lines.cursor_row
        return sorted(seq for seq in self.lines.marks if isinstance(seq, int)) or ([row.line.seq] if row else [])

    @property
    def chosen_rows(self) -> Sequence[JobRow]:
        """The marked jobs, or the one under the cursor."""
        jobs = self.past.jobs(self.chosen) if self.past is not None else []
        return [self.console.row(job.id) or JobRow(job, self.store, elapsed=job.duration_seconds) for job in jobs]
