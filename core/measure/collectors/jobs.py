"""What a job uses at a moment, by catalogue key: summed over its processes; counters never fall or exceed the cores."""

from __future__ import annotations

import os
from bisect import bisect_left
from operator import add

from jobtop.core.measure.collectors.members import PAGE_BYTES, TICK_SECONDS
from jobtop.core.measure.collectors.process_fields import COLUMN, GROUPS, make_job_row
from jobtop.core.metrics import JOB_COLUMNS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from jobtop.core.measure.collectors.members import Member, Tree
    from jobtop.core.measure.collectors.process_fields import JobRow

    Number = int | float

FEW_ROWS = 4
CPU_TIMES = frozenset({"cpu.user", "cpu.system"})
CORES = os.cpu_count() or 1
OWN_BYTES, OWN_SHARE = 1024 * 1024, 0.01  # a fork that has hardly more than its parent shares nearly all of it
ALIVE, RESIDENT, PSS = (COLUMN[key] for key in ("proc.count", "mem.rss", "mem.pss"))
UNKNOWN_SHARES = next(group.column for group in GROUPS if "mem.pss" in group.keys)


def fold(tree: Tree) -> JobRow:
    """Sum the live processes and what exited ones left; None for what was never read.

    A zombie has no swap, and the open files of another user's process cannot be read: such sums are over the processes
    that could be read.
    """
    rows: list[Sequence[float]] = [member.row or member.make_row() for member in tree.members.values()]
    if tree.root_is_gone and not rows and not tree.has_exited:  # no process of it was ever seen: 0 would be a guess
        return (None,) * len(JOB_COLUMNS)
    if tree.has_exited or not rows:
        rows.append(tree.exited)
    sums = _sum_rows(rows)
    used: Number | None = None
    pss: Number | None = None
    if sums[ALIVE] == 1:
        used, pss = sums[RESIDENT] + tree.memfd_bytes, None if sums[UNKNOWN_SHARES] else sums[RESIDENT]
    elif sums[ALIVE]:
        pss = _estimated_shares(tree) if sums[UNKNOWN_SHARES] else sums[PSS]
        used = None if pss is None else pss + tree.memfd_bytes
    return make_job_row(sums, tree.has_exited, used, pss)


def _sum_rows(rows: Sequence[Sequence[float]]) -> Sequence[float]:
    """The sum of each column; few rows are added one after the other, which takes half the time."""
    if len(rows) > FEW_ROWS:
        return list(map(sum, zip(*rows, strict=True)))
    sums = rows[0]
    for row in rows[1:]:
        sums = list(map(add, sums, row))
    return sums


def _estimated_shares(tree: Tree) -> Number | None:
    """The memory of a job in which processes are new since the last detailed read: PSS, or an estimate for the new.

    None if no share is known, or if one cannot be read.
    """
    members = [member for member in tree.members.values() if member.is_alive]
    if all(member.pss is None for member in members):
        return None
    known, estimated, moments = 0, 0, _moments_of_shares(members)
    for member in members:
        share = member.share
        if share is not None:
            known += share
        elif member.is_unread:
            estimated += _estimate(tree, member, moments.get(member.parent, ()))
        else:  # its detailed read did not give PSS: it is another user's
            return None
    return min(known + estimated, max(known, _most_memory(tree, members)))


def _most_memory(tree: Tree, members: Iterable[Member]) -> int:
    """The memory of a job at most: of a fork, the pages that it touched, and what it has beyond its parent.

    The start of a process is known in ticks of 10 ms, in which a few shares are read: estimates may be too high.
    """
    most = 0
    for member in members:
        parent = tree.members.get(member.parent)
        own = member.rss if parent is None else max(0, member.rss - parent.rss) + member.own_faults * PAGE_BYTES
        most += min(member.rss, own)
    return most


def _moments_of_shares(members: Iterable[Member]) -> dict[int, list[float]]:
    """When the shares of a process and of its children were read, by its pid, in order."""
    moments: dict[int, list[float]] = {}
    for member in sorted(members, key=lambda member: member.pss_at):
        if member.pss is not None:
            for pid in (member.pid, member.parent):
                moments.setdefault(pid, []).append(member.pss_at)
    return moments


def _estimate(tree: Tree, member: Member, moments: Sequence[float]) -> int:
    """What a new process adds: what it has beyond its parent, and what the shares that were read lack for it.

    The shares of its parent and siblings are smaller by its own if they were read after its birth. While a job forks,
    some of them are read before and some after it.
    """
    parent = tree.members.get(member.parent)
    if parent is None:
        return member.rss
    own = member.rss - parent.rss
    own = own if own > OWN_BYTES + OWN_SHARE * parent.rss else 0
    born = (member.start + 0.5) * TICK_SECONDS
    read_since = 1 - bisect_left(moments, born) / len(moments) if moments else 0.0
    return own + round((parent.pss or 0) * read_since)


def memory_of_processes(tree: Tree) -> Number | None:
    """Anonymous and shared memory of all processes, in whatever cgroup they are; None if one was not read yet.

    A page that was touched before its process left stays with the cgroup: to add what is outside would count it twice.
    """
    live = [member for member in tree.members.values() if member.is_alive]
    if any(member.own is None for member in live):
        return None
    return tree.memfd_bytes + sum(max(0, (member.own or 0) + member.rss - member.pss_rss) for member in live)


def cpu_seconds(values: Mapping[str, Number]) -> float:
    """User and system time together."""
    return sum(values.get(key, 0) for key in CPU_TIMES)


def never_falling(
    before: Mapping[str, Number], after: dict[str, Number], counters: Container[str]
) -> dict[str, Number]:
    """The later reading with counters that never fall: a parent read before its child lowers a sum for a moment."""
    held = {key: value for key, value in before.items() if key in counters and after.get(key, -1) < value}
    if not held:
        return after
    return {**after, **held, **_cpu_times(before, after)}


def within_cores(
    before: Mapping[str, Number], after: dict[str, Number], seconds: float
) -> tuple[dict[str, Number], float]:
    """The later reading with no more CPU time than the cores could give meanwhile, and how much was held back.

    The kernel reports times of children in steps of 10 ms; the rest comes with the next reading.
    """
    if "cpu.user" not in after:
        return after, 0.0
    user, system = before.get("cpu.user", 0), before.get("cpu.system", 0)
    grown = after["cpu.user"] - user + after["cpu.system"] - system
    possible = max(0.0, CORES * seconds)
    if grown <= possible:
        return after, 0.0
    share = possible / grown
    held = {
        "cpu.user": user + share * (after["cpu.user"] - user),
        "cpu.system": system + share * (after["cpu.system"] - system),
    }
    return {**after, **held}, grown - possible


def _cpu_times(before: Mapping[str, Number], after: Mapping[str, Number]) -> dict[str, Number]:
    """User and system time kept as one sum, because the split of a clock is an estimate that may change."""
    if not (before.keys() >= CPU_TIMES and after.keys() >= CPU_TIMES):
        return {}
    total = max(before["cpu.user"] + before["cpu.system"], after["cpu.user"] + after["cpu.system"])
    user = max(before["cpu.user"], min(after["cpu.user"], total - before["cpu.system"]))
    return {"cpu.user": user, "cpu.system": max(before["cpu.system"], total - user)}
