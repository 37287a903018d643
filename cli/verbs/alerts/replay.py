"""`jobtop alerts test`: replays a rule over recorded jobs, or over the recorded host and its devices."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.completion import complete_job_id
from jobtop.cli.text.sample_text import warn_if_thinned
from jobtop.cli.text.tables import TableColumn, format_options, print_records, table
from jobtop.cli.values import PastMoment
from jobtop.cli.verbs.alerts.choices import complete_rule
from jobtop.cli.verbs.store import Progress, progress_bar
from jobtop.core.alerts.expressions.expression import format_value
from jobtop.core.alerts.model import Rule, RuleKind
from jobtop.core.alerts.rule_set import load_rule_set
from jobtop.core.clock import iso, local
from jobtop.core.errors import BadValue, UsageError
from jobtop.core.measure.device import Device
from jobtop.core.model import SCHEMA_VERSION, Job
from jobtop.core.units import ABSENT, format_duration, number_of, printable
from jobtop.lifecycle.alerts.replay import (
    Firing,
    is_for_jobs,
    may_concern,
    needed_keys,
    refuse_unrecorded,
    replay_job,
    replay_machine,
)
from jobtop.store.jobs import Jobs, Query

DEFAULT_SECONDS = 7 * 86400.0
QUIET_SECONDS = 1.0  # without a progress bar
COLUMNS = (
    TableColumn("WHEN"),
    TableColumn("OF", widest=44),
    TableColumn("FOR", right=True),
    TableColumn("WORST", right=True),
    TableColumn("WHAT", widest=120),
)
SECONDS_KINDS = (RuleKind.STALL, RuleKind.ABSENCE)
Found = list[tuple[Jobs, Firing]]


@click.command("test", short_help="Print when a rule would have fired for recorded jobs.")
@click.argument("name", metavar="RULE", shell_complete=complete_rule)
@click.option("--job", "reference", metavar="ID", shell_complete=complete_job_id, help="Replay this job only.")
@click.option("--since", type=PastMoment(), help="Jobs started since then, such as 30d; 7d by default.")
@format_options
@click.pass_obj
def test(app: App, /, name: str, reference: str | None, since: float | None, style: str) -> int:
    """Replay RULE over recorded jobs, and print when it would have fired, for how long, and its worst value.

    A rule of the host or of devices is replayed over their record; with --job, over the time of that job. Nothing is
    stored, and no message is sent.
    """
    rule = find_rule(app, name)
    if reference is not None and since is not None:
        raise UsageError("--job and --since exclude each other: leave one out")
    refuse_unrecorded(rule)
    since = time.time() - DEFAULT_SECONDS if since is None else since
    recorded: set[str] = set()
    replay = replay_jobs if is_for_jobs(rule) else replay_machines
    found, what = replay(app, rule, reference, since, recorded)
    missing = [key for key in needed_keys(rule) if key not in recorded] if app.has_history() else []
    if style != "table":
        print_records(style, [firing_json(rule, *one) for one in found], empty=NO_FIRING)
        return 0
    if found:
        print(table(COLUMNS, [firing_row(rule, firing) for _, firing in found]))
    print(summary(found, what, missing))
    return 0


def find_rule(app: App, name: str) -> Rule:
    """Return the rule of a name, also if it is switched off; UsageError names the nearest one."""
    try:
        return load_rule_set(app.config).find(name)
    except BadValue as error:
        raise UsageError(f"{error}; jobtop alerts rules lists them") from error


def replay_jobs(app: App, rule: Rule, reference: str | None, since: float, recorded: set[str]) -> tuple[Found, str]:
    """Replay a rule over one job, or over all jobs since a time; return what fired, and what was replayed."""
    if reference is not None:
        jobs, job = app.find(reference)
        if not may_concern(rule, job):
            raise UsageError(f'rule "{printable(rule.name)}" is not for job {job.id[:8]}: {why_not(rule, job)}')
        warn_if_thinned(app, job)
        firings = replay_job(rule, jobs, job, recorded)
        return [(jobs, firing) for firing in firings], f"job {job.id[:8]} {printable(job.name)}"
    if not app.has_history():
        return [], "no job: nothing has been recorded yet"
    query = Query(since=since, sort="seq", reverse=True, limit=None)
    chosen = [(jobs, job) for jobs, many in app.fleet.each(lambda jobs: jobs.select(query)) for job in many]
    concerned = [(jobs, job) for jobs, job in chosen if may_concern(rule, job)]
    found: Found = []
    if not concerned:
        recorded.update(needed_keys(rule))  # of no job it is not known
    with progress_after_a_second("jobs") as progress:
        for place, (jobs, job) in enumerate(concerned):
            found += [(jobs, firing) for firing in replay_job(rule, jobs, job, recorded)]
            progress(place + 1, len(concerned))
    left_out = f" ({len(chosen) - len(concerned)} more do not match its filter)" if len(chosen) > len(concerned) else ""
    what = f"{number_of(len(concerned), 'job')} since {local(since)}{left_out}"
    return sorted(found, key=lambda one: one[1].fired_at), what


def replay_machines(app: App, rule: Rule, reference: str | None, since: float, recorded: set[str]) -> tuple[Found, str]:
    """Replay a rule over the hosts of all stores or their devices; with a job, over the time of the job."""
    until: float | None = None
    span = f"since {local(since)}"
    if reference is not None:
        _, job = app.find(reference)
        if job.start_time is None:
            raise UsageError(f"job {job.id[:8]} has not started: there is nothing to replay")
        since, until = job.start_time, job.end_time
        span = f"during job {job.id[:8]}"
    found: Found = []
    owners = 0
    if app.has_history():
        with progress_after_a_second(str(rule.scope)) as progress:
            for jobs, (firings, count) in app.fleet.each(
                lambda jobs: replay_machine(rule, jobs.database, since, until, progress, recorded)
            ):
                found += [(jobs, firing) for firing in firings]
                owners += count
    what = f"{number_of(owners, f'recorded {rule.scope}')} {span}" if owners else f"no {rule.scope} is recorded"
    return sorted(found, key=lambda one: one[1].fired_at), what


def why_not(rule: Rule, job: Job) -> str:
    """Return why a rule does not concern a job."""
    if job.start_time is None:
        return "it has not started"
    return f"its filter is {printable(rule.filter_text)}" if rule.filter_text else "its scope or directory is another"


@contextmanager
def progress_after_a_second(label: str) -> Iterator[Progress]:
    """Yield a function of done and total that shows a progress bar, on a terminal, once a second has passed."""
    begun = time.monotonic()
    with ExitStack() as stack:
        shown: list[Callable[[int, int], object]] = []

        def update(done: int, total: int) -> None:
            if not shown and time.monotonic() - begun > QUIET_SECONDS and sys.stderr.isatty():
                shown.append(stack.enter_context(progress_bar(label)))
            for show in shown:
                show(done, total)

        yield update


def worst_text(rule: Rule, worst: float | None) -> str:
    """Return the worst value in the unit of the rule."""
    if worst is None or rule.kind is RuleKind.EVENT:
        return ABSENT
    if rule.kind in SECONDS_KINDS or rule.expression is None:
        return format_duration(worst)
    return format_value(rule.expression, worst)


def owner_text(firing: Firing) -> str:
    """Return the job, the device or the host."""
    if firing.job is not None:
        return f"{firing.job.id[:8]} {firing.job.name}"
    return f"{firing.owner.kind} {firing.owner.name}" if isinstance(firing.owner, Device) else "host"


def firing_row(rule: Rule, firing: Firing) -> tuple[str, ...]:
    """Return the cells of COLUMNS."""
    lasted = format_duration(firing.seconds) + ("" if firing.resolved_at is not None else "+")
    worst = worst_text(rule, firing.worst)
    return local(firing.fired_at), owner_text(firing), lasted, worst, firing.fired.text


def summary(found: Found, what: str, missing: Sequence[str] = ()) -> str:
    """Return how often the rule would have fired, or that a metric which it needs was never recorded."""
    if not found and missing:
        return f"Cannot be tested: {missing[0]} was never recorded ({what})."
    if not found:
        return f"Would not have fired: {what}."
    times = "once" if len(found) == 1 else f"{len(found)} times"
    jobs = {firing.job.id for _, firing in found if firing.job is not None}
    of_jobs = f", for {number_of(len(jobs), 'job')}" if len(jobs) > 1 else ""
    return f"Would have fired {times}{of_jobs}: {what}."


def firing_json(rule: Rule, jobs: Jobs, firing: Firing) -> dict[str, Any]:
    """Return a firing as a record for programs, with the names of `alerts list`."""
    device = firing.owner if isinstance(firing.owner, Device) else None
    return {
        "schema_version": SCHEMA_VERSION,
        "rule": rule.name,
        "kind": str(rule.kind),
        "severity": str(rule.severity),
        "job_id": None if firing.job is None else firing.job.id,
        "job_name": None if firing.job is None else firing.job.name,
        "host": jobs.database.path.stem if firing.job is None else firing.job.host,
        "device": None if device is None else {"kind": device.kind, "name": device.name},
        "began_at": iso(firing.began_at),
        "fired_at": iso(firing.fired_at),
        "resolved_at": iso(firing.resolved_at),
        "seconds": round(firing.seconds, 3),
        "value": firing.fired.value,
        "worst": firing.worst,
        "level": rule.level,
        "text": firing.fired.text,
        "detail": dict(firing.fired.detail),
    }


NO_FIRING = dict.fromkeys(
    (
        *("schema_version", "rule", "kind", "severity", "job_id", "job_name", "host", "device", "began_at", "fired_at"),
        *("resolved_at", "seconds", "value", "worst", "level", "text", "detail"),
    )
)
