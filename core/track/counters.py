"""What the kernel says about this process: CPU time with that of its children, memory, I/O, and its live children."""

from __future__ import annotations

import os
import resource
import time

from jobtop.core.procfs import children, descendants, pid_clock, read_text, stat_fields, value_in
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
IO_NAMES = {"io.read_chars": "rchar:", "io.write_chars": "wchar:", "io.read_ops": "syscr:", "io.write_ops": "syscw:"}
IO_NAMES |= {"io.read_bytes": "read_bytes:", "io.write_bytes": "write_bytes:"}
UTIME, STIME, CUTIME, CSTIME = 11, 12, 13, 14


@record
class Counters:
    """The counters of this process at one moment; those of children are of the reaped ones."""

    user_seconds: float
    system_seconds: float
    children_user_seconds: float
    children_system_seconds: float
    faults_minor: int
    faults_major: int
    switches_voluntary: int
    switches_involuntary: int
    io: dict[str, int]  # by catalogue key, with that of reaped children; empty where it is not known
    resident_bytes: int | None
    high_bytes: int | None  # the most that was resident since the process started


def read_counters() -> Counters:
    """The counters of this process now."""
    own, reaped = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    text, status = read_text("/proc/self/io"), read_text("/proc/self/status")
    return Counters(
        own.ru_utime,
        own.ru_stime,
        reaped.ru_utime,
        reaped.ru_stime,
        own.ru_minflt + reaped.ru_minflt,
        own.ru_majflt + reaped.ru_majflt,
        own.ru_nvcsw + reaped.ru_nvcsw,
        own.ru_nivcsw + reaped.ru_nivcsw,
        {key: value_in(text, name) for key, name in IO_NAMES.items()} if text else {},
        value_in(status, "VmRSS:") * 1024 if status else None,
        value_in(status, "VmHWM:") * 1024 if status else own.ru_maxrss,
    )


def own_cpu() -> tuple[float, float]:
    """User and system seconds of this process, without its children."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime, used.ru_stime


def thread_clock(thread: int) -> int:
    """The id of the clock that counts the CPU time of one thread of this process."""
    return (~thread << 3) | 6


def own_thread_seconds(thread: int) -> float | None:
    """The CPU time of a thread of this process; None if it has exited, or the system has no such clocks."""
    try:
        return time.clock_gettime(thread_clock(thread))
    except OSError:
        return None


def tree_cpu(pid: int) -> tuple[float, float]:
    """User and system seconds of a process, of those below it, and of all that these have reaped."""
    user = system = 0.0
    for each in (pid, *descendants(pid)):
        fields = stat_fields(each)
        if len(fields) <= CSTIME:
            continue
        own_user, own_system, reaped_user, reaped_system = (
            int(fields[place]) * TICK_SECONDS for place in (UTIME, STIME, CUTIME, CSTIME)
        )
        try:
            own = time.clock_gettime(pid_clock(each))
        except OSError:
            own = own_user + own_system
        share = own_user / (own_user + own_system) if own_user + own_system > 0 else 1.0
        user += own * share + reaped_user
        system += own * (1 - share) + reaped_system
    return user, system


def tree_io(pids: Iterable[int]) -> dict[str, int]:
    """The I/O of processes and of those below them, by catalogue key."""
    total: dict[str, int] = {}
    for pid in pids:
        for each in (pid, *descendants(pid)):
            if text := read_text(f"/proc/{each}/io"):
                for key, name in IO_NAMES.items():
                    total[key] = total.get(key, 0) + value_in(text, name)
    return total


def live_children() -> dict[int, tuple[float, float]]:
    """The children of this process, with the user and system seconds of each and of those below it."""
    return {pid: tree_cpu(pid) for pid in children(os.getpid())}
