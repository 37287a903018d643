"""`jobtop show`: prints everything known about one job."""

import json
import time
from collections.abc import Sequence
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.completion import complete_job_id
from jobtop.cli.run.summary import colored
from jobtop.cli.text.alert_lines import GLYPHS as GLYPHS_OF_ALERTS
from jobtop.cli.text.alert_lines import alert_json, lasting_text, what_text
from jobtop.cli.text.sample_text import SampleText
from jobtop.cli.text.stale import job_json, status_text
from jobtop.cli.text.tables import format_options, print_records
from jobtop.core.analysis.cost import NO_COST, Cost, cost_of
from jobtop.core.analysis.ending import EndingLine, LineKind, explain_end, needs_explanation
from jobtop.core.analysis.over_use import over_uses
from jobtop.core.clock import local
from jobtop.core.model import Job, Kept, Status
from jobtop.core.paths import StatePaths
from jobtop.core.query.conditions import tag_text
from jobtop.core.text.container_text import container_line, overhead_line
from jobtop.core.text.cost_text import cost_line, energy_line
from jobtop.core.text.event_text import event_text
from jobtop.core.text.file_text import device_lines, summary_lines
from jobtop.core.text.job_text import not_monitored_text, queue_parts, samples_kept_text
from jobtop.core.text.limit_text import limit_bar, limit_evidence, limit_help, limit_of, limit_tenths
from jobtop.core.text.limits_used import limits_line, throttled_line
from jobtop.core.text.shell_text import shell_text
from jobtop.core.text.usage_text import GLYPHS, cpu_text, gpu_text, incomplete_lines, memory_text, network_text
from jobtop.core.units import format_bytes, format_duration, printable
from jobtop.store.alerts.alert_rows import AlertStore, StoredAlert
from jobtop.store.jobs import Event, Jobs
from jobtop.store.output.captures import capture_names
from jobtop.store.references import FORMS_HELP
from jobtop.store.samples.curves import Curves
from jobtop.store.samples.so_far import with_usage_so_far

MOST_ALERTS = 10
ALERT_EVENTS = ("alert", "alert_resolved")
MOST_FILES = 3  # of those that were read and written most; `jobtop files` has all


@click.command(epilog=FORMS_HELP)
@click.argument("reference", metavar="ID", shell_complete=complete_job_id)
@format_options
@click.pass_obj
def show(app: App, reference: str, style: str) -> int:
    """Show one job: how it went, why it ended, what it used, and where each number came from."""
    jobs, job = app.find(reference)
    if style != "table":
        error_lines = read_ending_output(jobs, job)
        cost = cost_of(with_usage_so_far(Curves(jobs.database), job), app.prices)
        more: dict[str, Any] = {"error_lines": error_lines or None, "cost": cost.to_json()}
        more["alerts"] = [alert_json(alert) for alert in alerts_of(jobs, job)]
        more["captures"] = capture_paths(jobs, job)
        print_records(style, [job_json(app, jobs, job) | more], single=True)
        return 0
    color = app.uses_color(1)
    status = colored(f"{GLYPHS[job.status]} {status_text(app, jobs, job)}", job.status, color)
    print(f"{printable(job.name)}  {status}  {job.id}")
    events = sorted(jobs.events(job), key=lambda event: event.at)
    happened = [(event.at, event.kind, event.detail) for event in events]
    ending = explain_end(job, happened, read_ending_output(jobs, job))
    samples = SampleText(app, Curves(jobs.database), job)
    cost = cost_of(with_usage_so_far(Curves(jobs.database), job), app.prices)
    kept = samples_kept_text(job, happened)
    alerts = alerts_text(alerts_of(jobs, job))
    captures = capture_paths(jobs, job)
    for title, value in facts(job, samples, retention_rule_text(app, job), ending, kept, cost, alerts):
        first, *rest = value.split("\n")
        print(f"  {title:<11}{first}")
        for line in rest:
            print(f"  {'':<11}{line}")
    for position, path in enumerate(captures):
        print(f"  {'' if position else 'captures':<11}{path}")
    begin = min((moment for moment in (job.submitted_at, job.start_time) if moment), default=0.0)
    for position, event in enumerate(events):
        after = f"+{format_duration(max(0.0, event.at - begin))}"
        print(f"  {'timeline' if position == 0 else '':<11}{after:>9}  {timeline_text(event)}")
    return 0


def timeline_text(event: Event) -> str:
    """Return one line about an event; one of an alert ends with the name of its rule."""
    text, rule = event_text(event.kind, event.detail), event.detail.get("rule")
    return f"{text} [{printable(rule)}]" if event.kind in ALERT_EVENTS and isinstance(rule, str) else text


def alerts_of(jobs: Jobs, job: Job) -> list[StoredAlert]:
    """Return the alerts of a job, open ones first."""
    return AlertStore(jobs.database).listing(job_seq=job.seq)


def capture_paths(jobs: Jobs, job: Job) -> list[str]:
    """Return the files that alerts have captured of the job: its processes, stacks and last output."""
    directory = StatePaths(jobs.database.path.parent, job.host).names.job(job.id)
    return [printable(f"{directory}/{name}") for name in capture_names(directory)]


def alerts_text(alerts: Sequence[StoredAlert]) -> str | None:
    """Return a line for each alert; the last says how many more there are."""
    now = time.time()
    lines = [
        f"{alert.id} {alert.state_word} {GLYPHS_OF_ALERTS[alert.severity]} {printable(alert.rule)}:"
        f" {printable(what_text(alert))}{'' if alert.is_moment else f', {lasting_text(alert, now)}'}"
        for alert in alerts[:MOST_ALERTS]
    ]
    more = len(alerts) - MOST_ALERTS
    return "\n".join([*lines, *([f"… and {more} more: jobtop alerts list --job ID"] if more > 0 else [])]) or None


def read_ending_output(jobs: Jobs, job: Job) -> list[str]:
    """Return the traceback or the last lines of a job that ended badly; empty for other jobs."""
    if not needs_explanation(job):
        return []
    from jobtop.store.output.last_lines import read_error_lines

    return list(read_error_lines(StatePaths(jobs.database.path.parent, job.host).job(job.id)))


def ending_text(ending: Sequence[EndingLine], kind: LineKind, prefix: str = "") -> str:
    """Return the lines of one kind from the explanation of an end."""
    return "\n".join(f"{prefix}{printable_line(line.text)}" for line in ending if line.kind is kind)


def printable_line(text: str) -> str:
    return "\t".join(map(printable, text.split("\t")))


def retention_rule_text(app: App, job: Job) -> str | None:
    """Return how long a rule of [[retention]] keeps all data of a job; None if no rule applies."""
    if not app.config.retention or job.kept is not Kept.WHOLE:
        return None
    from jobtop.core.retention import longest_rule

    rule = longest_rule(app.config.retention, job.tags)
    if rule is None:
        return None
    duration = "for ever" if rule.seconds == float("inf") else f"for {printable(rule.text)} after its end"
    return f'all data {duration}, by [[retention]] tag = "{printable(rule.tag)}"'


def facts(
    job: Job,
    samples: SampleText,
    rule: str | None,
    ending: Sequence[EndingLine] = (),
    kept: str | None = None,
    cost: Cost = NO_COST,
    alerts: str | None = None,
) -> list[tuple[str, str]]:
    """Return the titles and values of the page; lines without a value are left out."""
    usage, monitor = job.usage, job.monitor
    elapsed = job.duration_seconds
    if elapsed is None and job.start_time and not job.status.ended:
        elapsed = time.time() - job.start_time
    found = samples.limits()
    rows: list[tuple[str, Any]] = [
        ("reason", printable(job.reason) if job.reason else None),
        ("error", printable(job.error) if job.error and job.error != job.reason else None),
        ("why", ending_text(ending, LineKind.EVIDENCE)),
        ("advice", ending_text(ending, LineKind.ADVICE)),
        ("output", ending_text(ending, LineKind.OUTPUT, "│ ")),
        ("alerts", alerts),
        ("command", printable(shell_text(job.command))),
        ("in", printable(job.cwd)),
        ("container", container_line(job)),
        ("where", place_text(job)),
        ("when", time_text(job, elapsed)),
        ("queue", queue_text(job)),
        ("exit", exit_text(job)),
        ("now", samples.now() or (not_monitored_text(job) if job.start_time is not None else None)),
        ("cpu", samples.cpu(cpu_text(job))),
        ("memory", samples.memory(memory_text(job))),
        ("cgroup", cgroup_text(job)),
        ("gpu", gpu_text(job)),
        ("runtime", overhead_line(job)),
        ("energy", energy_line(cost)),
        ("cost", cost_line(cost)),
        ("storage", f"{format_bytes(usage.io_read_bytes)} read, {format_bytes(usage.io_write_bytes)} written"),
        ("syscalls", f"{format_bytes(usage.io_read_chars)} read, {format_bytes(usage.io_write_chars)} written"),
        ("network", network_text(job, with_source=True)),
        ("devices", "\n".join(device_lines(job))),
        ("files", "\n".join(summary_lines(job, MOST_FILES))),
        ("faults", f"{count_text(usage.faults_major)} major, {count_text(usage.faults_minor)} minor"),
        (
            "switches",
            f"{count_text(usage.switches_voluntary)} voluntary, {count_text(usage.switches_involuntary)} forced",
        ),
        ("processes", f"{count_text(usage.processes_seen)} seen, {count_text(usage.processes_peak)} at once"),
        ("limited by", limits_found_text(job)),
        ("samples", kept),
        ("pinned", "all data is kept (jobtop unpin)" if job.pinned else None),
        ("kept", rule),
        ("declared", limits_text(job)),
        ("over", "\n".join(use.sentence for use in over_uses(job)) if job.status.ended else None),
        ("limits", limits_line(found, job.limits)),
        ("throttled", throttled_line(found)),
        ("flags", ", ".join(job.flags)),
        ("sources", ", ".join(f"{key} from {value}" for key, value in job.sources.items())),
        ("incomplete", "\n".join(incomplete_lines(job))),
        ("tool", printable(job.tool) if job.tool else None),
        ("script", printable(job.script) if job.script and job.script not in job.command else None),
        ("tags", ", ".join(printable(tag_text(key, value)) for key, value in job.tags.items())),
        ("params", pairs_text(job.params)),
        ("env", pairs_text(job.environment)),
        ("note", printable(job.note) if job.note else None),
        ("external", printable(job.external_id) if job.external_id else None),
        ("parent", job.parent_id),
        ("overhead", f"{format_duration(monitor.cpu_seconds)} of CPU by jobtop" if monitor.cpu_seconds else None),
    ]
    return [(title, value) for title, value in rows if value and not value.startswith("– ")]


def limits_found_text(job: Job) -> str | None:
    """Return what limited the job with its evidence, what usually helps, and the tenths of its run."""
    evidence = limit_evidence(job)
    if evidence is None:
        return None
    help_text, bar = limit_help(job), limit_bar(job)
    lines = [f"{limit_of(job) or 'not known'}: {evidence}"]
    lines += [f"usually helps: {help_text}"] if help_text else []
    lines += [f"tenths: {bar}  {limit_tenths(job)}"] if bar else []
    return "\n".join(lines)


def place_text(job: Job) -> str:
    """Return user, host and pid, as far as known; imported jobs may lack some."""
    place = " on ".join(filter(None, (printable(job.user), printable(job.host))))
    return ", ".join(filter(None, (place, f"pid {job.pid}" if job.pid else "")))


def queue_text(job: Job) -> str | None:
    """Return the queue options of a job; `jobtop queue` shows what it waits for."""
    waits = ["queued: jobtop queue says why"] if job.status is Status.QUEUED else []
    return ", ".join([*waits, *queue_parts(job)]) if job.queue is not None else None


def time_text(job: Job, elapsed: float | None) -> str:
    if job.start_time is None and job.submitted_at is not None:
        until = "" if job.status.ended else f", {format_duration(max(0.0, time.time() - job.submitted_at))} ago"
        return f"submitted {local(job.submitted_at)}{until}"
    until = f"to {local(job.end_time)}" if job.status.ended else "until now"
    if job.status is Status.LOST and job.start_time is not None and job.end_time is None:
        until = "" if elapsed is None else f"to {local(job.start_time + elapsed)} (last seen)"
    return f"{local(job.start_time)} {until}, {format_duration(elapsed)}"


def exit_text(job: Job) -> str | None:
    if job.signal is not None:
        from jobtop.core.run.outcome import signal_name

        return f"killed by {signal_name(job.signal)}"
    return None if job.exit_code is None else str(job.exit_code)


def cgroup_text(job: Job) -> str | None:
    peak = job.usage.memory_cgroup_peak_bytes
    return None if peak is None else f"{format_bytes(peak)} peak charged to the job, page cache included"


def limits_text(job: Job) -> str:
    limits = job.limits
    parts = [
        f"{limits.cpus:g} {'CPU' if limits.cpus == 1 else 'CPUs'}" if limits.cpus is not None else "",
        f"{format_bytes(limits.memory_bytes)} memory" if limits.memory_bytes is not None else "",
        f"{format_duration(limits.runtime_seconds)} runtime" if limits.runtime_seconds is not None else "",
        f"{limits.gpus} GPUs" if limits.gpus is not None else "",
        f"{limits.pids} processes and threads" if limits.pids is not None else "",
        f"timeout after {format_duration(limits.timeout_seconds)}" if limits.timeout_seconds is not None else "",
    ]
    held = job.sources.get("limits", "").replace("+", " and ")
    enforced = f"; enforced{f' by {held}' if held else ''}" if limits.enforced else ""
    return ", ".join(filter(None, parts)) + enforced


def pairs_text(mapping: dict[str, Any]) -> str:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in mapping.items()}
    return ", ".join(f"{printable(key)}={printable(text)}" for key, text in texts.items())


def count_text(value: int | None) -> str:
    return "–" if value is None else f"{value:,}".replace(",", " ")
