"""The files of members that cost most to read: PSS, status, descriptors; a few at a time, the stalest jobs first."""

from __future__ import annotations

import os
import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors.members import RSS, Share
from jobtop.core.measure.collectors.memfds import Memfds
from jobtop.core.procfs import read_text, word_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jobtop.core.measure.collectors.members import Member, Tree

FRESH_SWEEPS = 10  # after so many a job that has run is looked at closely again
CREDIT_SECONDS = 0.06  # may be saved up: memory that changes after a fork is looked at a few times in a row
FIRST_LOOK_BUDGETS = 10
MOST_THREADS = 64  # whose switches are worth reading
SWITCHES = ("voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:")


class DearFiles:
    """Spends a budget of CPU time; what one large process overdraws is saved up again before the next look.

    PSS of a process with hundreds of gigabytes takes the kernel a second.
    """

    def __init__(self, proc: str, fields: Callable[[Member], list[bytes] | None]) -> None:
        self.proc, self._fields = proc, fields
        self.credit_seconds = CREDIT_SECONDS
        self.first_credit_seconds = 0.0
        self._looks = 0
        self._fd_sizes = self._tells_fd_sizes()
        self._memfds = Memfds(proc)

    def look_closer(self, trees: Collection[Tree], budget_seconds: float, without: frozenset[str]) -> None:
        """Go on where the budget of this and former ticks lets us.

        A job whose memory is not known at all has a larger one, or it would wait its turn for minutes.
        """
        self.credit_seconds = min(self.credit_seconds + budget_seconds, max(CREDIT_SECONDS, budget_seconds))
        first_budget = FIRST_LOOK_BUDGETS * budget_seconds
        self.first_credit_seconds = min(self.first_credit_seconds + first_budget, first_budget)
        self._looks += 1
        if "fds" not in without:
            self.credit_seconds -= self._memfds.look(trees, max(0.0, self.credit_seconds))
        unlike = [tree for tree in trees if tree.version != tree.fresh_version]
        stale = [tree for tree in unlike if tree.is_stale(self._looks - FRESH_SWEEPS)]
        for tree in sorted(stale, key=lambda tree: tree.looked_at):
            if tree.was_looked_at:
                self.credit_seconds -= self._look_at(tree, self.credit_seconds, without)
            else:
                self.first_credit_seconds -= self._look_at(tree, self.first_credit_seconds, without)

    def close(self) -> None:
        self._memfds.close()

    def _look_at(self, tree: Tree, purse_seconds: float, without: frozenset[str]) -> float:
        """Descriptors, switches and swap of those who have run, PSS of all; what it cost."""
        if purse_seconds <= 0:
            return 0.0
        began = time.thread_time()
        if not tree.unlooked:
            tree.begin_look(time.clock_gettime(BOOTTIME))
        shares = len(tree.members) > 1 and "pss" not in without and tree.wants_pss
        cost = 0.0
        while tree.unlooked and cost < purse_seconds:
            member = tree.unlooked.pop()
            if tree.members.get(member.pid) is member:
                self._read(tree, member, shares, without)
            cost = time.thread_time() - began
        tree.version += 1
        if not tree.unlooked:
            self._take(tree)
            tree.end_look(self._looks)
        return cost

    def _read(self, tree: Tree, member: Member, shares: bool, without: frozenset[str]) -> None:
        if member.moved:
            member.slow, member.row = self._read_status(tree, member, without), None
            member.moved = False
        if shares:
            tree.looked.append(Share(member, *self._read_pss(member)))
        elif len(tree.members) == 1:
            tree.looked.append(Share(member, None if "pss" in without else member.rss, member.own))

    def _take(self, tree: Tree) -> None:
        """Take the shares of all together: one in the new look and one in the old would count the same pages twice.

        Who ended meanwhile holds nothing; what it shared is in the shares of those who were read later.
        """
        for share in tree.looked:
            member = share.member
            fields = self._fields(member)
            if not fields or fields[RSS] == b"0":
                member.rss = member.pss_rss = member.pss = member.own = 0
            else:
                member.pss, member.own, member.pss_rss = share.pss, share.own, share.rss
            member.row, member.pss_faults = None, share.faults

    def _read_status(self, tree: Tree, member: Member, without: frozenset[str]) -> tuple[int | None, ...] | None:
        pid = member.pid
        status = read_text(f"{self.proc}/{pid}/status")
        if not status:
            return None
        if tree.has_left:
            member.own = 1024 * ((_number(status, "RssAnon:") or 0) + (_number(status, "RssShmem:") or 0))
        if tree.includes_root:
            tree.high_bytes = max(tree.high_bytes, (_number(status, "VmHWM:") or 0) * 1024)
        swap = _number(status, "VmSwap:")
        descriptors = None if "fds" in without else self._count_descriptors(pid)
        return (None if swap is None else swap * 1024, *self._switches(pid, status), descriptors)

    def _switches(self, pid: int, status: str) -> tuple[int | None, int | None]:
        """Of all threads: `status` of a process has those of its first one only."""
        texts = [status]
        if (threads := _number(status, "Threads:") or 1) > 1:
            try:
                tasks = os.listdir(f"{self.proc}/{pid}/task") if threads <= MOST_THREADS else []
            except OSError:
                tasks = []
            texts = [read_text(f"{self.proc}/{pid}/task/{task}/status") for task in tasks]
        if not texts or not all(texts):
            return None, None
        voluntary, involuntary = ([_number(text, name) for text in texts] for name in SWITCHES)
        if None in voluntary or None in involuntary:
            return None, None
        return sum(filter(None, voluntary)), sum(filter(None, involuntary))

    def _count_descriptors(self, pid: int) -> int | None:
        path = f"{self.proc}/{pid}/fd"
        try:
            return os.stat(path).st_size if self._fd_sizes else len(os.listdir(path))  # the size since Linux 6.2
        except OSError:
            return None

    def _tells_fd_sizes(self) -> bool:
        try:
            return os.stat(f"{self.proc}/self/fd").st_size > 0
        except OSError:
            return False

    def _read_pss(self, member: Member) -> tuple[int | None, int | None]:
        """Its share of what it holds; and of that what is no file, which kernels before 5.4 do not tell apart."""
        text = read_text(f"{self.proc}/{member.pid}/smaps_rollup")
        pss = _number(text, "Pss:")
        if pss is None:
            nothing = 0 if member.rss == 0 else None  # a zombie has no pages and no map
            return nothing, nothing
        return pss * 1024, (pss - (_number(text, "Pss_File:") or 0)) * 1024


def _number(text: str, name: str) -> int | None:
    word = word_in(text, name)
    return int(word) if word else None
