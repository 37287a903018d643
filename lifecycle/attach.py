"""Makes a job from a running process: writes `started` and a row of the store, and calls the agent to sample it."""

from __future__ import annotations

import errno
import os
import time

from jobtop.core.errors import StartError, UsageError
from jobtop.core.measure.attach import meet
from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.model import Job, Monitor, Status, Usage
from jobtop.core.procfs import descendants
from jobtop.core.redact import redact_command
from jobtop.core.run.process_tree import lineage
from jobtop.core.run.request import default_name, script_of
from jobtop.core.run.start_problems import cannot_start
from jobtop.core.run.supervisor import new_id
from jobtop.core.units import printable
from jobtop.lifecycle.agent_lock import AGENT, ensure_agent, start_agent
from jobtop.lifecycle.kinds.registry import ATTACHED
from jobtop.lifecycle.kinds.started import create_started
from jobtop.store.agents import registered
from jobtop.store.jobs import Event, event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from jobtop.core.config import Config
    from jobtop.core.measure.attach import Process
    from jobtop.core.paths import StatePaths
    from jobtop.store.jobs import Jobs


def attach(jobs: Jobs, paths: StatePaths, config: Config, pid: int, options: Mapping[str, Any]) -> Job:
    """Make a job from a process and its descendants; `options` has its name, tool, tags and note."""
    process = meet(pid)
    job = new_record(process, paths.host, config, options)
    with jobs.database.writing():  # so that no other process makes a job from it meanwhile
        refuse_known(jobs, paths, pid)
        create_started(paths, job.id, process.identity, process.start_time, process.start_boottime)
        return jobs.insert(job, Event(process.start_time, "started", {"pid": pid}), event("attached"))


def new_record(process: Process, host: str, config: Config, options: Mapping[str, Any]) -> Job:
    """The record of a job made from a running process."""
    shown = tuple(redact_command(list(process.command), config.texts("run.redact")))
    script = script_of(shown)
    return Job(
        id=new_id(),
        name=options.get("name") or printable(default_name(shown, script, shell=False)),
        command=shown,
        host=host,
        user=process.user,
        cwd=process.cwd,
        status=Status.RUNNING,
        tool=options.get("tool") or os.path.basename(shown[0]),
        script=script,
        tags=options.get("tags") or {},
        note=options.get("note"),
        pid=process.identity.pid,
        kind=ATTACHED,
        flags=(ATTACHED,),
        submitted_at=time.time(),
        start_time=process.start_time,
        start_boottime=process.start_boottime,
        usage=Usage(cpus_allowed=process.cpus, memory_peak_bytes=process.high_bytes),
        sources={} if process.high_bytes is None else {"memory_peak": "vmhwm"},
        monitor=Monitor(interval_seconds=config.interval("monitor.interval") or 1.0),
        grace_seconds=config.duration("run.grace"),
        shim=process.identity,
    )


def refuse_known(jobs: Jobs, paths: StatePaths, pid: int) -> None:
    """Raise UsageError if a process belongs to a job, records one, or has an attached job or the agent below it."""
    above, below = lineage(pid), descendants(pid)
    for job in jobs.unsettled(paths.host):
        known = f"job {job.id[:8]} ({printable(job.name)})"
        if job.shim is not None and job.shim.pid in above and is_alive(job.shim):
            raise UsageError(f"process {pid} already belongs to {known}: jobtop show {job.id[:8]}")
        if job.recorder is not None and job.recorder.pid == pid and is_alive(job.recorder):
            raise UsageError(f"process {pid} is the jobtop that monitors {known}: attach to another process")
        if job.kind == ATTACHED and job.shim is not None and job.shim.pid in below and is_alive(job.shim):
            raise UsageError(f"{known} is below process {pid} and would be counted twice: jobtop show {job.id[:8]}")
    agent = registered(jobs.database)
    if agent is not None and agent.identity.pid in (pid, *below):
        raise UsageError(f"the agent, process {agent.identity.pid}, cannot monitor itself: attach to another process")


def call_agent(jobs: Jobs, paths: StatePaths, environ: Mapping[str, str]) -> bool:
    """Wake or start an agent; False inside of a job, where no agent is started, since it would belong to that job.

    The attached process may be an ancestor of this process. So that the agent does not become a descendant of it, a
    child process starts the agent and exits at once.
    """
    if registered(jobs.database) is not None:
        ensure_agent(jobs.database, paths)
        return True
    if "JOBTOP_JOB_ID" in environ:
        return False
    _start_by_child(paths)
    return True


def _start_by_child(paths: StatePaths) -> None:
    """Start an agent by a child process; the exit code of the child is 0 or an errno."""
    try:
        child = os.fork()
    except OSError as error:
        raise cannot_start(AGENT, error) from error
    if child == 0:
        number = errno.EIO
        try:
            start_agent(paths)
            number = 0
        except StartError as error:
            number = getattr(error.__cause__, "errno", number)
        finally:
            os._exit(number)
    number = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if number > 0:
        raise cannot_start(AGENT, OSError(number, os.strerror(number)))
