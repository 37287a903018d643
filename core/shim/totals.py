"""What a job used, added up: the dead by what the kernel says of them, the living by looking at them.

Part of every shim: standard library only, nothing imported late.
"""

import os
import sys
import time

from jobtop.core.procfs import children, descendants, name_of, read_text, signals, stat_fields, value_in, word_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

RUSAGE_KEYS = ("utime", "stime", "minflt", "majflt", "inblock", "oublock", "nvcsw", "nivcsw")
MAX_HELD = 128  # descriptors of io files
DISCARDED_SECONDS, DISCARDED_SHARE = 0.05, 0.02  # of CPU time that was seen and is in no total
HAS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


class Ledger:
    """The account of everything below one shim."""

    def __init__(self, root: int) -> None:
        self.root, self.main = root, 0
        self.totals = [0.0] * len(RUSAGE_KEYS)
        self.maxrss_kib = self.floor_kib = self.hwm_kib = 0
        self.reaped = self.seen = 0
        self.peak = self.threads = 1
        self.alive: set[int] = set()
        self.kin: dict[int, tuple[int, int]] = {}
        self.known: dict[int, tuple[int | None, list[int], tuple[int, int] | None, int]] = {}
        self.discarding: str | None = None
        self.clocks: dict[int, int] = {}  # CPU nanoseconds of the living as last seen …
        self.ended_ns = 0  # … and of those that have ended
        self.io_fds: dict[int, int] = {}
        self.chars = [0, 0]
        self.chars_missing = 0

    def read_zombie(self, pid: int) -> None:
        """Take from a dead child what is gone once it is waited for."""
        self.note_sigchld(pid, read_text(f"/proc/{pid}/status"))
        self.note_unwaited_by(pid)
        if pid not in self.io_fds:
            self.hold_io(pid)
        fd = self.io_fds.pop(pid, -1)
        if fd < 0:
            self.chars_missing += 1
            return
        try:
            words = os.pread(fd, 1024, 0).split()
            self.chars[0] += int(words[1])
            self.chars[1] += int(words[3])
        except (OSError, IndexError):
            self.chars_missing += 1
        finally:
            os.close(fd)

    def count(self, pid: int, usage: "Any") -> None:
        """Add what a dead child and the children it had waited for have used."""
        for index, key in enumerate(RUSAGE_KEYS):
            self.totals[index] += getattr(usage, "ru_" + key)
        self.maxrss_kib = max(self.maxrss_kib, usage.ru_maxrss)
        self.reaped += 1
        self.kin.pop(pid, None)  # we have waited for it, whatever its parent did
        self.ended_ns += self.clocks.pop(pid, 0)
        if pid not in self.alive:
            self.seen += 1
        self.alive.discard(pid)

    def census(self) -> bool:
        """Look at the living, for what the kernel does not carry into a parent's totals; True if there is news."""
        members = self.members()
        if self.alive.difference(members):  # orphans may have come to one who has not run since
            self.known.clear()
            members = self.members()
        fresh, threads = set(members) - self.alive, sum(self.known[pid][3] for pid in members)
        self.note_unwaited({pid: kin for pid in members if (kin := self.known[pid][2]) is not None})
        self.known = {pid: self.known[pid] for pid in members}
        self.ended_ns += sum(self.clocks.pop(pid) for pid in set(self.clocks).difference(members))
        self.alive = set(members)
        for pid in [pid for pid in self.io_fds if pid not in self.alive and pid != self.main]:
            os.close(self.io_fds.pop(pid))
        for pid in fresh:
            self.hold_io(pid)
        self.seen += len(fresh)
        self.peak, self.threads = max(self.peak, len(members)), max(self.threads, threads)
        return bool(fresh)

    def members(self) -> "list[int]":
        """Everything below the shim, parents before children, each looked at if it has run."""
        order = children(self.root) if HAS_CHILDREN else descendants(self.root)
        listed = set(order)
        for pid in order:
            fresh = [child for child in self.look(pid) if child not in listed]
            listed.update(fresh)
            order += fresh
        return order

    def look(self, pid: int) -> "list[int]":
        """The children of a process; who has not run has no new ones, and no new mark, threads or habits either."""
        moment = cpu_nanoseconds(pid)
        self.note_clock(pid, moment)
        if pid in self.known and moment is not None and self.known[pid][0] == moment:
            return self.known[pid][1]
        text, below = read_text(f"/proc/{pid}/status"), children(pid) if HAS_CHILDREN else []
        self.note_sigchld(pid, text)
        self.hwm_kib = max(self.hwm_kib, value_in(text, "VmHWM:"))
        self.known[pid] = (moment, below, kinship(pid), value_in(text, "Threads:"))
        return below

    def note_sigchld(self, pid: int, status: str) -> None:
        """A process that ignores SIGCHLD makes the kernel throw its children's times away."""
        ignored = int(word_in(status, "SigIgn:") or "0", 16)
        if self.discarding is None and ignored >> (signals.SIGCHLD - 1) & 1:
            self.discarding = word_in(status, "Name:") or str(pid)

    def note_unwaited(self, kin: "dict[int, tuple[int, int]]") -> None:
        """A child gone without a trace in its living parent was never waited for (SA_NOCLDWAIT) and is forgotten."""
        for pid, (parent, _) in self.kin.items():
            if pid in kin or parent not in kin or parent not in self.kin or self.discarding is not None:
                continue
            # Read again: a parent that is looked at before its child may have waited for it in between.
            if kin[parent][1] == self.kin[parent][1] and kinship(parent) == kin[parent]:
                self.discarding = name_of(parent) or str(parent)
        self.kin = kin

    def note_unwaited_by(self, parent: int) -> None:
        """The same of a parent that ends: a living child of it is ours now, one that it waited for left a trace."""
        if self.discarding is not None or parent not in self.kin:
            return
        now = kinship(parent)
        if now is None or now[1] != self.kin[parent][1]:
            return
        below = [pid for pid, (above, _) in self.kin.items() if above == parent]
        if any(kinship(pid) is None for pid in below):
            self.discarding = name_of(parent) or str(parent)

    def note_clock(self, pid: int, moment: int | None) -> None:
        """Keep what a process has used; one that has used less is another of the same number."""
        if moment is not None:
            before = self.clocks.get(pid, 0)
            self.ended_ns += before if moment < before else 0
            self.clocks[pid] = moment

    def note_discarded(self) -> None:
        """When all have ended, what was seen of them has to be in the totals: else a parent did not wait."""
        seen, counted = (self.ended_ns + sum(self.clocks.values())) / 1e9, self.totals[0] + self.totals[1]
        if self.discarding is None and seen - counted > max(DISCARDED_SECONDS, DISCARDED_SHARE * seen):
            self.discarding = "a process"

    def hold_io(self, pid: int) -> None:
        """Open a process's io file while that is allowed: the descriptor still reads when it is a zombie."""
        if pid in self.io_fds or len(self.io_fds) > MAX_HELD:
            return
        try:
            self.io_fds[pid] = os.open(f"/proc/{pid}/io", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return

    def counts(self) -> "Iterator[tuple[str, object]]":
        """What was added up of the dead and seen of the living."""
        for name, value in zip(RUSAGE_KEYS, self.totals, strict=True):
            yield name, f"{value:.6f}" if name in ("utime", "stime") else int(value)
        scale = 1024 if sys.platform == "linux" else 1  # ru_maxrss is in KiB on Linux, in bytes on macOS
        yield "maxrss", self.maxrss_kib * scale
        yield "floor", self.floor_kib * 1024
        yield "hwm", self.hwm_kib * 1024
        yield "rchar", self.chars[0]
        yield "wchar", self.chars[1]
        yield "chars_missing", self.chars_missing
        yield "reaped", self.reaped
        yield "seen", self.seen
        yield "peak", self.peak
        yield "threads", self.threads


def cpu_nanoseconds(pid: int) -> int | None:
    """The CPU time of a process by its clock; None if it is gone, or where there are no such clocks."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)
    except (OSError, AttributeError):
        return None


def kinship(pid: int) -> "tuple[int, int] | None":
    """The parent of a process, and the page faults of the children it has waited for: every child has some."""
    fields = stat_fields(pid)
    return (int(fields[1]), int(fields[8])) if len(fields) > 8 else None
