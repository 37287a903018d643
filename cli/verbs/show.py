"""`jobtop show`: everything known about one job."""

import json
import shlex
import time
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.completion import job_ids
from jobtop.cli.run.summary import GLYPHS, colored, cpu_words, memory_words, missing_words
from jobtop.cli.text.sample_text import Seen
from jobtop.cli.text.stale import shape, status_words
from jobtop.cli.text.tables import format_options, print_shapes
from jobtop.core.clock import local
from jobtop.core.model import Job, Kept, Status
from jobtop.core.text.event_text import event_words
from jobtop.core.text.job_text import kept_words, queued_words
from jobtop.core.units import format_bytes, format_duration, printable
from jobtop.store.samples.curves import Curves


@click.command()
@click.argument("reference", metavar="ID", shell_complete=job_ids)
@format_options
@click.pass_obj
def show(app: App, reference: str, style: str) -> int:
    """Show one job: how it went, why it ended, what it used, and where each number came from."""
    jobs, job = app.find(reference)
    if style != "table":
        print_shapes(style, [shape(app, jobs, job)], single=True)
        return 0
    color = app.colored(1)
    status = colored(f"{GLYPHS[job.status]} {status_words(app, jobs, job)}", job.status, color)
    print(f"{printable(job.name)}  {status}  {job.id}")
    for title, value in facts(job, Seen(app, Curves(jobs.database), job), rule_words(app, job)):
        first, *rest = value.split("\n")
        print(f"  {title:<11}{first}")
        for line in rest:
            print(f"  {'':<11}{line}")
    begun = min((moment for moment in (job.submitted_at, job.start_time) if moment), default=0.0)
    for number, happened in enumerate(sorted(jobs.events(job), key=lambda happened: happened.at)):
        after = f"+{format_duration(max(0.0, happened.at - begun))}"
        print(f"  {'timeline' if number == 0 else '':<11}{after:>9}  {event_words(happened.kind, happened.detail)}")
    return 0


def rule_words(app: App, job: Job) -> str | None:
    """How long a rule of [[retention]] keeps a job whole."""
    if not app.config.retention or job.kept is not Kept.WHOLE:
        return None
    from jobtop.core.retention import longest_rule

    rule = longest_rule(app.config.retention, job.tags)
    if rule is None:
        return None
    lasting = "for ever" if rule.seconds == float("inf") else f"for {printable(rule.written)} after its end"
    return f'whole {lasting}, by [[retention]] tag = "{printable(rule.tag)}"'


def facts(job: Job, seen: Seen, rule: str | None) -> list[tuple[str, str]]:
    """The lines of the page that have something to say."""
    usage, monitor = job.usage, job.monitor
    elapsed = job.duration_seconds
    if elapsed is None and job.start_time and not job.status.ended:
        elapsed = time.time() - job.start_time
    rows: list[tuple[str, Any]] = [
        ("reason", printable(job.reason) if job.reason else None),
        ("command", printable(shlex.join(job.command))),
        ("in", printable(job.cwd)),
        ("where", where_words(job)),
        ("when", when_words(job, elapsed)),
        ("queue", queue_words(job)),
        ("exit", exit_words(job)),
        ("now", seen.now()),
        ("cpu", seen.cpu(cpu_words(job))),
        ("memory", seen.memory(memory_words(job))),
        ("cgroup", cgroup_words(job)),
        ("storage", f"{format_bytes(usage.io_read_bytes)} read, {format_bytes(usage.io_write_bytes)} written"),
        ("syscalls", f"{format_bytes(usage.io_read_chars)} read, {format_bytes(usage.io_write_chars)} written"),
        ("faults", f"{number(usage.faults_major)} major, {number(usage.faults_minor)} minor"),
        ("switches", f"{number(usage.switches_voluntary)} voluntary, {number(usage.switches_involuntary)} forced"),
        ("processes", f"{number(usage.processes_seen)} seen, {number(usage.processes_peak)} at once"),
        ("samples", kept_words(job)),
        ("pinned", "it stays whole (jobtop unpin)" if job.pinned else None),
        ("kept", rule),
        ("declared", limit_words(job)),
        ("flags", ", ".join(job.flags)),
        ("sources", ", ".join(f"{key} from {value}" for key, value in job.sources.items())),
        ("incomplete", "\n".join(missing_words(job))),
        ("tool", printable(job.tool) if job.tool else None),
        ("tags", pairs(job.tags)),
        ("params", pairs(job.params)),
        ("env", pairs(job.environment)),
        ("note", printable(job.note) if job.note else None),
        ("external", printable(job.external_id) if job.external_id else None),
        ("parent", job.parent_id),
        ("overhead", f"{format_duration(monitor.cpu_seconds)} of CPU by jobtop" if monitor.cpu_seconds else None),
    ]
    return [(title, value) for title, value in rows if value and not value.startswith("– ")]


def where_words(job: Job) -> str:
    """By whom, on which host, as which process; of an imported job not all of it is known."""
    place = " on ".join(filter(None, (printable(job.user), printable(job.host))))
    return ", ".join(filter(None, (place, f"pid {job.pid}" if job.pid else "")))


def queue_words(job: Job) -> str | None:
    """How it waits, or waited; what it waits for is in `jobtop queue`."""
    waits = ["waits for its turn: jobtop queue says why"] if job.status is Status.QUEUED else []
    return ", ".join([*waits, *queued_words(job)]) if job.queue is not None else None


def when_words(job: Job, elapsed: float | None) -> str:
    if job.start_time is None and job.submitted_at is not None:
        until = "" if job.status.ended else f", {format_duration(max(0.0, time.time() - job.submitted_at))} ago"
        return f"submitted {local(job.submitted_at)}{until}"
    until = f"to {local(job.end_time)}" if job.status.ended else "until now"
    return f"{local(job.start_time)} {until}, {format_duration(elapsed)}"


def exit_words(job: Job) -> str | None:
    if job.signal is not None:
        from jobtop.core.run.outcome import signal_name

        return f"killed by {signal_name(job.signal)}"
    return None if job.exit_code is None else str(job.exit_code)


def cgroup_words(job: Job) -> str | None:
    peak = job.usage.memory_cgroup_peak_bytes
    return None if peak is None else f"{format_bytes(peak)} peak charged to the job, page cache included"


def limit_words(job: Job) -> str:
    limits = job.limits
    words = [
        f"{limits.cpus:g} CPUs" if limits.cpus is not None else "",
        f"{format_bytes(limits.memory_bytes)} memory" if limits.memory_bytes is not None else "",
        f"{format_duration(limits.runtime_seconds)} runtime" if limits.runtime_seconds is not None else "",
        f"{limits.gpus} GPUs" if limits.gpus is not None else "",
        f"timeout after {format_duration(limits.timeout_seconds)}" if limits.timeout_seconds is not None else "",
    ]
    held = job.sources.get("limits", "").replace("+", " and ")
    enforced = f"; enforced{f' by {held}' if held else ''}" if limits.enforced else ""
    return ", ".join(filter(None, words)) + enforced


def pairs(mapping: dict[str, Any]) -> str:
    words = {key: value if isinstance(value, str) else json.dumps(value) for key, value in mapping.items()}
    return ", ".join(f"{printable(key)}={printable(word)}" for key, word in words.items())


def number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}".replace(",", " ")
