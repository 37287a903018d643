"""Numbers for alert rules that take long to read, or may never come: the disks of jobs and the size of the history.

A directory on a server that does not answer blocks its reader for ever, so a thread of its own reads them.
"""

from __future__ import annotations

import os
import threading
import time

from jobtop.store.upkeep.job_sizes import directory_bytes, file_disk_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobtop.core.paths import StatePaths

DISK_SECONDS = 60.0
FIRST_SECONDS = 5.0  # a short job pays nothing for it
STORE_SECONDS = 3600.0  # to measure 100,000 directories takes a second of CPU time


class SlowKeys:
    """Reads the numbers about once a minute; `jobs` and `host` have what was read last, absent is left out."""

    def __init__(self, paths: StatePaths, store_limit_bytes: int) -> None:
        self.paths, self.store_limit_bytes = paths, store_limit_bytes
        self.host: Mapping[str, float] = {}
        self.disks: Mapping[str, tuple[float, float]] = {}  # used and total bytes, by directory
        self._due = time.monotonic() + FIRST_SECONDS
        self._output_bytes: int | None = None
        self._output_due = self._due
        self._thread: threading.Thread | None = None

    def refresh(self, directories: frozenset[str], now: float) -> bool:
        """Start to read again if that is due and nothing hangs; whether new numbers have come since the last call."""
        if self._thread is not None:
            if self._thread.is_alive():
                return False
            self._thread = None
            return True
        if now >= self._due:
            self._due = now + DISK_SECONDS
            self._thread = threading.Thread(
                target=self._read, args=(directories, now), name="jobtop-disks", daemon=True
            )
            self._thread.start()
        return False

    def of_job(self, directory: str) -> dict[str, float]:
        """The numbers of a job that runs in a directory."""
        found = self.disks.get(directory)
        return {} if found is None else {"cwd.disk_used": found[0], "cwd.disk_total": found[1]}

    def _read(self, directories: frozenset[str], now: float) -> None:
        host: dict[str, float] = {}
        if (disk := disk_space(self.paths.names.root)) is not None:
            host |= {"store.disk_used": disk[0], "store.disk_total": disk[1]}
        if self.store_limit_bytes and now >= self._output_due:
            self._output_due = now + STORE_SECONDS
            self._output_bytes = output_bytes(self.paths.names.jobs)
        if self.store_limit_bytes and self._output_bytes is not None:
            store = sum(file_disk_bytes(self.paths.names.store + end) for end in ("", "-wal"))
            host |= {"store.used": store + self._output_bytes, "store.limit": self.store_limit_bytes}
        self.host = host
        self.disks = {directory: space for directory in directories if (space := disk_space(directory)) is not None}


def output_bytes(jobs: str) -> int:
    """The disk space of the directories of all jobs."""
    try:
        with os.scandir(jobs) as entries:
            return sum(directory_bytes(entry.path) for entry in entries)
    except OSError:
        return 0


def disk_space(directory: str) -> tuple[float, float] | None:
    """Used and total bytes of the disk of a directory, of what this user may use; None if that cannot be read."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return None
    used = (found.f_blocks - found.f_bfree) * found.f_frsize
    total = used + found.f_bavail * found.f_frsize
    return (float(used), float(total)) if total > 0 else None
