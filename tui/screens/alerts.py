"""The Alerts page: what went wrong in the last day, and the alert rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from jobtop.core.config import Alert, Config
from jobtop.core.units import format_duration
from jobtop.store.incidents import Incident
from jobtop.tui.actions import ALERTS, APP, bindings
from jobtop.tui.data.incidents import Incidents, clock_time, glyph_of
from jobtop.tui.data.rows import ListRows
from jobtop.tui.palette import SEVERITY_GLYPHS, Tone
from jobtop.tui.widgets.cells import Align, Cell, Span, Words
from jobtop.tui.widgets.columns import Column
from jobtop.tui.widgets.panes import PANE, PanedPage, PlainTable
from jobtop.tui.widgets.prose import BLANK, Paragraph, Prose, heading, set_border_texts
from jobtop.tui.widgets.table import Table

EMPTY = "No failed jobs and no alerts in the last 24 hours.\nJobs that fail, time out or are lost are listed here."
UNREADABLE = "A store cannot be read, so failed jobs are not known."
EXAMPLE = ("[[alert]]", 'name = "nearly full"', 'metric = "mem.used"', "above = 4e9", 'for = "30s"')


def when(incident: Incident) -> Cell:
    return Words(clock_time(incident), Tone.GREY)


def ran(incident: Incident) -> Cell:
    return Words(format_duration(incident.duration_seconds), Tone.GREY)


COLUMNS: tuple[Column[Incident], ...] = (
    Column("sign", "", lambda incident: Words(*glyph_of(incident)), 1, sortable=False),
    Column("when", "WHEN", when, 8, sortable=False),
    Column("id", "JOB", lambda incident: Words((incident.job_id or "")[:8], Tone.GREY), 8, priority=2, sortable=False),
    Column("name", "NAME", lambda incident: Words(incident.name, Tone.TEXT, True), 12, flex=1, most=30, sortable=False),
    Column("words", "WHAT HAPPENED", lambda incident: Words(incident.words), 18, flex=9, sortable=False),
    Column("ran", "RAN", ran, 8, align=Align.RIGHT, priority=1, sortable=False),
)


class Alerts(PanedPage):
    """The page with the list of incidents and the rules."""

    name_in_tabs = "alerts"
    first_pane = "incidents"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP, ALERTS)]
    DEFAULT_CSS = "Alerts #panes { grid-size: 2 1; grid-columns: 2fr 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.incidents: Sequence[Incident] = ()

    def parts(self) -> ComposeResult:
        yield PlainTable(COLUMNS, empty="", id="incidents", opens=True)
        yield Prose(id="rules", classes=PANE)

    def on_mount(self) -> None:
        table, rules = self.query_one("#incidents", PlainTable), self.query_one("#rules", Prose)
        set_border_texts(table, "Alerts and failures of the last 24 hours")
        set_border_texts(rules, "Rules")
        rules.text = tuple(rule_lines(self.console.options.config))

    def show_incidents(self, incidents: Incidents) -> None:
        self.incidents = incidents.found
        table: PlainTable[Incident] = self.query_one("#incidents", PlainTable)
        table.empty = UNREADABLE if incidents.is_unreadable else EMPTY
        table.source = ListRows(self.incidents, lambda incident: incident.key)
        set_border_texts(table, subtitle=incidents.words)

    async def on_table_activated(self, message: Table.Activated) -> None:
        """Open the job of an incident; an alert of the machine has none."""
        if job_id := str(message.key).partition("/")[0]:
            await self.console.open_job(job_id)


def rule_lines(config: Config | None) -> Iterator[Paragraph]:
    """Each alert rule of the configuration, and a note that rules are not evaluated yet."""
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
        yield Paragraph("Rules are checked for mistakes; this version raises no alerts yet.", Tone.GREY)
        return
    yield heading("No rules yet.")
    yield BLANK
    yield Paragraph("Add one to config.toml:", Tone.GREY)
    yield BLANK
    yield from (Paragraph(line, Tone.BLUE, [Span("    ")]) for line in EXAMPLE)
    yield BLANK
    yield Paragraph("Rules are checked for mistakes; this version raises no alerts yet.", Tone.GREY)


def rule_words(rule: Alert) -> str:
    """A rule as it stands in its file: `mem.used of a job above 4GiB for 30s`."""
    fields = {name: str(value) for name, value in rule.fields.items()}
    words = [fields.get("metric", fields.get("kind", "")), f"of a {fields.get('scope', 'job')}"]
    words += [f"{side} {fields[side]}" for side in ("above", "below", "for") if side in fields]
    return " ".join(words)
