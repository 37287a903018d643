"""TaskPipeline: runs scripts of configured tools through jobtop's queue, with the interface of Keystone's pipeline."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from jobtop.core.config import Config, load
from jobtop.core.errors import BadValue, UsageError, did_you_mean
from jobtop.core.model import Job, Limits, Status
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.record import fresh, record
from jobtop.core.run.request import Request
from jobtop.core.run.tools import required_tool
from jobtop.core.track.keystone import naive_utc, with_nan
from jobtop.core.track.profile import megabytes, rounded
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.submit import QueueOptions, submit_all
from jobtop.lifecycle.tools import with_tool
from jobtop.lifecycle.wait import await_ends, is_over
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.output.last_lines import read_end
from jobtop.store.samples.profile import recorded_profile

LOG = logging.getLogger("jobtop")
KEPT_OUTPUT_BYTES = 64 * 1024


@record
class Task:
    """A script, the tool that runs it, and its parameters."""

    tool: str
    script: str
    params: Any = fresh(default_factory=dict)  # a dict with names; checked before anything is queued


class TaskPipeline:
    """Submits scripts of the tools in the configuration as jobs, and waits for them.

    The settings, the current directory and the environment count as they are at each call, as for `jobtop submit`.
    """

    def submit_task(self, tool: str, script: str, params: Mapping[str, Any] | None = None) -> str:
        """Queue a script as `jobtop submit --tool TOOL SCRIPT --param K=V` does; return its task id, the id of its job.

        Raises JobtopError, before anything is queued, if there is no such tool or script.
        """
        return queue_tasks([Task(tool, script, params or {})])[0]

    def wait_for_task(self, task_id: str, timeout: float | None = None) -> dict[str, Any]:
        """Wait until a task has ended and return its result; TimeoutError after so many seconds, and the task goes on.

        A number that is not known is NaN.
        """
        return self.wait_for_workflow([task_id], timeout)[0]

    def submit_workflow(self, tasks: Iterable[Mapping[str, Any]], sequential: bool = True) -> list[str]:
        """Queue tasks, all of them or none, and return their ids; each has the keys tool, script and perhaps params.

        If `sequential`, each starts when the one before has succeeded, and one that fails cancels those after it.
        Otherwise they start as soon as the machine has room for them.
        """
        return queue_tasks([task_of(task) for task in tasks], is_sequence=sequential)

    def wait_for_workflow(self, task_ids: Iterable[str], timeout: float | None = None) -> list[dict[str, Any]]:
        """Wait until all tasks have ended and return their results in the same order; TimeoutError as for one task."""
        task_ids = list(task_ids)
        with opened_queue() as (_, queue):
            found = [queue.jobs.find(task_id) for task_id in task_ids]
            ended = await_ends(queue, found, warn=LOG.warning, timeout_seconds=timeout)
            late = [task_id for task_id, job in zip(task_ids, ended, strict=True) if not is_over(job)]
            if late:
                more = f" and {len(late) - 1} more" if len(late) > 1 else ""
                raise TimeoutError(f"task {late[0]}{more} has not ended after {timeout:g} s; it goes on")
            return [task_result(queue, job, task_id) for task_id, job in zip(task_ids, ended, strict=True)]


def task_of(task: Mapping[str, Any]) -> Task:
    """A task of a workflow; UsageError names what is missing or unknown."""
    keys = ("tool", "script", "params")
    for key in task:
        if key not in keys:
            raise UsageError(f'a task has the keys tool, script and params, not "{key}"{did_you_mean(str(key), keys)}')
    for key in keys[:2]:
        if not isinstance(task.get(key), str):
            raise UsageError(f"a task of a workflow needs {key}, a text")
    return Task(task["tool"], task["script"], task.get("params") or {})


@contextmanager
def opened_queue() -> Iterator[tuple[Config, Queue]]:
    """The settings that apply here and now, and the queue of this host's store, which is created if there is none."""
    config = load((), os.environ, os.getcwd())
    paths = StatePaths(config.text("store.dir"), hostname())
    database = open_to_write(paths, config.switch("store.network"))
    try:
        yield config, Queue(Jobs(database), paths)
    finally:
        database.close()


def queue_tasks(
    tasks: Sequence[Task],
    is_sequence: bool = False,
    limits: Limits | None = None,
    tags: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> list[str]:
    """Queue tasks, all or none, and make sure that an agent starts them; return the ids of their jobs."""
    with opened_queue() as (config, queue):
        requests = [task_request(config, task, limits or Limits(), tags or {}, env or {}) for task in tasks]
        jobs = submit_all(queue, config, requests, QueueOptions(), is_sequence)
        if jobs and (why := queue.call_agent(os.environ)) is not None:
            LOG.warning(why)
        return [str(job.id) for job in jobs]


def task_request(
    config: Config, task: Task, limits: Limits, tags: Mapping[str, str], env: Mapping[str, str]
) -> Request:
    """The request for the job of a task, as `jobtop submit --tool` makes it."""
    tool = required_tool(config, task.tool, os.environ)
    if not isinstance(task.params, Mapping) or not all(isinstance(key, str) for key in task.params):
        raise BadValue("params: a dict with names of parameters is needed")
    request = Request((), os.getcwd(), params=dict(task.params), limits=limits, tags=dict(tags), env=dict(env))
    return with_tool(request, tool, task.script, os.environ)


def task_result(queue: Queue, job: Job, task_id: str) -> dict[str, Any]:
    """The result of an ended task: a line of Keystone's history, its profile, and the end of its output."""
    code, usage = job.exit_code, job.usage
    if code is None and job.signal is not None:
        code = -job.signal
    directory = queue.paths.job(job.id)
    profile = recorded_profile(queue.jobs.database, job)
    result = {
        "task_id": task_id,
        "tool": job.tool,
        "script": job.script,
        "params": job.params,
        "start_time": naive_utc(job.start_time),
        "end_time": naive_utc(job.end_time),
        "duration_seconds": rounded(job.duration_seconds, 6),
        "status": str(job.status),
        "returncode": code,
        "resource_usage": {
            "cpu_user_seconds": rounded(usage.cpu_user_seconds, 6),
            "cpu_system_seconds": rounded(usage.cpu_system_seconds, 6),
            "cpu_total_seconds": rounded(usage.cpu_total_seconds, 6),
            "memory_peak_mb": megabytes(usage.memory_peak_bytes),
        },
        "error": None if job.status is Status.SUCCESS else job.error or job.reason,
        "stdout": read_end(directory, 0, KEPT_OUTPUT_BYTES),
        "stderr": read_end(directory, 1, KEPT_OUTPUT_BYTES),
    }
    found: dict[str, Any] = with_nan(result | ({} if profile is None else {"detailed_profile": profile}))
    return found
