"""The members of any number of jobs, swept in one pass a tick: clocks of all, files only of those that moved.

Own CPU time comes from the pid clock, that of reaped children from `cutime + cstime`. The shim is read first, then
parents before children, so that nothing counts twice: what is read late can only be missing, and totals never fall.
"""

from __future__ import annotations

import errno
import os
import resource
import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors.expensive_files import DearFiles
from jobtop.core.measure.collectors.members import (
    CMAJFLT,
    CMINFLT,
    CSTIME,
    CUTIME,
    LONGEST_READ_SECONDS,
    PPID,
    RSS,
    SETTLED,
    START,
    TICK_SECONDS,
    Member,
    Tree,
)
from jobtop.core.measure.collectors.open_file import KeptFile
from jobtop.core.procfs import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from jobtop.core.measure.target import Target

GONE = (errno.ESRCH, errno.ENOENT)
DOUBTED = 4  # strangers looked at again in each sweep
MOST_PASSES = 4
MOST_TRIES = 3
CLOCK_SECONDS = 3e-6
STAT_BYTES = 1024  # more than any `stat` or `io` has
LONGEST_UNLISTED = 10  # sweeps
LONGEST_UNREAD = 60  # sweeps that the shim of a job that rests is not looked at
FEW_MEMBERS = 64
MOST_DESCRIPTORS = 65536


def raise_descriptor_limit() -> None:
    """Two files of every member stay open: as many as this process may have. What it starts later inherits that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class ProcessTable:
    """All processes of the machine, sorted into jobs and strangers; `proc` and `clock` are where they are read."""

    def __init__(
        self,
        proc: str = "/proc",
        clock: Callable[[int], int] = time.clock_gettime_ns,
        most_descriptors: int | None = None,
    ) -> None:
        self.proc, self.clock = proc, clock
        self.trees: dict[int, Tree] = {}
        self.owner: dict[int, Tree] = {}
        self.strangers: set[int] = set()
        self.undecided: dict[int, int] = {}  # whose parent is not known (yet), and how often that was so
        self._names: set[str] = set()
        self._last_pid = KeptFile(f"{proc}/sys/kernel/ns_last_pid")
        self._last_pid_seen = ""
        self._sweeps_unlisted = LONGEST_UNLISTED
        self._sweeps = 0
        self._roster_of: tuple[list[Tree], list[int]] = ([], [])
        self._rostered: list[Member] = []
        self.kept_descriptors = 0
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.most_descriptors = soft // 2 if most_descriptors is None else most_descriptors
        self._dear = DearFiles(proc, self._fields)

    def add_target(self, target: Target) -> Tree:
        """Sweep the processes of a job from the next sweep on."""
        return self.add(target.root.pid, target.includes_root, target.root.start)

    def add(self, root: int, includes_root: bool = False, root_start: int | None = None) -> Tree:
        """Sweep what is below a process from the next sweep on, and the process itself if it is part of the job."""
        fields = self._stat(root)
        tree = self.trees[root] = Tree(root, int(fields[START]) if fields else 0)
        tree.gone = fields is None or root_start not in (None, tree.shim.start)
        if not tree.gone:
            if includes_root:
                tree.include_root()
            self.owner[root] = tree
            below = self._below(root)
            doubted = self.strangers if below is None else self.strangers & below
            self.undecided |= dict.fromkeys(doubted, 0)
            self.strangers = self.strangers - doubted - {root}
            self._sweeps_unlisted = LONGEST_UNLISTED
        return tree

    def remove(self, tree: Tree) -> None:
        for member in tree.everybody():
            self._close(member)
            if self.owner.get(member.pid) is tree:
                del self.owner[member.pid]
                self.strangers.add(member.pid)
        if self.trees.get(tree.shim.pid) is tree:
            del self.trees[tree.shim.pid]

    def close(self) -> None:
        for tree in list(self.trees.values()):
            self.remove(tree)
        self._last_pid.close()
        self._dear.close()

    def sweep(self, due: Iterable[Tree] | None = None) -> None:
        """Find who is new and who is gone, and read everybody in the jobs that are due who has run since."""
        before, names = self._names, self._listed()
        gone = {int(name) for name in self._names - names if name.isdigit()}
        fresh = {int(name) for name in names - self._names if name.isdigit()}
        self._names = names
        for pid in gone & self.owner.keys():
            self._bury(pid, gone)
        self.strangers -= gone
        for pid in gone & self.undecided.keys():
            del self.undecided[pid]
        if names is not before:
            # A stranger's pid may be a member's by now; pop() goes round the set.
            fresh |= {self.strangers.pop() for _ in range(min(DOUBTED, len(self.strangers)))}
        self._sort_in(fresh - self.owner.keys() | self.undecided.keys())
        self._read_due(list(self.trees.values()) if due is None else list(due))

    def _read_due(self, due: list[Tree]) -> None:
        """Ask the clocks of all members in one go, and read those who have run: who rests costs nothing else.

        Where nobody runs nobody ends: what the shim wakes for by itself is looked at now and then only.
        """
        roster = self._roster(due)
        moments, read_at = self._moments(roster)
        for tree in due:
            tree.read_at = read_at
        moved: dict[Tree, list[tuple[Member, int | None]]] = {tree: [] for tree in due if tree.is_restless}
        clocks = [member.cpu_ns for member in roster]
        if moments != clocks:
            for member, moment, clock in zip(roster, moments, clocks, strict=True):
                if moment != clock:
                    moved.setdefault(member.tree, []).append((member, moment))
        self._sweeps += 1
        for tree in due[self._sweeps % LONGEST_UNREAD :: LONGEST_UNREAD]:
            if not tree.gone:
                moved.setdefault(tree, [])
        for tree, members in moved.items():
            tree.is_restless = not tree.gone and (not tree.members or len(members) > 0)
            self._read_moved(tree, members)

    def _roster(self, due: list[Tree]) -> list[Member]:
        """The members of jobs, in their order; the same list again while nobody comes or goes."""
        births = [tree.roster_version for tree in due]
        if self._roster_of != (due, births):
            self._rostered = [member for tree in due if not tree.gone for member in tree.members.values()]
            self._roster_of = due, births
        return self._rostered

    def _moments(self, roster: list[Member]) -> tuple[list[int | None], float]:
        """What the clocks say, and when; asked again if we were kept waiting meanwhile."""
        numbers = [member.clock for member in roster]
        patience = LONGEST_READ_SECONDS + len(roster) * CLOCK_SECONDS
        for _ in range(MOST_PASSES):
            began = time.clock_gettime(BOOTTIME)
            moments: list[int | None]
            try:
                moments = list(map(self.clock, numbers))
            except OSError:  # somebody was waited for since the list was made; a zombie still has its clock
                moments = [self._moment(number) for number in numbers]
            took = time.clock_gettime(BOOTTIME) - began
            if took < patience:
                break
        return moments, began + took / 2

    def _moment(self, number: int) -> int | None:
        try:
            return self.clock(number)
        except OSError:
            return None

    def _read_moved(self, tree: Tree, moved: list[tuple[Member, int | None]]) -> None:
        """Read who has run. If somebody was waited for since, all once more, so that nobody is counted twice."""
        has_run = False
        self._read_shim(tree)
        for member, moment in moved:
            is_another = moment is None or (member.cpu_ns is not None and moment < member.cpu_ns)
            if is_another or not self._read(tree, member):
                self._read_tree(tree)
                return
            member.cpu_ns, member.row, has_run = moment, None, True
        tree.version += has_run
        if tree.risen or tree.owed != SETTLED or tree.gone:
            self._read_tree(tree)

    def _listed(self) -> set[str]:
        """All processes, or who was there before, if no pid was given out since: who is gone has no clock."""
        last_pid = self._last_pid.read()
        self._sweeps_unlisted += 1
        if last_pid and last_pid == self._last_pid_seen and self._sweeps_unlisted < LONGEST_UNLISTED:
            return self._names
        self._last_pid_seen, self._sweeps_unlisted = last_pid, 0
        try:
            return set(os.listdir(self.proc))
        except OSError:  # no descriptor left (EMFILE)
            return self._names

    def _below(self, root: int) -> set[int] | None:
        """Everything below a process; None where the kernel does not tell."""
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

    def look_closer(self, budget_seconds: float, without: frozenset[str] = frozenset()) -> None:
        """Read the dear files too, as far as the budget of this and former ticks goes."""
        self._dear.look_closer(self.trees.values(), budget_seconds, without)

    def _bury(self, pid: int, gone: Container[int] = ()) -> None:
        tree = self.owner.pop(pid)
        tree.version += 1
        tree.roster_version += 1
        if pid == tree.shim.pid:
            tree.gone = True
            if not tree.includes_root:
                self._close(tree.shim)
                return
        member = tree.members.pop(pid)
        self._close(member)
        tree.account_for(member, member.parent in tree.members and member.parent not in gone)

    def _sort_in(self, fresh: Iterable[int]) -> None:
        """Put new processes where their parents are; a parent may be new itself.

        One whose parent is not known stays undecided: the parent was born or died while we looked.
        """
        unknown: dict[int, tuple[int, int]] = {}
        for pid in fresh:
            fields = self._stat(pid)
            if fields is not None:
                unknown[pid] = (int(fields[PPID]), int(fields[START]))
        self.strangers.update(pid for pid, (parent, _) in unknown.items() if parent == 0 and pid not in self.owner)
        waiting = {pid for pid in unknown if pid not in self.strangers}
        while True:
            found = [pid for pid in waiting if unknown[pid][0] in self.owner]
            foreign = [pid for pid in waiting if unknown[pid][0] in self.strangers]
            if not found and not foreign:
                self._put_off(waiting)
                return
            for pid in found:
                parent, start = unknown[pid]
                tree = self.owner[pid] = self.owner[parent]
                tree.members[pid] = Member(pid, start, tree, parent)
                tree.changed = True
                tree.births += 1
                tree.roster_version += 1
                tree.version += 1
            self.strangers.update(foreign)
            waiting.difference_update(found, foreign)

    def _put_off(self, waiting: set[int]) -> None:
        """A parent that stays unknown is hidden from us (hidepid): its children are strangers."""
        tries = {pid: self.undecided.get(pid, 0) + 1 for pid in waiting}
        self.undecided = {pid: count for pid, count in tries.items() if count < MOST_TRIES}
        self.strangers.update(tries.keys() - self.undecided.keys())

    def _read_tree(self, tree: Tree) -> None:
        """Read until nobody vanished in between: who did is in the times of a parent that was read before.

        The moment of it is what rates are made of: if we were kept waiting in between, the clocks are read again.
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
        if tree.gone or tree.includes_root:
            return
        shim = tree.shim
        try:
            cpu_ns = self.clock(shim.clock)
        except OSError:
            self._bury(shim.pid)
            return
        if cpu_ns == shim.cpu_ns:  # it has not run, so it has not waited for anybody
            return
        fields = self._fields(shim)
        if fields is None or (fields and int(fields[START]) != shim.start):
            self._bury(shim.pid)
        elif fields:
            shim.cpu_ns = cpu_ns
            times = int(fields[CUTIME]) * TICK_SECONDS, int(fields[CSTIME]) * TICK_SECONDS
            reaped = (*times, int(fields[CMINFLT]), int(fields[CMAJFLT]))
            tree.risen += sum(times) - tree.reaped[0] - tree.reaped[1]
            tree.version += reaped != tree.reaped  # it wakes by itself too; nobody lives without a page fault
            tree.reaped = reaped
            tree.knows_switches = tree.knows_switches and not tree.reaped[2]
            shim.take(fields)

    def _read_members(self, tree: Tree) -> bool:
        """Whether all of them were still there."""
        clock, all_there = self.clock, True
        for member in list(tree.members.values()):
            try:
                cpu_ns = clock(member.clock)
            except OSError:  # waited for since the list was made; a zombie still has its clock
                self._bury(member.pid)
                all_there = False
                continue
            if cpu_ns == member.cpu_ns:
                continue
            tree.version += 1
            if (member.cpu_ns is not None and cpu_ns < member.cpu_ns) or not self._read(tree, member):
                self._bury(member.pid)
                self._sort_in([member.pid])
                tree.order()
                all_there = False
                continue
            member.cpu_ns, member.row = cpu_ns, None
        return all_there

    def _read(self, tree: Tree, member: Member) -> bool:
        """Read what has run; False if the pid is another's by now. What cannot be read stays as it was."""
        fields = self._fields(member)
        if fields is None or (fields and int(fields[START]) != member.start):
            return False
        member.moved = True
        if fields:
            before = member.times[2] + member.times[3]
            member.take(fields)
            tree.risen += member.times[2] + member.times[3] - before
        words = (self._pread(member, "io") or b"").split(None, 12)
        if len(words) >= 12:
            member.io = (int(words[1]), int(words[3]), int(words[5]), int(words[7]), int(words[9]), int(words[11]))
        return True

    def _stat(self, pid: int) -> list[bytes] | None:
        """The fields of `stat` after the name, up to the start time; None if the process is gone."""
        try:
            fd = os.open(f"{self.proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fields = os.read(fd, STAT_BYTES).rpartition(b")")[2].split(None, START + 1)
        except OSError:  # ESRCH: it ended between open and read
            return None
        finally:
            os.close(fd)
        return fields if len(fields) > START else None

    def _fields(self, member: Member) -> list[bytes] | None:
        """The fields of `stat` after the name; none if they cannot be read, None if the process is gone."""
        text = self._pread(member, "stat")
        if text is None:
            return None
        member.name, _, rest = text.rpartition(b")")
        fields = rest.split(None, RSS + 1)
        return fields if len(fields) > RSS else []

    def _pread(self, member: Member, name: str) -> bytes | None:
        """A file of a process through a descriptor that is kept open: half the price, and never another process."""
        fd = member.fds.get(name, -1)
        try:
            if fd >= 0:
                return os.pread(fd, STAT_BYTES, 0)
            fd = os.open(f"{self.proc}/{member.pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:  # else not ours (EACCES), or no descriptor left (EMFILE)
            return None if error.errno in GONE else b""
        try:
            return os.pread(fd, STAT_BYTES, 0)
        except OSError as error:
            return None if error.errno in GONE else b""
        finally:
            if self.kept_descriptors < self.most_descriptors:
                member.fds[name] = fd
                self.kept_descriptors += 1
            else:
                os.close(fd)

    def _close(self, member: Member) -> None:
        self.kept_descriptors -= len(member.fds)
        for fd in member.fds.values():
            os.close(fd)
        member.fds.clear()
