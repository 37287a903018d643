"""The notification about alerts that fire while the console is open: what it says, and about which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from jobtop.core.record import record
from jobtop.tui.data.incidents import SEVERITIES, Incidents, glyph_of, severity_of

if TYPE_CHECKING:
    from jobtop.core.alerts.model import Rule
    from jobtop.store.database import Database
    from jobtop.store.incidents import Incident
    from jobtop.tui.data.reader import StoreReader

MOST_NAMED = 4
TOAST_SECONDS = 12.0
LOOKS: Mapping[str, Literal["information", "warning", "error"]] = {
    "critical": "error",
    "warning": "warning",
    "info": "information",
}


@record
class Toast:
    """One notification: its title, its lines, how it looks, and whether the terminal's bell rings."""

    title: str
    text: str
    severity: Literal["information", "warning", "error"]
    has_bell: bool


class Announcer:
    """Remembers which alerts were there: those of the first list are not announced."""

    def __init__(self) -> None:
        self._known: set[str] | None = None

    def fired(self, incidents: Incidents) -> list[Incident]:
        """The alerts that fire now and were not there at the last call; muted ones are left out."""
        if not incidents.is_known:
            return []
        firing = {incident.key: incident for incident in incidents.new if incident.severity is not None}
        known = set(firing) if self._known is None else self._known
        # What is over is kept: an alert that a store could not be read for is not announced again.
        self._known = known | set(firing)
        return [found for key, found in firing.items() if key not in known and key not in incidents.muted]


async def make_toast(
    fired: Sequence[Incident], incidents: Incidents, rules: Mapping[str, Rule], reader: StoreReader
) -> Toast:
    """One notification for all alerts that fired; that of a single one names what helps."""
    worst = min((severity_of(incident) for incident in fired), key=SEVERITIES.index)
    has_bell = any(bell_rings(rules.get(incident.rule or "")) for incident in fired)
    if len(fired) > 1:
        lines = [f"{glyph_of(found)[0]} {found.name}: {found.words}" for found in fired[:MOST_NAMED]]
        more = [f"and {len(fired) - MOST_NAMED} more"] if len(fired) > MOST_NAMED else []
        return Toast(f"{len(fired)} alerts", "\n".join([*lines, *more, "5 shows them"]), LOOKS[worst], has_bell)
    only = fired[0]
    rule = rules.get(only.rule or "")
    command = await read_command(only, incidents, rule, reader)
    lines = [only.words, *filter(None, [rule.remedy if rule is not None else None, command])]
    title = f"{glyph_of(only)[0]} {only.name}{f': {only.rule}' if only.rule else ''}"
    return Toast(title, "\n".join(lines), LOOKS[worst], has_bell)


def bell_rings(rule: Rule | None) -> bool:
    return rule is not None and "bell" in rule.actions


async def read_command(incident: Incident, incidents: Incidents, rule: Rule | None, reader: StoreReader) -> str | None:
    """A command to paste that helps; None if there is none, or the store cannot be read."""
    from jobtop.core.errors import JobtopError

    store, number = incidents.stores.get(incident.key), incident.alert_id
    if store is None or number is None:
        return None

    def question(database: Database) -> str | None:
        from jobtop.core.alerts.advice import command_for
        from jobtop.store.alerts.alert_rows import AlertStore
        from jobtop.store.jobs import Jobs

        alert = AlertStore(database).find(number)
        jobs = {} if incident.job_id is None else {incident.job_id: Jobs(database).find(incident.job_id)}
        return None if alert is None else command_for(rule, [alert], jobs)

    try:
        return await reader.read(store, question)
    except (JobtopError, OSError):
        return None
