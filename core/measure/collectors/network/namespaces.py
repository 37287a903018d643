"""Counts the traffic of network namespaces that belong to one job alone: containers, `ip netns exec`, `unshare -n`.

An open /proc/PID/net/dev keeps the namespace, so it can be read once more after the last process has exited.
Loopback is left out: inside a namespace of its own it never leaves the job.
"""

from __future__ import annotations

import os
import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors.host.files import NET_KEYS, parse_net_dev
from jobtop.core.measure.collectors.network.watching import counted_from_text, seconds_before
from jobtop.core.procfs import descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobtop.core.measure.collectors.pid_owners import PidOwners
    from jobtop.core.measure.collectors.process_source import ProcessSource
    from jobtop.core.measure.source import Jobs, Number
    from jobtop.core.measure.target import Target

LOOPBACK = "lo"
YOUNG_READINGS = 4  # in which a new process is looked at each time: it enters a namespace when it starts
CHECK_READINGS = 60  # between two looks at older processes, and at who else is in a namespace
EARLIER_SECONDS = 0.1
MOST_BYTES = 1 << 20
SHARED = "network: its network namespace is shared with processes of no job or of another one, so it is not counted"


class Namespace:
    """A network namespace of a job: what its interfaces counted so far, also of interfaces that are gone."""

    def __init__(self, existed: bool) -> None:
        self.existed = existed  # before the job: what it counted until the first reading is not the job's
        self.pids: set[int] = set()
        self.is_shared = False
        self.has_interfaces = False
        self.is_known = False
        self.is_unread = False  # the last reading failed, though a process is in the namespace
        self._file = -1
        self._before: dict[str, dict[str, Number]] = {}  # by interface: what it had counted when it was started again …
        self._now: dict[str, dict[str, Number]] = {}  # … and what it counts since
        self._baseline: dict[str, Number] = {}

    def read(self, path: str) -> None:
        """Read the counters, through the file of a process that is in the namespace."""
        self.is_unread = bool(self.pids)
        try:
            if self._file < 0:
                self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            text = os.pread(self._file, MOST_BYTES, 0).decode("utf-8", "replace")
        except OSError:  # the process has exited, or belongs to another user
            return
        counters = parse_net_dev(text)
        if not counters or not text.endswith("\n"):  # torn: each namespace has at least its loopback
            return
        found = {name: counted for name, counted in counters.items() if name != LOOPBACK}
        for name, counted in found.items():
            self._take(name, {key: counted.get(key) or 0 for key in NET_KEYS})
        if not self.is_known and self.existed:
            self._baseline = self._sum()
        self.is_unread = False
        self.is_known, self.has_interfaces = True, self.has_interfaces or bool(found)

    def values(self) -> dict[str, Number]:
        return {key: value - self._baseline.get(key, 0) for key, value in self._sum().items()}

    def close(self) -> None:
        """Let the namespace go; its counts are kept."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _take(self, name: str, counted: dict[str, Number]) -> None:
        last = self._now.get(name)
        if last is not None and counted["net.rx_bytes"] < last["net.rx_bytes"]:  # it was made again
            before = self._before.setdefault(name, dict.fromkeys(NET_KEYS, 0))
            for key in NET_KEYS:
                before[key] += last[key]
        self._now[name] = counted

    def _sum(self) -> dict[str, Number]:
        parts = [*self._before.values(), *self._now.values()]
        return {key: sum(part[key] for part in parts) for key in NET_KEYS}


class NamespaceTraffic:
    """Finds the namespaces of jobs, and reads them; `processes` has the processes of the jobs."""

    def __init__(self, owners: PidOwners, processes: ProcessSource | None, proc: str = "/proc") -> None:
        self._owners, self._processes, self._proc = owners, processes, proc
        self._outside = {self._namespace(name) for name in ("self", "1")} - {None}
        self._seen: dict[str, dict[int, int]] = {}  # the processes of each job, and in how many readings
        self._births: dict[str, int] = {}  # how many processes a job had started
        self._young: dict[str, int] = {}  # jobs that started a process lately, and in which reading
        self._jobs: dict[str, dict[int, Namespace]] = {}  # by job, and by the number of the namespace
        self._readings = 0
        self._late: dict[str, float | None] = {}  # how long a job had run before this process watched it, if it had

    def read(self, jobs: Jobs, active: Iterable[str] | None = None) -> None:
        """Find new namespaces of these jobs, and read all that have processes; `active`: those that may have run."""
        self._readings += 1
        is_due = self._readings % CHECK_READINGS == 0
        for key in jobs if active is None or is_due else {*active, *self._young}:
            if key not in jobs:
                continue
            if key not in self._late:
                self._late[key] = seconds_before(jobs[key])
            if self._has_young(key) or is_due:
                self._look_at_all(key, jobs[key], is_due)
        for key, spaces in self._jobs.items():
            for number, space in spaces.items():
                self._read_one(key, number, space, jobs, is_due)

    def values(self, key: str) -> dict[str, Number]:
        """What the namespaces of a job counted; nothing if it has none of its own, or shares one."""
        spaces = [space for space in self._jobs.get(key, {}).values() if space.is_known]
        if not spaces or any(space.is_shared for space in spaces):
            return {}
        return {net: sum(space.values()[net] for space in spaces) for net in NET_KEYS}

    def is_unread(self, key: str) -> bool:
        """Whether the last reading of a namespace of the job failed: its counts are those of an earlier one."""
        return any(space.is_known and space.is_unread for space in self._jobs.get(key, {}).values())

    def has_interfaces(self, key: str) -> bool:
        """Whether the job can reach anything outside through a namespace of its own."""
        return any(space.has_interfaces for space in self._jobs.get(key, {}).values())

    def incomplete(self, key: str) -> list[str]:
        spaces = self._jobs.get(key, {}).values()
        if any(space.is_shared for space in spaces):
            return [SHARED]
        late = self._late.get(key)
        if late is not None and any(space.is_known for space in spaces):
            return [counted_from_text(late)]
        if any(space.existed and space.is_known for space in spaces):
            return ["network: the namespace is older than the job, and is counted from the first reading on"]
        return []

    def known_jobs(self) -> list[str]:
        return [key for key, spaces in self._jobs.items() if any(space.is_known for space in spaces.values())]

    def forget(self, key: str) -> None:
        for kept in (self._late, self._seen, self._births, self._young):
            kept.pop(key, None)
        for space in self._jobs.pop(key, {}).values():
            space.close()

    def close(self) -> None:
        for key in list(self._jobs):
            self.forget(key)

    def _pids(self, key: str, target: Target) -> list[int]:
        if self._processes is not None and (job := self._processes.jobs.get(key)) is not None:
            return list(job.tree.members)
        return [*([target.root.pid] if target.includes_root else []), *descendants(target.root.pid)]

    def _has_young(self, key: str) -> bool:
        """Whether a job has started a process lately."""
        job = None if self._processes is None else self._processes.jobs.get(key)
        if job is None:
            return True
        if job.tree.births != self._births.get(key):
            self._births[key], self._young[key] = job.tree.births, self._readings
        if key not in self._young:
            return False
        if self._readings - self._young[key] >= YOUNG_READINGS:
            del self._young[key]
            return False
        return True

    def _look_at_all(self, key: str, target: Target, is_due: bool) -> None:
        before, seen = self._seen.get(key, {}), {}
        for pid in self._pids(key, target):
            seen[pid] = times = before.get(pid, 0) + 1
            if times <= YOUNG_READINGS or is_due:
                self._look_at(pid, key, target)
        self._seen[key] = seen

    def _look_at(self, pid: int, key: str, target: Target) -> None:
        number = self._namespace(str(pid))
        if number is None or number in self._outside:
            return
        spaces = self._jobs.setdefault(key, {})
        if number not in spaces:
            spaces[number] = Namespace(self._late.get(key) is not None or self._is_older(pid, target))
        spaces[number].pids.add(pid)

    def _read_one(self, key: str, number: int, space: Namespace, jobs: Jobs, is_due: bool) -> None:
        space.pids = {pid for pid in space.pids if self._namespace(str(pid)) == number}
        if space.pids and (is_due or not space.is_known) and not space.is_shared:
            space.is_shared = self._has_others(number, space.pids, key, jobs)
        space.read(f"{self._proc}/{min(space.pids, default=0)}/net/dev")
        if not space.pids:
            space.close()

    def _has_others(self, number: int, pids: set[int], key: str, jobs: Jobs) -> bool:
        """Whether a process that is not of the job is in a namespace, as far as this user can see."""
        names = [int(name) for name in os.listdir(self._proc) if name.isdigit()]
        others = [pid for pid in names if pid not in pids and self._namespace(str(pid)) == number]
        return any(key not in owners for owners in self._owners.find(others, jobs).values())

    def _namespace(self, pid: str) -> int | None:
        """The number of the network namespace that a process is in; None if it has exited or is another user's."""
        try:
            return os.stat(f"{self._proc}/{pid}/ns/net").st_ino
        except OSError:
            return None

    def _is_older(self, pid: int, target: Target) -> bool:
        """Whether the namespace has a name (ip netns) that it got before the job started."""
        started = time.time() - (time.clock_gettime(BOOTTIME) - target.start_boottime)
        try:
            return os.stat(f"{self._proc}/{pid}/ns/net").st_ctime < started - EARLIER_SECONDS
        except OSError:
            return False
