"""Measures the CPU time of judging samples by alert rules, compared with the tick that took the samples."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.farm import farm
from benchmarks.installation import Installation
from benchmarks.report import BenchmarkResult, MeasurementError
from benchmarks.stopwatch import measure_in_turns, wait_for_orphans
from benchmarks.ticks import ALL, FEW, Watcher, agent_garbage_collection, describe
from jobtop.core.alerts.evaluator import LOOK_SECONDS, Evaluator
from jobtop.core.alerts.expressions.expression import parse
from jobtop.core.alerts.model import BUILT_IN, Rule, RuleKind, Severity
from jobtop.core.alerts.rule_files import RuleFiles
from jobtop.core.config import load
from jobtop.core.job_id import JobId
from jobtop.core.metrics import Scope
from jobtop.core.model import Job, Sample, Status

JOBS, FEWER_JOBS = 1000, 250
RULES, FEWER_RULES = 20, 5
MOST_OF_A_TICK = 0.5
MOST_GROWTH = 5.0  # for four times as many
NEVER, ALWAYS = 1e30, -1.0  # levels
METRICS = ("mem.used", "cpu.percent", "rate(io.write_chars)", "proc.fds / limit.fds", "mem.used / mem.vms")


class Judge:
    """An evaluator of some rules and jobs, for the samples of a watcher."""

    def __init__(self, jobs: int, rules: int, level: float = NEVER) -> None:
        self.keys = {str(number): job_id(number) for number in range(jobs)}
        self.evaluator = Evaluator([level_rule(number, level) for number in range(rules)])
        for key in self.keys.values():
            self.evaluator.join(running_job(key))

    def seconds(self, samples: Sequence[tuple[str, Sample]]) -> float:
        """Return the CPU seconds of judging the samples of a tick."""
        known = [(self.keys[key], sample) for key, sample in samples if key in self.keys]
        if len(known) < len(self.keys):
            raise MeasurementError("a tick left jobs out")
        begin = time.thread_time()
        self.evaluator.see_jobs(known, time.time())
        return time.thread_time() - begin


class DefaultRules(Judge):
    """An evaluator of the rules that come with jobtop; a tick has its share of what is done each ten seconds."""

    def __init__(self, jobs: int) -> None:
        super().__init__(jobs, 0)
        self.evaluator.set_rules(RuleFiles(load((), {}, "/")).found.in_force)

    def seconds(self, samples: Sequence[tuple[str, Sample]]) -> float:
        seconds = super().seconds(samples)
        begin, now = time.thread_time(), time.time()
        for key in self.keys.values():
            self.evaluator.see_extra(key, {"output.bytes": 0.0, "cwd.disk_used": 1.0, "cwd.disk_total": 10.0}, now)
        self.evaluator.slow(now)
        return seconds + (time.thread_time() - begin) / LOOK_SECONDS


def measure_alerts(_tools: Installation, _work: Path, rounds: int) -> Iterator[BenchmarkResult]:
    for share in (FEW, ALL):
        # The first one reads samples that are not in the caches of the CPU yet, as after a real tick.
        judges = {
            "quiet": Judge(JOBS, RULES),
            "whole": Judge(JOBS, RULES),
            "fewer jobs": Judge(FEWER_JOBS, RULES),
            "fewer rules": Judge(JOBS, FEWER_RULES),
            "firing": Judge(JOBS, RULES, ALWAYS),
            "defaults": DefaultRules(JOBS),
        }
        with agent_garbage_collection():
            samples = samples_of(judges, rounds, share)
        what = f"judging {JOBS:,} jobs by {RULES} rules on levels, {describe(share)}"
        yield BenchmarkResult(what, "seconds", samples["quiet"], samples["tick"], "a tick over them", MOST_OF_A_TICK)
        what = "  by the rules that come with jobtop, stalls and forecasts included"
        yield BenchmarkResult(what, "seconds", samples["defaults"], samples["tick"], "a tick over them", MOST_OF_A_TICK)
    for fewer, shown in (("fewer jobs", f"{FEWER_JOBS} jobs"), ("fewer rules", f"{FEWER_RULES} rules")):
        yield BenchmarkResult("  growth", "seconds", samples["whole"], samples[fewer], f"for {shown}", MOST_GROWTH)
    yield BenchmarkResult("  while every rule fires for every job", "seconds", samples["firing"])


def samples_of(judges: dict[str, Judge], rounds: int, share: float) -> dict[str, list[float]]:
    """Return the CPU seconds of ticks, and of judging the samples of each."""
    with farm(JOBS, JOBS) as watched, closing(Watcher(watched.shims)) as watcher:
        watcher.warm_up(watched, share)

        def tick() -> float:
            watched.let_run(share)
            return watcher.tick()

        def judging(judge: Judge) -> float:
            return judge.seconds(watcher.samples)

        turns = {"tick": tick} | {name: partial(judging, judge) for name, judge in judges.items()}
        samples = measure_in_turns(turns, rounds)
    wait_for_orphans()
    return samples


def level_rule(number: int, level: float) -> Rule:
    metric = METRICS[number % len(METRICS)]
    expression = parse(metric, Scope.JOB)
    return Rule(
        f"rule {number}", RuleKind.LEVEL, Scope.JOB, Severity.WARNING, BUILT_IN, expression, level, for_seconds=10.0
    )


def job_id(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def running_job(key: str) -> Job:
    return Job(JobId(key), "bench", ("true",), "here", "me", "/", Status.RUNNING)
