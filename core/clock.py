"""Which boot this is, and moments as text."""

import os
from datetime import UTC, datetime

from jobtop.core.procfs import read_text


def boot_id() -> str:
    """What makes a pid and its start time unique for ever; where the kernel gives no id, the time of the boot."""
    if text := read_text("/proc/sys/kernel/random/boot_id").strip():
        return text
    import psutil

    return f"boot-{int(psutil.boot_time())}"


def iso(moment: float | None) -> str | None:
    """Seconds since the epoch as ISO 8601 in UTC with microseconds."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def from_iso(text: str | None) -> float | None:
    """The inverse of `iso`."""
    return None if text is None else datetime.fromisoformat(text).timestamp()


def local(moment: float | None) -> str:
    """Seconds since the epoch as a person at this machine reads a clock."""
    return "–" if moment is None else datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def cpus_allowed() -> int:
    """How many CPUs this process may run on, whatever the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
