"""The alerts of one job: when each fired, its state and its worst value; Enter shows the job at that moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from textual.message import Message

from jobtop.core.alerts.model import State
from jobtop.core.model import Job
from jobtop.core.record import record
from jobtop.tui.data.rows import ListRows
from jobtop.tui.palette import SEVERITY_GLYPHS, Tone
from jobtop.tui.widgets.cells import Align, Cell, Span, Words, short_duration
from jobtop.tui.widgets.columns import Column
from jobtop.tui.widgets.panes import PlainTable

if TYPE_CHECKING:
    from jobtop.core.alerts.model import Rule
    from jobtop.store.alerts.alert_rows import StoredAlert

EMPTY = "no alerts of this job"


@record
class AlertRow:
    """One alert as it is listed: `moment` is when it fired, or began, in seconds since the start of the job."""

    alert: StoredAlert
    moment: float | None
    worst: str

    @property
    def is_quiet(self) -> bool:
        """Whether it is painted in grey: it has not fired, is over, or a person knows."""
        return self.alert.state is not State.FIRING


def alert_row(job: Job, alert: StoredAlert, rules: Mapping[str, Rule]) -> AlertRow:
    at = alert.began_at if alert.fired_at is None else alert.fired_at
    return AlertRow(alert, None if job.start_time is None else max(0.0, at - job.start_time), worst_text(alert, rules))


def worst_text(alert: StoredAlert, rules: Mapping[str, Rule]) -> str:
    """The worst value in the unit of its rule; empty if the rule is gone, or is not about a value."""
    from jobtop.core.alerts.expressions.measures import format_measured

    rule = rules.get(alert.rule)
    if rule is None or rule.expression is None or alert.worst is None:
        return ""
    return format_measured(rule.expression.measure, alert.worst)


def sign(row: AlertRow) -> Cell:
    glyph, tone = SEVERITY_GLYPHS[str(row.alert.severity)]
    return Words(glyph, Tone.GREY if row.is_quiet else tone, not row.is_quiet)


def after(row: AlertRow) -> Cell:
    return Words("" if row.moment is None else f"+{short_duration(row.moment)}", Tone.GREY)


def words(row: AlertRow) -> Cell:
    return Words(row.alert.text, Tone.GREY if row.is_quiet else Tone.TEXT)


def state(row: AlertRow) -> Cell:
    if row.alert.state is State.ACKNOWLEDGED:
        return Words("acked", Tone.GREY)
    tones = {State.FIRING: SEVERITY_GLYPHS[str(row.alert.severity)][1], State.RESOLVED: Tone.BLUE}
    return Words(row.alert.state_word, tones.get(row.alert.state, Tone.GREY))


def columns() -> tuple[Column[AlertRow], ...]:
    return (
        Column("sign", "", sign, 1, sortable=False),
        Column("after", "AFTER", after, 8, align=Align.RIGHT, sortable=False),
        Column("state", "STATE", state, 8, sortable=False),
        Column("words", "WHAT HAPPENED", words, 16, flex=1, sortable=False),
        Column("worst", "WORST", lambda row: Words(row.worst), 9, align=Align.RIGHT, priority=1, sortable=False),
    )


class AlertTable(PlainTable[AlertRow]):
    """The alerts of a job, open ones first."""

    class Chosen(Message):
        """The user wants to see the job at the moment of an alert."""

        def __init__(self, moment: float) -> None:
            super().__init__()
            self.moment = moment

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(columns(), empty=EMPTY, id=id, opens=True)

    def show(self, job: Job, alerts: Sequence[StoredAlert], rules: Mapping[str, Rule], others: str = "") -> None:
        """Show these alerts; `others` are the panes that share its place."""
        self.source = ListRows([alert_row(job, alert, rules) for alert in alerts], lambda row: row.alert.id)
        count = Span(f" {len(alerts)}" if alerts else "", Tone.GREY)
        self.set_title([Span("Alerts", Tone.TEXT, True), count, Span(others, Tone.FAINT)])
        opened = sum(alert.is_open for alert in alerts)
        self.set_subtitle([Span(f"{opened} open" if alerts else "", Tone.GREY)])

    def action_activate(self) -> None:
        """Show the job at the moment of the alert."""
        row = self.cursor_row
        if row is not None and row.moment is not None:
            self.post_message(self.Chosen(row.moment))
