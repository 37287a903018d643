"""Reads the limits of a process: of its cgroups and those above them, its affinity, its open files, Slurm's."""

from __future__ import annotations

import os
import resource

from jobtop.core.analysis.process_limits import ADDRESS_SPACE, OPEN_FILES
from jobtop.core.measure.collectors.process_fields import is_count
from jobtop.core.procfs import read_text
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeVar

    Number = TypeVar("Number", int, float)

NO_LIMIT_BYTES = 2**60  # version 1 writes "no limit" as the largest number of pages
MEBIBYTE = 1024 * 1024
VERSION_2 = "version 2"
MOST_WAYS = 1000  # that are remembered
CONTROLLERS = ("cpu", "memory", "pids")  # that set limits
ALL = frozenset(CONTROLLERS)


@record
class LimitSet:
    """Limits of a job; None: there is none, or it is not known."""

    cpus: float | None = None
    memory_bytes: int | None = None
    pids: int | None = None

    @property
    def is_empty(self) -> bool:
        return self.cpus is None and self.memory_bytes is None and self.pids is None

    def tightest(self, other: LimitSet) -> LimitSet:
        """The lower of each pair."""
        if other.is_empty or self.is_empty:
            return self if other.is_empty else other
        return LimitSet(
            _lower(self.cpus, other.cpus),
            _lower(self.memory_bytes, other.memory_bytes),
            _lower(self.pids, other.pids),
        )


NO_LIMITS = LimitSet()


@record
class Mount:
    """A mounted tree of cgroups: the controllers of version 1, or VERSION_2; the part that is mounted, and where."""

    controllers: frozenset[str]
    root: str
    place: str


def find_mounts(proc: str = "/proc") -> list[Mount]:
    """The trees of cgroups that can have limits, as this process sees them."""
    found = []
    for line in read_text(f"{proc}/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        kind, *rest = after.split(" ")
        words = before.split(" ")
        if kind not in ("cgroup", "cgroup2") or len(words) < 5 or len(rest) < 2:
            continue
        options = frozenset((VERSION_2,)) if kind == "cgroup2" else frozenset(rest[-1].split(",")) & {*CONTROLLERS}
        if options:
            found.append(Mount(options, words[3].rstrip("/"), words[4].replace("\\040", " ")))
    return found


class CgroupLimits:
    """Reads the limits of cgroups; those of a directory are read once for all jobs below it, until `renew`."""

    def __init__(self, mounts: list[Mount]) -> None:
        self._mounts = mounts
        self._known: dict[str, LimitSet] = {}  # of a directory and those above it
        self._enabled: dict[str, frozenset[str]] = {}  # controllers of the directories below one, of version 2
        self._ways: dict[
            str, list[tuple[tuple[str, ...], frozenset[str]]]
        ] = {}  # by what a process says of its cgroups

    def renew(self) -> None:
        """Read all directories again from now on."""
        self._known.clear()
        self._enabled.clear()

    def of_text(self, text: str) -> LimitSet:
        """The tightest limits on the way up to the roots of the trees, by what a process says of its cgroups."""
        ways = self._ways.get(text)
        if ways is None:
            if len(self._ways) >= MOST_WAYS:
                self._ways.clear()
            ways = self._ways[text] = self._find_ways(text)
        found = NO_LIMITS
        for way, controllers in ways:
            limits = self._tightest(way, controllers)
            if limits is not NO_LIMITS:
                found = found.tightest(limits)
        return found

    def _find_ways(self, text: str) -> list[tuple[tuple[str, ...], frozenset[str]]]:
        """The directories from each cgroup that can have limits up, and their controllers."""
        ways = []
        for line in text.splitlines():
            words = line.split(":", 2)
            if len(words) < 3:
                continue
            _, controllers, path = words
            names = frozenset(controllers.split(",")) & {*CONTROLLERS} if controllers else frozenset((VERSION_2,))
            mount = next((mount for mount in self._mounts if names and names <= mount.controllers), None)
            if mount is not None and (way := tuple(_way_up(mount, path))):
                ways.append((way, mount.controllers))
        return ways

    def _tightest(self, way: tuple[str, ...], controllers: frozenset[str]) -> LimitSet:
        known = self._known.get(way[0])
        if known is None:
            if VERSION_2 in controllers:
                known = _version_2(way[0], self._enabled_below(way[1]) if len(way) > 1 else ALL)
            else:
                known = _version_1(way[0], controllers)
            if len(way) > 1:
                known = known.tightest(self._tightest(way[1:], controllers))
            known = self._known[way[0]] = NO_LIMITS if known.is_empty else known
        return known

    def _enabled_below(self, directory: str) -> frozenset[str]:
        """The controllers that the cgroups below one have: read once for all of them."""
        enabled = self._enabled.get(directory)
        if enabled is None:
            path = f"{directory}/cgroup.subtree_control"
            text = read_text(path)  # empty if there is none
            enabled = frozenset(text.split()) if text or os.path.exists(path) else ALL
            self._enabled[directory] = enabled
        return enabled


def _way_up(mount: Mount, path: str) -> Iterator[str]:
    """The directories from a cgroup up to the root of its tree, as far as that is mounted."""
    if "/.." in path or not (path == mount.root or path.startswith(f"{mount.root}/")):
        return
    inside = path.removeprefix(mount.root).rstrip("/")
    while inside:
        yield mount.place + inside
        inside = inside.rpartition("/")[0]
    yield mount.place


def _version_2(directory: str, enabled: frozenset[str]) -> LimitSet:
    if enabled.isdisjoint(CONTROLLERS):
        return NO_LIMITS
    return LimitSet(
        _quota(_whole(f"{directory}/cpu.max").split()) if "cpu" in enabled else None,
        _count(_whole(f"{directory}/memory.max")) if "memory" in enabled else None,
        _count(_whole(f"{directory}/pids.max")) if "pids" in enabled else None,
    )


def _version_1(directory: str, controllers: frozenset[str]) -> LimitSet:
    names = ("quota", "period") if "cpu" in controllers else ()
    words = [_whole(f"{directory}/cpu.cfs_{name}_us").strip() for name in names]
    memory = _count(_whole(f"{directory}/memory.limit_in_bytes")) if "memory" in controllers else None
    return LimitSet(
        _quota(words),
        None if memory is None or memory >= NO_LIMIT_BYTES else memory,
        _count(_whole(f"{directory}/pids.max")) if "pids" in controllers else None,
    )


def _whole(path: str) -> str:
    """A file of a cgroup; nothing if its end is missing, where half of a number would be a lower limit."""
    text = read_text(path)
    return text if text.endswith("\n") else ""


def affinity(directory: str, cores: int) -> int | None:
    """How many cores a process may run on; None if on all of them."""
    _, name, rest = read_text(f"{directory}/status").partition("Cpus_allowed_list:")
    allowed = 0
    for part in rest.partition("\n")[0].strip().split(",") if name else ():
        first, _, last = part.partition("-")
        if not (is_count(first) and is_count(last or first)):
            return None
        allowed += int(last or first) - int(first) + 1
    return allowed if 0 < allowed < cores else None


LIMIT_ROWS = {"Max open files": OPEN_FILES, "Max address space": ADDRESS_SPACE}  # of /proc/PID/limits
ASKED = {OPEN_FILES: resource.RLIMIT_NOFILE, ADDRESS_SPACE: resource.RLIMIT_AS}


class KernelLimits:
    """Asks the kernel what a process of this machine may use: a tenth of the cost of reading its files in /proc."""

    def affinity(self, pid: int, cores: int) -> int | None:
        """How many cores a process may run on; None if on all of them, or if it has exited."""
        try:
            allowed = len(os.sched_getaffinity(pid))
        except OSError:
            return None
        return allowed if 0 < allowed < cores else None

    def soft_limits(self, pids: Iterable[int]) -> dict[str, int]:
        """The lowest soft limits of open files and address space of some processes; without those that none has."""
        found: list[dict[str, int]] = []
        for pid in pids:
            try:
                asked = {name: resource.prlimit(pid, number)[0] for name, number in ASKED.items()}
            except OSError:  # it has exited, or it is another user's, whose file can be read
                found.append(soft_limits([f"/proc/{pid}"]))
                continue
            found.append({name: value for name, value in asked.items() if value != resource.RLIM_INFINITY})
        return lowest(found)


class CapturedLimits:
    """Reads the same from the files of a captured /proc."""

    def __init__(self, proc: str) -> None:
        self._proc = proc

    def affinity(self, pid: int, cores: int) -> int | None:
        return affinity(f"{self._proc}/{pid}", cores)

    def soft_limits(self, pids: Iterable[int]) -> dict[str, int]:
        return soft_limits(f"{self._proc}/{pid}" for pid in pids)


def soft_limits(directories: Iterable[str]) -> dict[str, int]:
    """The lowest soft limits of open files and address space of some processes; without those that none has."""
    found: list[dict[str, int]] = []
    for directory in directories:
        text = read_text(f"{directory}/limits")
        words = {name: text.partition(row)[2].split(None, 1)[:1] for row, name in LIMIT_ROWS.items()}
        found.append({name: int(word[0]) for name, word in words.items() if word and is_count(word[0])})
    return lowest(found)


def lowest(found: Iterable[dict[str, int]]) -> dict[str, int]:
    """The lowest value of each name."""
    values: dict[str, int] = {}
    for limits in found:
        values |= {name: min(value, values.get(name, value)) for name, value in limits.items()}
    return values


def slurm_limits(directory: str) -> LimitSet:
    """What Slurm allotted to a process on this host, by its environment; nothing if Slurm did not start it."""
    text = read_text(f"{directory}/environ")
    if "SLURM_JOB_ID=" not in text:
        return NO_LIMITS
    environ = dict(entry.partition("=")[::2] for entry in text.split("\0") if entry.startswith("SLURM_"))
    cpus = _positive(environ.get("SLURM_CPUS_ON_NODE"))
    mebibytes = _positive(environ.get("SLURM_MEM_PER_NODE"))
    per_cpu = _positive(environ.get("SLURM_MEM_PER_CPU"))
    if mebibytes is None and per_cpu is not None and cpus is not None:
        mebibytes = per_cpu * cpus
    return LimitSet(None if cpus is None else float(cpus), None if mebibytes is None else mebibytes * MEBIBYTE)


def _quota(words: list[str]) -> float | None:
    """Quota and period of CPU time; "max" and -1 are no limit."""
    if len(words) != 2 or not all(map(is_count, words)) or int(words[1]) == 0:
        return None
    return int(words[0]) / int(words[1])


def _count(text: str) -> int | None:
    digits = text.strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None


def _positive(text: str | None) -> int | None:
    number = _count(text or "")
    return number or None


def _lower(one: Number | None, other: Number | None) -> Number | None:
    return other if one is None else one if other is None else min(one, other)
