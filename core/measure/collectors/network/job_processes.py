"""The processes of jobs with their open sockets; only processes that have run since are read again."""

from __future__ import annotations

import os
import time

from jobtop.core.measure.collectors.pid_owners import PidOwners
from jobtop.core.procfs import pid_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jobtop.core.measure.source import Jobs

SOCKET_LINK = "socket:["


class KnownProcess:
    """A process as it was last read: its CPU time then, the jobs it belongs to, and the inodes of its sockets."""

    __slots__ = ("cpu_ns", "inodes", "is_read", "owners")

    def __init__(self, cpu_ns: int, owners: frozenset[str]) -> None:
        self.cpu_ns, self.owners = cpu_ns, owners
        self.inodes: frozenset[int] = frozenset()
        self.is_read = False


class SocketOwners:
    """Finds the jobs that a socket belongs to, by the inode of the socket."""

    def __init__(
        self, owners: PidOwners, proc: str = "/proc", clock: Callable[[int], int] = time.clock_gettime_ns
    ) -> None:
        self._owners, self._proc, self._clock = owners, proc, clock
        self._known: dict[int, KnownProcess] = {}
        self._jobs: frozenset[str] = frozenset()

    def find(self, inodes: Iterable[int], jobs: Jobs) -> dict[int, frozenset[str]]:
        """The jobs of each of these sockets; a socket of no job is left out."""
        self._update(jobs)
        wanted = frozenset(inodes)
        found: dict[int, frozenset[str]] = {}
        for process in self._known.values():
            for inode in process.inodes & wanted:
                found[inode] = found.get(inode, frozenset()) | process.owners
        return found

    def pids(self, key: str) -> list[int]:
        """The processes of a job at the last call."""
        return [pid for pid, process in self._known.items() if key in process.owners]

    def _update(self, jobs: Jobs) -> None:
        if self._jobs != jobs.keys():  # a new job may own processes that were none of any job
            self._known, self._jobs = {pid: one for pid, one in self._known.items() if one.owners}, frozenset(jobs)
        running = self._clocks()
        new = [pid for pid, cpu_ns in running.items() if pid not in self._known or cpu_ns < self._known[pid].cpu_ns]
        owners = self._owners.find(new, jobs)
        before, self._known = self._known, {}
        for pid, cpu_ns in running.items():
            process = KnownProcess(cpu_ns, owners[pid]) if pid in owners else before[pid]
            self._known[pid] = process
            if process.owners and (cpu_ns != process.cpu_ns or not process.is_read):
                process.inodes, process.is_read = socket_inodes(f"{self._proc}/{pid}/fd"), True
            process.cpu_ns = cpu_ns

    def _clocks(self) -> dict[int, int]:
        """The CPU time of every process: a socket is opened by a process that runs."""
        clocks = {}
        for name in os.listdir(self._proc):
            if name.isdigit():
                try:
                    clocks[int(name)] = self._clock(pid_clock(int(name)))
                except OSError:  # it has exited
                    continue
        return clocks


def socket_inodes(directory: str) -> frozenset[int]:
    """The inodes of the sockets among the open files of a process; none if they cannot be read."""
    found = []
    try:
        names = os.listdir(directory)
    except OSError:  # it has exited, or belongs to another user
        return frozenset()
    for name in names:
        try:
            link = os.readlink(f"{directory}/{name}")
        except OSError:  # closed meanwhile
            continue
        if link.startswith(SOCKET_LINK):
            found.append(int(link[len(SOCKET_LINK) : -1]))
    return frozenset(found)
