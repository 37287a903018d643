"""Alert rules, jobs and samples as tests of alerts make them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from jobtop.core.alerts.evaluator import Evaluator
from jobtop.core.alerts.expressions.expression import parse
from jobtop.core.alerts.model import BUILT_IN, Rule, RuleKind, Severity, State, Transition
from jobtop.core.job_id import JobId
from jobtop.core.metrics import JOB_COLUMNS, Scope
from jobtop.core.model import Job, Sample, Status

NOON = 1_800_000_000.0
FIRST_JOB = "00000000-0000-4000-8000-000000000000"
PLACES = {key.replace(".", "__"): place for place, key in enumerate(JOB_COLUMNS)}
Number = float | int


def rule(metric: str = "mem.used", scope: Scope = Scope.JOB, **fields: Any) -> Rule:
    """A rule on a level; `above` is 100 unless something else is given."""
    name = fields.pop("name", "much")
    if "above" not in fields and "below" not in fields:
        fields["above"] = 100.0
    return Rule(name, RuleKind.LEVEL, scope, Severity.WARNING, BUILT_IN, parse(metric, scope), **fields)


def job(job_id: str = FIRST_JOB, **fields: Any) -> Job:
    """A running job."""
    chosen = {"name": "train", "command": ("train",), "host": "here", "user": "me", "cwd": "/data/work"} | fields
    return Job(id=JobId(job_id), status=Status.RUNNING, **chosen)


def sample(elapsed: float, **values: Number | None) -> Sample:
    """A sample with these values; the names have `__` instead of dots."""
    row: list[Number | None] = [None] * len(JOB_COLUMNS)
    for name, value in values.items():
        row[PLACES[name]] = value
    return Sample(elapsed, tuple(row))


def feed(
    evaluator: Evaluator,
    values: Iterable[Number | None],
    *,
    start: float = 1.0,
    interval: float = 1.0,
    job_id: str = FIRST_JOB,
) -> Iterator[Transition]:
    """Yield the changes that these values of `mem.used` lead to, one sample for each."""
    for number, value in enumerate(values):
        elapsed = start + number * interval
        yield from evaluator.see_jobs([(job_id, sample(elapsed, mem__used=value))], NOON + elapsed)


def ids(count: int) -> list[str]:
    """The ids of some jobs."""
    return [f"{number:08x}-0000-4000-8000-000000000000" for number in range(count)]


def feed_many(evaluator: Evaluator, series: dict[str, list[float]]) -> dict[str, list[tuple[State, float]]]:
    """Return the changes for each job that one value of `mem.used` a second leads to."""
    changes: dict[str, list[tuple[State, float]]] = {job_id: [] for job_id in series}
    for number, values in enumerate(zip(*series.values(), strict=True)):
        elapsed = number + 1.0
        batch = [(key, sample(elapsed, mem__used=value)) for key, value in zip(series, values, strict=True)]
        for change in evaluator.see_jobs(batch, NOON + elapsed):
            assert isinstance(change.owner, str)
            changes[change.owner].append((change.state, elapsed))
    return changes


def watching(*rules: Rule, jobs: Iterable[Job] = ()) -> Evaluator:
    """An evaluator of these rules that watches one job, or these."""
    evaluator = Evaluator(rules)
    for watched in jobs or [job()]:
        evaluator.join(watched)
    return evaluator


def told(changes: Iterable[Transition]) -> list[tuple[State, float]]:
    """The states and when they were reached, in seconds since the job started."""
    return [(change.state, change.at - NOON) for change in changes]
