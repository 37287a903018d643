"""`jobtop alerts list`: alerts that are active, and those of the last day."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.completion import complete_job_id
from jobtop.cli.text.alert_lines import (
    COLUMNS,
    NO_ALERT,
    alert_json,
    alert_row,
    by_alert,
    held_lines,
    mute_text,
    now_text,
    undelivered_lines,
)
from jobtop.cli.text.tables import TableColumn, format_options, print_records, table
from jobtop.cli.values import Count, PastMoment
from jobtop.cli.verbs.alerts.arm import deed_text
from jobtop.cli.verbs.alerts.choices import complete_rule
from jobtop.core.alerts.model import Action, Severity, State
from jobtop.core.alerts.rule_set import load_rule_set
from jobtop.core.errors import StoreError
from jobtop.core.procfs import boot_id
from jobtop.core.text.rule_text import not_armed_text
from jobtop.core.text.shell_text import shell_text
from jobtop.core.units import format_duration, number_of, printable
from jobtop.lifecycle.alerts.book import Book
from jobtop.lifecycle.alerts.messages import action_of
from jobtop.store.alerts.alert_rows import AlertStore, StoredAlert
from jobtop.store.alerts.marks import MarkKind, Marks
from jobtop.store.alerts.outbox import Outbox, Outgoing
from jobtop.store.jobs import Jobs
from jobtop.store.samples.hosts import not_measured_since

RECENT_SECONDS = 86400.0
DEFAULT_LIMIT = 50
HOST = TableColumn("HOST", widest=24)
RANKS = (State.FIRING, State.ACKNOWLEDGED, State.PENDING, State.RESOLVED)
MUTES = (MarkKind.MUTE_RULE, MarkKind.MUTE_JOB)


@click.command("list", short_help="List active alerts, and those of the last day.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([str(state) for state in State]),
    metavar="STATE",
    help="Only pending, firing, acknowledged or resolved alerts; may be repeated.",
)
@click.option(
    "--severity",
    "severities",
    multiple=True,
    type=click.Choice([str(one) for one in Severity]),
    metavar="S",
    help="Only alerts of this severity: info, warning or critical; may be repeated.",
)
@click.option(
    "--rule", metavar="NAME", shell_complete=complete_rule, help="Only alerts of matching rules, such as 'gpu*'."
)
@click.option("--job", "reference", metavar="ID", shell_complete=complete_job_id, help="Only alerts of this job.")
@click.option("--since", type=PastMoment(), help="Resolved alerts since then, such as 7d; by default of the last day.")
@click.option("--all", "everything", is_flag=True, help="List all alerts, however old they are.")
@click.option("--limit", type=Count(1, 10**9), metavar="N", help=f"List at most N alerts; {DEFAULT_LIMIT} by default.")
@format_options
@click.pass_obj
def list_(app: App, /, style: str, reference: str | None, everything: bool, **options: Any) -> int:
    """List alerts: active ones first, then those that were resolved in the last day.

    An alert about one moment, such as a failed job, has `happened`. The last lines name messages that could not be
    sent, what is muted, which rules are armed, and which rules would act on jobs if they were armed.
    """
    limit = options["limit"] or (None if everything else DEFAULT_LIMIT)
    found = read_alerts(app, reference, everything, limit, options)
    shown = sorted(((jobs, alert) for jobs, alerts in found for alert in alerts), key=lambda pair: rank(pair[1]))
    listed = shown[:limit]
    last_measured = unmeasured(app, time.time())
    if style != "table":
        messages = {jobs: by_alert(Outbox(jobs.database).listing()) for jobs, _ in found}
        quiet_until = Book(app.config).times.quiet_until(time.time())
        records = [
            alert_json(alert, messages[jobs].get(alert.id, ()), last_measured(jobs, alert), quiet_until)
            for jobs, alert in listed
        ]
        print_records(style, records, empty=NO_ALERT)
        return 0
    now = time.time()
    if listed:
        print(alert_table(app, [(jobs, alert, last_measured(jobs, alert)) for jobs, alert in listed], now))
    else:
        print(empty_message(app, reference is not None or everything or any(options.values())))
    for line in (*foot_lines(app, now), *not_armed_lines(app, [alert for _, alert in listed])):
        print(line)
    if len(shown) > len(listed):
        app.warn(f"only {number_of(len(listed), 'alert')}; --all lists all, --limit N lists N")
    return 0


def rank(alert: StoredAlert) -> tuple[int, float]:
    """Return the place in the list: by state, then the newest first."""
    return RANKS.index(alert.state), -(alert.began_at if alert.fired_at is None else alert.fired_at)


def read_alerts(
    app: App, reference: str | None, everything: bool, limit: int | None, options: dict[str, Any]
) -> list[tuple[Jobs, list[StoredAlert]]]:
    """Read the alerts that meet the options, by store, and one more than the limit."""
    since = options["since"]
    if since is None and not everything:
        since = time.time() - RECENT_SECONDS
    conditions: dict[str, Any] = {
        "states": [State(word) for word in options["states"]],
        "severity": [Severity(word) for word in options["severities"]],
        "rule": options["rule"],
        "since": since,
        "limit": None if limit is None else limit + 1,
    }
    if reference is not None:
        jobs, job = app.find(reference)
        if options["since"] is None:
            conditions["since"] = None  # all alerts of one job are few
        return [(jobs, AlertStore(jobs.database).listing(**conditions, job_seq=job.seq))]
    if not app.has_history():
        return []
    resolve_left_open(app)
    return app.fleet.each(lambda jobs: AlertStore(jobs.database).listing(**conditions))


def resolve_left_open(app: App) -> None:
    """Resolve alerts that a killed engine left open in this host's store, if it can be written."""
    for jobs in app.fleet.stores:
        if jobs.database.path == app.paths.store:
            with suppress(StoreError):  # it is only read, or another process writes
                AlertStore(jobs.database).resolve_left_open(boot_id(), app.paths.host)


def unmeasured(app: App, now: float) -> Callable[[Jobs, StoredAlert], float | None]:
    """Return a function that says since when nothing measures the host or the device of an open alert."""
    known: dict[tuple[Jobs, str], float | None] = {}

    def since(jobs: Jobs, alert: StoredAlert) -> float | None:
        if alert.job_id is not None or alert.host is None or not alert.is_open:
            return None
        key = jobs, alert.host
        if key not in known:
            is_here = jobs.database.path == app.paths.store and alert.host == app.paths.host
            known[key] = not_measured_since(jobs.database, alert.host, is_here, now)
        return known[key]

    return since


def alert_table(app: App, listed: list[tuple[Jobs, StoredAlert, float | None]], now: float) -> str:
    """Return the table, with a column for the host if there are several stores."""
    if not app.stores or not app.fleet.has_several:
        return table(COLUMNS, [alert_row(alert, now, since) for _, alert, since in listed])
    rows = [(alert.host or jobs.database.path.stem, *alert_row(alert, now, since)) for jobs, alert, since in listed]
    return table((HOST, *COLUMNS), rows)


def empty_message(app: App, is_chosen: bool) -> str:
    if is_chosen:
        return "No matching alerts; jobtop alerts list --all lists all."
    return "No active alerts, and none in the last day; jobtop alerts list --all lists older ones."


def foot_lines(app: App, now: float) -> list[str]:
    """Return what could not be sent, what is muted, and which rules are armed."""
    if not app.has_history():
        return []

    def read(jobs: Jobs) -> list[str]:
        outbox = Outbox(jobs.database)
        unsent: list[Outgoing] = outbox.unsent()
        given_up = [one for one in outbox.listing(now - RECENT_SECONDS) if one.given_up_at is not None]
        marks = Marks(jobs.database)
        muted = [mark for kind in MUTES for mark in marks.all(kind, now)]
        reasons = [*zip(unsent, map(holding(app, jobs, now), unsent), strict=True)] if unsent else []
        tried = [one for one, reason in reasons if reason is None]
        lines = [*held_lines([(one, reason) for one, reason in reasons if reason is not None])]
        lines += undelivered_lines([*tried, *given_up], now)
        lines += [f"muted: {mute_text(mark, jobs)} {now_text(mark.until)}" for mark in muted]
        return lines + [armed_text(app, jobs, mark.name) for mark in marks.all(MarkKind.ARMED, now)]

    return [line for _, lines in app.fleet.each(read) for line in lines]


def not_armed_lines(app: App, listed: list[StoredAlert]) -> list[str]:
    """Return a line for each rule with an open alert of this host's jobs that would act on them if it were armed."""
    names = {alert.rule for alert in listed if alert.is_open and alert.job_id and alert.host == app.paths.host}
    if not names or not app.has_store():
        return []
    armed = Marks(app.jobs().database).names(MarkKind.ARMED)
    rules = [rule for rule in load_rule_set(app.config).in_force if rule.name in names - armed and rule.endings]
    return [f'rule "{printable(rule.name)}" only warns; {not_armed_text(rule.name)}' for rule in rules]


def holding(app: App, jobs: Jobs, now: float) -> Callable[[Outgoing], str | None]:
    """Return a function that says why a message of this host is not tried now; None if it is, or was just made."""
    if jobs.database.path != app.paths.store:
        return lambda _: None
    book, projects = Book(app.config), dict[str, Mapping[str, Action]]()

    def why(message: Outgoing) -> str | None:
        times = book.times
        if action_of(book, message.action, message.origin, projects) is None:
            return f": this action is not configured any more; given up after {format_duration(times.give_up_seconds)}"
        if times.quiet is not None and times.is_quiet(now) and message.severity is not Severity.CRITICAL:
            hour, minute = divmod(times.quiet[1], 60)
            return f" for the end of the quiet hours ({hour:02}:{minute:02})"
        return None

    return why


def armed_text(app: App, jobs: Jobs, name: str) -> str:
    """Return what an armed rule does to jobs; of this host's store by the rule as it is now."""
    label = f'armed: rule "{printable(name)}"'
    if jobs.database.path != app.paths.store:
        return label
    rule = next((rule for rule in load_rule_set(app.config).in_force if rule.name == name), None)
    if rule is None:
        return f"{label}, but there is no such rule in force here (jobtop alerts disarm {shell_text([name])})"
    return f"{label}: {', '.join(map(deed_text, rule.endings)) or 'it only warns now, and acts on no job'}"
