"""Listens to the memory cgroup of a container before its first process runs, which may run out of memory at once."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from jobtop.core.measure.collectors import oom_notice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

PAUSE_SECONDS = 0.003  # the runtime needs longer from the cgroup of a container to its first process


class EarlyNotice(threading.Thread):
    """Waits until an engine makes the cgroup of a container in a parent of ours, and listens to it from then on.

    The engine answers a start only after the first process runs: by then it may be gone, with its cgroup.
    """

    def __init__(self, parents: Iterable[str], container_id: str) -> None:
        super().__init__(name="jobtop-notice", daemon=True)
        self.notice: oom_notice.OomNotice | None = None
        self._id, self._ended = container_id, threading.Event()
        tops = ((parent, os.path.dirname(parent)) for parent in parents)
        self._parents = [parent for parent, top in tops if os.path.exists(f"{top}/{oom_notice.CONTROL}")]

    def run(self) -> None:
        while self._parents and self.notice is None:
            for directory in self._found():
                self.notice = oom_notice.listen((directory,))
                if self.notice is None:  # it may not be listened to
                    return
            if self._ended.wait(PAUSE_SECONDS):
                return

    def _found(self) -> list[str]:
        found: list[str] = []
        for parent in self._parents:
            with suppress(OSError):
                found += [f"{parent}/{name}" for name in os.listdir(parent) if self._id in name]
        return [directory for directory in found if os.path.exists(f"{directory}/{oom_notice.CONTROL}")][:1]

    def end(self) -> oom_notice.OomNotice | None:
        """What the kernel tells of the cgroup; None if it was not found. The caller closes it."""
        self._ended.set()
        self.join()
        return self.notice
