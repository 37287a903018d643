"""The processes of any number of jobs, swept in one pass a tick: all clocks, and the files of those that have run.

Own CPU time comes from the pid clock, that of reaped children from `cutime + cstime`. The shim is read first, then
parents before children, so that nothing counts twice: what is read late can only be missing, and totals never fall.
"""

from __future__ import annotations

import errno
import os
import resource
import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors.expensive_files import ExpensiveFiles
from jobtop.core.measure.collectors.members import (
    LONGEST_READ_SECONDS,
    PPID,
    RSS,
    SETTLED,
    START,
    Member,
    Tree,
)
from jobtop.core.measure.collectors.pids import PidWatch
from jobtop.core.procfs import pid_clock, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from jobtop.core.measure.target import Target

GONE = (errno.ESRCH, errno.ENOENT)
RECHECKED = 4  # processes of no job: after each listing of /proc the parents of so many are read again
MOST_PASSES = 4
MOST_TRIES = 3
CLOCK_SECONDS = 3e-6
STAT_BYTES = 1024  # more than any `stat` or `io` has
LONGEST_UNREAD = 60  # sweeps in which the shim of an idle job is not read
FEW_MEMBERS = 64
MOST_DESCRIPTORS = 65536


def raise_descriptor_limit() -> None:
    """Raise the limit of open files as far as allowed: two files of every process stay open.

    Processes that are started later inherit the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class ProcessTable:
    """All processes of the machine, those of jobs and others; `proc` and `clock` are where they are read."""

    def __init__(
        self,
        proc: str = "/proc",
        clock: Callable[[int], int] = time.clock_gettime_ns,
        most_descriptors: int | None = None,
    ) -> None:
        self.proc, self.clock = proc, clock
        self.trees: dict[int, Tree] = {}
        self.owner: dict[int, Tree] = {}
        self.other_processes: set[int] = set()  # of no job
        self.undecided: dict[int, int] = {}  # processes with an unknown parent, and how often that was so
        self._pids = PidWatch(proc, self._has_clock)
        self._sweeps = 0
        self._members_version = 0  # rises when a process of a job comes or goes
        self._members_of: tuple[list[Tree], int] = ([], 0)
        self._members: list[Member] = []
        self._counted = (0, 0)  # how many processes all jobs have, and of which `_members_version` that is
        self.read_at = 0.0  # the moment of the last sweep over the clocks
        self.kept_descriptors = 0
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.most_descriptors = soft // 2 if most_descriptors is None else most_descriptors
        self.expensive = ExpensiveFiles(proc, self._fields)
        self.changed: set[Tree] = set()  # since a caller took them from here
        self._active: set[Tree] = set()  # that may have been active in the last sweep
        self._due: tuple[list[Tree] | None, frozenset[Tree]] = None, frozenset()

    def add_target(self, target: Target) -> Tree:
        """Sweep the processes of a job from the next sweep on."""
        return self.add(target.root.pid, target.includes_root, target.root.start)

    def add(self, root: int, includes_root: bool = False, root_start: int | None = None) -> Tree:
        """Sweep the processes below a root from the next sweep on, and the root itself if it is part of the job."""
        fields = self._stat(root)
        tree = self.trees[root] = Tree(root, int(fields[START]) if fields else 0, self.changed)
        tree.note_change()
        tree.root_is_gone = fields is None or root_start not in (None, tree.root.start)
        if not tree.root_is_gone:
            if includes_root:
                tree.include_root()
            self.owner[root] = tree
            below = self._below(root)
            unsure = self.other_processes if below is None else self.other_processes & below
            self.undecided |= dict.fromkeys(unsure, 0)
            self.other_processes = self.other_processes - unsure - {root}
            self._pids.list_next()
        self._members_version += 1
        return tree

    def remove(self, tree: Tree) -> None:
        """Sweep the processes of a job no longer."""
        self._members_version += 1
        for member in tree.all_members():
            self._close(member)
            if self.owner.get(member.pid) is tree:
                del self.owner[member.pid]
                self.other_processes.add(member.pid)
        for trees in (self.changed, self._active):
            trees.discard(tree)
        self.expensive.forget(tree)
        if self.trees.get(tree.root.pid) is tree:
            del self.trees[tree.root.pid]

    def close(self) -> None:
        for tree in list(self.trees.values()):
            self.remove(tree)
        self._pids.close()
        self.expensive.close()

    def sweep(self, due: list[Tree] | None = None) -> None:
        """Find new and exited processes, and read those of the jobs that are due which have run since."""
        pids = self._pids.changes()
        new, gone = pids.new, pids.gone
        for pid in gone & self.owner.keys():
            self._remove_process(pid, gone)
        for pid in gone & self.undecided.keys():
            del self.undecided[pid]
        # The pid of another process may have gone to a process of a job.
        self.other_processes -= gone | new
        if pids.is_wrapped:
            new, self.other_processes = new | self.other_processes, set()
        elif pids.was_listed:  # pop() goes round the set
            new |= {self.other_processes.pop() for _ in range(min(RECHECKED, len(self.other_processes)))}
        if new or self.undecided:
            self._assign(new - self.owner.keys() | self.undecided.keys())
        self._read_due(list(self.trees.values()) if due is None else due)

    def _read_due(self, due: list[Tree]) -> None:
        """Read the clocks of all processes in one go, and the files of those that have run.

        Where no process runs none exits: the shim of an idle job, which wakes by itself, is read now and then only.
        """
        members = self._members_in(due)
        times, read_at = self._read_clocks(members)
        self.read_at = read_at
        moved: dict[Tree, list[tuple[Member, int | None]]] = {}
        self._active |= self.changed
        if self._active:
            if self._due[0] is not due:
                self._due = due, frozenset(due)
            considered = self._active & self._due[1]
            self._active -= considered
            moved = {tree: [] for tree in considered if tree.was_active}
        times_before = [member.cpu_ns for member in members]
        if times != times_before:
            for member, cpu_ns, before in zip(members, times, times_before, strict=True):
                if cpu_ns != before:
                    moved.setdefault(member.tree, []).append((member, cpu_ns))
        self._sweeps += 1
        for tree in due[self._sweeps % LONGEST_UNREAD :: LONGEST_UNREAD]:
            if not tree.root_is_gone:
                moved.setdefault(tree, [])
        shims = [tree.root for tree in moved if not tree.root_is_gone and not tree.includes_root]
        shim_times, _ = self._read_clocks(shims)
        for shim, cpu_ns in zip(shims, shim_times, strict=True):
            if cpu_ns != shim.cpu_ns:  # else it has not run, so it has not reaped any process
                self._read_shim(shim.tree)
        for tree, active in moved.items():
            tree.read_at = read_at
            tree.was_active = not tree.root_is_gone and (not tree.members or len(active) > 0)
            if tree.was_active:
                self._active.add(tree)
            self._read_moved(tree, active)

    def _members_in(self, due: list[Tree]) -> list[Member]:
        """The processes of jobs, in their order; the same list again while none comes or goes."""
        if self._members_of != (due, self._members_version):
            self._members = [member for tree in due if not tree.root_is_gone for member in tree.members.values()]
            self._members_of = due, self._members_version
        return self._members

    def count_members(self) -> int:
        """How many processes all jobs have, as of the last sweep; from any thread."""
        count, version = self._counted
        if version != self._members_version:
            version = self._members_version
            count = sum(len(tree.members) for tree in list(self.trees.values()))
            self._counted = count, version
        return count

    def _read_clocks(self, members: list[Member]) -> tuple[list[int | None], float]:
        """The CPU time of each process, and the moment of the reading; again if this thread was interrupted."""
        numbers = [member.clock for member in members]
        longest = LONGEST_READ_SECONDS + len(members) * CLOCK_SECONDS
        for _ in range(MOST_PASSES):
            began = time.clock_gettime(BOOTTIME)
            times: list[int | None]
            try:
                times = list(map(self.clock, numbers))
            except OSError:  # one was reaped since the list was made; a zombie still has its clock
                times = [self._read_clock(number) for number in numbers]
            took = time.clock_gettime(BOOTTIME) - began
            if took < longest:
                break
        return times, began + took / 2

    def _has_clock(self, pid: int) -> bool:
        return self._read_clock(pid_clock(pid)) is not None

    def _read_clock(self, number: int) -> int | None:
        try:
            return self.clock(number)
        except OSError:
            return None

    def _read_moved(self, tree: Tree, moved: list[tuple[Member, int | None]]) -> None:
        """Read the processes that have run. If one was reaped since, read all again, so that none counts twice."""
        has_run = False
        for member, cpu_ns in moved:
            if cpu_ns is None:
                self._remove_process(member.pid)
                continue
            if (member.cpu_ns is not None and cpu_ns < member.cpu_ns) or not self._read(tree, member):
                self._read_tree(tree)
                return
            member.take_clock(cpu_ns)
            has_run = True
        if has_run:
            tree.note_change()
        if tree.reaped_growth or tree.vanished != SETTLED or tree.root_is_gone:
            self._read_tree(tree)

    def _below(self, root: int) -> set[int] | None:
        """All descendants of a process; None where the kernel has no `children` files."""
        below: set[int] = set()
        order = [root]
        for pid in order:
            try:
                tasks = os.listdir(f"{self.proc}/{pid}/task")
                texts = [read_text(f"{self.proc}/{pid}/task/{task}/children") for task in tasks]
            except OSError:
                if pid == root:
                    return None
                continue
            children = {int(child) for text in texts for child in text.split()} - below
            below |= children
            order += children
        return below if os.path.exists(f"{self.proc}/{root}/task/{root}/children") else None

    def read_details(self, budget_seconds: float, without: frozenset[str] = frozenset()) -> None:
        """Read the expensive files too, as far as the budget of this and former ticks allows."""
        self.expensive.read(self.changed, budget_seconds, without)

    def _remove_process(self, pid: int, gone: Container[int] = ()) -> None:
        """Note that a process exited; `gone` has the pids of others that exited too."""
        tree = self.owner.pop(pid)
        tree.note_change()
        self._members_version += 1
        if pid == tree.root.pid:
            tree.root_is_gone = True
            if not tree.includes_root:
                self._close(tree.root)
                return
        member = tree.members.pop(pid)
        self._close(member)
        tree.account_for(member, member.parent in tree.members and member.parent not in gone)

    def _assign(self, fresh: Iterable[int]) -> None:
        """Assign new processes to the jobs of their parents; a parent may be new itself.

        A process with an unknown parent stays undecided: the parent started or exited during the sweep.
        """
        unknown: dict[int, tuple[int, int]] = {}
        files: dict[int, int] = {}
        for pid in fresh:
            if (opened := self._open_stat(pid)) is not None:
                files[pid], fields = opened
                unknown[pid] = (int(fields[PPID]), int(fields[START]))
        for pid in self._assign_by_parents(unknown):
            self._keep(self.owner[pid].members[pid], "stat_fd", files.pop(pid))
        for fd in files.values():
            os.close(fd)

    def _assign_by_parents(self, unknown: dict[int, tuple[int, int]]) -> list[int]:
        """Assign processes by their parents, given with their start times; return those that belong to jobs."""
        assigned: list[int] = []
        orphans = (pid for pid, (parent, _) in unknown.items() if parent == 0 and pid not in self.owner)
        self.other_processes.update(orphans)
        waiting = {pid for pid in unknown if pid not in self.other_processes}
        while True:
            found = [pid for pid in waiting if unknown[pid][0] in self.owner]
            others = [pid for pid in waiting if unknown[pid][0] in self.other_processes]
            if not found and not others:
                self._postpone(waiting)
                return assigned
            assigned += found
            for pid in found:
                parent, start = unknown[pid]
                tree = self.owner[pid] = self.owner[parent]
                member = tree.members[pid] = Member(pid, start, tree, parent)
                tree.newcomers.append(member)
                tree.births += 1
                self._members_version += 1
                tree.note_change()
            self.other_processes.update(others)
            waiting.difference_update(found, others)

    def _postpone(self, waiting: set[int]) -> None:
        """Decide in a later sweep; a parent that stays unknown is hidden (hidepid): its children are of no job."""
        tries = {pid: self.undecided.get(pid, 0) + 1 for pid in waiting}
        self.undecided = {pid: count for pid, count in tries.items() if count < MOST_TRIES}
        self.other_processes.update(tries.keys() - self.undecided.keys())

    def _read_tree(self, tree: Tree) -> None:
        """Read all processes until none vanishes meanwhile: its time is in that of a parent that was read before.

        Rates need the moment of the reading: if this thread was interrupted, the clocks are read again.
        """
        for _ in range(MOST_PASSES):
            began = time.clock_gettime(BOOTTIME)
            self._read_shim(tree)
            all_there = self._read_members(tree)
            took = time.clock_gettime(BOOTTIME) - began
            tree.read_at = began + took / 2
            if all_there:
                tree.settle()
                if took < LONGEST_READ_SECONDS or len(tree.members) > FEW_MEMBERS:
                    return

    def _read_shim(self, tree: Tree) -> None:
        if tree.root_is_gone or tree.includes_root:
            return
        shim = tree.root
        try:
            cpu_ns = self.clock(shim.clock)
        except OSError:
            self._remove_process(shim.pid)
            return
        if cpu_ns == shim.cpu_ns:  # it has not run, so it has not reaped any process
            return
        fields = self._fields(shim)
        if fields is None or (fields and int(fields[START]) != shim.start):
            self._remove_process(shim.pid)
        elif fields:
            shim.cpu_ns = cpu_ns
            tree.take_reaped(fields)
            shim.take_stat(fields)

    def _read_members(self, tree: Tree) -> bool:
        """Read the processes that have run; whether none was gone."""
        clock, all_there = self.clock, True
        for member in list(tree.members.values()):
            try:
                cpu_ns = clock(member.clock)
            except OSError:  # reaped since the list was made; a zombie still has its clock
                self._remove_process(member.pid)
                all_there = False
                continue
            if cpu_ns == member.cpu_ns:
                continue
            tree.note_change()
            if (member.cpu_ns is not None and cpu_ns < member.cpu_ns) or not self._read(tree, member):
                self._remove_process(member.pid)
                self._assign([member.pid])
                tree.order()
                all_there = False
                continue
            member.take_clock(cpu_ns)
        return all_there

    def _read(self, tree: Tree, member: Member) -> bool:
        """Read a process that has run; False if the pid is another process now. What cannot be read stays as it was."""
        fields = self._fields(member)
        if fields is None or (fields and int(fields[START]) != member.start):
            return False
        member.moved = True
        if fields:
            before = member.times[2] + member.times[3]
            member.take_stat(fields)
            tree.reaped_growth += member.times[2] + member.times[3] - before
        words = (self._pread(member, "io", member.io_fd) or b"").split(None, 12)
        if len(words) >= 12:
            member.take_io(words)
        return True

    def _stat(self, pid: int) -> list[bytes] | None:
        """The fields of `stat` after the name, up to the start time; None if the process is gone."""
        opened = self._open_stat(pid)
        if opened is None:
            return None
        os.close(opened[0])
        return opened[1]

    def _open_stat(self, pid: int) -> tuple[int, list[bytes]] | None:
        """The same, and a descriptor of the file."""
        try:
            fd = os.open(f"{self.proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fields = os.pread(fd, STAT_BYTES, 0).rpartition(b")")[2].split(None, START + 1)
        except OSError:  # ESRCH: it exited between open and read
            fields = []
        if len(fields) <= START:
            os.close(fd)
            return None
        return fd, fields

    def _fields(self, member: Member) -> list[bytes] | None:
        """The fields of `stat` after the name; none if they cannot be read, None if the process is gone."""
        text = self._pread(member, "stat", member.stat_fd)
        if text is None:
            return None
        member.name, _, rest = text.rpartition(b")")
        fields = rest.split(None, RSS + 1)
        return fields if len(fields) > RSS else []

    def _pread(self, member: Member, name: str, fd: int) -> bytes | None:
        """A file of a process through a descriptor that stays open: half the cost, and never another process."""
        try:
            if fd >= 0:
                return os.pread(fd, STAT_BYTES, 0)
            fd = os.open(f"{self.proc}/{member.pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:  # else not readable (EACCES), or no descriptor left (EMFILE)
            return None if error.errno in GONE else b""
        try:
            return os.pread(fd, STAT_BYTES, 0)
        except OSError as error:
            return None if error.errno in GONE else b""
        finally:
            self._keep(member, f"{name}_fd", fd)

    def _keep(self, member: Member, attribute: str, fd: int) -> None:
        """Keep the descriptor of a file of a process open, if there may be one more."""
        if self.kept_descriptors < self.most_descriptors:
            setattr(member, attribute, fd)
            self.kept_descriptors += 1
        else:
            os.close(fd)

    def _close(self, member: Member) -> None:
        for fd in (member.stat_fd, member.io_fd):
            if fd >= 0:
                self.kept_descriptors -= 1
                os.close(fd)
        member.stat_fd = member.io_fd = -1
