"""Checks whether the kernel tells what the TCP connections of a job carry, by asking it."""

from __future__ import annotations

from jobtop.core.doctor.checks import Finding, MachineFiles, State
from jobtop.core.measure.collectors.network.closed_sockets import ClosedSockets
from jobtop.core.measure.collectors.network.sock_diag import TCP, DiagProblem, list_sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "network per job (sock_diag)"
WITHOUT = "bytes are known only of jobs in a network namespace of their own"


def network_of_jobs(machine: MachineFiles, probe: Callable[[], str | None] | None = None) -> Finding:
    """Check by listing TCP sockets and listening for those that close; `probe` returns what of this is missing."""
    if machine.platform != "linux":
        return Finding(NAME, State.ABSENT, "an interface of Linux: the network traffic of jobs is not known")
    try:
        missing = (probe or probe_sockets)()
    except DiagProblem as problem:
        return Finding(NAME, State.FAILS if problem.remedy else State.ABSENT, f"{problem}: {WITHOUT}", problem.remedy)
    if missing is not None:
        return Finding(NAME, State.ABSENT, f"the last bytes of closed connections are not known: {missing}")
    return Finding(NAME, State.WORKS, "bytes of TCP connections of each job, also of closed ones")


def probe_sockets() -> str | None:
    """Return why closed sockets are not announced, None if they are; DiagProblem if no sockets are listed at all."""
    list_sockets(TCP, 0)
    try:
        ClosedSockets().close()
    except DiagProblem as problem:
        return str(problem)
    return None
