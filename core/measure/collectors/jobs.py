"""What a job uses at a moment, by catalogue key: folded from its processes, nothing falling, nothing impossible."""

from __future__ import annotations

import os
from operator import add

from jobtop.core.measure.collectors.members import TICK_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from jobtop.core.measure.collectors.members import Member, Tree

    Number = int | float

IO = ("io.read_chars", "io.write_chars", "io.read_ops", "io.write_ops", "io.read_bytes", "io.write_bytes")
SWITCHES = ("proc.switches_voluntary", "proc.switches_involuntary")
# What the rows of members have, in their order; behind it of how many it is known.
FOLDED = (
    *("cpu.user", "cpu.system", "mem.rss", "mem.vms", "mem.faults_minor", "mem.faults_major"),
    *("proc.count", "proc.threads", *IO, "mem.swap", *SWITCHES, "proc.fds", "mem.used"),
)
FEW_ROWS = 4
CPU_TIMES = frozenset({"cpu.user", "cpu.system"})
CORES = os.cpu_count() or 1
OWN_BYTES, OWN_SHARE = 1024 * 1024, 0.01  # a fork that has hardly more than its parent shares nearly all of it


def fold(tree: Tree) -> dict[str, Number]:
    """The living members and what the dead have left, added up; what was never read is not there.

    A zombie has no swap and another user's descriptors are not ours to see: sums are over those who could be asked.
    Context switches of the dead only their parents are told: a job that has any has none that are known.
    """
    sums = _added_up([tree.left(), *[member.row or member.added() for member in tree.members.values()]])
    values: dict[str, Number] = dict(zip(FOLDED, sums, strict=False))
    io_known, swap_known, switches_known, fds_known, unlooked = sums[len(FOLDED) :]
    alive, used = values["proc.count"], values.pop("mem.used")
    if not io_known:
        _drop(values, IO)
    if not swap_known:
        del values["mem.swap"]
    if not (tree.knows_switches and switches_known and switches_known == alive):
        _drop(values, SWITCHES)
    if not fds_known:
        del values["proc.fds"]
    if alive == 1:
        values["mem.used"] = values["mem.rss"] + tree.memfd_bytes
        if not unlooked:
            values["mem.pss"] = values["mem.rss"]
    elif alive:
        held = _held(tree) if unlooked else used
        if held is not None:
            values["mem.used"], values["mem.pss"] = held + tree.memfd_bytes, held
    return values


def _added_up(rows: Sequence[Sequence[float]]) -> Sequence[float]:
    """Column by column; few rows one after the other, which takes half the time."""
    if len(rows) > FEW_ROWS:
        return list(map(sum, zip(*rows, strict=True)))
    sums, *others = rows
    for row in others:
        sums = list(map(add, sums, row))
    return sums


def _drop(values: dict[str, Number], keys: Iterable[str]) -> None:
    for key in keys:
        del values[key]


def _held(tree: Tree) -> Number | None:
    """What the job holds without page cache where some came after the last close look: PSS, and what RSS has changed.

    Who came later shares with its parent what the parent has, as far as anyone can tell before the next close look.
    """
    members = [member for member in tree.members.values() if member.threads > 0]
    if all(member.pss is None for member in members):
        return None
    pss = 0
    for member in members:
        if member.pss is not None:
            pss += max(0, member.pss + member.rss - member.pss_rss)
        elif member.pss_rss:  # looked at, and not ours to see
            return None
        else:
            pss += _estimate(tree, member)
    return pss


def _estimate(tree: Tree, member: Member) -> int:
    """What a newcomer adds: what it has beyond its parent; and the parent's share once more if it was born before the
    look at it began, for then the parent's is smaller by it."""
    parent = tree.members.get(member.parent)
    if parent is None:
        return member.rss
    was_shared = parent.pss is not None and (member.start + 1) * TICK_SECONDS <= tree.looked_boottime
    own = member.rss - parent.rss
    own = own if own > OWN_BYTES + OWN_SHARE * parent.rss else 0
    return own + (parent.pss or 0 if was_shared else 0)


def held_by_processes(tree: Tree) -> Number | None:
    """Anonymous and shared memory of all processes, in whatever cgroup they are; None if one was not read yet.

    A page that was touched before its process left stays with the cgroup: to add what is outside would count it twice.
    """
    living = [member for member in tree.members.values() if member.threads > 0]
    if any(member.own is None for member in living):
        return None
    return tree.memfd_bytes + sum(max(0, (member.own or 0) + member.rss - member.pss_rss) for member in living)


def cpu_seconds(values: Mapping[str, Number]) -> float:
    """User and system time together."""
    return sum(values.get(key, 0) for key in CPU_TIMES)


def never_falling(
    before: Mapping[str, Number], after: dict[str, Number], counters: Container[str]
) -> dict[str, Number]:
    """The later reading with its counters held at what was already seen: a parent read before its child only dips."""
    held = {key: value for key, value in before.items() if key in counters and after.get(key, -1) < value}
    if not held:
        return after
    return {**after, **held, **_cpu_times(before, after)}


def within_cores(
    before: Mapping[str, Number], after: dict[str, Number], seconds: float
) -> tuple[dict[str, Number], float]:
    """The later reading with no more CPU time than the cores could give meanwhile, and how much was held back.

    Times of children the kernel tells in steps of 10 ms: the rest of it comes with the next reading.
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
    """User and system time held as one sum: how a clock splits into them is an estimate that may turn."""
    if not (before.keys() >= CPU_TIMES and after.keys() >= CPU_TIMES):
        return {}
    total = max(before["cpu.user"] + before["cpu.system"], after["cpu.user"] + after["cpu.system"])
    user = max(before["cpu.user"], min(after["cpu.user"], total - before["cpu.system"]))
    return {"cpu.user": user, "cpu.system": max(before["cpu.system"], total - user)}
