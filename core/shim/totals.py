"""What a job used in total: the kernel's counts for exited processes, and what was seen of live ones.

Part of every shim: standard library only, imports nothing later.
"""

import os
import sys
import time

from jobtop.core.procfs import (
    children,
    descendants,
    name_of,
    pid_clock,
    read_text,
    signals,
    stat_fields,
    value_in,
    word_in,
)
from jobtop.core.shim.system_calls import now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from jobtop.core.shim.facts import Counts

    Parent = tuple[int, int]  # the pid of the parent, and the page faults of the children that a process has reaped
    # The CPU nanoseconds of a process when it was read, its children, its parent, and its number of threads.
    Reading = tuple[int | None, list[int], Parent | None, int]

RUSAGE_KEYS = ("utime", "stime", "minflt", "majflt", "inblock", "oublock", "nvcsw", "nivcsw")
MOST_OPEN_FILES = 128  # io files of live processes
DISCARDED_SECONDS, DISCARDED_SHARE = 0.05, 0.02  # of CPU time that was seen and is in no total
CENSUS_FIRST_SECONDS, CENSUS_LAST_SECONDS = 0.004, 2.0
CENSUS_COST_RATIO = 40  # a census may take 1/40 of the time while there are new processes …
CENSUS_STABLE_COST_RATIO = 200  # … and 1/200 while there are none
HAS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


class Ledger:
    """The totals of all processes below one shim."""

    def __init__(self, root: int) -> None:
        self.root, self.main = root, 0
        self.totals = [0.0] * len(RUSAGE_KEYS)
        self.maxrss_kib = self.floor_kib = self.hwm_kib = 0
        self.reaped = self.seen = 0
        self.peak = self.threads = 1
        self.alive: set[int] = set()
        self.parents: dict[int, Parent] = {}
        self.readings: dict[int, Reading] = {}
        self.discarding: str | None = None  # the name of a process that does not wait for its children
        self.clocks: dict[int, int] = {}  # CPU nanoseconds of live processes when last seen …
        self.exited_ns = 0  # … and of exited ones
        self.io_fds: dict[int, int] = {}
        self.chars = [0, 0]
        self.chars_missing = 0

    def read_zombie(self, pid: int) -> None:
        """Read what /proc no longer has once an exited child is reaped."""
        self.note_sigchld(pid, read_text(f"/proc/{pid}/status"))
        self.note_unwaited_by(pid)
        if pid not in self.io_fds:
            self.open_io(pid)
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
        """Add the rusage of a reaped child, which includes the children that it has reaped itself."""
        for index, key in enumerate(RUSAGE_KEYS):
            self.totals[index] += getattr(usage, "ru_" + key)
        self.maxrss_kib = max(self.maxrss_kib, usage.ru_maxrss)
        self.reaped += 1
        self.parents.pop(pid, None)  # we have waited for it, whatever its parent did
        self.exited_ns += self.clocks.pop(pid, 0)
        if pid not in self.alive:
            self.seen += 1
        self.alive.discard(pid)

    def census(self) -> bool:
        """Read the live processes, for what the kernel does not add to their parents; True if some are new."""
        members = self.members()
        if self.alive.difference(members):  # their orphans may now be children of a process that has not run since
            self.readings.clear()
            members = self.members()
        fresh, threads = set(members) - self.alive, sum(self.readings[pid][3] for pid in members)
        self.note_unwaited({pid: parent for pid in members if (parent := self.readings[pid][2]) is not None})
        self.readings = {pid: self.readings[pid] for pid in members}
        self.exited_ns += sum(self.clocks.pop(pid) for pid in set(self.clocks).difference(members))
        self.alive = set(members)
        for pid in [pid for pid in self.io_fds if pid not in self.alive and pid != self.main]:
            os.close(self.io_fds.pop(pid))
        for pid in fresh:
            self.open_io(pid)
        self.seen += len(fresh)
        self.peak, self.threads = max(self.peak, len(members)), max(self.threads, threads)
        return bool(fresh)

    def members(self) -> "list[int]":
        """All processes below the shim, parents before children; those that have run since the last time are read."""
        order = children(self.root) if HAS_CHILDREN else descendants(self.root)
        listed = set(order)
        for pid in order:
            fresh = [child for child in self.read(pid) if child not in listed]
            listed.update(fresh)
            order += fresh
        return order

    def read(self, pid: int) -> "list[int]":
        """The children of a process. A process that has not run since the last time has changed nothing."""
        clock = cpu_nanoseconds(pid)
        self.note_clock(pid, clock)
        if pid in self.readings and clock is not None and self.readings[pid][0] == clock:
            return self.readings[pid][1]
        text, below = read_text(f"/proc/{pid}/status"), children(pid) if HAS_CHILDREN else []
        self.note_sigchld(pid, text)
        self.hwm_kib = max(self.hwm_kib, value_in(text, "VmHWM:"))
        self.readings[pid] = (clock, below, parent_of(pid), value_in(text, "Threads:"))
        return below

    def note_sigchld(self, pid: int, status: str) -> None:
        """Note a process that ignores SIGCHLD: the kernel discards what its children used."""
        ignored = int(word_in(status, "SigIgn:") or "0", 16)
        if self.discarding is None and ignored >> (signals.SIGCHLD - 1) & 1:
            self.discarding = word_in(status, "Name:") or str(pid)

    def note_unwaited(self, parents: "dict[int, Parent]") -> None:
        """Note a live parent that has lost a child without reaping it (SA_NOCLDWAIT).

        Every process has page faults, so reaping a child adds to the page faults of reaped children.
        """
        for pid, (parent, _) in self.parents.items():
            if pid in parents or parent not in parents or parent not in self.parents or self.discarding is not None:
                continue
            # Read again: the parent is read before its child, and may have reaped the child in between.
            if parents[parent][1] == self.parents[parent][1] and parent_of(parent) == parents[parent]:
                self.discarding = name_of(parent) or str(parent)
        self.parents = parents

    def note_unwaited_by(self, parent: int) -> None:
        """The same for a parent that has exited: its live children are ours now, so only exited ones are missing."""
        if self.discarding is not None or parent not in self.parents:
            return
        last = parent_of(parent)
        if last is None or last[1] != self.parents[parent][1]:
            return
        below = [pid for pid, (above, _) in self.parents.items() if above == parent]
        if any(parent_of(pid) is None for pid in below):
            self.discarding = name_of(parent) or str(parent)

    def note_clock(self, pid: int, clock: int | None) -> None:
        """Keep the CPU time of a process; if it is less than before, the pid belongs to a new process."""
        if clock is not None:
            before = self.clocks.get(pid, 0)
            self.exited_ns += before if clock < before else 0
            self.clocks[pid] = clock

    def note_discarded(self) -> None:
        """When all processes have exited, compare the totals with what was seen: less means a parent did not wait."""
        seen, counted = (self.exited_ns + sum(self.clocks.values())) / 1e9, self.totals[0] + self.totals[1]
        if self.discarding is None and seen - counted > max(DISCARDED_SECONDS, DISCARDED_SHARE * seen):
            self.discarding = "a process"

    def open_io(self, pid: int) -> None:
        """Open the io file of a process while that is allowed; an open one can still be read from a zombie."""
        if pid in self.io_fds or len(self.io_fds) > MOST_OPEN_FILES:
            return
        try:
            self.io_fds[pid] = os.open(f"/proc/{pid}/io", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return

    def counts(self) -> "Counts":
        """The totals for the report."""
        utime, stime, minflt, majflt, inblock, oublock, nvcsw, nivcsw = self.totals
        scale = 1024 if sys.platform == "linux" else 1  # ru_maxrss is in KiB on Linux, in bytes on macOS
        return {
            "utime": f"{utime:.6f}",
            "stime": f"{stime:.6f}",
            "minflt": int(minflt),
            "majflt": int(majflt),
            "inblock": int(inblock),
            "oublock": int(oublock),
            "nvcsw": int(nvcsw),
            "nivcsw": int(nivcsw),
            "maxrss": self.maxrss_kib * scale,
            "floor": self.floor_kib * 1024,
            "hwm": self.hwm_kib * 1024,
            "rchar": self.chars[0],
            "wchar": self.chars[1],
            "chars_missing": self.chars_missing,
            "reaped": self.reaped,
            "seen": self.seen,
            "peak": self.peak,
            "threads": self.threads,
        }


class Census:
    """When the ledger reads the live processes: often at first, later as seldom as the cost of it demands."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.looked_seconds = 0.0  # the age of the job at the last census
        self._start_boottime = 0.0
        self._due = 0.0
        self._pause = CENSUS_FIRST_SECONDS

    def begin(self, moment: float, start_boottime: float) -> None:
        self._start_boottime = start_boottime
        self._due = moment + CENSUS_FIRST_SECONDS

    def due_times(self) -> "tuple[float | None, ...]":
        return (self._due,)

    def attend(self, moment: float) -> None:
        """Take a census if it is due."""
        if moment < self._due:
            return
        before = time.process_time()
        ratio = CENSUS_COST_RATIO if self.ledger.census() else CENSUS_STABLE_COST_RATIO
        self.looked_seconds = now()[1] - self._start_boottime
        pause = max(self._pause, (time.process_time() - before) * ratio)
        self._due = time.monotonic() + pause
        self._pause = min(self._pause * 2, CENSUS_LAST_SECONDS)


def cpu_nanoseconds(pid: int) -> int | None:
    """The CPU time of a process by its clock; None if it is gone, or where processes have no clocks."""
    try:
        return time.clock_gettime_ns(pid_clock(pid))
    except (OSError, AttributeError):
        return None


def parent_of(pid: int) -> "Parent | None":
    """The parent of a process, and the page faults of the children that the process has reaped; None if it is gone."""
    fields = stat_fields(pid)
    return (int(fields[1]), int(fields[8])) if len(fields) > 8 else None
