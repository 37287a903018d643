"""One job that `jobtop.run` waits for: what `jobtop run --no-ui` does, inside of another program."""

from __future__ import annotations

import os
import sys
import time
from _thread import start_new_thread
from contextlib import suppress
from typing import TYPE_CHECKING

from jobtop.core import journal
from jobtop.core.errors import ExitCode, JobtopError, StartError, StoreUnavailable
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.model import Status
from jobtop.core.record import replace
from jobtop.core.run import outcome
from jobtop.core.run.embedded import EmbeddedForeground
from jobtop.core.run.foreground import in_background, set_up_terminal, terminal_descriptors
from jobtop.core.run.request import prepare
from jobtop.core.run.supervisor import open_terminal
from jobtop.lifecycle import agent_lock
from jobtop.lifecycle.foreground_job import CLOSE_SECONDS, Host, Monitoring, pausing_of, run_to_end
from jobtop.lifecycle.kinds.kind import Order
from jobtop.lifecycle.recorder import Recorder
from jobtop.lifecycle.spec_files import sweep_specs
from jobtop.lifecycle.start import new_supervisor
from jobtop.log_lines import log_alert, warn

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.context import Context
    from jobtop.core.model import Job, JobSpec
    from jobtop.core.run.request import Request
    from jobtop.core.run.supervisor import Supervisor

SHIM_SECONDS = 2.0
START_CODES = frozenset({ExitCode.NOT_EXECUTABLE, ExitCode.NOT_FOUND})


class GuardedMonitoring(Monitoring):
    """Sampling that cannot disturb the program: a failure is a warning."""

    def begin(self) -> bool:
        try:
            return super().begin()
        except (JobtopError, OSError, RuntimeError) as error:
            warn(f"the job runs, but is not sampled: {error}")
            return False

    def close(self, job: Job) -> None:
        try:
            super().close(job)
        except (JobtopError, OSError, RuntimeError) as error:
            warn(f"job {job.id[:8]} is recorded, but its alerts or last samples may not be: {error}")

    def abandon(self) -> None:
        """End sampling, and nothing else."""
        if self.engine is not None:
            self.engine.close(CLOSE_SECONDS)


def run_attended(context: Context, request: Request, captures: bool) -> Job:
    """Run the job to its end and return its record; StartError if it cannot start.

    Ctrl-C, and an exception of a signal handler of the program, stop the job and are raised when it is recorded.
    """
    flush_streams()
    supervisor = start_shim(captures)
    done, recorder = None, None
    try:
        request = replace(request, pty=supervisor.terminal is not None)
        job, spec = prepare(request, supervisor.job_id, context.paths.host, context.config)
        recorder = begin_record(context, job, spec, captures)
        monitoring = monitoring_of(context, recorder)
        foreground = foreground_of(context, recorder, supervisor, spec.grace_seconds)
        with foreground:
            with_cgroup = "cgroup" not in context.config.texts("monitor.without")
            successor = recorder.successor(context.sets)
            order = Order(spec, recorder.directory, with_cgroup, not in_background(), successor, supervisor)
            try:
                done, _, _ = run_to_end(order, recorder, foreground, monitoring)
                monitoring.close(done)
            finally:
                if done is None:
                    monitoring.abandon()
                    if not foreground.is_over:
                        foreground.stop()
    finally:
        supervisor.close()  # without an order the shim exits
        if recorder is not None:
            if done is None:
                recorder.detached()  # this program may run for long: others record the end of the job
            recorder.close()
        release(supervisor, is_settled=done is not None and done.settled)
    with suppress(OSError):
        journal.write(context.paths.names.log, *journal.outcome(done))
    sweep_specs(context.paths, context.config.number("store.spec_days"))
    foreground.raise_interruption()
    if done.status is Status.ERROR:
        raise start_error(done)
    return done


def monitoring_of(context: Context, recorder: Recorder) -> GuardedMonitoring:
    """Return what samples the job in this program."""
    host = Host(context.paths, context.config, os.environ, warn, log_alert, is_jobtop=False)
    monitoring = GuardedMonitoring(host, recorder, recorder.job.id)
    recorder.own_cost = cost_of(monitoring)
    return monitoring


def foreground_of(
    context: Context, recorder: Recorder, supervisor: Supervisor, grace_seconds: float
) -> EmbeddedForeground:
    """Return what passes signals to the job and waits for it."""
    return EmbeddedForeground(
        supervisor,
        grace_seconds,
        recorder.stop_requested,
        recorder.paused,
        pausing_of(recorder),
        lambda: start_agent(context),
        warn,
    )


def start_error(job: Job) -> StartError:
    """Return the error for a job that could not be started."""
    code = outcome.exit_code(job)
    return StartError(f"{job.reason}", ExitCode(code) if code in START_CODES else ExitCode.FAILED)


def start_shim(captures: bool) -> Supervisor:
    """Start a shim; at a terminal the job gets one of its own for its output, so that it appears at once."""
    replaced = () if captures else tuple(fd for fd in terminal_descriptors() if fd != 0)
    supervisor = new_supervisor(open_terminal() if replaced else None)
    if supervisor.terminal is not None:
        set_up_terminal(supervisor.terminal, ours_is_raw=False)
        supervisor.terminal.replaced, supervisor.terminal.is_controlling = replaced, False
    if captures:
        supervisor.copied = ()
    return supervisor


def begin_record(context: Context, job: Job, spec: JobSpec, captures: bool) -> Recorder:
    """Write the job into the store before it starts."""
    network, secrets = context.config.switch("store.network"), context.config.texts("run.redact")
    recorder = Recorder(context.paths, network, warn, secrets)
    recorder.begin(replace(job, recorder=identify(os.getpid())), spec)
    if captures and recorder.directory is None:
        why = f"{context.paths.root} cannot be written; set JOBTOP_HOME to a directory that can be"
        raise StoreUnavailable(f"the output of the job cannot be captured: {why}")
    return recorder


def cost_of(monitoring: Monitoring) -> Callable[[], tuple[float, int]]:
    """Return what tells the CPU time of this thread and of sampling; the memory of another program is not counted."""
    began = time.thread_time()

    def cost() -> tuple[float, int]:
        sampling = 0.0 if monitoring.engine is None else monitoring.engine.sampler.cpu_seconds
        return time.thread_time() - began + sampling, 0

    return cost


def release(supervisor: Supervisor, is_settled: bool) -> None:
    """Close the pipe to the shim and reap it; a thread does that if it still runs, with what the job left running."""
    os.close(supervisor.status_read)
    if is_settled:
        supervisor.wait(SHIM_SECONDS)
    with suppress(RuntimeError):  # no more threads may be started
        start_new_thread(agent_lock.reap_child, (supervisor.pid,))


def start_agent(context: Context) -> None:
    """Start an agent at the request of the job: an agent that the job started would be a member of the job."""
    with suppress(OSError, StartError):  # the caller reports that no agent came
        agent_lock.start_agent(context.paths)


def flush_streams() -> None:
    """Write what this program has printed before the job writes."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or not there
            stream.flush()
