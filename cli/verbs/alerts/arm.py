"""`jobtop alerts arm` and `disarm`: whether a rule may stop, kill, pause or signal jobs."""

import time
from collections.abc import Sequence

import click

from jobtop.cli.app import App
from jobtop.cli.text.alert_lines import alert_json, owner_text
from jobtop.cli.text.tables import json_option, print_records
from jobtop.cli.verbs.alerts.choices import complete_rule
from jobtop.core.alerts.model import Rule
from jobtop.core.alerts.rule_set import load_rule_set
from jobtop.core.errors import UsageError
from jobtop.core.model import SCHEMA_VERSION
from jobtop.core.run.request import user_name
from jobtop.core.text.shell_text import shell_text
from jobtop.core.units import format_duration, printable
from jobtop.store.alerts.alert_rows import AlertStore, StoredAlert
from jobtop.store.alerts.marks import MarkKind, Marks

DEEDS = {"stop": "stops", "kill": "kills", "pause": "pauses"}
MOST_LISTED = 10


@click.command("arm", short_help="Let a rule stop, kill, pause or signal jobs.")
@click.argument("name", metavar="RULE", shell_complete=complete_rule)
@click.option("--note", metavar="TEXT", help="Why; kept with the rule.")
@json_option
@click.pass_obj
def arm(app: App, name: str, note: str | None, as_json: bool) -> int:
    """Let a rule act: stop, kill, pause or signal jobs, as its steps and actions say.

    Until then it only says what it would do. It never stops, kills, pauses or signals a job in which a person works in
    a terminal.
    """
    rule = load_rule_set(app.config).find(name)
    deeds = rule.endings
    if not deeds:
        raise UsageError(
            f'rule "{printable(name)}" only warns: none of its steps and actions stops, kills or pauses jobs'
        )
    if not rule.is_enabled:
        raise UsageError(f'rule "{printable(name)}" is switched off: enable it first (enabled = true, alerts.off)')
    database = app.store_to_write()
    Marks(database).set(MarkKind.ARMED, name, None, user_name(), note)
    firing = [alert for alert in AlertStore(database).open_alerts() if alert.rule == name and alert.job_id is not None]
    if as_json:
        print_records("json", [armed_json(rule, firing)], single=True)
        return 0
    print(f'armed the rule "{printable(name)}": it {", ".join(map(deed_text, deeds))}')
    print(f"  for {jobs_text(rule)}; interactive jobs are exempt")
    now = time.time()
    for alert in firing[:MOST_LISTED]:
        print(f"  {firing_text(alert, deeds, now)}")
    if len(firing) > MOST_LISTED:
        print(f"  … and {len(firing) - MOST_LISTED} more (jobtop alerts list --rule RULE)")
    print(f"  to take it back: jobtop alerts disarm {shell_text([name])}")
    return 0


@click.command("disarm", short_help="Let a rule only warn.")
@click.argument("name", metavar="RULE", shell_complete=complete_rule)
@json_option
@click.pass_obj
def disarm(app: App, name: str, as_json: bool) -> int:
    """Let a rule only warn: it no longer stops, kills, pauses or signals jobs."""
    was_armed = app.has_store() and Marks(app.store_to_write()).clear(MarkKind.ARMED, name)
    if not was_armed:
        load_rule_set(app.config).find(name)
    if as_json:
        shown = {"schema_version": SCHEMA_VERSION, "rule": name, "is_armed": False, "was_armed": was_armed}
        print_records("json", [shown], single=True)
    elif was_armed:
        print(f'disarmed the rule "{printable(name)}": it only says what it would do')
    else:
        print(f'The rule "{printable(name)}" was not armed.')
    return 0


def armed_json(rule: Rule, firing: Sequence[StoredAlert]) -> dict[str, object]:
    """Return what an armed rule will do, to which jobs, and the alerts of it that are open now."""
    return {
        "schema_version": SCHEMA_VERSION,
        "rule": rule.name,
        "is_armed": True,
        "acts": [{"after_seconds": after, "action": word} for after, word in rule.endings],
        "filter": rule.filter_text or None,
        "directory": rule.directory,
        "alerts": [alert_json(alert) for alert in firing],
    }


def deed_text(deed: tuple[float, str]) -> str:
    """Return one deed, such as `stops jobs after 2h`."""
    after, word = deed
    kind, _, signal = word.partition(":")
    what = f"{DEEDS[kind]} jobs" if kind in DEEDS else f"sends {signal or kind} to jobs"
    return f"{what} after {format_duration(after)}" if after else f"{what} as soon as it fires"


def jobs_text(rule: Rule) -> str:
    chosen = f"jobs that match {printable(rule.filter_text)}" if rule.filter_text else "all jobs"
    return f"{chosen} in {printable(rule.directory)}" if rule.directory else chosen


def firing_text(alert: StoredAlert, deeds: Sequence[tuple[float, str]], now: float) -> str:
    """Return a job for which the rule is true now, and when the next deed is due."""
    since = now - alert.began_at
    later = [after for after, _ in deeds if after > since]
    when = f"next in {format_duration(min(later) - since)}" if later else "left alone: its moment has passed"
    return f"{printable(owner_text(alert))}: {alert.state} for {format_duration(since)}, {when}"
