"""The report of one job: what ran, how it ended, what it cost, what limited it, what to change. Pure."""

from __future__ import annotations

import json

from jobtop.core.analysis.ending import LineKind
from jobtop.core.analysis.limiting import Limit
from jobtop.core.analysis.over_use import over_uses
from jobtop.core.analysis.right_size import smaller_requests
from jobtop.core.clock import local
from jobtop.core.model import Job
from jobtop.core.query.conditions import tag_text
from jobtop.core.report.content import CPU, MEMORY, JobContent
from jobtop.core.report.parts import Cell, bullets, cards, facts, job_charts, paragraph, preformatted, section, table
from jobtop.core.text.cost_text import co2_text, cost_line, energy_line, energy_text, money_text
from jobtop.core.text.file_text import summary_lines
from jobtop.core.text.limit_text import limit_evidence, limit_help, limit_of, limit_tenths
from jobtop.core.text.limits_used import facts_of_record, limits_line, throttled_line
from jobtop.core.text.shell_text import shell_text
from jobtop.core.text.usage_text import GLYPHS, cpu_text, gpu_text, incomplete_lines, memory_text, network_text
from jobtop.core.units import ABSENT, format_bytes, format_duration, format_percent, number_of, printable

MOST_EVENTS, MOST_FILES = 100, 3
SEVERITY = {"success": "good", "running": "plain", "queued": "plain", "paused": "warning", "unknown": "plain"}


def status_kind(job: Job) -> str:
    """The class that colours the status of a job."""
    return SEVERITY.get(str(job.status), "warning" if job.status == "cancelled" else "bad")


def status_line(content: JobContent) -> str:
    """Such as `✗ failed after 2m03s: killed by SIGKILL`."""
    job = content.job
    time = f" {'after' if job.status.ended else 'for'} {format_duration(content.end)}" if content.end else ""
    because = f": {job.reason or job.error}" if job.reason or job.error else ""
    return f"{GLYPHS[job.status]} {job.status}{time}{because}"


def job_sections(content: JobContent) -> str:
    """All sections about one job."""
    return (
        paragraph(status_line(content), status_kind(content.job))
        + paragraph(what_ran(content.job), "about")
        + job_cards(content)
        + section("How it ended", bullets(lines_of(content, LineKind.EVIDENCE)), ending_output(content))
        + section("What limited it", *limiting(content.job))
        + section("What to change", changes(content) or paragraph(nothing_to_change(content.job)))
        + section("Over time", job_charts(content) or paragraph("There are no samples of this job."))
        + section("What ran", facts(run_facts(content.job)))
        + section("What it used", facts(use_facts(content)))
        + section("What happened", events(content))
        + section("What is not known", bullets(incomplete_lines(content.job)))
    )


def what_ran(job: Job) -> str:
    command = shell_text(job.command)
    what = f"{command[:500]}{'…' if len(command) > 500 else ''}{f' on {job.host}' if job.host else ''}".strip()
    return f"{what}{', ' if what else ''}from {local(job.start_time)}"


def job_cards(content: JobContent) -> str:
    """What the job cost at a glance."""
    job, cost = content.job, content.cost
    usage, limits = job.usage, job.limits
    cpus = limits.cpus or usage.cpus_allowed
    share = f"{format_percent(usage.cpu_efficiency)} of {cpus:g}" if cpus and usage.cpu_efficiency is not None else ""
    asked = limits.memory_bytes
    peak, cpu_peak = content.peak(MEMORY), content.peak(CPU)
    of_memory = f"{format_percent(peak / asked)} of {format_bytes(asked)}" if peak is not None and asked else ""
    moved = [amount for amount in (usage.io_read_bytes, usage.io_write_bytes) if amount is not None]
    return cards(
        (
            ("Time", format_duration(content.end) if content.end else None, runtime_note(job)),
            ("CPU time", format_duration(usage.cpu_total_seconds), share),
            ("CPU peak", None if cpu_peak is None else format_percent(cpu_peak / 100), "100 % is one core"),
            ("Memory peak", format_bytes(peak), of_memory),
            ("Storage", format_bytes(sum(moved)) if moved else None, "read and written"),
            ("Energy", energy_text(cost.joules, cost.is_estimate), co2(content)),
            ("Cost", money_text(cost.money, cost.currency, cost.is_money_estimate), ""),
            ("Limited by", None if limit_of(job) is None else str(limit_of(job)), ""),
        )
    )


def co2(content: JobContent) -> str:
    text = co2_text(content.cost.co2_grams, content.cost.is_estimate)
    return "" if text == ABSENT else text


def runtime_note(job: Job) -> str:
    asked = job.limits.runtime_seconds
    return "" if asked is None else f"asked for {format_duration(asked)}"


def lines_of(content: JobContent, kind: LineKind) -> list[str]:
    return [line.text for line in content.ending if line.kind is kind]


def ending_output(content: JobContent) -> str:
    output = lines_of(content, LineKind.OUTPUT)
    return paragraph("The end of its output:") + preformatted(output) if output else ""


def limiting(job: Job) -> list[str]:
    """What limited the job, and the evidence for it; empty if nothing was found out."""
    evidence = limit_evidence(job)
    if evidence is None:
        return []
    tenths = limit_tenths(job)
    return [
        paragraph(f"{limit_of(job) or 'not known'}: {evidence}"),
        paragraph(f"Over its run, in tenths: {tenths}") if tenths else "",
        paragraph(throttled(job)),
    ]


def throttled(job: Job) -> str:
    line = throttled_line(facts_of_record(job))
    return f"The CPU limit held it back for {line}." if line else ""


def change_lines(content: JobContent) -> list[str]:
    """All advice about a job: after its end, about what it asked for, and about what limited it."""
    job = content.job
    help_text = None if limit_of(job) is Limit.NOTHING else limit_help(job)
    return [
        *lines_of(content, LineKind.ADVICE),
        *([f"it used {use.sentence}" for use in over_uses(job)] if job.status.ended else ()),
        *smaller_requests(job),
        *([f"it was limited by {limit_of(job)}; what usually helps: {help_text}"] if help_text else ()),
    ]


def changes(content: JobContent) -> str:
    return bullets(change_lines(content))


def nothing_to_change(job: Job) -> str:
    if not job.status.ended:
        return "The job still runs."
    asked = any((job.limits.memory_bytes, job.limits.cpus, job.limits.runtime_seconds))
    return "Nothing that is known." if not asked else "Nothing that is known: it stayed within what it asked for."


def run_facts(job: Job) -> list[tuple[str, str | None]]:
    params = {key: value if isinstance(value, str) else json.dumps(value) for key, value in job.params.items()}
    end = f" to {local(job.end_time)}" if job.end_time else ""
    return [
        ("Name", f"{job.name}"),
        ("Command", shell_text(job.command)),
        ("Directory", job.cwd),
        ("Where", ", ".join(filter(None, (job.host, job.user, f"pid {job.pid}" if job.pid else "")))),
        ("When", f"{local(job.start_time)}{end}" if job.start_time else None),
        ("Exit code", None if job.exit_code is None else str(job.exit_code)),
        ("Asked for", asked_text(job)),
        ("Limits", limits_line(facts_of_record(job), job.limits)),
        ("Tags", ", ".join(tag_text(key, value) for key, value in job.tags.items())),
        ("Parameters", ", ".join(f"{key}={value}" for key, value in params.items())),
        ("Note", job.note),
        ("Id", job.id),
    ]


def asked_text(job: Job) -> str | None:
    """What the job asked for, as the options of `jobtop run` name it."""
    limits = job.limits
    parts = (
        None if limits.cpus is None else f"{limits.cpus:g} {'CPU' if limits.cpus == 1 else 'CPUs'}",
        None if limits.memory_bytes is None else f"{format_bytes(limits.memory_bytes)} memory",
        None if limits.runtime_seconds is None else f"{format_duration(limits.runtime_seconds)} runtime",
        None if limits.gpus is None else number_of(limits.gpus, "GPU"),
        None if limits.timeout_seconds is None else f"timeout after {format_duration(limits.timeout_seconds)}",
    )
    return ", ".join(part for part in parts if part) or None


def use_facts(content: JobContent) -> list[tuple[str, str | None]]:
    job, usage = content.job, content.job.usage
    mean, mean_memory = content.mean(CPU), content.mean(MEMORY)
    return [
        ("CPU", cpu_text(job)),
        ("CPU, mean", None if mean is None else format_percent(mean / 100)),
        ("Memory", memory_text(job)),
        ("Memory, mean", None if mean_memory is None else format_bytes(mean_memory)),
        ("GPU", gpu_text(job)),
        ("Energy", energy_line(content.cost)),
        ("Cost", cost_line(content.cost)),
        ("Storage", f"{format_bytes(usage.io_read_bytes)} read, {format_bytes(usage.io_write_bytes)} written"),
        ("Network", network_text(job, with_source=True)),
        ("Files", "\n".join(summary_lines(job, MOST_FILES))),
        ("Processes", None if usage.processes_peak is None else f"{usage.processes_peak} at once"),
        ("Flags", ", ".join(job.flags)),
    ]


def events(content: JobContent) -> str:
    """The timeline as a table."""
    rows = [
        (Cell(f"+{format_duration(mark.elapsed)}"), Cell(printable(mark.text), mark.severity))
        for mark in content.marks[:MOST_EVENTS]
    ]
    more = len(content.marks) - len(rows)
    return table((("After", "number"), ("What", "")), rows) + paragraph(f"… and {more} more" if more > 0 else "")
