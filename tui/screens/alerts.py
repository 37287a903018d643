"""The Alerts page: what fires or has failed, what has been, and the rules with their states."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from jobtop.core.errors import StoreError
from jobtop.tui.actions import ALERTS, APP, bindings
from jobtop.tui.data.alert_rules import RuleRow
from jobtop.tui.data.incidents import Incidents
from jobtop.tui.data.rows import ListRows
from jobtop.tui.data.rule_reading import read_marks
from jobtop.tui.data.view import View
from jobtop.tui.palette import Tone
from jobtop.tui.screens.alert_actions import AlertActions
from jobtop.tui.widgets.cells import Span
from jobtop.tui.widgets.incident_table import (
    active_columns,
    active_order,
    past_columns,
    rule_columns,
    rule_counts,
)
from jobtop.tui.widgets.panes import PanedPage, PlainTable
from jobtop.tui.widgets.table import Table
from jobtop.tui.workers import RepeatedWork

if TYPE_CHECKING:
    from jobtop.store.incidents import Incident

EMPTY = "Nothing is wrong: no alert fires, and no job failed in the last 24 hours."
UNREADABLE = "A store cannot be read, so alerts and failed jobs are not known."
EMPTY_PAST = "No alerts and no failed jobs in this time."
EMPTY_RULES = "No rules were read."
HOUR, DAY = 3600.0, 86400.0
WINDOWS = (HOUR, DAY, 7 * DAY, 30 * DAY)
WINDOW_WORDS = {HOUR: "1h", DAY: "24h", 7 * DAY: "7d", 30 * DAY: "30d"}
TIMES_SECONDS = 5.0  # between two updates of the times that pass
HISTORY_SECONDS = 30.0


class Alerts(PanedPage, AlertActions):
    """The page with what is active, the history and the rules."""

    name_in_tabs = "alerts"
    first_pane = "active"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP, ALERTS)]
    DEFAULT_CSS = """
    Alerts {
        #panes { grid-size: 2 2; grid-columns: 1fr 1fr; grid-rows: 2fr 3fr; }
        #active { column-span: 2; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.listed = Incidents()
        self.past: Sequence[Incident] = ()
        self.past_stores: dict[str, Path] = {}
        self.rules: Sequence[RuleRow] = ()
        self.window = DAY
        self._shown_at = self._past_at = 0.0
        self._readings = RepeatedWork(self, self._read_past, "history")
        self._rule_readings = RepeatedWork(self, self._read_rules, "rules")

    def parts(self) -> ComposeResult:
        yield ActiveTable(active_columns(self.listed, {}, time.time()), id="active")
        yield PlainTable(past_columns(time.time()), empty=EMPTY_PAST, id="past", opens=True)
        yield PlainTable(rule_columns(), empty="", id="rules", opens=True)

    def on_mount(self) -> None:
        self.label_tables()

    def show(self, view: View) -> None:
        super().show(view)
        if view.at - self._shown_at > TIMES_SECONDS or view.at < self._shown_at:
            self.show_active()
            self._rule_readings.request()
        if view.at - self._past_at > HISTORY_SECONDS or view.at < self._past_at:
            self.read_past()

    def show_incidents(self, incidents: Incidents) -> None:
        self.listed = incidents
        self.show_active()
        self.read_past()

    def show_active(self) -> None:
        """Show what is active; the times that pass are as old as the newest view."""
        table, view = self.active, self.console.view
        now = self._shown_at = time.time() if view is None else view.at
        table.empty = UNREADABLE if self.listed.is_unreadable else EMPTY if self.listed.is_known else ""
        table.columns = active_columns(self.listed, self.remedies, now)
        table.source = ListRows(active_order(self.listed), lambda incident: incident.key)
        self.label_tables()

    @property
    def active(self) -> Table[Incident]:
        return self.query_one("#active", Table)

    @property
    def remedies(self) -> dict[str, str]:
        """What helps against the alerts of a rule, by the name of the rule."""
        return {name: rule.remedy for name, rule in self.console.rules.items() if rule.remedy is not None}

    def label_tables(self) -> None:
        counts = [self.listed.words, f"{len(self.listed.pending)} pending" if self.listed.pending else ""]
        words = " · ".join(filter(None, counts))
        self.active.set_title([Span("Active"), Span(f"  {words}" if words else "", Tone.GREY)])
        past = self.query_one("#past", PlainTable)
        past.set_title([Span("History"), Span(f"  last {WINDOW_WORDS[self.window]}", Tone.GREY)])
        past.set_subtitle([Span(f"{len(self.past)} · [ ] time" if self.past else "[ ] time", Tone.GREY)])
        rules = self.query_one("#rules", PlainTable)
        rules.set_title([Span("Rules"), Span(f"  {rule_counts(self.rules)}", Tone.GREY)])
        problems = self.console.rule_reading.problems
        rules.set_subtitle([problem_span(problems) if problems else Span("e edits · m mutes", Tone.GREY)])

    def read_past(self) -> None:
        view = self.console.view
        self._past_at = time.time() if view is None else view.at
        self._readings.request()

    async def _read_past(self) -> None:
        """Read the history of the chosen time from all stores."""
        from jobtop.store.incidents import read_incidents
        from jobtop.tui.data.incidents import unique

        found: list[Incident] = []
        stores: dict[str, Path] = {}
        view = self.console.view
        since = (time.time() if view is None else view.at) - self.window
        for store in self.console.options.stores:
            try:
                read = await self.console.reader.read(store, partial(read_incidents, since=since))
            except (StoreError, OSError):
                continue  # the top of the screen reports it
            listed = [unique(incident, store) for incident in read if incident.at >= since]
            stores |= dict.fromkeys((incident.key for incident in listed), store)
            found += listed
        self.past_stores = stores
        self.past = sorted(has_fired(found), key=lambda incident: incident.at, reverse=True)
        if table := next(iter(self.query("#past").results(PlainTable)), None):
            table.columns = past_columns(since + self.window)
            table.source = ListRows(self.past, lambda incident: incident.key)
            self.label_tables()

    async def _read_rules(self) -> None:
        """Read the rules from the files again, if these have changed, and what is muted from the store."""
        console, view = self.console, self.console.view
        await asyncio.to_thread(console.rule_reading.read)
        own = console.options.own
        marks = [] if own is None else await read_marks(console.reader, own.store)
        now = time.time() if view is None else view.at
        self.rules = console.rule_reading.rows(marks, None if view is None else view.machine, now)
        if table := next(iter(self.query("#rules").results(PlainTable)), None):
            table.empty = EMPTY_RULES
            table.source = ListRows(self.rules, lambda row: row.key)
            self.label_tables()

    def read_again(self) -> None:
        super().read_again()
        self._rule_readings.request()
        self.read_past()

    def action_shorter(self) -> None:
        self.choose_window(-1)

    def action_longer(self) -> None:
        self.choose_window(1)

    def choose_window(self, step: int) -> None:
        place = WINDOWS.index(self.window) + step
        self.window = WINDOWS[max(0, min(place, len(WINDOWS) - 1))]
        self.label_tables()
        self.read_past()

    async def on_table_activated(self, message: Table.Activated) -> None:
        """Open the job of an incident at that moment; an alert of the machine opens the Host screen; edit a rule."""
        if message.table.id == "rules":
            self.action_edit()
        elif (incident := self.chosen_incident) is not None:
            await self.console.open_incident(incident)


def problem_span(problems: Sequence[str]) -> Span:
    """The first thing that is wrong in the rules; there is no room for the directory of the file."""
    file, colon, words = problems[0].partition(": ")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Span(f"! {file.rpartition('/')[2]}{colon}{words}{more}", Tone.YELLOW)


def has_fired(found: Sequence[Incident]) -> list[Incident]:
    from jobtop.core.alerts.model import State

    return [incident for incident in found if incident.state is not State.PENDING]


class ActiveTable(Table["Incident"]):
    """What is active: rows can be marked, to acknowledge several, but not sorted."""

    def __init__(self, columns: Sequence[object], *, id: str) -> None:  # noqa: A002
        super().__init__(columns, id=id, classes="pane")  # type: ignore[arg-type]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action not in ("sort", "reverse")
