"""What a job uses at a moment, by catalogue key: folded from its processes, and from its cgroup if it has one."""

from __future__ import annotations

import os
import time

from jobtop.core.collectors import cgroup
from jobtop.core.collectors.members import LONGEST_READ_SECONDS
from jobtop.core.procfs import read_text
from jobtop.core.shim import BOOTTIME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jobtop.core.collectors.members import Tree

    Number = int | float

CPU_TIMES = frozenset({"cpu.user", "cpu.system"})
MOST_READINGS = 3
CORES = os.cpu_count() or 1


def fold(tree: Tree) -> dict[str, Number]:
    """The living members and what the dead have left, added up; what was never read is not there."""
    user, system = tree.reaped[0] + tree.lost[0], tree.reaped[1] + tree.lost[1]
    minor, major = tree.reaped[2:]
    rss = vms = count = threads = 0
    for member in tree.members.values():  # one loop: thousands of members, every tick
        own_user, own_system = member.cpu()
        user += own_user
        system += own_system
        rss += member.rss
        vms += member.vms
        minor += member.faults[0]
        major += member.faults[1]
        count += member.threads > 0
        threads += member.threads
    values: dict[str, Number] = {
        "cpu.user": user,
        "cpu.system": system,
        "mem.rss": rss,
        "mem.vms": vms,
        "mem.faults_minor": minor,
        "mem.faults_major": major,
        "proc.count": count,
        "proc.threads": threads,
    }
    return values | _io(tree) | _slow(tree) | _used(tree)


def _io(tree: Tree) -> dict[str, Number]:
    """Of the living, the children they have waited for, and the orphans as they were last seen."""
    rows = [row for row in (tree.io_left, *(member.io for member in tree.members.values())) if row is not None]
    if not rows:
        return {}
    keys = ("io.read_chars", "io.write_chars", "io.read_ops", "io.write_ops", "io.read_bytes", "io.write_bytes")
    return dict(zip(keys, map(sum, zip(*rows, strict=True)), strict=True))


def _slow(tree: Tree) -> dict[str, Number]:
    """Sums over those who could be asked: a zombie has no swap, another user's descriptors are not ours to see."""
    rows = [member.slow for member in tree.members.values() if member.slow is not None]
    left = (0, *tree.switches_left, 0)
    keys = ("mem.swap", "proc.switches_voluntary", "proc.switches_involuntary", "proc.fds")
    values: dict[str, Number] = {}
    for index, key in enumerate(keys):
        known = [value for row in rows if (value := row[index]) is not None]
        if known:
            values[key] = left[index] + sum(known)
    return values


def _used(tree: Tree) -> dict[str, Number]:
    """What the job holds without page cache: PSS of all read at once, and what RSS has changed since.

    Who came later shares with its parent what the parent has, as far as anyone can tell before the next close look.
    """
    members = [member for member in tree.members.values() if member.threads > 0]
    if len(members) == 1:
        return {"mem.used": members[0].rss, "mem.pss": members[0].rss}
    if not members or all(member.pss is None for member in members):
        return {}
    pss = 0
    for member in members:
        if member.pss is not None:
            pss += max(0, member.pss + member.rss - member.pss_rss)
        elif member.pss_rss:  # looked at, and not ours to see
            return {}
        else:
            parent = tree.members.get(member.parent)
            pss += max(0, member.rss - (parent.rss if parent else 0))
    return {"mem.used": pss, "mem.pss": pss}


def read_cgroup(directories: Iterable[str]) -> tuple[dict[str, Number], float | None]:
    """What the job's own cgroups count, of either version, and the moment of the CPU time if they count that."""
    values: dict[str, Number] = {}
    moment = None
    for directory in directories:
        for _ in range(MOST_READINGS):
            began = time.clock_gettime(BOOTTIME)
            cpu = _cpu(directory)
            took = time.clock_gettime(BOOTTIME) - began
            if took < LONGEST_READ_SECONDS:  # else we were kept waiting between the clock and the counter
                break
        values |= cpu | _memory(directory) | _pressure(directory)
        moment = began + took / 2 if cpu else moment
    return values, moment


def _cpu(directory: str) -> dict[str, Number]:
    stat = cgroup.pairs(read_text(f"{directory}/cpu.stat"))
    if "usage_usec" not in stat:
        return _cpuacct(directory)
    total, user = stat["usage_usec"] / 1e6, stat.get("user_usec", 0) / 1e6
    values: dict[str, Number] = {"cpu.user": min(user, total), "cpu.system": max(0.0, total - user)}
    return values | ({"cpu.throttled": stat["throttled_usec"] / 1e6} if "throttled_usec" in stat else {})


def _cpuacct(directory: str) -> dict[str, Number]:
    """Version 1; `cpuacct.usage_user` is made of ticks in some kernels, the sum is not."""
    total, user = (read_text(f"{directory}/cpuacct.{name}").strip() for name in ("usage", "usage_user"))
    if not total.isdigit() or not user.isdigit():
        return {}
    seconds = int(total) / 1e9
    in_user_mode = min(int(user) / 1e9, seconds)
    return {"cpu.user": in_user_mode, "cpu.system": seconds - in_user_mode}


def _memory(directory: str) -> dict[str, Number]:
    stat = cgroup.pairs(read_text(f"{directory}/memory.stat"))
    if not stat:
        return {}
    version_1 = "total_rss" in stat
    names = ("total_rss", "total_cache", "total_shmem") if version_1 else ("anon", "file", "shmem")
    anon, file, shmem = (stat.get(name, 0) for name in names)
    charged = read_text(f"{directory}/{'memory.usage_in_bytes' if version_1 else 'memory.current'}").strip()
    values: dict[str, Number] = {"mem.anon": anon, "mem.file": file, "mem.shmem": shmem, "mem.used": anon + shmem}
    if charged.isdigit():
        values["mem.cgroup"] = int(charged)
    kills = cgroup.oom_count(read_text(f"{directory}/{'memory.oom_control' if version_1 else 'memory.events'}"))
    return values if kills is None else values | {"mem.oom_kills": kills}


def _pressure(directory: str) -> dict[str, Number]:
    values: dict[str, Number] = {}
    for key, name in (("cpu.pressure", "cpu"), ("mem.pressure", "memory"), ("io.pressure", "io")):
        words = read_text(f"{directory}/{name}.pressure").partition("total=")[2].split()
        if words and words[0].isdigit():
            values[key] = int(words[0]) / 1e6
    return values


def never_falling(
    before: Mapping[str, Number], after: Mapping[str, Number], counters: Iterable[str]
) -> dict[str, Number]:
    """The later reading with its counters held at what was already seen: a parent read before its child only dips."""
    held = {key: before[key] for key in counters if key in before and (key not in after or after[key] < before[key])}
    return {**after, **held, **_cpu_times(before, after)}


def within_cores(
    before: Mapping[str, Number], after: Mapping[str, Number], seconds: float
) -> tuple[dict[str, Number], float]:
    """The later reading with no more CPU time than the cores could give meanwhile, and how much was held back.

    Times of children the kernel tells in steps of 10 ms: the rest of it comes with the next reading.
    """
    if not after.keys() >= CPU_TIMES:
        return dict(after), 0.0
    user, system = before.get("cpu.user", 0), before.get("cpu.system", 0)
    grown = after["cpu.user"] - user + after["cpu.system"] - system
    possible = max(0.0, CORES * seconds)
    if grown <= possible:
        return dict(after), 0.0
    share = possible / grown
    held = {
        "cpu.user": user + share * (after["cpu.user"] - user),
        "cpu.system": system + share * (after["cpu.system"] - system),
    }
    return {**after, **held}, grown - possible


def _cpu_times(before: Mapping[str, Number], after: Mapping[str, Number]) -> dict[str, Number]:
    """User and system time held as one sum: how a clock splits into them is an estimate that may turn."""
    if not before.keys() & after.keys() >= CPU_TIMES:
        return {}
    total = max(before["cpu.user"] + before["cpu.system"], after["cpu.user"] + after["cpu.system"])
    user = max(before["cpu.user"], min(after["cpu.user"], total - before["cpu.system"]))
    return {"cpu.user": user, "cpu.system": max(before["cpu.system"], total - user)}
