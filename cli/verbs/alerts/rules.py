"""`jobtop alerts rules`: every alert rule, its state, when it fires, and what it does then."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.text.tables import TableColumn, format_options, print_records, table
from jobtop.core.alerts.advice import WARN
from jobtop.core.alerts.model import BUILT_IN, Rule
from jobtop.core.alerts.rule_set import RuleSet, load_rule_set
from jobtop.core.alerts.rules import inactive_reason
from jobtop.core.alerts.supply import supplied_here
from jobtop.core.config import Config, shown_action
from jobtop.core.errors import StoreError
from jobtop.core.metrics import Scope
from jobtop.core.model import SCHEMA_VERSION
from jobtop.core.text.rule_text import condition_text, not_armed_text
from jobtop.core.units import ABSENT, format_duration, number_of, printable
from jobtop.store.alerts.marks import Mark, MarkKind, Marks, failure_of

ACTIVE, OFF, INACTIVE, WRONG = "active", "off", "inactive", "wrong"
COLUMNS = (
    TableColumn("RULE", widest=24),
    TableColumn("STATE", widest=60),
    TableColumn("FIRES WHEN", widest=76),
    TableColumn("SEVERITY"),
    TableColumn("ACTIONS", widest=60),
    TableColumn("FROM", widest=60),
)


@click.command("rules", short_help="List the rules, their states and what they do.")
@format_options
@click.pass_obj
def rules(app: App, style: str) -> int:
    """List all alert rules: those that come with jobtop, and those of your configuration.

    A rule is active, off (switched off by you), inactive (this machine does not supply what it needs, or jobtop failed
    to evaluate it) or wrong. Wrong rules are named on standard error. A rule may stop, kill, pause or signal jobs only
    when it is armed. Of an action only its name or its type is shown, never an address.
    """
    found = load_rule_set(app.config)
    for problem in found.problems[1:]:  # the first one was named when the configuration was read
        app.warn(f"{problem.text}; ignored")
    records = [*rule_records(found, app.config, read_marks(app))]
    if style == "table":
        print(table(COLUMNS, map(rule_row, records)))
        states = [record["state"] for record in records]
        counts = f"{number_of(len(records), 'rule')}, {states.count(ACTIVE)} active"
        print(f"{counts}; an [[alert]] table with its name changes one, alerts.off switches it off")
    else:
        print_records(style, records)
    return 0


def read_marks(app: App) -> Sequence[Mark] | None:
    """Return what the store has about rules: which may act on jobs, and which failed; None if it cannot be read."""
    if not app.has_store():
        return ()
    try:
        return Marks(app.jobs().database).all()
    except StoreError:
        return None


def rule_records(found: RuleSet, config: Config, marks: Sequence[Mark] | None) -> Iterator[dict[str, Any]]:
    """Yield each rule as a record; a wrong table of its own name is one too."""
    supplied = supplied_here(config.texts("monitor.without"))
    armed = None if marks is None else {mark.name for mark in marks if mark.kind is MarkKind.ARMED}
    for rule in found.rules:
        record = rule_record(rule, found, config, supplied) | armed_field(rule.name, armed)
        failure = failure_of(rule, marks or ()) if record["state"] == ACTIVE else None
        yield record if failure is None else record | {"state": INACTIVE, "reason": failure}
    known = {rule.name for rule in found.rules}
    for problem in found.problems:
        if problem.is_rule and problem.name not in known:
            blank = dict.fromkeys(rule_record(found.rules[0], found, config, None))
            yield blank | {
                "schema_version": SCHEMA_VERSION,
                "name": problem.name,
                "state": WRONG,
                "reason": problem.text,
                "origin": problem.origin,
                "actions": [],
                "steps": [],
                "events": [],
                **armed_field(problem.name, armed),
            }


def armed_field(name: str, armed: Collection[str] | None) -> dict[str, bool | None]:
    """Return whether a rule may stop, kill, pause or signal jobs; None if that is not known."""
    return {"armed": None if armed is None else name in armed}


def rule_record(
    rule: Rule, found: RuleSet, config: Config, supplied: Mapping[Scope, Collection[str]] | None
) -> dict[str, Any]:
    """Return a rule as a record for programs; of its actions only names and types."""
    state, reason = state_of(rule, found, config, supplied)
    return {
        "schema_version": SCHEMA_VERSION,
        "name": rule.name,
        "state": state,
        "reason": reason,
        "kind": str(rule.kind),
        "scope": str(rule.scope),
        "severity": str(rule.severity),
        "condition": condition_text(rule),
        "metric": None if rule.expression is None else rule.expression.text,
        "above": rule.above,
        "below": rule.below,
        "clear": rule.clear,
        "for_seconds": rule.for_seconds,
        "cooldown_seconds": rule.cooldown_seconds,
        "limit": None if rule.limit is None else rule.limit.text,
        "within_seconds": rule.within_seconds,
        "window_seconds": rule.window_seconds,
        "factor": rule.factor,
        "events": list(rule.events),
        "filter": rule.filter_text or None,
        "directory": rule.directory,
        "message": rule.message,
        "remedy": rule.remedy,
        "actions": [*map(shown_action, rule.actions)],
        "steps": [{"after_seconds": step.after_seconds, "do": step.do} for step in rule.steps],
        "origin": rule.origin,
        "needs_arming": bool(rule.endings),
    }


def state_of(
    rule: Rule, found: RuleSet, config: Config, supplied: Mapping[Scope, Collection[str]] | None
) -> tuple[str, str | None]:
    """Return the state of a rule in one word, and why, if it is not just active."""
    if not rule.is_enabled:
        if not config.boolean("alerts.enabled"):
            return OFF, "alerts.enabled is false"
        return OFF, "alerts.off names it" if rule.name in config.texts("alerts.off") else "enabled is false"
    problem = next((problem for problem in found.problems if problem.is_rule and problem.name == rule.name), None)
    if problem is not None:  # the rule of a weaker file, or of jobtop, is in force
        return ACTIVE, f"a change of it is wrong: {problem.text}"
    reason = inactive_reason(rule, supplied)
    return (ACTIVE, None) if reason is None else (INACTIVE, reason)


def rule_row(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a rule as a row of the table."""
    reason = (record["reason"] or "").replace(f"{record['origin']}: ", "")  # the columns FROM and RULE have these
    reason = reason.replace(f"alert.{printable(record['name'])}.", "")
    because = f": {reason}" if reason else ""
    armed = ", armed" if record["armed"] else ""
    if record["needs_arming"] and record["armed"] is False and record["state"] in (ACTIVE, INACTIVE):
        armed = f", {not_armed_text(record['name'])}"
    # What acts on jobs comes first, so that it is never cut off.
    ordered = sorted(record["steps"], key=lambda step: step["do"] == WARN)
    steps = [f"{step['do']} after {format_duration(step['after_seconds'])}" for step in ordered]
    origin = "jobtop" if record["origin"] == BUILT_IN else record["origin"]
    return (
        record["name"],
        f"{record['state']}{armed}{because}",
        record["condition"] or ABSENT,
        record["severity"] or ABSENT,
        ", ".join([*steps, *record["actions"]]) or ABSENT,
        origin,
    )
