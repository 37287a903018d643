"""The order: the message that tells a shim which command to run, and how.

core/run/supervisor.py writes it to a pipe with marshal, after the code of the shim; this file reads it.
Part of every shim: standard library only, imports nothing later.
"""

import marshal

from jobtop.core.shim.system_calls import read_exactly, read_to_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypedDict

    AgentStart = tuple[str, list[str]]  # the lock file of the agent, and the command that starts an agent
    LimitRow = tuple[
        str, str, str
    ]  # "memory" or "cpus", what enforces it, and its cgroup directory or why nothing does
    # The `cgroup.procs` file to join at once, the cgroups that may have been made for the job, and the agent to revive.
    Prelude = tuple[str | None, list[str], AgentStart | None]

    class TerminalOrder(TypedDict):
        master: int  # the two ends of the pseudo-terminal
        slave: int
        replaced: list[int]  # the descriptors of the job that lead to it: 0, 1, 2
        is_controlling: bool  # whether it is the controlling terminal of the job, which then has a session of its own

    class EnforcedLimits(TypedDict):
        limits: list[LimitRow]
        memory_limit: int | None  # bytes
        affinity: int | None  # the number of CPUs to bind the job to

    class Order(EnforcedLimits):
        boot: str
        argv: list[bytes]
        env: dict[bytes, bytes]
        cwd: bytes
        directory: str | None  # for the logs and the facts of the job
        is_detached: bool  # whether the process that sends the order leaves the job alone
        copied: list[int]  # of descriptors 1 and 2, those of the shim that get the output too, besides the log
        stdin: Literal["inherit", "null"]
        terminal: TerminalOrder | None
        log_max: int  # bytes
        grace: float  # seconds
        timeout: float | None  # seconds
        after_exit: str
        nice: int | None
        ionice: tuple[int, ...] | None  # the system call that sets it
        cgroup_procs: list[str]  # the files through which the job joins its cgroups
        cgroup_directories: list[str]
        evidence: list[tuple[str, str, str]]  # label, file, and how the lines to keep begin
        oom_before: int | None  # OOM kills in the cgroup around jobtop, before the job
        successor: AgentStart | None  # the agent to start if the recorder exits before the job


def read_prelude(fd: int, count: int) -> "Prelude":
    """The part that is sent before the order is known."""
    prelude: Prelude = marshal.loads(read_exactly(fd, count))
    return prelude


def read_order(fd: int) -> "Order | None":
    """The order; None if its writer exited before it had sent all of it."""
    try:
        order: Order = marshal.loads(read_to_end(fd))
    except (EOFError, ValueError):
        return None
    return order
