"""What the words after a verb of `jobtop alerts` can mean: rules, and alerts by their ids."""

import re

import click

from jobtop.cli.app import App
from jobtop.cli.completion import CompletionApp
from jobtop.core.alerts.model import Rule
from jobtop.core.errors import BadValue, JobtopError, UnknownJob, did_you_mean
from jobtop.core.model import Job
from jobtop.core.units import printable
from jobtop.store.alerts.alert_rows import AlertStore


def complete_rule(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of rules that begin so; an empty list instead of an error."""
    from jobtop.core.alerts.rule_set import load_rule_set

    app = CompletionApp(ctx)
    try:
        found = load_rule_set(app.config).rules
    except JobtopError:
        return []
    finally:
        app.close()
    return [rule.name for rule in found if rule.name.startswith(incomplete)]


def complete_alert(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the ids of open alerts that begin so; an empty list instead of an error."""
    app = CompletionApp(ctx)
    try:
        found = app.fleet.each(lambda jobs: AlertStore(jobs.database).open_alerts()) if app.has_history() else []
    except JobtopError:
        return []
    finally:
        app.close()
    return [str(alert.id) for _, alerts in found for alert in alerts if str(alert.id).startswith(incomplete)]


def alert_number(word: str) -> int | None:
    """Return the id of an alert; None for words that can only mean a job, such as `#17`."""
    return int(word) if re.fullmatch(r"[0-9]{1,18}", word, re.ASCII) else None


def find_rule_or_job(app: App, word: str) -> tuple[Rule | None, Job | None]:
    """Return the rule or the job of this host that a word means; BadValue names the nearest rule."""
    from jobtop.core.alerts.rule_set import load_rule_set

    found = load_rule_set(app.config)
    for rule in found.rules:
        if rule.name == word:
            return rule, None
    try:
        _, [job] = app.jobs_to_change([word])
    except UnknownJob:
        hint = did_you_mean(word, [rule.name for rule in found.rules])
        shown = printable(word if len(word) <= 60 else f"{word[:60]}…")
        raise BadValue(f'no rule and no job "{shown}"{hint or " (jobtop alerts rules lists rules)"}') from None
    return None, job
