"""Alerts and rules: what went wrong in the last day, and what is to be watched for."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from jobtop.core.config import Alert, Config
from jobtop.core.errors import StoreError
from jobtop.core.units import format_duration
from jobtop.store.troubles import Trouble, read_troubles
from jobtop.tui.actions import ALERTS, APP, bindings
from jobtop.tui.cells import Align, Cell, Span, Words, short_duration
from jobtop.tui.columns import Column
from jobtop.tui.palette import FLAG_GLYPHS, SEVERITY_GLYPHS, STATUS_GLYPHS, Tone
from jobtop.tui.panes import PANE, PanedPage, PlainTable
from jobtop.tui.prose import BLANK, Paragraph, Prose, entitle, heading
from jobtop.tui.rows import ListRows
from jobtop.tui.table import Table
from jobtop.tui.view import View

LOOKED_BACK_SECONDS = 86400.0
LONGEST_SECONDS = 30.0  # between two looks, since what is a day old goes
EMPTY = (
    "Nothing failed in the last 24 hours, and no alert was raised.\n"
    "A job that fails, times out or is lost appears here:  jobtop run -- false"
)
UNREADABLE = "What failed is not known while a store cannot be read."
EXAMPLE = ("[[alert]]", 'name = "nearly full"', 'metric = "mem.used"', "above = 4e9", 'for = "30s"')


def sign(trouble: Trouble) -> Cell:
    if trouble.severity is not None:
        return Words(*SEVERITY_GLYPHS.get(trouble.severity, SEVERITY_GLYPHS["warning"]))
    flags = [FLAG_GLYPHS[flag] for flag in FLAG_GLYPHS if flag in trouble.flags]
    return Words(*(flags or [STATUS_GLYPHS[str(trouble.status)]])[0])


def when(trouble: Trouble) -> Cell:
    return Words(time.strftime("%H:%M:%S", time.localtime(trouble.at)), Tone.GREY)


def ran(trouble: Trouble) -> Cell:
    return Words(short_duration(trouble.duration_seconds), Tone.GREY)


COLUMNS: tuple[Column[Trouble], ...] = (
    Column("sign", "", sign, 1, sortable=False),
    Column("when", "WHEN", when, 8, sortable=False),
    Column("id", "JOB", lambda trouble: Words(trouble.job_id[:8], Tone.GREY), 8, priority=2, sortable=False),
    Column("name", "NAME", lambda trouble: Words(trouble.name, Tone.TEXT, True), 12, flex=1, most=30, sortable=False),
    Column("words", "WHAT HAPPENED", lambda trouble: Words(trouble.words), 20, flex=3, sortable=False),
    Column("ran", "RAN", ran, 8, align=Align.RIGHT, priority=1, sortable=False),
)


class Alerts(PanedPage):
    """What wants somebody's attention."""

    name_in_tabs = "alerts"
    first_pane = "troubles"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP, ALERTS)]
    DEFAULT_CSS = "Alerts #panes { grid-size: 2 1; grid-columns: 2fr 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.troubles: Sequence[Trouble] = ()
        self._is_reading = False
        self._seen: tuple[int, float] | None = None

    def parts(self) -> ComposeResult:
        yield PlainTable(COLUMNS, empty="", id="troubles", opens=True)
        yield Prose(id="rules", classes=PANE)

    def on_mount(self) -> None:
        table, rules = self.query_one("#troubles", PlainTable), self.query_one("#rules", Prose)
        entitle(table, "Alerts and failures of the last 24 hours")
        entitle(rules, "Rules")
        rules.text = tuple(rule_lines(self.console.options.config))

    def show(self, view: View) -> None:
        super().show(view)
        is_new = self._seen is None or self._seen[0] != view.version or view.at - self._seen[1] > LONGEST_SECONDS
        if is_new and not self._is_reading:
            self._is_reading = True
            self._seen = view.version, view.at
            self.run_worker(self.read(view), group="alerts")

    async def read(self, view: View) -> None:
        """What the stores have of it; one that cannot be read has its line at the top of the screen."""
        found: list[Trouble] = []
        is_unreadable = False
        since = view.at - LOOKED_BACK_SECONDS
        try:
            for state in view.stores:
                try:
                    found += await self.console.reader.read(state.path, lambda database: read_troubles(database, since))
                except (StoreError, OSError):
                    is_unreadable = True
        finally:
            self._is_reading = False
        if not self.is_attached:
            return
        self.troubles = sorted(found, key=lambda trouble: trouble.at, reverse=True)
        table: PlainTable[Trouble] = self.query_one("#troubles", PlainTable)
        table.empty = UNREADABLE if is_unreadable else EMPTY
        table.source = ListRows(self.troubles, lambda trouble: trouble.key)
        entitle(table, subtitle=counts(self.troubles))

    async def on_table_activated(self, message: Table.Activated) -> None:
        """The job it happened to."""
        await self.console.open_job(str(message.key).partition("/")[0])


def counts(troubles: Sequence[Trouble]) -> str:
    """`2 alerts · 3 jobs failed`."""
    alerts = sum(trouble.severity is not None for trouble in troubles)
    failed = len(troubles) - alerts
    return f"{alerts} alert{'' if alerts == 1 else 's'} · {failed} job{'' if failed == 1 else 's'} failed"


def rule_lines(config: Config | None) -> Iterator[Paragraph]:
    """Each rule of the configuration, and that nothing watches them yet."""
    yield BLANK
    rules = () if config is None else config.alerts
    for rule in rules:
        severity = str(rule.fields.get("severity", "warning"))
        yield Paragraph(
            rule.name, bold=True, label=[Span(f"{SEVERITY_GLYPHS[severity][0]} ", SEVERITY_GLYPHS[severity][1])]
        )
        yield Paragraph(rule_words(rule), Tone.TEXT, [Span("  ")])
        yield Paragraph(rule.origin, Tone.GREY, [Span("  ")])
        yield BLANK
    if rules:
        yield Paragraph("They are read and checked; this version does not watch them yet.", Tone.GREY)
        return
    yield heading("There is no rule yet.")
    yield BLANK
    yield Paragraph("A rule in config.toml is listed here:", Tone.GREY)
    yield BLANK
    yield from (Paragraph(line, Tone.BLUE, [Span("    ")]) for line in EXAMPLE)
    yield BLANK
    yield Paragraph(
        "Rules are read and checked; this version does not watch them yet, so no alert is raised.", Tone.GREY
    )


def rule_words(rule: Alert) -> str:
    """`mem.used of a job above 4e+09 for 30.0 s, until below 3e+09`."""
    fields = rule.fields
    words = [f"{fields['metric']} of a {fields.get('scope', 'job')}"]
    words += [f"{side} {fields[side]:g}" for side in ("above", "below") if isinstance(fields.get(side), float)]
    if isinstance(held := fields.get("for"), float):
        words.append(f"for {format_duration(held)}")
    if isinstance(clear := fields.get("clear"), float):
        words.append(f"until {clear:g}")
    return " ".join(words)
