"""Starts detached jobs: this process does not wait for them, and an agent samples and records them."""

from __future__ import annotations

import json
import os
from _thread import start_new_thread

from jobtop.core.errors import JobtopError, StartError, StoreUnavailable, UsageError
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.model import JobSpec, spec_from
from jobtop.core.record import replace
from jobtop.core.run.request import Request, prepare, script_of
from jobtop.core.run.supervisor import Supervisor, open_terminal
from jobtop.core.state_files import read_state_file
from jobtop.lifecycle.agent_lock import SPAWNING, ensure_agent, reap_child
from jobtop.lifecycle.kinds.kind import Order
from jobtop.lifecycle.kinds.process import NO_SPEC
from jobtop.lifecycle.kinds.registry import kind_of
from jobtop.lifecycle.recorder import Recorder
from jobtop.lifecycle.sampling_budget import shortage_beside_others

SPEC_BYTES = 16 * 1024 * 1024
# A pager would wait for keys in a pane that scrolls by itself.
NO_PAGERS = dict.fromkeys(("PAGER", "GIT_PAGER", "SYSTEMD_PAGER", "MANPAGER"), "cat")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from jobtop.core.config import Config
    from jobtop.core.job_id import JobId
    from jobtop.core.model import Job
    from jobtop.core.paths import StatePaths
    from jobtop.core.run.containers.order import ContainerOrder
    from jobtop.core.run.facts import Facts
    from jobtop.core.run.supervisor import Terminal


def new_supervisor(terminal: Terminal | None = None) -> Supervisor:
    """Start a shim, which then waits for its order; StartError if that fails."""
    try:
        with SPAWNING:
            return Supervisor(terminal)
    except OSError as error:
        from jobtop.core.run.start_problems import cannot_start

        raise cannot_start("a job", error) from error


def start_detached(
    supervisor: Supervisor,
    paths: StatePaths,
    config: Config,
    request: Request,
    warn: Callable[[str], None],
    on_start: Callable[[str], None] | None = None,
) -> tuple[Job, Facts | None]:
    """Start a job and leave it to an agent; the job, and the facts of its start, which are None if the shim was killed.

    `on_start` is called with the id as soon as the command runs, before the store is written.
    """
    problems: list[str] = []
    recorder = Recorder(paths, config.switch("store.network"), problems.append)
    try:
        job, spec = prepare(request, supervisor.job_id, paths.host, config)
        recorder.begin(replace(job, recorder=identify(os.getpid())), spec)
        if recorder.directory is None:
            raise StoreUnavailable(f"a detached job needs a place for its output: {problems[0]}")
    except JobtopError:
        supervisor.close()
        raise
    with_cgroup = "cgroup" not in config.texts("monitor.without")
    order = Order(spec, recorder.directory, with_cgroup, False, recorder.successor(), supervisor)
    answer = kind_of(job).start(order).answer()
    if answer is None or "exec_error" in answer:
        job = recorder.finish(answer)
    else:
        if on_start is not None:
            on_start(job.id)
        recorder.started(answer.started())
        recorder.detached()
        job = recorder.job
        if recorder.jobs is not None and (notice := shortage_beside_others(config, recorder.jobs, job.id)) is not None:
            problems.append(notice)
        if recorder.jobs is not None and job.parent_id is None:
            # An agent that is started inside of another job would belong to that job.
            try:
                ensure_agent(recorder.jobs.database, paths)
            except StartError as error:
                problems.append(f"{error}; the job runs, but is not sampled")
    recorder.close()
    for problem in problems:
        warn(problem)
    return job, answer


def start_and_stay(
    paths: StatePaths,
    config: Config,
    request: Request,
    warn: Callable[[str], None],
    supervisor: Supervisor | None = None,
) -> tuple[Job, Facts | None]:
    """Start a detached job from a process that goes on, such as the console; a thread of it reaps the shim.

    A job with a terminal writes to it what the Output pane shows, and reads from it what is typed there.
    """
    supervisor = supervisor or new_supervisor(open_terminal() if request.pty else None)
    request = replace(request, pty=request.pty and supervisor.terminal is not None)
    if request.pty and supervisor.terminal is not None:
        supervisor.terminal.is_controlling = False
        request = replace(request, env=NO_PAGERS | request.env)
    try:
        return start_detached(supervisor, paths, config, request, warn)
    finally:
        os.close(supervisor.status_read)
        start_new_thread(reap_child, (supervisor.pid,))


def kept_spec(paths: StatePaths, job_id: JobId) -> JobSpec | None:
    """The command and environment of a job from specs/ID.json; None if that file is gone or damaged."""
    try:
        shape = json.loads(read_state_file(paths.spec(job_id), SPEC_BYTES))
        return spec_from(shape | {"id": job_id})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def spec_of(paths: StatePaths, job: Job) -> JobSpec:
    """The command and environment of a job; UsageError if it cannot be run again."""
    spec, why = kept_spec(paths, job.id), kind_of(job).why_not_again(paths, job)
    if spec is None or why is not None:
        raise UsageError(f"job {job.id[:8]} cannot be run again: {why or NO_SPEC}")
    return spec


def request_again(paths: StatePaths, job: Job) -> Request:
    """The request to run the same command in the same directory and environment again."""
    spec = spec_of(paths, job)
    return Request(
        command=spec.command,
        cwd=spec.cwd,
        environment=spec.env,
        kind=job.kind,
        name=job.name,
        tool=job.tool,
        script=None if job.script == script_of(spec.command or ("",)) else job.script,
        params=job.params,
        tags=job.tags,
        note=job.note,
        limits=job.limits,
        grace_seconds=spec.grace_seconds,
        after_exit=spec.after_exit,
        nice=spec.nice,
        ionice=spec.ionice,
        container=None if spec.container is None else container_of(spec.container),
    )


def container_of(shape: dict[str, Any]) -> ContainerOrder:
    """The order of a container in a spec."""
    from jobtop.core.run.containers.order import order_from

    return order_from(shape)
