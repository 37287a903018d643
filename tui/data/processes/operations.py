"""Operations on single processes: signals, and making a job from one. They run in threads."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from jobtop.core.errors import JobtopError, UsageError
from jobtop.core.procfs import SHIM_NAME
from jobtop.core.record import record

if TYPE_CHECKING:
    from jobtop.core.measure.live.machine_processes import MachineProcess
    from jobtop.core.model import Job
    from jobtop.tui.app import Options

ZOMBIES = "ZX"


@record
class ProcessOperation:
    """A signal: its title, the word for it when done, and what it means for the user."""

    number: signal.Signals
    title: str
    done: str
    meaning: str


STOP = ProcessOperation(
    signal.SIGTERM, "Stop", "sent SIGTERM to", "The process gets SIGTERM; processes below it get nothing."
)
KILL = ProcessOperation(signal.SIGKILL, "Kill", "killed", "The process gets SIGKILL at once. It cannot save its work.")


def refusal(process: MachineProcess, operation: ProcessOperation, own_uid: int, own_pid: int) -> str | None:
    """Why a process gets no signal from here; None if it does."""
    pid, name = process.pid, operation.number.name.removeprefix("SIG")
    if process.is_kernel:
        return f"process {pid} is a kernel thread, which no signal ends"
    if process.uid != own_uid:
        remedy = f"as {process.user}: kill -{name} {pid}"
        return f"process {pid} belongs to {process.user}: only your own get signals here ({remedy})"
    if process.state in ZOMBIES:
        return f"process {pid} has exited already; it goes when its parent, process {process.parent}, reaps it"
    if pid in (1, own_pid):
        return f"process {pid} is {'the first process of the system' if pid == 1 else 'this console: q leaves it'}"
    if process.name == SHIM_NAME:
        return f"process {pid} supervises a job: open the job with Enter, and stop that"
    return None


def carry_out(process: MachineProcess, operation: ProcessOperation) -> str | None:
    """Send the signal, never to a process that has got the same pid meanwhile; None, or why it was not sent."""
    from jobtop.core.measure.collectors.proc import send
    from jobtop.core.model import Identity
    from jobtop.core.procfs import boot_id

    try:
        if send(Identity(boot_id(), process.pid, process.start), operation.number):
            return None
    except PermissionError:
        return f"process {process.pid} belongs to {process.user}: no permission to signal it"
    except (JobtopError, OSError) as error:
        return f"process {process.pid} got no signal: {error}"
    return f"process {process.pid} has exited already"


def attach_process(options: Options, process: MachineProcess) -> tuple[Job, bool]:
    """Make a job from a process and its descendants, as `jobtop attach` does; and whether an agent monitors it."""
    from jobtop.core.procfs import start_ticks
    from jobtop.core.run.process_tree import lineage
    from jobtop.lifecycle.agent_lock import ensure_agent
    from jobtop.lifecycle.attach import attach
    from jobtop.store.agents import registered
    from jobtop.store.database import open_to_write
    from jobtop.store.jobs import Jobs
    from jobtop.tui.data.operations import STORE_PATIENCE_SECONDS, settings

    if options.own is None:
        raise UsageError("This console shows only other stores: it cannot record jobs")
    if start_ticks(process.pid) != process.start:
        raise UsageError(f"process {process.pid} has just exited")
    database = open_to_write(options.own, patience=STORE_PATIENCE_SECONDS)
    try:
        has_agent = registered(database) is not None
        # An agent that is started from here would be a descendant of the job, and cannot monitor itself.
        if not has_agent and process.pid in lineage(os.getpid()):
            raise UsageError(f"process {process.pid} started this console: first jobtop agent start, then again")
        job = attach(Jobs(database), options.own, settings(options), process.pid, {})
        if has_agent or "JOBTOP_JOB_ID" not in os.environ:  # one that is started inside a job would belong to that job
            ensure_agent(database, options.own)
            return job, True
        return job, False
    finally:
        database.close()
