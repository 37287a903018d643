"""What the keys of the Alerts page do: acknowledge, mute, unmute, edit a rule, open what an alert is about."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jobtop.tui.actions import Action
from jobtop.tui.data.alert_rules import RuleRow
from jobtop.tui.data.incidents import Incidents
from jobtop.tui.page import Page
from jobtop.tui.widgets.table import Table
from jobtop.tui.workers import start_work

if TYPE_CHECKING:
    from jobtop.core.alerts.model import Rule
    from jobtop.store.alerts.marks import MarkKind
    from jobtop.store.incidents import Incident
    from jobtop.tui.data.alert_operations import Decision
    from jobtop.tui.dialogs.mute_form import MuteAnswer

NOTHING = "Nothing is selected"
NO_FILE = "no home directory is known: there is no configuration file to write"
NO_STORE = "This console shows only stores of other hosts: it cannot mute anything"


class AlertActions(Page):
    """A page with lists of incidents and of rules."""

    listed: Incidents
    past: Sequence[Incident]
    past_stores: dict[str, Path]

    @property
    def chosen_rule(self) -> RuleRow | None:
        """The rule under the cursor, if the rules have the focus."""
        table = self.focused_table
        row = None if table is None or table.id != "rules" else table.cursor_row
        return row if isinstance(row, RuleRow) else None

    @property
    def focused_table(self) -> Table[object] | None:
        return self.focused if isinstance(self.focused, Table) else None

    @property
    def chosen_incident(self) -> Incident | None:
        """The incident under the cursor, if a list of incidents has the focus."""
        from jobtop.store.incidents import Incident

        table = self.focused_table
        return row if table is not None and isinstance(row := table.cursor_row, Incident) else None

    @property
    def chosen_incidents(self) -> list[Incident]:
        """The marked incidents, or the one under the cursor."""
        table = self.focused_table
        if table is not None and table.marks:
            known = (*self.listed.found, *self.listed.pending, *self.past)
            return list({found.key: found for found in known if found.key in table.marks}.values())
        return [] if self.chosen_incident is None else [self.chosen_incident]

    def is_offered(self, action: Action) -> bool:
        """Offer to acknowledge incidents, and to edit and mute rules."""
        is_rule = self.focused_table is not None and self.focused_table.id == "rules"
        if action.id == "alerts.acknowledge":
            return not is_rule and super().is_offered(action)
        return super().is_offered(action)

    def action_acknowledge(self) -> None:
        chosen = self.chosen_incidents
        if self.may_change() and chosen:
            start_work(self.app, self._acknowledge, chosen, group="act")
        elif not chosen:
            self.say(NOTHING)

    async def _acknowledge(self, chosen: Sequence[Incident]) -> None:
        from jobtop.tui.data.alert_operations import acknowledge

        stores = {**self.past_stores, **self.listed.stores}
        placed = [(stores[incident.key], incident) for incident in chosen if incident.key in stores]
        decision = await asyncio.to_thread(acknowledge, placed)
        if self.focused_table is not None:
            self.focused_table.marks = ()
        self.report(decision, "acknowledged")

    def report(self, decision: Decision, done: str) -> None:
        """Say what was refused, and what was done to several; then read the lists again."""
        if decision.refusals:
            self.say("\n".join(decision.refusals), "warning")
        elif decision.count != 1:
            self.say(f"{decision.count} {done}")
        self.read_again()

    def read_again(self) -> None:
        """Read what the user has just changed."""
        self.incident_watch.forget()
        self.console.feed.poll_now()

    def action_mute(self) -> None:
        rule, incident = self.chosen_rule, self.chosen_incident
        name = rule.rule.name if rule is not None else incident.rule if incident is not None else None
        job = None if incident is None else incident.job_id
        if not self.may_change():
            return
        if name is None and job is None:
            self.say(NOTHING)
            return
        start_work(self.app, self._mute, name, job, incident, group="ask", exclusive=True)

    async def _mute(self, rule: str | None, job: str | None, incident: Incident | None) -> None:
        from jobtop.store.alerts.marks import MarkKind
        from jobtop.tui.data.alert_operations import mute
        from jobtop.tui.dialogs.mute_form import MuteForm

        label = None if job is None or incident is None else f"{incident.name} ({job[:8]})"
        answer: MuteAnswer | None = await self.app.push_screen_wait(MuteForm(rule, label))
        store = self.store_of_marks(incident)
        if answer is None or store is None:
            return
        kind, name = (MarkKind.MUTE_JOB, job) if answer.is_job else (MarkKind.MUTE_RULE, rule)
        why = await asyncio.to_thread(mute, store, kind, str(name), answer.seconds)
        self.say(why or f"muted: {label if answer.is_job else rule}", "warning" if why else "information")
        self.read_again()

    def store_of_marks(self, incident: Incident | None) -> Path | None:
        """The store that keeps what is muted: that of the incident, else that of this host."""
        stores = {**self.past_stores, **self.listed.stores}
        if incident is not None and incident.key in stores:
            return stores[incident.key]
        own = self.console.options.own
        if own is None:
            self.say(NO_STORE, "warning")
        return None if own is None else own.store

    def action_unmute(self) -> None:
        from jobtop.store.alerts.marks import MarkKind

        rule, incident = self.chosen_rule, self.chosen_incident
        names = [(MarkKind.MUTE_RULE, rule.rule.name)] if rule is not None else []
        if incident is not None and incident.rule is not None:
            names.append((MarkKind.MUTE_RULE, incident.rule))
        if incident is not None and incident.job_id is not None:
            names.append((MarkKind.MUTE_JOB, incident.job_id))
        store = self.store_of_marks(incident) if names and self.may_change() else None
        if store is not None:
            start_work(self.app, self._unmute, store, names, group="act")

    async def _unmute(self, store: Path, names: Sequence[tuple[MarkKind, str]]) -> None:
        from jobtop.tui.data.alert_operations import unmute

        decision = await asyncio.to_thread(unmute, store, names)
        if not decision.count and not decision.refusals:
            self.say("It is not muted")
        else:
            self.say("\n".join(decision.refusals) or "unmuted")
        self.read_again()

    def action_edit(self) -> None:
        """Edit the rule under the cursor, or the rule of the alert under the cursor."""
        row, incident = self.chosen_rule, self.chosen_incident
        rule = row.rule if row is not None else None
        if rule is None and incident is not None and incident.rule is not None:
            rule = self.console.rules.get(incident.rule)
        if not self.may_change():
            return
        if rule is None:
            self.say("No rule is selected")
            return
        start_work(self.app, self._edit, rule, group="ask", exclusive=True)

    async def _edit(self, rule: Rule) -> None:
        from jobtop.core.text.rule_text import condition_text
        from jobtop.tui.data.rule_saving import rule_file
        from jobtop.tui.dialogs.rule_form import RuleForm

        config = self.console.rule_reading.config
        file = None if config is None else rule_file(config)
        refusal = NO_FILE if file is None else file.refusal(rule)
        if file is None or refusal is not None:
            self.say(str(refusal), "warning")
            return
        saved = await self.app.push_screen_wait(RuleForm(rule, condition_text(rule), file))
        if saved:
            self.say(saved)
            await asyncio.to_thread(self.console.rule_reading.read_anew)
            self.read_again()

    def may_change(self) -> bool:
        """Whether this console may change anything; tells the user if not."""
        if self.console.options.is_readonly:
            self.say(self.console.options.readonly_words, "warning")
        return not self.console.options.is_readonly
