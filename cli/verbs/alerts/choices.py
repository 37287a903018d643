"""What the words after a verb of `jobtop alerts` can mean: rules, and alerts by their ids."""

import re

import click

from jobtop.cli.completion import CompletionApp
from jobtop.core.errors import JobtopError
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
