"""Memory that a job holds by open files alone: memfds, as far as no process of it has their pages mapped."""

from __future__ import annotations

import os
import time

from jobtop.core.measure.collectors.open_file import KeptFile
from jobtop.core.procfs import read_text, value_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobtop.core.measure.collectors.members import Tree

    File = tuple[int, int]  # device and inode

LINK = "/memfd:"
BLOCK_BYTES = 512  # the unit of st_blocks
LEAST_BYTES, LEAST_SHARE = 1024 * 1024, 0.01  # of what is resident: less is not worth reading


class Memfds:
    """Searches the open files of a job when the shared memory of the whole machine has changed."""

    def __init__(self, proc: str) -> None:
        self.proc = proc
        self._meminfo = KeptFile(f"{proc}/meminfo")
        self.unread: set[Tree] = set()  # jobs that have changed since

    def read(self, budget_seconds: float) -> float:
        """Read the jobs that have run since, as far as the budget goes; return what it cost."""
        waiting = [tree for tree in self.unread if tree.counts_memfds and tree.members]
        self.unread.clear()
        if not waiting:
            return 0.0
        began, cost = time.thread_time(), 0.0
        host_bytes = value_in(self._meminfo.read(), "Shmem:") * 1024
        for tree in waiting:
            resident = sum(member.rss for member in tree.members.values())
            change = abs(host_bytes - tree.memfd_host_bytes)
            if tree.memfd_bytes:  # mapping its pages moves them from the file to a process
                change = max(change, abs(resident - tree.memfd_resident_bytes))
            if change <= LEAST_BYTES or change <= LEAST_SHARE * resident:
                continue
            if cost >= budget_seconds:
                tree.memfd_unread_bytes = max(tree.memfd_unread_bytes, host_bytes - tree.memfd_host_bytes)
                self.unread.add(tree)
                continue
            tree.memfd_bytes, tree.memfd_resident_bytes = self._unmapped_bytes(tree), resident
            tree.note_change()
            self.unread.discard(tree)
            tree.memfd_host_bytes, tree.memfd_unread_bytes = host_bytes, 0
            cost = time.thread_time() - began
        return time.thread_time() - began

    def close(self) -> None:
        self._meminfo.close()

    def _unmapped_bytes(self, tree: Tree) -> int:
        """Each file once, without the pages that are in the memory of processes anyway."""
        sizes = dict(size for pid in tree.members for size in self._open_sizes(pid))
        if sum(sizes.values()) <= LEAST_BYTES:
            return 0
        field = "Pss:" if len(tree.members) > 1 else "Rss:"
        mapped = dict.fromkeys(sizes, 0)
        for pid in tree.members:
            for file, held in self._mappings(pid, field):
                if file in mapped:
                    mapped[file] += held
        return sum(max(0, size - mapped[file]) for file, size in sizes.items())

    def _open_sizes(self, pid: int) -> Iterator[tuple[File, int]]:
        folder = f"{self.proc}/{pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:  # gone, or another user's
            return
        for name in names:
            try:
                if os.readlink(f"{folder}/{name}").startswith(LINK):
                    found = os.stat(f"{folder}/{name}")
                    yield (found.st_dev, found.st_ino), found.st_blocks * BLOCK_BYTES
            except OSError:  # closed since
                continue

    def _mappings(self, pid: int, field: str) -> Iterator[tuple[File, int]]:
        """What a process has of each memfd in its memory; the expensive file is read only if it has mapped one."""
        if LINK not in read_text(f"{self.proc}/{pid}/maps"):
            return
        file: File | None = None
        for line in read_text(f"{self.proc}/{pid}/smaps").splitlines():
            if LINK in line:
                _, _, _, device, inode, _ = line.split(None, 5)
                major, minor = (int(part, 16) for part in device.split(":"))
                file = os.makedev(major, minor), int(inode)
            elif line.startswith("VmFlags:"):
                file = None
            elif file is not None and line.startswith(field):
                yield file, int(line.split()[1]) * 1024
