"""The History page: all recorded jobs that match a filter, sorted or grouped by name."""

from __future__ import annotations

import textwrap
import time
from array import array
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from jobtop.core.query.conditions import Filter
from jobtop.core.query.filter import parse
from jobtop.store.jobs import Query
from jobtop.store.listing import Group, store_and_seq
from jobtop.store.ordering import SORT_KEYS
from jobtop.tui.actions import ACTIONS, APP, HISTORY, JOBS, bindings
from jobtop.tui.data.history_rows import PastJobs, PastRow, past_columns
from jobtop.tui.data.incidents import is_unused
from jobtop.tui.data.rows import ListRows
from jobtop.tui.data.view import JobRow, View
from jobtop.tui.palette import Tone
from jobtop.tui.screens.job_actions import JobActions
from jobtop.tui.widgets.cells import Span
from jobtop.tui.widgets.columns import Sort
from jobtop.tui.widgets.filter_line import Field, FilterLine
from jobtop.tui.widgets.table import Table
from jobtop.tui.widgets.tables.groups import NEWEST, GroupsTable, group_columns, name_word, sorted_groups
from jobtop.tui.workers import RepeatedWork

NO_JOBS = "No jobs yet.\nPress n to run one, or type: jobtop run -- COMMAND"
NONE_FITS = "No matching jobs.\nPress / to change the filter, Esc to clear it."
NO_STORE = "No history yet. jobtop run -- COMMAND creates it."
READING = "reading …"
READ_SECONDS = 0.5  # between two readings of new jobs
JOB_CALLS = {action.call for action in ACTIONS if action.place == JOBS} - {"filter", "choose_columns"}
FILTER_SECONDS = 60.0  # after which relative times such as `since:7d` are evaluated again


class History(JobActions):
    """The page with a filter and the table of matching jobs."""

    name_in_tabs = "history"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP, JOBS, HISTORY)]
    DEFAULT_CSS = "History Table.-hidden { display: none; }"

    def __init__(self) -> None:
        super().__init__()
        self.sort, self.group_sort = Sort("begun", descending=True), NEWEST
        self.is_grouped = False
        self.text = ""
        self.filter: Filter | None = None
        self.groups: Sequence[Group] = ()
        self._grouped_of: array[int] | None = None
        self.reading = RepeatedWork(self, self._read_all, "history")
        self._read_version, self._read_at = -1, -float("inf")

    def panes(self) -> ComposeResult:
        stores = self.console.options.stores
        self.past = PastJobs(self.console.reader, stores)
        yield FilterLine(id="filter")
        yield Table(past_columns(len(stores) > 1), empty=READING, id="past")
        yield GroupsTable(group_columns(), empty=READING, id="groups", classes="-hidden")

    def on_mount(self) -> None:
        kept = self.console.preferences.sort("history")
        self.sort = kept if kept is not None and kept.key in SORT_KEYS else self.sort
        self.lines.set_title([Span("History")])
        self.lines.sort = self.sort
        self.group_table.set_title([Span("History by name")])
        self.group_table.sort = self.group_sort
        self.lines.focus()
        self.reading.request()

    def on_unmount(self) -> None:
        self.past.close()

    @property
    def lines(self) -> Table[PastRow]:
        return self.query_one("#past", Table)

    @property
    def group_table(self) -> Table[Group]:
        return self.query_one("#groups", Table)

    @property
    def table(self) -> Table[PastRow] | Table[Group]:
        """The visible table: jobs or groups."""
        return self.group_table if self.is_grouped else self.lines

    def show(self, view: View) -> None:
        if not self.is_complete:
            return
        super().show(view)
        is_due = time.monotonic() - self._read_at >= READ_SECONDS
        is_behind = view.version != self._read_version or self.past.is_behind
        if is_behind and is_due and not self.table.is_holding:
            self._read_version = view.version
            self.reading.request()
        self.paint()

    async def _read_all(self) -> None:
        if self.filter is not None and time.time() - self.filter.now > FILTER_SECONDS:
            self.filter = parse(self.text, time.time(), self.console.prices)
        wanted, past = self.filter, self.past
        query = Query(filter=wanted, sort=self.sort.key, reverse=not self.sort.descending, limit=None)
        if others := await past.read(query):
            self.lines.marks = [number for number in self.marked if store_and_seq(number)[0] not in others]
        if self.is_grouped and self._grouped_of is not past.numbers:
            self.groups, self._grouped_of = await past.groups(wanted), past.numbers
        self._read_at = time.monotonic()
        self.paint()

    def no_rows(self) -> str:
        """The reason for an empty table: problems of the stores, or that no job matches."""
        if not all(map(is_unused, self.past.problems)):
            width = max(20, self.table.drawn_size.width - 4)
            return "\n".join(textwrap.fill(problem, width) for problem in self.past.problems)
        if not self.past.stores:
            return NO_STORE
        return NONE_FITS if self.filter is not None else NO_JOBS

    def paint(self) -> None:
        """Show what was read last, with the current running times."""
        table = self.table
        table.empty = self.no_rows()
        if self.is_grouped:
            self.group_table.source = ListRows(sorted_groups(self.groups, self.group_sort), lambda group: group.name)
        else:
            self.lines.source = self.past.rows(time.time(), self.waits())
        table.set_subtitle([Span(self.words(), Tone.GREY)])
        self.refresh_keys()

    def waits(self) -> dict[str, str]:
        """The positions of queued jobs, and why they wait."""
        rows = self.console.view.rows if self.console.view is not None else ()
        return {row.job.id: words for row in rows if (words := row.wait_words) is not None}

    def words(self) -> str:
        """`1 204 jobs · sort name▲ · 2 marked`, and what is left out."""
        sort = self.group_sort if self.is_grouped else self.sort
        shown = len(self.table.source or ())
        count, noun = f"{shown:,}".replace(",", " "), "name" if self.is_grouped else "job"
        by = "newest" if sort.key in ("begun", NEWEST.key) else sort.key
        parts = [f"{count} {noun}{'' if shown == 1 else 's'}", f"sort {by}{sort.arrow}"]
        parts += [f"{len(self.lines.marks)} marked, c compares"] if self.lines.marks else []
        stores, unread = len(self.past.stores), len(self.past.problems)
        parts += [f"{stores} stores"] if stores > 1 else []
        parts += [f"{unread} cannot be read"] if unread and stores > 1 else []
        return " · ".join(parts)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the filter key while the user types a filter, and actions on jobs while names are listed."""
        if self.is_grouped and action in JOB_CALLS:
            return False
        if action == "clear_filter":
            return bool(self.text)
        return action != "filter" or not isinstance(self.focused, Field)

    async def action_filter(self) -> None:
        line = self.query_one(FilterLine)
        line.edit()
        line.values = await self.past.vocabulary()

    def action_clear_filter(self) -> None:
        self.query_one(FilterLine).clear()

    def on_filter_line_applied(self, message: FilterLine.Applied) -> None:
        self.apply(message.text, message.is_final)

    def apply(self, text: str, is_final: bool = True) -> None:
        """Show the jobs that match a valid filter; the user may still be typing it."""
        self.text, self.filter = text, parse(text, time.time(), self.console.prices) if text else None
        if is_final:
            self.table.focus()
        self.update_keys()
        self.reading.request()

    def action_group(self) -> None:
        """Group by name, or list single jobs again."""
        self.is_grouped = not self.is_grouped
        self.lines.set_class(self.is_grouped, "-hidden")
        self.group_table.set_class(not self.is_grouped, "-hidden")
        self.table.focus()
        self.reading.request()

    def on_table_sort_requested(self, message: Table.SortRequested) -> None:
        if self.is_grouped:
            self.group_sort = self.group_table.sort = message.sort
            self.paint()
        else:
            self.sort = self.lines.sort = message.sort
            self.console.preferences.keep_sort("history", self.sort)
            self.reading.request()

    async def on_table_activated(self, message: Table.Activated) -> None:
        if self.is_grouped:
            text = f"{self.text} {name_word(str(message.key))}".strip()
            self.query_one(FilterLine).put(text)
            self.action_group()
            self.apply(text)
        elif (row := self.lines.cursor_row) is not None and row.line.id:
            await self.console.open_job(row.line.id)

    def on_table_marks_changed(self) -> None:
        self.table.set_subtitle([Span(self.words(), Tone.GREY)])
        self.refresh_keys()

    def on_table_selected(self) -> None:
        self.refresh_keys()

    @property
    def has_live_choice(self) -> bool:
        """Marked jobs are not checked, because that would take as long as reading them."""
        row = self.lines.cursor_row
        return bool(self.marked) or (row is not None and not row.line.status.ended)

    @property
    def marked(self) -> list[int]:
        return [number for number in self.lines.marks if isinstance(number, int)]

    @property
    def chosen(self) -> list[int]:
        """The numbers of the marked jobs, or of the one under the cursor."""
        if self.is_grouped:
            return []
        row = self.lines.cursor_row
        return self.marked or ([row.number] if row else [])

    @property
    def chosen_rows(self) -> Sequence[JobRow]:
        """The rows of the marked jobs, or of the job under the cursor, oldest first."""
        return [
            self.console.row(job.id) or JobRow(job, store, elapsed=job.duration_seconds)
            for store, job in self.past.jobs(self.chosen)
        ]
