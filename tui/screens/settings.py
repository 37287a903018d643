"""The Settings page: what works on this machine and how to fix the rest, every setting, every key."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from jobtop.core.config import DEFAULT_ORIGIN, SETTINGS, Config
from jobtop.core.doctor.checks import Finding, State
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.record import record
from jobtop.lifecycle.doctor import Topics, examine, verdict
from jobtop.tui.actions import ACTIONS, APP, bindings
from jobtop.tui.actions import SETTINGS as SETTINGS_PLACE
from jobtop.tui.data.rows import ListRows
from jobtop.tui.keymap import clashes, keys_of, shown_keys
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Cell, Span, Words
from jobtop.tui.widgets.columns import Column
from jobtop.tui.widgets.panes import PANE, PanedPage, PlainTable
from jobtop.tui.widgets.prose import BLANK, Paragraph, Prose, cell, heading, set_border_texts
from jobtop.tui.workers import start_work

GLYPHS = {State.WORKS: ("✓", Tone.GREEN), State.FAILS: ("✗", Tone.VERMILION), State.ABSENT: ("–", Tone.GREY)}
COUNTED = (State.WORKS, State.FAILS, State.ABSENT)
NAME_WIDTH = 17
DOCS = {setting.key: setting.doc for setting in SETTINGS}


@record
class SettingRow:
    """One setting."""

    key: str
    value: str
    origin: str

    @property
    def is_set(self) -> bool:
        return self.origin != DEFAULT_ORIGIN


@record
class KeyRow:
    """One action, its current keys, and other actions on the same keys."""

    id: str
    keys: str
    help: str
    is_own: bool
    clash: str | None


def value_cell(row: SettingRow) -> Cell:
    return Words(row.value, Tone.TEXT if row.is_set else Tone.GREY, row.is_set) if row.value else Words("–", Tone.GREY)


def origin_cell(row: SettingRow) -> Cell:
    return Words(row.origin, Tone.BLUE if row.is_set else Tone.GREY)


def keys_cell(row: KeyRow) -> Cell:
    return Words(row.keys, Tone.BLUE if row.is_own else Tone.ORANGE, True)


def help_cell(row: KeyRow) -> Cell:
    return Words(row.help) if row.clash is None else Words(row.clash, Tone.VERMILION)


SETTING_COLUMNS: tuple[Column[SettingRow], ...] = (
    Column("key", "KEY", lambda row: Words(row.key), 20, sortable=False),
    Column("value", "VALUE", value_cell, 16, flex=2, most=50, sortable=False),
    Column("origin", "FROM", origin_cell, 8, flex=1, sortable=False),
)
KEY_COLUMNS: tuple[Column[KeyRow], ...] = (
    Column("keys", "KEYS", keys_cell, 12, sortable=False),
    Column("id", "ACTION", lambda row: Words(row.id, Tone.GREY), 18, sortable=False),
    Column("help", "WHAT IT DOES", help_cell, 20, flex=1, sortable=False),
)


class SettingsPage(PanedPage):
    """The page with the doctor's findings, settings and keys."""

    name_in_tabs = "settings"
    first_pane = "doctor"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP, SETTINGS_PLACE)]
    DEFAULT_CSS = """
    SettingsPage {
        #panes { grid-size: 2 2; grid-columns: 1fr 1fr; }
        #doctor { row-span: 2; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.topics: Topics | None = None
        self._is_asking = False

    def parts(self) -> ComposeResult:
        yield Prose(id="doctor", classes=PANE)
        yield PlainTable(SETTING_COLUMNS, id="values")
        yield PlainTable(KEY_COLUMNS, id="keys")

    def on_mount(self) -> None:
        options = self.console.options
        values: PlainTable[SettingRow] = self.query_one("#values", PlainTable)
        settings = [] if options.config is None else setting_rows(options.config)
        values.source = ListRows(settings, lambda row: row.key)
        set_border_texts(values, "Settings")
        keys: PlainTable[KeyRow] = self.query_one("#keys", PlainTable)
        keys.source = ListRows(key_rows(options.keys or {}, options.is_ascii), lambda row: row.id)
        set_border_texts(self.query_one("#doctor", Prose), "Doctor")
        set_border_texts(keys, "Keys", "[keys] in config.toml changes them")
        self.action_look_again()

    def on_table_selected(self, message: PlainTable.Selected) -> None:
        """Show the meaning of the selected setting in the border."""
        if message.table.id == "values" and isinstance(message.table, PlainTable):
            set_border_texts(message.table, subtitle=DOCS.get(str(message.key), ""))

    def action_look_again(self) -> None:
        """Ask the doctor in a thread, one examination at a time: it starts a job and reads many files."""
        config = self.console.options.config
        if config is not None and not self._is_asking:
            self._is_asking = True
            start_work(self, self.ask_doctor, config, group="doctor")

    async def ask_doctor(self, config: Config) -> None:
        pane = self.query_one("#doctor", Prose)
        set_border_texts(pane, subtitle="looking …")
        paths = StatePaths(Path(config.text("store.dir")), hostname())
        encoding = sys.__stdout__.encoding if sys.__stdout__ is not None else ""
        try:
            topics = await asyncio.to_thread(examine, paths, config.switch("store.network"), encoding)
        finally:
            self._is_asking = False
        if self.is_attached:
            self.show_findings(pane, topics)

    def show_findings(self, pane: Prose, topics: Topics) -> None:
        self.topics = topics
        findings = [finding for group in topics.values() for finding in group]
        pane.text = tuple(report(topics))
        set_border_texts(pane, f"Doctor · {verdict(findings)}", counts(findings))


def report(topics: Topics) -> Iterator[Paragraph]:
    """Headings and findings, each with its remedy below."""
    for topic, group in topics.items():
        yield heading(topic)
        for finding in group:
            sign, tone = GLYPHS[finding.state]
            label = [Span(f" {sign} ", tone, True), cell(finding.name, NAME_WIDTH)]
            yield Paragraph(finding.meaning, Tone.TEXT if finding.state is State.FAILS else Tone.GREY, label)
            if finding.remedy is not None:
                yield Paragraph(finding.remedy, Tone.BLUE, [cell("", NAME_WIDTH + 3), Span("→ ", Tone.BLUE)])
        yield BLANK


def counts(findings: Sequence[Finding]) -> str:
    """`31 OK · 2 failed · 1 not available`."""
    works, fails, absent = (sum(finding.state is state for finding in findings) for state in COUNTED)
    return f"{works} OK · {fails} failed · {absent} not available"


def setting_rows(config: Config) -> list[SettingRow]:
    return [SettingRow(*row) for row in config.rows()]


def key_rows(keymap: Mapping[str, str], in_words: bool = False) -> list[KeyRow]:
    """Every action of the registry, in its order."""
    also: dict[str, str] = {}
    for clash in clashes(keymap):
        also[clash.one] = f"{clash.key} is also {clash.other}"
        also[clash.other] = f"{clash.key} is also {clash.one}"
    keys = {action: shown_keys(keys_of(action, keymap), in_words) for action in ACTIONS}
    return [
        KeyRow(action.id, keys[action], action.help, action.id in keymap, also.get(action.id)) for action in ACTIONS
    ]
