"""The tables of the Alerts page: what is active, what has been, and the rules."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from jobtop.core.alerts.model import State
from jobtop.core.text.rule_text import not_armed_text
from jobtop.core.units import ABSENT, format_duration
from jobtop.store.alerts.alert_rows import HAPPENED
from jobtop.tui.data.alert_rules import STATE_GLYPHS, RuleRow, RuleState
from jobtop.tui.data.incidents import SEVERITIES, Incidents, glyph_of, incident_text, severity_of
from jobtop.tui.palette import SEVERITY_GLYPHS, Tone
from jobtop.tui.widgets.cells import Align, Cell, Pieces, Span, Words, short_duration
from jobtop.tui.widgets.columns import Column

if TYPE_CHECKING:
    from jobtop.store.incidents import Incident

DAY_SECONDS = 86400.0
IncidentColumns = tuple[Column["Incident"], ...]


def is_dim(incident: Incident) -> bool:
    """Whether an incident is painted in grey: a person knows it, or it has not fired."""
    return incident.is_acknowledged or incident.state is State.PENDING


def active_order(incidents: Incidents) -> list[Incident]:
    """What fires or failed, by severity; then what is pending, then what is acknowledged."""
    new = sorted(incidents.new, key=lambda incident: SEVERITIES.index(severity_of(incident)))
    known = [incident for incident in incidents.found if incident.is_acknowledged]
    return [*new, *incidents.pending, *known]


def sign(incident: Incident) -> Cell:
    glyph, tone = glyph_of(incident)
    return Words(glyph, Tone.GREY if is_dim(incident) else tone, not is_dim(incident))


def name(incident: Incident) -> Cell:
    return Words(incident.name, Tone.GREY if is_dim(incident) else Tone.TEXT, not is_dim(incident))


def number(incident: Incident) -> Cell:
    return Words((incident.job_id or "")[:8], Tone.GREY)


def when(now: float) -> Callable[[Incident], Cell]:
    """The time of day, or the date of an older incident."""

    def cell(incident: Incident) -> Cell:
        form = "%H:%M:%S" if now - incident.at < DAY_SECONDS else "%d %b"
        return Words(time.strftime(form, time.localtime(incident.at)), Tone.GREY)

    return cell


def words(last_lines: Mapping[str, str], remedies: Mapping[str, str]) -> Callable[[Incident], Cell]:
    """What happened; behind it the last line of output of a failed job, or what helps against an alert."""

    def cell(incident: Incident) -> Cell:
        dim = is_dim(incident)
        more = last_lines.get(incident.key) or remedies.get(incident.rule or "", "") * (not dim)
        pieces = [Span(incident_text(incident), Tone.GREY if dim else Tone.TEXT)]
        return Pieces([*pieces, Span(f"  {more}", Tone.FAINT if dim else Tone.GREY)] if more else pieces)

    return cell


def state(incident: Incident) -> Cell:
    """`firing`, `pending`, `failed`, or `acked` once it is acknowledged."""
    if incident.is_acknowledged:
        return Words("acked", Tone.GREY)
    if incident.severity is None:
        return Words("failed", Tone.VERMILION)
    tone = Tone.GREY if incident.state is State.PENDING else SEVERITY_GLYPHS[severity_of(incident)][1]
    return Words(str(incident.state or "fired"), tone)


def lasting(now: float) -> Callable[[Incident], Cell]:
    """How long ago it began; of a resolved alert, how long it was true."""

    def cell(incident: Incident) -> Cell:
        if incident.severity is None:
            return Words(format_duration(incident.duration_seconds), Tone.GREY)
        if incident.is_moment:
            return Words(ABSENT, Tone.GREY)
        if incident.resolved_at is not None:
            return Words(short_duration(incident.resolved_at - incident.at), Tone.GREY)
        return Words(short_duration(max(0.0, now - incident.at)), Tone.GREY)

    return cell


def active_columns(incidents: Incidents, remedies: Mapping[str, str], now: float) -> IncidentColumns:
    return (
        Column("sign", "", sign, 1, sortable=False),
        Column("when", "WHEN", when(now), 8, sortable=False),
        Column("state", "STATE", state, 7, priority=1, sortable=False),
        Column("name", "NAME", name, 12, flex=1, most=24, sortable=False),
        Column("words", "WHAT HAPPENED", words(incidents.last_lines, remedies), 36, flex=9, sortable=False),
        Column("rule", "RULE", rule, 12, flex=1, most=22, priority=3, sortable=False),
        Column("id", "JOB", number, 8, priority=4, sortable=False),
        Column("for", "FOR", lasting(now), 7, align=Align.RIGHT, priority=2, sortable=False),
    )


def rule(incident: Incident) -> Cell:
    return Words(incident.rule or "", Tone.GREY)


def past_columns(now: float) -> IncidentColumns:
    """The columns of what has been; with how it ended."""
    return (
        Column("sign", "", sign, 1, sortable=False),
        Column("when", "WHEN", when(now), 8, sortable=False),
        Column("name", "NAME", name, 10, flex=1, most=20, sortable=False),
        Column("words", "WHAT HAPPENED", lambda incident: Words(incident_text(incident)), 14, flex=9, sortable=False),
        Column("end", "END", end, 8, priority=2, sortable=False),
        Column("for", "FOR", lasting(now), 7, align=Align.RIGHT, priority=1, sortable=False),
    )


def end(incident: Incident) -> Cell:
    """How it ended: resolved, acknowledged, or not yet; what is about one moment has happened."""
    if incident.is_moment and not incident.is_acknowledged:
        return Words(HAPPENED)
    if incident.resolved_at is not None and not incident.is_moment:
        return Words("resolved", Tone.BLUE)
    return Words("acked" if incident.is_acknowledged else "open", Tone.GREY if incident.is_acknowledged else Tone.TEXT)


def rule_columns() -> tuple[Column[RuleRow], ...]:
    return (
        Column("sign", "", rule_sign, 1, sortable=False),
        Column("severity", "", rule_severity, 1, sortable=False),
        Column("name", "RULE", rule_name, 12, flex=2, most=20, sortable=False),
        Column("condition", "FIRES WHEN", rule_condition, 16, flex=9, sortable=False),
        Column("state", "STATE", rule_state, 8, sortable=False),
    )


def rule_sign(row: RuleRow) -> Cell:
    return Words(*STATE_GLYPHS[row.state])


def rule_severity(row: RuleRow) -> Cell:
    glyph, tone = SEVERITY_GLYPHS[str(row.rule.severity)]
    return Words(glyph, tone if row.state <= RuleState.MUTED else Tone.GREY)


def rule_name(row: RuleRow) -> Cell:
    is_in_force = row.state <= RuleState.MUTED
    return Words(row.rule.name, Tone.TEXT if is_in_force else Tone.GREY, is_in_force)


def rule_condition(row: RuleRow) -> Cell:
    """When the rule fires; before that, why it does not, until when it is muted, and whether it may act."""
    is_in_force = row.state <= RuleState.MUTED
    pieces = [Span("may act · ", Tone.VERMILION)] if row.is_armed else []
    if is_in_force and row.rule.endings and not row.is_armed:
        pieces.append(Span(f"{not_armed_text(row.rule.name)} · ", Tone.YELLOW))
    if row.words:
        pieces.append(Span(f"{row.words} · ", Tone.YELLOW))
    return Pieces([*pieces, Span(row.condition, Tone.TEXT if is_in_force else Tone.GREY)])


def rule_state(row: RuleRow) -> Cell:
    if row.is_armed and row.state is RuleState.ACTIVE:
        return Words("armed", Tone.VERMILION)
    return Words(row.state.name.lower(), Tone.YELLOW if row.state is RuleState.MUTED else Tone.GREY)


def rule_counts(rows: Sequence[RuleRow]) -> str:
    """`12 active · 1 muted · 3 off`."""
    counts = [(state, sum(row.state is state for row in rows)) for state in RuleState]
    return " · ".join(f"{count} {state.name.lower()}" for state, count in counts if count)
