"""Reads all processes of the machine repeatedly, in one cheap pass, for the console."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from typing import NamedTuple

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.attach import FLAGS, KERNEL_THREAD, user_name
from jobtop.core.measure.collectors.heaviest import command_of
from jobtop.core.measure.collectors.members import PAGE_BYTES, PPID, RSS, START, STATE, THREADS, TICK_SECONDS
from jobtop.core.measure.collectors.pids import PidWatch
from jobtop.core.procfs import pid_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

IDLE_REREAD_PASSES = 8  # an idle process can get another parent, or lose memory to swap
COMMAND_REREAD_PASSES = 30  # an exec of the same program keeps the name
YOUNG_SECONDS = 3.0  # a process that has just been forked may not have called exec yet
STAT_BYTES = 4096
ZOMBIE = "Z"


class MachineProcess(NamedTuple):
    """One process of the machine; `memory_bytes` is all that is resident, None where a process has no memory."""

    pid: int
    start: int  # in clock ticks since boot
    parent: int
    uid: int
    user: str
    state: str
    name: str  # as the kernel has it
    command: str
    cpu_percent: float | None  # of one core since the reading before; None: not known yet
    memory_bytes: int | None
    threads: int
    is_kernel: bool

    @property
    def key(self) -> tuple[int, int]:
        """A pid is reused, a pid with its start time is not."""
        return self.pid, self.start


class ProcessMoment(NamedTuple):
    """All processes at a moment, which is in seconds since boot; in an order that does not change."""

    at: float
    processes: tuple[MachineProcess, ...] = ()

    def age(self, process: MachineProcess) -> float:
        return max(0.0, self.at - process.start * TICK_SECONDS)


class Known:
    """What is remembered of a process between two readings."""

    __slots__ = ("clock", "cpu_ns", "process")

    def __init__(self, pid: int) -> None:
        self.clock = pid_clock(pid)
        self.cpu_ns: int | None = None
        self.process: MachineProcess | None = None


class MachineProcesses:
    """Reads the clocks of all processes, and the files of those that have run; `proc` and `clock` are where."""

    def __init__(
        self,
        secret: Iterable[str] = (),
        proc: str = "/proc",
        clock: Callable[[int], int] = time.clock_gettime_ns,
        now: Callable[[], float] = lambda: time.clock_gettime(BOOTTIME),
    ) -> None:
        self._proc, self._clock, self._now = proc, clock, now
        self._secret: Sequence[str] = tuple(secret)
        self._pids = PidWatch(proc, lambda pid: self._read_clock(pid_clock(pid)) is not None)
        self._known: dict[int, Known] = {}
        self._read_at: float | None = None
        self._passes = 0
        self._user = lru_cache(256)(user_name)

    def read(self) -> ProcessMoment:
        """All processes now; their CPU percentages are of the time since the reading before."""
        changes = self._pids.changes()
        for pid in changes.gone:
            self._known.pop(pid, None)
        for pid in sorted(changes.new):
            self._known.setdefault(pid, Known(pid))
        self._passes += 1
        before, self._read_at = self._read_at, self._now()
        elapsed = None if before is None else self._read_at - before
        times = [self._read_clock(known.clock) for known in self._known.values()]
        found = []
        for (pid, known), cpu_ns in zip(list(self._known.items()), times, strict=True):
            process = None if cpu_ns is None else self._process(pid, known, cpu_ns, elapsed, changes.is_wrapped)
            if process is None:
                del self._known[pid]
            else:
                found.append(process)
        return ProcessMoment(self._read_at, tuple(found))

    def close(self) -> None:
        self._pids.close()

    def _read_clock(self, number: int) -> int | None:
        try:
            return self._clock(number)
        except OSError:  # it has exited; a zombie still has its clock
            return None

    def _process(
        self, pid: int, known: Known, cpu_ns: int, elapsed: float | None, may_be_another: bool
    ) -> MachineProcess | None:
        """A process now, or None if it is gone; one that has not run is read rarely, and then not all at once."""
        last, is_due = known.process, (pid + self._passes) % IDLE_REREAD_PASSES == 0
        if last is not None and cpu_ns == known.cpu_ns and not is_due and not may_be_another:
            if last.cpu_percent != 0.0:
                known.process = last = last._replace(cpu_percent=0.0)
            return last
        stat = self._read_stat(pid)
        if stat is None:
            return None
        name, fields = stat
        start = int(fields[START])
        if last is not None and last.start != start:
            last, known.cpu_ns = None, None
        percent = self._percent(known.cpu_ns, cpu_ns, start, elapsed)
        if percent is None and last is not None:
            percent = last.cpu_percent
        known.cpu_ns = cpu_ns
        known.process = self._made(pid, last, name, fields, percent)
        return known.process

    def _made(
        self, pid: int, last: MachineProcess | None, name: str, fields: list[bytes], percent: float | None
    ) -> MachineProcess | None:
        is_kernel, start = bool(int(fields[FLAGS]) & KERNEL_THREAD), int(fields[START])
        is_again = (pid + self._passes) % COMMAND_REREAD_PASSES == 0
        is_young = (self._read_at or 0.0) - start * TICK_SECONDS < YOUNG_SECONDS
        if last is None or last.name != name or is_again or is_young:
            try:  # the directory has the effective user, also of a process that cannot be dumped
                uid = os.stat(f"{self._proc}/{pid}").st_uid
            except OSError:
                return None
            command = command_of(self._proc, pid, self._secret) if not is_kernel else ""
            command = command or (last.command if last is not None and last.name == name else f"[{name}]")
        else:
            uid, command = last.uid, last.command
        state, pages = fields[STATE].decode("ascii", "replace"), int(fields[RSS])
        has_memory = not is_kernel and state != ZOMBIE
        return MachineProcess(
            pid,
            start,
            int(fields[PPID]),
            uid,
            self._user(uid),
            state,
            name,
            command,
            percent,
            pages * PAGE_BYTES if has_memory else None,
            int(fields[THREADS]),
            is_kernel,
        )

    def _percent(self, before_ns: int | None, cpu_ns: int, start: int, elapsed: float | None) -> float | None:
        """CPU percent since the reading before; None at the first one, and for an older process that was not read."""
        if elapsed is None or elapsed <= 0 or self._read_at is None:
            return None
        if before_ns is None:
            if start * TICK_SECONDS < self._read_at - elapsed - TICK_SECONDS:
                return None
            before_ns = 0
        return max(0.0, (cpu_ns - before_ns) / (1e7 * elapsed))

    def _read_stat(self, pid: int) -> tuple[str, list[bytes]] | None:
        """The name of a process, which may hold spaces and brackets, and the fields of `stat` after it."""
        try:
            fd = os.open(f"{self._proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            text = os.read(fd, STAT_BYTES)
        except OSError:  # ESRCH: it exited after its file was opened
            return None
        finally:
            os.close(fd)
        head, _, rest = text.rpartition(b")")
        fields = rest.split()
        return (os.fsdecode(head.partition(b"(")[2]), fields) if len(fields) > RSS else None
