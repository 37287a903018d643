"""Runs of workflows as lines, tables and JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from jobtop.cli.text.tables import TableColumn, table
from jobtop.core.clock import iso, local
from jobtop.core.model import SCHEMA_VERSION, Status
from jobtop.core.text.usage_text import GLYPHS
from jobtop.core.text.workflow_text import path_words
from jobtop.core.units import ABSENT, format_bytes, format_duration, number_of, printable
from jobtop.core.workflow.plan import JOB
from jobtop.core.workflow.progress import RunJob, RunSummary, results, summarize
from jobtop.store.workflows import RunRow, WorkflowRow

COLUMNS = (
    TableColumn("JOB", right=True),
    TableColumn("NAME", widest=40),
    TableColumn("STATUS"),
    TableColumn("TIME", right=True),
    TableColumn("PEAK CPU", right=True),
    TableColumn("AVG CPU", right=True),
    TableColumn("PEAK MEM", right=True),
    TableColumn("EXIT", right=True),
    TableColumn("WHY", widest=60),
)
LIST_COLUMNS = (
    TableColumn("ID", right=True),
    TableColumn("NAME"),
    TableColumn("RUN", right=True),
    TableColumn("STATUS"),
    TableColumn("JOBS", right=True),
    TableColumn("STARTED"),
    TableColumn("TIME", right=True),
)


def heading(workflow: WorkflowRow, run: RunRow, summary: RunSummary) -> str:
    """`sweep, workflow 3, run 1: running, 4 of 19 jobs ended`."""
    kept = f", {summary.kept} of them in an earlier run" if summary.kept else ""
    return (
        f"{printable(workflow.name)}, workflow {workflow.id}, run {run.run_id}: {status_words(summary.status)}, "
        f"{summary.done} of {number_of(summary.total, 'job')} ended{kept}"
    )


def status_words(status: Status | None) -> str:
    return "– deleted" if status is None else f"{GLYPHS.get(status, '?')} {status}"


def job_table(jobs: Sequence[RunJob], now: float) -> str:
    return table(COLUMNS, (cells(job, now) for job in jobs))


def cells(job: RunJob, now: float) -> tuple[str, ...]:
    seconds = job.seconds(now)
    status = f"{status_words(job.status)}{' (kept)' if job.is_kept else ''}"
    tried = f"attempt {job.attempt}" if job.attempt > 1 else ""
    return (
        ABSENT if job.seq is None else str(job.seq),
        job.name if job.role == JOB else f"({job.name})",
        status,
        ABSENT if seconds is None else format_duration(seconds),
        percent(job.peak_cpu_percent),
        percent(job.mean_cpu_percent),
        peak_memory(job),
        ABSENT if job.exit_code is None else str(job.exit_code),
        "; ".join(filter(None, (tried, job.reason or ""))),
    )


def peak_memory(job: RunJob) -> str:
    if job.peak_memory_bytes is None:
        return ABSENT
    return f"{'≤ ' if job.is_peak_bound else ''}{format_bytes(job.peak_memory_bytes)}"


def percent(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.1f}%"


def closing_lines(summary: RunSummary) -> list[str]:
    """How long it took, what it could not be shorter than, and how much ran at the same time."""
    if summary.elapsed_seconds is None:
        return []
    until = "from the first start to the last end" if summary.status.ended else "since the first start"
    took = f"{format_duration(summary.elapsed_seconds)} {until}"
    faster = "" if summary.speed_up is None else f", {summary.speed_up:.1f} at once on average"
    lines = [f"time           {took}; jobs {format_duration(summary.busy_seconds)} together{faster}"]
    if len(summary.critical_path) > 1:
        lines.append(f"critical path  {format_duration(summary.critical_seconds)}: {path_words(summary.critical_path)}")
    return lines


def end_line(job: RunJob, done: int, total: int, now: float) -> str:
    """`[ 5/19] ✓ train  12s  98.2%  312.0 MiB`, or why it did not succeed and where to look."""
    width = len(str(total))
    count = " " * (2 * width + 3) if job.will_retry else f"[{done:>{width}}/{total}]"
    head = f"{count} {GLYPHS.get(job.status or Status.UNKNOWN, '?')} {printable(job.name)}"
    if job.status is Status.SUCCESS:
        used = [format_duration(job.seconds(now))]
        if job.mean_cpu_percent is not None:
            used.append(f"{job.mean_cpu_percent:.0f} % CPU")
        if job.peak_memory_bytes is not None:
            used.append(peak_memory(job))
        if job.attempt > 1:
            used.append(f"attempt {job.attempt}")
        return f"{head}  {', '.join(used)}"
    why = f": {printable(job.reason)}" if job.reason else ""
    why += "; it is tried again" if job.will_retry else ""
    look = "" if job.status is Status.CANCELLED or not job.id else f" (jobtop logs {job.id[:8]})"
    return f"{head}  {job.status}{why}{look}"


def list_cells(workflow: WorkflowRow, run: RunRow, summary: RunSummary) -> tuple[str, ...]:
    return (
        str(workflow.id),
        workflow.name,
        str(run.run_id),
        status_words(summary.status),
        f"{summary.done}/{summary.total}",
        local(run.at),
        ABSENT if summary.elapsed_seconds is None else format_duration(summary.elapsed_seconds),
    )


def run_json(
    workflow: WorkflowRow, run: RunRow, jobs: Sequence[RunJob], with_jobs: bool = True, now: float | None = None
) -> dict[str, Any]:
    """A run for programs; its jobs have Torc's summary metrics."""
    now = time.time() if now is None else now
    summary = summarize(jobs, now)
    shape: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "workflow_id": workflow.id,
        "run_id": run.run_id,
        "name": workflow.name,
        "file": workflow.file,
        "cwd": workflow.cwd,
        "host": workflow.host,
        "user": workflow.user,
        "submitted_at": iso(run.at),
        "status": str(summary.status),
        "counts": summary.counts,
        "total": summary.total,
        "done": summary.done,
        "kept": summary.kept,
        "start_time": iso(summary.begin),
        "end_time": iso(summary.end),
        "elapsed_seconds": summary.elapsed_seconds,
        "busy_seconds": summary.busy_seconds,
        "speed_up": summary.speed_up,
        "critical_path": list(summary.critical_path),
        "critical_path_seconds": summary.critical_seconds,
        "settings": run.settings,
    }
    return shape | {"jobs": [job_json(job, now) for job in jobs]} if with_jobs else shape


def job_json(job: RunJob, now: float) -> dict[str, Any]:
    return {
        "job_id": job.seq,
        "id": job.id or job.first_id,
        "name": job.name,
        "role": job.role,
        "status": None if job.status is None else str(job.status),
        "is_kept": job.is_kept,
        "attempt": job.attempt,
        "after": list(job.after),
        "after_end": list(job.after_end),
        "start_time": iso(job.start_time),
        "end_time": iso(job.end_time),
        "duration_seconds": job.seconds(now),
        "return_code": job.exit_code,
        "reason": job.reason,
        **results(job),
    }
