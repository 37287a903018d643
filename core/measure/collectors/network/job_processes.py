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


class SocketOwners:
    """Finds the jobs that a socket belongs to, by the inode of the socket."""

    def __init__(
        self, owners: PidOwners, proc: str = "/proc", clock: Callable[[int], int] = time.clock_gettime_ns
    ) -> None:
        self._owners, self._proc, self._clock = owners, proc, clock
        self._cpu: dict[int, int] = {}  # the CPU time of each process of this machine, as last read
        self._owned: dict[int, frozenset[str]] = {}  # the jobs of each process that belongs to any
        self._inodes: dict[int, frozenset[int]] = {}  # the sockets of those that have any
        self._jobs: frozenset[str] = frozenset()

    def find(self, inodes: Iterable[int], jobs: Jobs) -> dict[int, frozenset[str]]:
        """The jobs of each of these sockets; a socket of no job is left out."""
        self._update(jobs)
        wanted = frozenset(inodes)
        found: dict[int, frozenset[str]] = {}
        for pid, sockets in self._inodes.items():
            for inode in sockets & wanted:
                found[inode] = found.get(inode, frozenset()) | self._owned[pid]
        return found

    def pids(self, key: str) -> list[int]:
        """The processes of a job at the last call."""
        return [pid for pid, owners in self._owned.items() if key in owners]

    def _update(self, jobs: Jobs) -> None:
        if self._jobs != jobs.keys():  # a new job may own processes that were none of any job
            self._cpu, self._jobs = {pid: self._cpu[pid] for pid in self._owned}, frozenset(jobs)
        before, self._cpu = self._cpu, self._clocks()
        for pid in before.keys() - self._cpu.keys():
            self._owned.pop(pid, None)
            self._inodes.pop(pid, None)
        moved = dict(self._cpu.items() - before.items())
        new = [pid for pid, cpu_ns in moved.items() if cpu_ns < before.get(pid, cpu_ns + 1)]
        for pid, owners in self._owners.find(new, jobs).items():
            self._owned.pop(pid, None)
            if owners:
                self._owned[pid] = owners
        for pid in moved:
            sockets = socket_inodes(f"{self._proc}/{pid}/fd") if pid in self._owned else None
            self._inodes.pop(pid, None)
            if sockets:
                self._inodes[pid] = sockets

    def _clocks(self) -> dict[int, int]:
        """The CPU time of every process: a socket is opened by a process that runs."""
        pids = [int(name) for name in os.listdir(self._proc) if name.isdigit()]
        try:
            return dict(zip(pids, map(self._clock, map(pid_clock, pids)), strict=True))
        except OSError:  # one has exited
            return {pid: cpu_ns for pid in pids if (cpu_ns := self._read(pid)) is not None}

    def _read(self, pid: int) -> int | None:
        try:
            return self._clock(pid_clock(pid))
        except OSError:
            return None


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
