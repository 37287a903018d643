"""What a job's own cgroup counts at a moment, of either version, by catalogue key."""

from __future__ import annotations

import os
import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors import cgroup
from jobtop.core.measure.collectors.members import LONGEST_READ_SECONDS
from jobtop.core.measure.collectors.open_file import KeptFile
from jobtop.core.procfs import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jobtop.core.measure.collectors.members import Member

    Number = int | float

PRESSURES = {"cpu.pressure": "cpu.pressure", "mem.pressure": "memory.pressure", "io.pressure": "io.pressure"}
FILES = (
    *("cpu.stat", "cpuacct.usage", "cpuacct.usage_user", "memory.stat"),
    *("memory.current", "memory.usage_in_bytes", "memory.events", "memory.oom_control", "pids.events"),
)
QUOTA_STAT = "cpu.stat of version 1"
# What changes while no process of the job runs: pages are reclaimed, and processes that wait for a disk stall.
WITNESSES = ("memory.current", "memory.usage_in_bytes", "io.pressure")
MOST_READINGS = 3
MOST_DIGITS = 19  # a longer number could not be kept by the store
NAMES, TOTAL_NAMES = (b"anon ", b"file ", b"shmem "), (b"total_rss ", b"total_cache ", b"total_shmem ")


class CgroupReader:
    """The files of a job's cgroups, kept open; those that are not there are not asked for again."""

    def __init__(self, directories: Sequence[str], with_pressure: bool = True) -> None:
        names = (*FILES, *(PRESSURES.values() if with_pressure else ()))
        paths = {name: f"{directory}/{name}" for directory in directories for name in names}
        # In hybrid systems cpu.stat is in more than one hierarchy: the first that has a file tells.
        for directory in reversed(directories):
            paths |= {name: path for name in names if os.path.exists(path := f"{directory}/{name}")}
        scheduling = (f"{directory}/cpu.stat" for directory in directories if _has_quota(directory))
        paths[QUOTA_STAT] = next(scheduling, "")
        self._files = {name: KeptFile(path, is_one_record=True) for name, path in paths.items() if os.path.exists(path)}
        memory = (directory for directory in directories if os.path.exists(f"{directory}/memory.stat"))
        self._memory_place = next(memory, None)
        self._witnesses = [name for name in WITNESSES if name in self._files]
        self._parsers = [(name, self._files[name], parse) for name, parse in PARSERS.items() if name in self._files]
        self._contents: dict[str, bytes] = {}  # as last read
        self._parsed: dict[str, dict[str, Number]] = {}  # what that says, by catalogue key

    def read(self) -> tuple[dict[str, Number], float | None]:
        """What they count, and the moment of the CPU time if that is among it."""
        if not self._files:
            return {}, None
        for _ in range(MOST_READINGS):
            began = time.clock_gettime(BOOTTIME)
            cpu = self._cpu()
            took = time.clock_gettime(BOOTTIME) - began
            if took < LONGEST_READ_SECONDS:  # else we were kept waiting between the clock and the counter
                break
        values = dict(cpu)
        contents, parsed = self._contents, self._parsed
        for name, file, parse in self._parsers:
            content = file.read_bytes()
            if content != contents.get(name):  # else it says what it said before
                contents[name], parsed[name] = content, parse(content)
            values.update(parsed[name])
        return values, began + took / 2 if cpu else None

    def has_changed(self) -> bool:
        """Whether a value changed although no process of the job has run since the last reading."""
        for name in self._witnesses:
            before, now = self._contents.get(name, b""), self._files[name].read_bytes()
            if now != before and _total(now) != _total(before):
                return True
        return False

    def content(self, name: str) -> str:
        """What a file said when it was last read; empty if it is not there."""
        return decoded(self._contents.get(name, b""))

    @property
    def counts_memory(self) -> bool:
        return self._memory_place is not None

    def misses(self, members: Iterable[Member]) -> bool:
        """Whether a process of the job is not in its memory cgroup any more, nor in one below it."""
        if self._memory_place is None:
            return False
        living = {str(member.pid) for member in members if member.threads > 0}
        living.difference_update(read_text(f"{self._memory_place}/cgroup.procs").split())
        if living:
            for directory, _, _ in os.walk(self._memory_place):
                living.difference_update(read_text(f"{directory}/cgroup.procs").split())
        return bool(living)

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _cpu(self) -> dict[str, Number]:
        file = self._files.get("cpu.stat")
        if file is not None:
            content = file.read_bytes()
            if content != self._contents.get("cpu.stat"):
                self._contents["cpu.stat"], self._parsed["cpu.stat"] = content, parse_cpu(content)
            if values := self._parsed["cpu.stat"]:
                return values
        return self._cpuacct()

    def _cpuacct(self) -> dict[str, Number]:
        """Version 1; `cpuacct.usage_user` is made of ticks in some kernels, the sum is not."""
        files = [self._files.get(name) for name in ("cpuacct.usage", "cpuacct.usage_user")]
        total, user = (None if file is None else cgroup.number(file.read()) for file in files)
        if total is None or user is None:
            return {}
        seconds = total / 1e9
        in_user_mode = min(user / 1e9, seconds)
        return {"cpu.user": in_user_mode, "cpu.system": seconds - in_user_mode}


def decoded(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def number_in(content: bytes, name: bytes) -> int | None:
    """The number after a name and a blank at the beginning of a line; None if there is none, or the line is torn.

    Like that of the module `cgroup`, in half the time: in each tick seven files of every active job are parsed.
    """
    before = content.find(b"\n" + name)
    if before < 0 and not content.startswith(name):
        return None
    begin = before + 1 + len(name)
    end = content.find(b"\n", begin)
    digits = content[begin : max(begin, end)]
    return int(digits) if digits.isdigit() and len(digits) < MOST_DIGITS else None


def parse_cpu(stat: bytes) -> dict[str, Number]:
    """The CPU time in a `cpu.stat` of version 2; nothing for any other one."""
    usage, in_user_mode = number_in(stat, b"usage_usec "), number_in(stat, b"user_usec ")
    if usage is None or in_user_mode is None:
        return {}
    total, user = usage / 1e6, in_user_mode / 1e6
    values: dict[str, Number] = {"cpu.user": min(user, total), "cpu.system": max(0.0, total - user)}
    throttled = number_in(stat, b"throttled_usec ")
    return values if throttled is None else values | {"cpu.throttled": throttled / 1e6}


def parse_throttled(stat: bytes) -> dict[str, Number]:
    """Version 1, where the job has a quota: a tree of its own counts it."""
    nanoseconds = number_in(stat, b"throttled_time ")
    return {} if nanoseconds is None else {"cpu.throttled": nanoseconds / 1e9}


def parse_memory(stat: bytes) -> dict[str, Number]:
    is_version_1 = b"total_rss " in stat
    anon, file, shmem = (number_in(stat, name) for name in (TOTAL_NAMES if is_version_1 else NAMES))
    used = None if anon is None or shmem is None else anon + shmem
    found = {"mem.anon": anon, "mem.file": file, "mem.shmem": shmem, "mem.used": used}
    return {key: value for key, value in found.items() if value is not None}


def count_parser(key: str, name: bytes) -> Callable[[bytes], dict[str, Number]]:
    """Read the number after a name, or the only one of a file."""

    def parse(content: bytes) -> dict[str, Number]:
        count = number_in(content, name) if name else cgroup.number(decoded(content))
        return {} if count is None else {key: count}

    return parse


def pressure_parser(key: str) -> Callable[[bytes], dict[str, Number]]:
    """Read the seconds in which processes waited."""

    def parse(content: bytes) -> dict[str, Number]:
        microseconds = cgroup.number(decoded(_total(content)))
        return {} if microseconds is None else {key: microseconds / 1e6}

    return parse


PARSERS: dict[str, Callable[[bytes], dict[str, Number]]] = {
    QUOTA_STAT: parse_throttled,
    "memory.stat": parse_memory,
    "memory.current": count_parser("mem.cgroup", b""),
    "memory.usage_in_bytes": count_parser("mem.cgroup", b""),
    "memory.events": count_parser("mem.oom_kills", b"oom_kill "),
    "memory.oom_control": count_parser("mem.oom_kills", b"oom_kill "),
    "pids.events": count_parser("proc.forks_denied", b"max "),
    **{name: pressure_parser(key) for key, name in PRESSURES.items()},
}


def _total(content: bytes) -> bytes:
    """What a file of pressures adds up, since its averages change by themselves; any other file as it is."""
    return content.partition(b"total=")[2].partition(b"\n")[0] or content


def _has_quota(directory: str) -> bool:
    return os.path.exists(f"{directory}/cpu.cfs_quota_us")
