"""Reads a process that is already running, or says why it cannot be monitored."""

from __future__ import annotations

import os
import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.errors import UsageError
from jobtop.core.measure.collectors.cgroup import cpu_quota
from jobtop.core.measure.collectors.members import START, TICK_SECONDS
from jobtop.core.measure.collectors.threads import read_arguments
from jobtop.core.model import Identity
from jobtop.core.procfs import HAS_PROC, SHIM_NAME, boot_id, name_of, read_text, start_ticks, stat_fields, value_in
from jobtop.core.record import record
from jobtop.core.units import printable

FLAGS, KERNEL_THREAD = 6, 0x00200000  # PF_KTHREAD, in /proc/PID/stat


@record
class Process:
    """Its identity, command, directory, start, and memory peak so far."""

    identity: Identity
    command: tuple[str, ...]
    cwd: str
    user: str
    start_time: float
    start_boottime: float
    cpus: float
    high_bytes: int | None


def meet(pid: int) -> Process:
    """The process with this pid."""
    fields, status = stat_fields(pid), read_text(f"/proc/{pid}/status")
    if (why := refusal(pid, fields, status)) is not None:
        raise UsageError(why)
    try:
        user = user_name(os.stat(f"/proc/{pid}").st_uid)
        cwd, cpus = os.readlink(f"/proc/{pid}/cwd"), float(len(os.sched_getaffinity(pid)))
    except PermissionError:
        able = user if user == "root" else f"{user}, or as root"
        raise UsageError(f"process {pid} of {user} cannot be read: attach as {able}") from None
    except OSError:
        raise UsageError(f"process {pid} has just exited") from None
    command = read_arguments(pid) or (name_of(pid),)
    start = int(fields[START])
    now, since_boot = time.time(), time.clock_gettime(BOOTTIME)
    if start_ticks(pid) != start:
        raise UsageError(f"process {pid} has just exited")
    began = start * TICK_SECONDS
    return Process(
        Identity(boot_id(), pid, start),
        command,
        cwd,
        user,
        now - (since_boot - began),
        began,
        min(cpus, cpu_quota(f"/proc/{pid}") or cpus),
        value_in(status, "VmHWM:") * 1024 or None,
    )


def refusal(pid: int, fields: list[str], status: str) -> str | None:
    """Why a process cannot be monitored, from its `stat` (from the state on) and its `status`; None if it can."""
    if not HAS_PROC:
        return "jobtop attach needs /proc (as root: mount -t proc proc /proc)"
    if len(fields) <= START or fields[0] in "ZX":
        return f"there is no process {pid}, or it has exited (ps -e lists running processes)"
    leader = value_in(status, "Tgid:")
    if leader not in (0, pid):
        return f"{pid} is a thread of process {leader}: jobtop attach {leader}"
    if int(fields[FLAGS]) & KERNEL_THREAD:
        return f"process {pid} is a kernel thread, which cannot be a job"
    if pid in (1, os.getpid()) or status.startswith(f"Name:\t{SHIM_NAME}\n"):
        what = "the first process of the system" if pid == 1 else "a part of jobtop"
        return f"process {pid} is {what}: attach to another process"
    return None


def user_name(number: int) -> str:
    """The name of a user, or the number if this machine has no name for it."""
    import pwd

    try:
        return printable(pwd.getpwuid(number).pw_name)
    except KeyError:
        return str(number)
