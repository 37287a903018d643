"""The workflows of the simulated machine: one that goes on, with jobs in many states, and two that have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobtop.core.model import Limits, Queued, Status
from jobtop.core.record import record, replace
from jobtop.core.workflow.plan import ACTION, JOB
from jobtop.core.workflow.progress import RunJob
from jobtop.store.jobs import Event
from jobtop.store.workflows import Workflows
from jobtop.tui.demo.demo_job import DAY, GIB, HOUR, MIB, DemoJob, End, LevelCurve
from jobtop.tui.demo.load import HOST, UPTIME_SECONDS
from jobtop.tui.demo.record import DemoRun, new_run, past_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobtop.tui.demo.demo import DemoStore

FIRST_NUMBER = 7000  # of these jobs: others have lower ones
FAILED_FIRST = "a job that had to succeed first failed"


@record
class Step:
    """A job of a workflow: it started and ended so many seconds ago; `live` is the name of a job that runs now."""

    name: str
    command: str = "true"
    after: tuple[str, ...] = ()
    began: float | None = None
    ended: float | None = None
    end: End = End.SUCCESS
    cores: float = 1.0
    memory: float = 400 * MIB
    live: str | None = None
    role: str = JOB
    attempt: int = 1

    @property
    def demo_job(self) -> DemoJob:
        curve = LevelCurve("799989998", 60)
        tool = self.command.split()[0]
        lines = (f"{tool}: {{n}} done, {{x:.0f}}/s",)
        return DemoJob(
            *(self.name, self.command, tool, self.cores, self.memory, curve),
            tags={"project": "meta"},
            limits=Limits(timeout_seconds=900) if self.end is End.TIMEOUT else Limits(),
            output_lines=lines,
            error_lines=(f"{tool}: unexpected end of file",),
        )


SAMPLES = ("S12", "S13", "S14")
VARIANTS = (
    Step("fetch-reads", "sra-fetch SRP0412", (), 3140, 2610, cores=0.4, memory=180 * MIB),
    Step("index-genome", "bwa index grch38.fa", (), DAY, DAY - 1460, cores=1.0, memory=5 * GIB),
    Step("trim-S12", "fastp S12.fq", ("fetch-reads",), 2600, 2280, cores=1.8, memory=900 * MIB),
    Step("trim-S13", "fastp S13.fq", ("fetch-reads",), 2600, 2190, cores=1.8, memory=1.1 * GIB),
    Step("trim-S14", "fastp S14.fq", ("fetch-reads",), 2270, 1240, cores=1.6, memory=1.4 * GIB),
    Step("screen", "kraken2 --db std all.fq", ("fetch-reads",), 2180, 1280, End.TIMEOUT, 1.2, 7.5 * GIB),
    Step("align-S12", "bwa mem grch38 S12", ("index-genome", "trim-S12"), 2180, 760, cores=1.9, memory=5.9 * GIB),
    Step("align-S13", "bwa mem grch38 S13", ("index-genome", "trim-S13"), 1270, 1020, End.OOM, 1.9, 8 * GIB, attempt=2),
    Step("align-S14", after=("index-genome", "trim-S14"), live="bwa-mem S14"),
    Step("call-S12", "bcftools call S12", ("align-S12",), 755, 310, cores=0.9, memory=700 * MIB),
    Step("call-S13", "bcftools call S13", ("align-S13",), end=End.CANCELLED),
    Step("call-S14", "bcftools call S14", ("align-S14",)),
    Step("depth-S12", "mosdepth S12", ("align-S12",), 755, 690, End.FAILED, 0.8, 300 * MIB),
    Step("merge", "bcftools merge", ("call-S12", "call-S14")),
    Step("notify", "mail lab", ("merge",), role=ACTION),
)
FIRST_TRY = (
    Step("fetch-reads", "sra-fetch SRP0412", (), DAY, DAY - 310, End.FAILED, 0.4, 150 * MIB),
    VARIANTS[1],
    *(Step(f"trim-{name}", f"fastp {name}.fq", ("fetch-reads",), end=End.CANCELLED) for name in SAMPLES),
)
REPORT = (
    Step("extract", "python -m warehouse.extract", (), 5 * HOUR, 5 * HOUR - 200, cores=0.9, memory=600 * MIB),
    Step("kpis", "python -m kpis", ("extract",), 5 * HOUR - 201, 5 * HOUR - 410, cores=1.3, memory=1.2 * GIB),
    Step("funnel", "python -m funnel", ("extract",), 5 * HOUR - 201, 5 * HOUR - 350, cores=1.1, memory=800 * MIB),
    Step("pdf", "weasyprint report.html", ("kpis", "funnel"), 5 * HOUR - 411, 5 * HOUR - 440, cores=1.0),
)


def keep_workflows(store: DemoStore, live: Sequence[DemoRun], now: float) -> list[DemoRun]:
    """Write the workflows and those of their jobs that do not run now; return those that still have to get output."""
    workflows, running = Workflows(store.database), {run.job.name: run for run in live}
    report = workflows.add(
        "nightly-report", "/home/grace/report/nightly.yaml", "/home/grace/report", HOST, "grace", now
    )
    written = _keep_run(store, report, REPORT, running, now, 5 * HOUR + 2, 100)
    variants = workflows.add("variant-calling", "/home/ada/meta/variants.yaml", "/home/ada/meta", HOST, "ada", now)
    earlier = _keep_run(store, variants, FIRST_TRY, running, now, DAY + 3, 200)
    kept = {"index-genome": earlier[1]}
    later = _keep_run(store, variants, VARIANTS, running, now, 3142, 300, kept)
    return [run for run in (*written, *earlier, *later) if run.job.start_time is not None]


def _keep_run(
    store: DemoStore,
    workflow_id: int,
    steps: Sequence[Step],
    running: dict[str, DemoRun],
    now: float,
    age: float,
    number: int,
    kept: dict[str, DemoRun] | None = None,
) -> list[DemoRun]:
    """Write one run, which was submitted `age` seconds ago; return the jobs that were made for it."""
    kept = kept or {}
    known = {step.name: running[step.live] for step in steps if step.live is not None} | kept
    made = {
        step.name: _made(step, FIRST_NUMBER + number + place, now, age)
        for place, step in enumerate(steps)
        if step.name not in known
    }
    jobs = known | made
    for step in steps:
        if (job := jobs[step.name].job).status is Status.QUEUED and job.queue is not None:
            after = tuple(str(jobs[name].job.id) for name in step.after)
            jobs[step.name].job = replace(job, queue=replace(job.queue, after=after))
    runs = sorted(made.values(), key=lambda run: run.job.start_time or now)
    store.write(runs)
    workflows = Workflows(store.database)
    run_id = workflows.add_run(workflow_id, {"parallel": 4}, now - age)
    workflows.add_jobs(
        workflow_id,
        run_id,
        [
            RunJob(place, step.name, step.role, jobs[step.name].job.id, step.after, is_kept=step.name in kept)
            for place, step in enumerate(steps)
        ],
    )
    return list(made.values())


def _made(step: Step, number: int, now: float, age: float) -> DemoRun:
    boot_time = now - UPTIME_SECONDS
    if step.began is not None and step.ended is not None:
        seconds = step.began - step.ended
        run = past_run(step.demo_job, number, now - step.ended, seconds, step.end, boot_time, 1.0)
    else:
        run = new_run(step.demo_job, number, now - age, boot_time, None)
        if step.end is End.CANCELLED:
            run.job = replace(run.job, status=Status.CANCELLED, reason=FAILED_FIRST, end_time=now - age + 320)
            run.events.append(Event(now - age + 320, "exited", {"status": "cancelled", "reason": FAILED_FIRST}))
    if step.attempt > 1:
        run.job = replace(run.job, queue=Queued(attempt=step.attempt))
    return run
