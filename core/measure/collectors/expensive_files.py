"""The files of processes that are expensive to read: PSS, status, open files; a few in a tick, the oldest first."""

from __future__ import annotations

import os
import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors.members import RSS, Share
from jobtop.core.measure.collectors.memfds import Memfds
from jobtop.core.measure.collectors.process_fields import READ_IN_DETAIL, ProcessFiles, number_in
from jobtop.core.procfs import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.core.measure.collectors.members import Member, Tree

REREAD_PASSES = 10  # after so many a job that has run is read in detail again
CREDIT_SECONDS = 0.06  # may be saved up: memory that changes after a fork is read a few times in a row
FIRST_READ_BUDGETS = 10


class ExpensiveFiles:
    """Reads them within a budget of CPU time; what one large process overdraws is saved up again before the next read.

    PSS of a process with hundreds of gigabytes takes the kernel a second.
    """

    def __init__(self, proc: str, fields: Callable[[Member], list[bytes] | None]) -> None:
        self.proc, self._fields = proc, fields
        self.credit_seconds = CREDIT_SECONDS
        self.first_credit_seconds = 0.0
        self._passes = 0
        self._has_fd_sizes = self._tells_fd_sizes()
        self._memfds = Memfds(proc)
        self._unread: set[Tree] = set()  # jobs that have changed since their detailed read

    def forget(self, tree: Tree) -> None:
        self._unread.discard(tree)
        self._memfds.unread.discard(tree)

    def read(self, changed: set[Tree], budget_seconds: float, without: frozenset[str]) -> None:
        """Go on with the detailed reads as far as the budget of this and former ticks allows; add changed jobs.

        A job of which nothing was read in detail yet has a larger budget, or it would wait its turn for minutes.
        """
        self.credit_seconds = min(self.credit_seconds + budget_seconds, max(CREDIT_SECONDS, budget_seconds))
        first_budget = FIRST_READ_BUDGETS * budget_seconds
        self.first_credit_seconds = min(self.first_credit_seconds + first_budget, first_budget)
        self._passes += 1
        self._unread |= changed
        self._memfds.unread |= changed
        if "fds" not in without:
            self.credit_seconds -= self._memfds.read(max(0.0, self.credit_seconds))
        long_ago = self._passes - REREAD_PASSES
        stale = [
            tree
            for tree in self._unread
            if tree.version != tree.details_version
            # Where none of these holds `has_stale_details` is False: of many jobs few are asked.
            and (
                tree.details_pass <= long_ago
                or tree.pages_version != tree.drift_version
                or tree.has_drifted
                or tree.members_changed
                or tree.newcomers
                or tree.seen_once
                or tree.unread
            )
            and tree.has_stale_details(long_ago)
        ]
        for tree in sorted(stale, key=lambda tree: tree.details_pass):
            if tree.has_details:
                self.credit_seconds -= self._read_job(tree, self.credit_seconds, without)
            else:
                self.first_credit_seconds -= self._read_job(tree, self.first_credit_seconds, without)
            if tree.version == tree.details_version:
                self._unread.discard(tree)

    def close(self) -> None:
        self._memfds.close()

    def _read_job(self, tree: Tree, budget_seconds: float, without: frozenset[str]) -> float:
        """Read open files, switches and swap of the processes that have run, PSS of all; return what it cost."""
        if budget_seconds <= 0:
            return 0.0
        began = time.thread_time()
        if not tree.unread:
            tree.begin_details()
        shares = len(tree.members) > 1 and "pss" not in without and tree.reads_pss
        cost = 0.0
        while tree.unread and cost < budget_seconds:
            member = tree.unread.pop()
            if tree.members.get(member.pid) is member:
                self._read_process(tree, member, shares, without)
            cost = time.thread_time() - began
        tree.note_change()
        if not tree.unread:
            self._take_shares(tree)
            tree.end_details(self._passes)
        return cost

    def _read_process(self, tree: Tree, member: Member, shares: bool, without: frozenset[str]) -> None:
        if member.moved:
            self._read_fields(tree, member, without)
            member.moved, member.row = False, None
        if shares:
            tree.shares.append(Share(member, *self._read_pss(member), time.clock_gettime(BOOTTIME)))
        elif len(tree.members) == 1:  # it shared with no other, whenever that was
            tree.shares.append(Share(member, None if "pss" in without else member.rss, member.own, 0.0))

    def _take_shares(self, tree: Tree) -> None:
        """Take over the shares of all processes at once: an old and a new one would count the same pages twice.

        A process that exited meanwhile holds nothing; what it shared is in the shares of those that were read later.
        """
        for share in tree.shares:
            member = share.member
            fields = self._fields(member)
            if not fields or fields[RSS] == b"0":
                member.rss = member.pss_rss = member.pss = member.own = 0
            else:
                member.pss, member.own, member.pss_rss = share.pss, share.own, share.rss
            member.row, member.pss_faults, member.pss_at = None, share.faults, share.at

    def _read_fields(self, tree: Tree, member: Member, without: frozenset[str]) -> None:
        """Read the values that the table of fields has a reader for, and what of `status` the job needs beside them."""
        files = ProcessFiles(f"{self.proc}/{member.pid}", self._has_fd_sizes)
        if files.status and tree.has_left_cgroup:
            member.own = (files.status_bytes("RssAnon:") or 0) + (files.status_bytes("RssShmem:") or 0)
        if tree.includes_root:
            tree.high_bytes = max(tree.high_bytes, files.status_bytes("VmHWM:") or 0)
        for attribute, read, switch in READ_IN_DETAIL:
            setattr(member, attribute, read(files) if files.status and switch not in without else None)

    def _tells_fd_sizes(self) -> bool:
        try:
            return os.stat(f"{self.proc}/self/fd").st_size > 0
        except OSError:
            return False

    def _read_pss(self, member: Member) -> tuple[int | None, int | None]:
        """Its share of its memory, and of that what is no file, which kernels before 5.4 do not tell apart."""
        text = read_text(f"{self.proc}/{member.pid}/smaps_rollup")
        pss = number_in(text, "Pss:")
        if pss is None:
            nothing = 0 if member.rss == 0 else None  # a zombie has no pages and no map
            return nothing, nothing
        return pss * 1024, (pss - (number_in(text, "Pss_File:") or 0)) * 1024
