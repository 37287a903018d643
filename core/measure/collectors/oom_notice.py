"""Tells whether a cgroup of version 1 ran out of memory, also after it was removed.

Its counter of OOM kills is gone with the cgroup, and no parent has it. The kernel adds 1 to an eventfd each time that
the cgroup runs out of memory, and 1 when it is removed (mm/memcontrol-v1.c).
"""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress

CONTROL, REGISTER = "memory.oom_control", "cgroup.event_control"
REMOVAL_SECONDS = 1.0  # for the kernel to tell of a removal


class OomNotice:
    """What the kernel tells of one cgroup from now on; it needs the right to write there."""

    def __init__(self, directory: str, fd: int) -> None:
        self.directory, self.fd = directory, fd
        self.told = 0  # how often the kernel has told something

    def take(self) -> None:
        """Count what the kernel has told since the last call."""
        with suppress(BlockingIOError):
            self.told += os.eventfd_read(self.fd)

    def has_happened(self, removal_seconds: float = REMOVAL_SECONDS) -> bool:
        """Whether the cgroup ran out of memory; waits for the removal if it is not certain without."""
        self.take()
        if os.path.exists(f"{self.directory}/{CONTROL}"):
            return self.told > 0
        poll, due = select.poll(), time.monotonic() + removal_seconds
        poll.register(self.fd, select.POLLIN)
        while self.told < 2 and (left := due - time.monotonic()) > 0:
            poll.poll(left * 1000)
            self.take()
        return self.told > 1

    def close(self) -> None:
        os.close(self.fd)


def listen(directories: tuple[str, ...]) -> OomNotice | None:
    """Listen to the first of these cgroups that has a memory controller of version 1; None if none may be."""
    for directory in directories:
        if not os.path.exists(f"{directory}/{CONTROL}"):
            continue
        try:
            control = os.open(f"{directory}/{CONTROL}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            with open(f"{directory}/{REGISTER}", "w") as register:
                register.write(f"{fd} {control}")
        except OSError:
            os.close(fd)
            return None
        finally:
            os.close(control)
        return OomNotice(directory, fd)
    return None
