"""Processes by identity: which are alive, which belong to a job, and signals that never reach another process."""

import os

from jobtop.core.measure.collectors.cgroup import cpu_quota
from jobtop.core.model import Identity
from jobtop.core.procfs import HAS_PROC, boot_id, signal_descendants, signals, start_ticks, stat_fields


def identify(pid: int) -> Identity:
    """The identity of a process that lives now."""
    return Identity(boot_id(), pid, start_ticks(pid))


def is_alive(identity: Identity) -> bool:
    """Whether this process still runs; a zombie does not."""
    if identity.boot != boot_id():
        return False
    if not HAS_PROC:
        return _answers(identity.pid)
    fields = stat_fields(identity.pid)
    return len(fields) > 19 and int(fields[19]) == identity.start and fields[0] not in "ZX"


def send(identity: Identity, number: int) -> bool:
    """Signal one process through a pidfd, its start time checked after the pidfd was opened; False if it is gone."""
    try:
        held = os.pidfd_open(identity.pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return False
    try:
        if not is_alive(identity):
            return False
        if held is None:
            os.kill(identity.pid, number)
        else:
            signals.pidfd_send_signal(held, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        if held is not None:
            os.close(held)


def send_to_members(shim: Identity, number: int) -> int:
    """Signal every process below this shim; return how many got the signal."""
    return len(signal_descendants(shim.pid, number)) if is_alive(shim) else 0


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def cpus_allowed() -> float:
    """How many CPUs we may use by affinity and by quota, whatever the machine has."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, cpu_quota() or count)
