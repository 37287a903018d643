"""Turns a workflow into the jobs that are queued for it: its own jobs, and those of its actions. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from jobtop.core.record import record, replace
from jobtop.core.workflow.model import Action, Workflow, WorkflowJob
from jobtop.core.workflow.references import with_paths

JOB, ACTION, REPORT = "job", "action", "report"
ROLES = (JOB, ACTION, REPORT)
SORT_KEYS = {
    "gpus_runtime_memory": ("gpus", "runtime_seconds", "memory_bytes"),
    "gpus_memory_runtime": ("gpus", "memory_bytes", "runtime_seconds"),
}


@record
class PlannedJob:
    """A job to queue: it starts when those of `after` have succeeded and those of `after_end` have ended."""

    name: str
    role: str
    command: str
    after: tuple[str, ...] = ()
    after_end: tuple[str, ...] = ()
    job: WorkflowJob | None = None  # None: it is not a job of the file


def planned_jobs(workflow: Workflow, files: Mapping[str, str], data: Mapping[str, str]) -> list[PlannedJob]:
    """All jobs, in the order in which they are queued; `files` and `data` are the paths of files and user data."""
    plans = {
        name: PlannedJob(
            name,
            JOB,
            with_paths(job.command, files, data),
            job.after if job.cancel_on_failure else (),
            () if job.cancel_on_failure else job.after,
            job,
        )
        for name, job in workflow.jobs.items()
    }
    last = [action for action in workflow.actions if action.trigger == "on_workflow_complete"]
    for action in [action for action in workflow.actions if action not in last] + last:
        if action.jobs or not action.trigger.startswith("on_jobs"):  # else its patterns match no job
            _add_action(plans, workflow, action)
    return sorted(plans.values(), key=lambda plan: _turn(plan, workflow.sort_method))


def _turn(plan: PlannedJob, method: str) -> tuple[float, ...]:
    """Of jobs that can start, the largest come first if the file says so; else they stay as they are in the file."""
    asked = None if plan.job is None else plan.job.requirements
    return tuple(-(getattr(asked, key, None) or 0) for key in SORT_KEYS.get(method, ()))


def _add_action(plans: dict[str, PlannedJob], workflow: Workflow, action: Action) -> None:
    """Add the job of an action; jobs that come after it wait for its end, whether it succeeds or not."""
    name = free_name(action.trigger, plans)
    plan = PlannedJob(name, ACTION, "\n".join(("set -e", *action.commands)))
    followers: Iterable[str] = ()
    if action.trigger == "on_workflow_start":
        followers = [each.name for each in workflow.jobs.values() if not each.after]
    elif action.trigger == "on_jobs_ready":
        followers = action.jobs
        plan = replace(plan, after=_needed_before(workflow, action.jobs))
    elif action.trigger == "on_jobs_complete":
        plan = replace(plan, after_end=action.jobs)
    else:
        plan = replace(plan, after_end=tuple(plans))
    for follower in followers:
        plans[follower] = replace(plans[follower], after_end=(*plans[follower].after_end, name))
    plans[name] = plan


def free_name(wanted: str, taken: Mapping[str, object]) -> str:
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted} {number}"
    return name


def _needed_before(workflow: Workflow, names: Iterable[str]) -> tuple[str, ...]:
    """What some jobs depend on, without these jobs and without what depends on them."""
    later = set(names)
    for job in workflow.jobs.values():  # in an order in which they can run
        if not later.isdisjoint(job.after):
            later.add(job.name)
    needed = dict.fromkeys(other for name in names for other in workflow.jobs[name].after)
    return tuple(other for other in needed if other not in later)


def fingerprint(plan: PlannedJob, cwd: str, inputs: Iterable[tuple[str, object]]) -> str:
    """A text that differs if a job would do something else: its command, its directory, or what it reads."""
    job = plan.job
    own = [] if job is None else [sorted(job.env.items()), job.image]
    text = json.dumps([plan.role, plan.command, cwd, own, sorted(map(list, inputs))], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def to_run_again(plans: Iterable[PlannedJob], done: Iterable[str]) -> set[str]:
    """The names of the jobs that have to run: those not done, and all that come after one of these.

    Jobs only wait for the end of an action, so an action that runs again makes no job run again.
    """
    kept = set(done)
    known = {plan.name: plan for plan in plans}
    again = {name for name in known if name not in kept}
    followers: dict[str, list[str]] = {}
    for plan in known.values():
        for other in (*plan.after, *plan.after_end):
            followers.setdefault(other, []).append(plan.name)
    open_names = list(again)
    while open_names:
        name = open_names.pop()
        if known[name].role != JOB:
            continue
        new = [each for each in followers.get(name, ()) if each not in again]
        again.update(new)
        open_names += new
    return again
