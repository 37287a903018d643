"""The rows of the tables of workflows: what each shows, and their order. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from jobtop.core.model import Status
from jobtop.core.record import record
from jobtop.core.series.drawing import time_step
from jobtop.core.text.workflow_text import why_words
from jobtop.core.workflow.plan import JOB
from jobtop.core.workflow.progress import RunJob, RunSummary, summarize
from jobtop.tui.data.view import JobRow
from jobtop.tui.data.workflow_reading import RunView, WorkflowEntry
from jobtop.tui.widgets.columns import Sort, sorted_by

ORDER = Sort("stage")
AXIS_STEPS = 8  # of a time axis: it grows by one of them


@record
class ShownWorkflow:
    """A row of the Workflows page."""

    store: Path
    id: int
    name: str
    run: int
    status: Status
    done: int
    total: int
    failed: int
    at: float
    seconds: int | None
    speed_up: float | None
    user: str
    host: str

    @property
    def key(self) -> tuple[Path, int]:
        return self.store, self.id


def shown_workflow(entry: WorkflowEntry, now: float) -> ShownWorkflow:
    summary, workflow = summarize(entry.jobs, now), entry.workflow
    elapsed = summary.elapsed_seconds
    good = (Status.SUCCESS, Status.QUEUED, Status.RUNNING, Status.PAUSED, Status.CANCELLED)
    return ShownWorkflow(
        entry.store,
        workflow.id,
        workflow.name,
        entry.run.run_id,
        summary.status,
        summary.done,
        summary.total,
        sum(count for name, count in summary.counts.items() if name not in good and name != "deleted"),
        entry.run.at,
        None if elapsed is None else int(elapsed),
        None if summary.speed_up is None else round(summary.speed_up, 1),
        workflow.user,
        workflow.host,
    )


WORKFLOW_SORTS = {
    "id": lambda row: row.id,
    "name": lambda row: row.name,
    "run": lambda row: row.run,
    "state": lambda row: str(row.status),
    "jobs": lambda row: row.done / max(1, row.total),
    "started": lambda row: row.at,
    "time": lambda row: row.seconds,
    "speed": lambda row: row.speed_up,
    "user": lambda row: row.user,
}


@record
class ShownRunJob:
    """A row of the jobs of a run: also the bar of the gantt, from `begin` to `end` of `span` seconds."""

    job: RunJob
    stage: int
    seconds: int | None
    cpu: float | None
    memory: float | None
    why: str
    is_critical: bool
    begin: float | None
    end: float | None
    span: float

    @property
    def key(self) -> str:
        return self.job.first_id

    @property
    def is_own(self) -> bool:
        """Whether it is a job of the file, not one of its actions or the report."""
        return self.job.role == JOB


def shown_jobs(
    view: RunView, summary: RunSummary, live: Mapping[str, JobRow], now: float, span: float
) -> list[ShownRunJob]:
    """The jobs of a run in the order of the file; `live` has the rows of jobs that run or wait now."""
    by_name, critical = {job.name: job for job in view.jobs}, set(summary.critical_path)
    begin = summary.begin or 0.0
    return [shown_job(view, job, by_name, live.get(job.id), critical, begin, now, span) for job in view.jobs]


def shown_job(
    view: RunView,
    job: RunJob,
    by_name: Mapping[str, RunJob],
    row: JobRow | None,
    critical: set[str],
    run_begin: float,
    now: float,
    span: float,
) -> ShownRunJob:
    seconds, begin, end = job.seconds(now), None, None
    cpu: float | None = job.mean_cpu_percent
    memory: float | None = job.peak_memory_bytes
    if job.start_time is not None and not job.is_kept:
        begin = job.start_time - run_begin
        end = begin + (seconds or 0.0)
        if job.end_time is None:  # so that bars grow by what can be seen
            end = round(end, 1)
    if job.is_live and row is not None and row.now is not None:
        cpu, memory = row.now.cpu_percent, row.now.memory_bytes
    return ShownRunJob(
        job,
        view.stages.get(job.name, 0),
        None if seconds is None else int(seconds),
        cpu,
        memory,
        why_words(job, by_name, None if row is None else row.wait_reason),
        job.name in critical and not job.is_kept,
        begin,
        end,
        span,
    )


JOB_SORTS = {
    "name": lambda row: row.job.name,
    "stage": lambda row: (row.stage, row.job.position),
    "state": lambda row: (str(row.job.status), row.job.position),
    "time": lambda row: row.seconds,
    "cpu": lambda row: row.cpu,
    "mem": lambda row: row.memory,
    "try": lambda row: row.job.attempt,
}


def sorted_jobs(rows: Sequence[ShownRunJob], sort: Sort) -> list[ShownRunJob]:
    return sorted_by(rows, JOB_SORTS.get(sort.key, JOB_SORTS["stage"]), sort.descending)


def by_start(rows: Sequence[ShownRunJob]) -> list[ShownRunJob]:
    """The rows of the gantt: started jobs by their start, then the others by their stage."""
    late = float("inf")
    return sorted(rows, key=lambda row: (late if row.begin is None else row.begin, row.stage, row.job.position))


def axis_seconds(elapsed: float | None, is_over: bool) -> float:
    """The length of the time axis: exact after the end; before it a round number, so that bars seldom move."""
    seconds = max(1.0, elapsed or 0.0)
    if is_over:
        return seconds
    step = time_step(seconds / AXIS_STEPS)
    return step * (int(seconds / step) + 1)
