"""Which child of a tracked process belongs to which block, and the CPU time of the children of each block.

Read from outside. The kernel lists the children of each thread: a child belongs to the block of the thread that started
it. The CPU time of a child that was reaped is in the c-times of the tracked process, together with that of all others.
"""

from __future__ import annotations

import os

from jobtop.core.procfs import read_text, start_ticks, stat_fields
from jobtop.core.track.counters import CSTIME, CUTIME, TICK_SECONDS, tree_cpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

SMALL_SECONDS = 0.05  # c-times are rounded to ticks


class Child:
    """A child of the tracked process as it was last read; `block` is None if it belongs to no open block."""

    __slots__ = ("block", "start", "system", "user")

    def __init__(self, block: str | None, start: int | None) -> None:
        self.block, self.start = block, start
        self.user = self.system = 0.0

    @property
    def seconds(self) -> float:
        return self.user + self.system


class ChildTable:
    """The children of one process; `used` has user and system seconds of the children of each block."""

    def __init__(self, pid: int, read_tree: Callable[[int], tuple[float, float]] = tree_cpu) -> None:
        self.pid, self._read_tree = pid, read_tree
        self._children: dict[int, Child] = {}
        self._exited: dict[str, tuple[float, float]] = {}  # of exited children, by block
        self._reaped = self._read_reaped()
        self.unassigned_seconds = 0.0  # of children that exited between two readings, while several blocks were open

    def begin(self, reaped: Sequence[float], before: Iterable[int]) -> None:
        """Count what was reaped since a moment, with this CPU time then; the children of before belong to no block."""
        self._reaped = reaped[0], reaped[1]
        for pid in before:
            self._children.setdefault(pid, Child(None, start_ticks(pid)))

    def used(self, block: str) -> tuple[float, float]:
        """User and system seconds of the children of a block until the last reading."""
        user, system = self._exited.get(block, (0.0, 0.0))
        mine = [child for child in self._children.values() if child.block == block]
        return user + sum(child.user for child in mine), system + sum(child.system for child in mine)

    def forget(self, block: str) -> None:
        """Count the children of a closed block for no block from now on."""
        self._exited.pop(block, None)
        for child in self._children.values():
            if child.block == block:
                child.block = None

    def look(self, owners: Mapping[int, str], innermost: list[str]) -> None:
        """Read all children; `owners` has the block of each thread, `innermost` are the innermost open blocks."""
        reaped = self._read_reaped()
        found = self._list()
        gone = [pid for pid, child in self._children.items() if pid not in found or child.start != start_ticks(pid)]
        self._account_for([self._children.pop(pid) for pid in gone], reaped, innermost)
        only = innermost[0] if len(innermost) == 1 else None
        for pid, thread in found.items():
            if pid not in self._children:
                self._children[pid] = Child(owners.get(thread, only), start_ticks(pid))
            child = self._children[pid]
            child.user, child.system = self._read_tree(pid)

    def _account_for(self, exited: list[Child], reaped: tuple[float, float], innermost: list[str]) -> None:
        """Give each block what its exited children used, also after they were last read."""
        growth = reaped[0] + reaped[1] - self._reaped[0] - self._reaped[1]
        user_share = (reaped[0] - self._reaped[0]) / growth if growth > 0 else 1.0
        self._reaped = reaped
        for child in exited:
            self._add(child.block, child.user, child.system)
        rest = growth - sum(child.seconds for child in exited)
        if rest <= 0:
            return
        blocks = [child.block for child in exited]
        if not exited and len(innermost) == 1:
            blocks = [innermost[0]]
        elif not exited:
            self.unassigned_seconds += rest if rest > SMALL_SECONDS else 0.0
            return
        for block in blocks:  # children that exit together have run at the same time since
            self._add(block, rest * user_share / len(blocks), rest * (1 - user_share) / len(blocks))

    def _add(self, block: str | None, user: float, system: float) -> None:
        if block is not None:
            before = self._exited.get(block, (0.0, 0.0))
            self._exited[block] = before[0] + user, before[1] + system

    def _read_reaped(self) -> tuple[float, float]:
        """User and system seconds of all children that the process has reaped."""
        fields = stat_fields(self.pid)
        if len(fields) <= CSTIME:
            return getattr(self, "_reaped", (0.0, 0.0))
        return int(fields[CUTIME]) * TICK_SECONDS, int(fields[CSTIME]) * TICK_SECONDS

    def _list(self) -> dict[int, int]:
        """The children of the process, with the thread that started each."""
        found: dict[int, int] = {}
        try:
            threads = os.listdir(f"/proc/{self.pid}/task")
        except OSError:
            return found
        for thread in threads:
            for word in read_text(f"/proc/{self.pid}/task/{thread}/children").split():
                found[int(word)] = int(thread)
        return found
