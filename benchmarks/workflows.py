"""Measures how fast a workflow of many short jobs runs, and what the plan for a start and the console cost."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.display import display
from benchmarks.installation import Installation
from benchmarks.queue import DEADLINE_SECONDS, LOOK_SECONDS, SLOWEST_START_SECONDS, store
from benchmarks.report import BenchmarkResult, MeasurementError
from jobtop.core.run.capacity import capacity
from jobtop.core.workflow.model import Requirements, Workflow, WorkflowJob
from jobtop.lifecycle.queue_plan import Lineup
from jobtop.lifecycle.workflows.submission import RunOptions, Submission
from jobtop.store.workflows import Workflows

JOBS, FIRST, NEEDED, REACH, MORE = 1000, 40, 3, 60, 120  # MORE jobs depend on one more: 3,000 dependencies
PLAN_SECONDS = 0.002
CONSOLE_SHARE = 0.06
SETTLING_SECONDS = 4.0
SEED = 1


def layered() -> Workflow:
    """A workflow of jobs of `true`; all but the first ones depend on three or four of the sixty before them."""
    dice, jobs = random.Random(SEED), dict[str, WorkflowJob]()
    asked = Requirements("", cpus=0.1)
    for number in range(JOBS):
        count = 0 if number < FIRST else NEEDED + (number < FIRST + MORE)
        before = sorted(dice.sample(range(max(0, number - REACH), number), count))
        name = f"job{number}"
        jobs[name] = WorkflowJob(name, "true", tuple(f"job{other}" for other in before), asked)
    return Workflow("layered", jobs)


def measure_workflows(tools: Installation, work: Path, rounds: int) -> Iterator[BenchmarkResult]:
    yield from measure_run(tools, work, rounds)
    yield measure_screen(tools, work)


def measure_screen(tools: Installation, work: Path) -> BenchmarkResult:
    """Measure the CPU time of a console that shows the run while its jobs start and end."""
    with store(tools, work / "shown", "5m") as many:
        Submission(many.queue, layered(), "layered.yaml", RunOptions(str(many.work))).start(many.env, ())
        with display([tools.tool("jobtop")], many.env) as shown:
            shown.until(lambda screen: "queued" in screen.text(), "the console")
            shown.press("9")
            shown.until(lambda screen: "layered" in screen.text(), "the list of workflows")
            shown.watch(1.0)
            shown.press("\r")
            shown.until(lambda screen: f"of {JOBS} jobs" in screen.text(), "the run")
            shown.watch(SETTLING_SECONDS)
            many.call("agent", "start")
            before, began = shown.cpu_seconds(), time.perf_counter()
            shown.until(lambda screen: f"{JOBS} of {JOBS} jobs" in screen.text(), "the end", DEADLINE_SECONDS)
            share = (shown.cpu_seconds() - before) / (time.perf_counter() - began)
    return BenchmarkResult("  the console on this run: CPU time a second", "seconds", [share], bound=CONSOLE_SHARE)


def measure_run(tools: Installation, work: Path, rounds: int) -> Iterator[BenchmarkResult]:
    """Measure a run without a console, and its plan."""
    with store(tools, work / "workflow", "5m") as many:
        workflow = layered()
        submission = Submission(many.queue, workflow, "layered.yaml", RunOptions(str(many.work)))
        began = time.perf_counter()
        run = submission.start(many.env, ())
        what = f"{JOBS} jobs with {workflow.edges} dependencies"
        yield BenchmarkResult(f"queue {what}", "seconds", [time.perf_counter() - began])
        lineup, costs = Lineup(many.queue), []
        lineup.refresh()
        for _ in range(rounds):
            before = time.thread_time()
            lineup.plan(capacity(False), time.time())
            costs.append(time.thread_time() - before)
        yield BenchmarkResult(
            "  the plan for a start while all of them wait, CPU", "seconds", costs, bound=PLAN_SECONDS
        )
        many.call("agent", "start")
        workflows, deadline = Workflows(many.database), time.monotonic() + DEADLINE_SECONDS
        jobs = list(run.jobs)
        while any(job.is_live for job in jobs):
            if time.monotonic() > deadline:
                raise MeasurementError(f"the workflow did not end in {DEADLINE_SECONDS:g} s")
            time.sleep(10 * LOOK_SECONDS)
            jobs = workflows.with_states(jobs)
        starts = [job.start_time for job in jobs if job.start_time is not None]
        if len(starts) < JOBS:
            raise MeasurementError(f"only {len(starts)} of {JOBS} jobs were started")
        between = [(max(starts) - min(starts)) / (JOBS - 1)]
        yield BenchmarkResult("  from start to start", "seconds", between, bound=SLOWEST_START_SECONDS)
