"""Which processes of jobs have a GPU open, and what they use of it, by /proc/PID/fdinfo of any DRM driver.

Only processes of jobs are looked at. To look for open GPUs is expensive: that has a budget, and a process that has not
run since is not looked at again.
"""

from __future__ import annotations

import os
import time

from jobtop.core.measure.collectors.gpu.fdinfo import ClientLoad, counts, memory_in_use, parse
from jobtop.core.procfs import read_text
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Client = tuple[str, int]  # the address of the GPU, the number of the client
    Process = tuple[int, int]  # its start and its pid: the older one first
    Candidates = Mapping[Process, int | None]  # the CPU time of each: whether it has run since it was looked at

NODES = "/dev/dri/"
SEARCH_SECONDS = 0.003  # of CPU time for the search of open GPUs in one reading
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 1.0, 30.0  # between two searches of a process without a GPU
OPEN_WAIT_SECONDS = 5.0  # between two searches of a process with one
MOST_FILES = 1024  # of one process that are looked at


@record
class Use:
    """What a process uses of a GPU; None is not known, or not yet."""

    memory_bytes: int | None
    percent: float | None
    is_counted: bool = True  # the driver counts the time of engines, though there may be no percentage now


class Search:
    """What is known of one process: its open GPUs by descriptor, and when to look again."""

    __slots__ = ("counted", "cpu_ns", "files", "is_unread", "next_at", "wait_seconds")

    def __init__(self, now: float) -> None:
        self.files: dict[str, str] = {}  # nodes, by descriptor
        self.counted: set[str] = set()  # descriptors that the driver has told the time of engines of
        self.cpu_ns: int | None = -1
        self.is_unread = False  # what it has open may not be listed
        self.next_at, self.wait_seconds = now, FIRST_WAIT_SECONDS


class DrmProcesses:
    """The processes of jobs on GPUs of the DRM."""

    def __init__(self, proc: str = "/proc", cpu_clock: Callable[[], float] = time.thread_time) -> None:
        self._proc, self._cpu_clock = proc, cpu_clock
        self._searches: dict[Process, Search] = {}
        self._loads: dict[Client, ClientLoad] = {}
        self.is_complete = True  # the budget of the last search sufficed

    @property
    def has_open(self) -> bool:
        """Whether a process had a GPU open when it was last looked at."""
        return any(search.files for search in self._searches.values())

    def read(
        self, candidates: Candidates, addresses: Mapping[str, str], integrated: frozenset[str], now: float
    ) -> dict[str, dict[int, Use]]:
        """What each process uses, by GPU and pid. `addresses`: the GPU of each node in /dev/dri."""
        self._search(candidates, now)
        loads: dict[Client, ClientLoad] = {}
        found: dict[str, dict[int, Use]] = {}
        for (_, pid), search in sorted((key, search) for key, search in self._searches.items() if search.files):
            for descriptor, node in search.files.items():
                client = parse(read_text(f"{self._proc}/{pid}/fdinfo/{descriptor}"))
                if client is None and self._node(pid, descriptor) != node:
                    search.next_at = now  # it was closed, or is another file now
                    continue
                address, use = addresses.get(node, node), Use(None, None, descriptor in search.counted)
                if client is not None:
                    address = client.address or address
                    key = address, client.number
                    if key in loads:  # a duplicate, or inherited from the process that has opened it
                        continue
                    load = loads[key] = self._loads.get(key) or ClientLoad()
                    use = Use(memory_in_use(client, address in integrated), load.percent(client, now), counts(client))
                    if use.is_counted:
                        search.counted.add(descriptor)
                users = found.setdefault(address, {})
                users[pid] = _together(users[pid], use) if pid in users else use
        self._loads = loads
        return found

    @property
    def has_unread(self) -> bool:
        """Whether it is not known of some process what it has open: how many use a GPU is then not known."""
        return any(search.is_unread for search in self._searches.values())

    def _search(self, candidates: Candidates, now: float) -> None:
        """Look for open GPUs in the processes that are due, the longest waiting first, within the budget."""
        searches = self._searches
        for key in [key for key in searches if key not in candidates]:
            del searches[key]
        for key in [key for key in candidates if key not in searches]:
            searches[key] = Search(now)
        due = [
            (search.next_at, key)
            for key, search in searches.items()
            if search.next_at <= now and (search.files or search.cpu_ns != candidates[key] or candidates[key] is None)
        ]
        began = self._cpu_clock()
        self.is_complete = True
        for number, (_, key) in enumerate(sorted(due), 1):
            self._look(key[1], candidates[key], searches[key], now)
            if self._cpu_clock() - began > SEARCH_SECONDS:
                self.is_complete = number == len(due)
                break

    def _look(self, pid: int, cpu_ns: int | None, search: Search, now: float) -> None:
        directory = f"{self._proc}/{pid}/fd"
        search.cpu_ns, search.files = cpu_ns, {}
        search.is_unread = False
        try:
            descriptors = os.listdir(directory)[:MOST_FILES]
        except OSError:  # it has exited, or belongs to another user (sudo)
            descriptors, search.is_unread = [], os.path.exists(f"{self._proc}/{pid}")
        for descriptor in descriptors:
            if (node := self._node(pid, descriptor)) is not None:
                search.files[descriptor] = node
        search.counted &= search.files.keys()
        search.next_at = now + (OPEN_WAIT_SECONDS if search.files else search.wait_seconds)
        search.wait_seconds = min(2 * search.wait_seconds, LONGEST_WAIT_SECONDS)

    def _node(self, pid: int, descriptor: str) -> str | None:
        """The file in /dev/dri that a descriptor is open on; None if it is another file, or closed."""
        try:
            target = os.readlink(f"{self._proc}/{pid}/fd/{descriptor}")
        except OSError:
            return None
        return target.removeprefix(NODES) if target.startswith(NODES) else None


def _together(first: Use, second: Use) -> Use:
    """The sum of two clients of one process; what is not known makes all unknown."""
    memory = (
        None if first.memory_bytes is None or second.memory_bytes is None else first.memory_bytes + second.memory_bytes
    )
    percent = None if first.percent is None or second.percent is None else min(100.0, first.percent + second.percent)
    return Use(memory, percent, first.is_counted and second.is_counted)
