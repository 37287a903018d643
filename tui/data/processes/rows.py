"""The rows of the table of processes: the job of each, which match the filter, and their order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from heapq import nlargest
from typing import NamedTuple

from jobtop.core.measure.live.machine_processes import MachineProcess, ProcessMoment
from jobtop.tui.data.view import JobRow
from jobtop.tui.widgets.columns import Sort

Key = tuple[int, int]
CONTAINER = "container"
SORTS: dict[str, Callable[[MachineProcess], float | str]] = {
    "cpu": lambda process: process.cpu_percent or 0.0,
    "memory": lambda process: process.memory_bytes or 0,
    "threads": lambda process: process.threads,
    "age": lambda process: -process.start,
    "pid": lambda process: process.pid,
    "user": lambda process: process.user,
    "state": lambda process: process.state,
    "command": lambda process: process.command.rpartition("/")[2] or process.command,
}
JOB_SORT = "job"
DEFAULT_SORT = Sort("cpu", descending=True)


class OwnerJob(NamedTuple):
    """The job that a process belongs to."""

    id: str
    name: str


class ShownProcess(NamedTuple):
    """A process as a row shows it: with its job, its age, and its place in the tree."""

    process: MachineProcess
    job: OwnerJob | None
    age_seconds: float
    depth: int = 0
    is_match: bool = True  # False: it is there because a process below it matches the filter

    @property
    def key(self) -> Key:
        return self.process.key


class Owners:
    """Finds the job of each process by its ancestors; a process that init has inherited keeps its job."""

    def __init__(self) -> None:
        self.by_key: dict[Key, OwnerJob] = {}

    def find(self, processes: Iterable[MachineProcess], jobs: Iterable[JobRow], boot: str) -> dict[Key, OwnerJob]:
        """The innermost job of each process that has one."""
        roots = roots_of(jobs, boot)
        live = {root.owner.id for root in roots.values()}
        before, self.by_key = self.by_key, {}
        if not roots:
            return self.by_key
        known = {process.pid: process for process in processes}
        found: dict[int, OwnerJob | None] = {}
        for pid in known:
            line, above, owner = [], pid, None
            while above in known and above not in found:
                found[above] = None  # a ring ends here: a pid can be reused between two readings
                line.append(above)
                root = roots.get(above)
                if root is not None and root.start in (None, known[above].start):
                    owner = root.owner
                    break
                above = known[above].parent
            else:
                # A shim that is not visible (hidepid) has children that name it.
                hidden = roots.get(above) if above not in known else None
                owner = hidden.owner if hidden is not None else found.get(above)
            for below in reversed(line):
                earlier = before.get(known[below].key) if owner is None else None
                if earlier is not None and earlier.id in live:
                    owner = earlier
                found[below] = owner
                if owner is not None:
                    self.by_key[known[below].key] = owner
        return self.by_key


class Root(NamedTuple):
    """A process above all others of a job; without a start, the pid alone identifies it."""

    start: int | None
    owner: OwnerJob


def roots_of(jobs: Iterable[JobRow], boot: str) -> dict[int, Root]:
    """The roots of the jobs that run on this machine, by pid."""
    roots: dict[int, Root] = {}
    for row in jobs:
        job = row.job
        if not job.status.ended and job.shim is not None and job.shim.boot == boot:
            owner = OwnerJob(job.id, job.name)
            roots[job.shim.pid] = Root(job.shim.start, owner)
            if job.kind == CONTAINER and job.pid is not None:  # an engine starts its processes, not the shim
                roots.setdefault(job.pid, Root(None, owner))
    return roots


class ProcessRows:
    """The rows of a table; only those that are visible are made."""

    def __init__(
        self,
        moment: ProcessMoment,
        order: Sequence[tuple[int, MachineProcess]],
        owners: Mapping[Key, OwnerJob],
        unmatched: frozenset[Key] = frozenset(),
    ) -> None:
        self._moment, self.order, self._owners, self._unmatched = moment, order, owners, unmatched
        self._positions: dict[Hashable, int] | None = None

    def __len__(self) -> int:
        return len(self.order)

    def window(self, start: int, stop: int) -> list[ShownProcess]:
        return [
            ShownProcess(
                process,
                self._owners.get(process.key),
                float(int(self._moment.age(process))),
                depth,
                process.key not in self._unmatched,
            )
            for depth, process in self.order[start:stop]
        ]

    def key(self, row: ShownProcess) -> Key:
        return row.key

    def index(self, key: Hashable) -> int | None:
        if self._positions is None:
            self._positions = {process.key: place for place, (_, process) in enumerate(self.order)}
        return self._positions.get(key)


def matching(
    processes: Sequence[MachineProcess], words: Sequence[str], owners: Mapping[Key, OwnerJob]
) -> Sequence[MachineProcess]:
    """The processes in which all words occur: in the command, the name, the user or the job; a number is also a pid."""
    if not words:
        return processes
    wanted = [word.lower() for word in words]

    def matches(process: MachineProcess) -> bool:
        job = owners.get(process.key)
        text = f"{process.command}\n{process.name}\n{process.user}".lower()
        if job is not None:
            text += f"\n{job.name}\n{job.id}".lower()
        return all(word in text or word == str(process.pid) for word in wanted)

    return [process for process in processes if matches(process)]


def sorted_processes(
    processes: Iterable[MachineProcess], sort: Sort, owners: Mapping[Key, OwnerJob]
) -> list[MachineProcess]:
    """The processes in order, equal ones as they came; sorted by job, those that belong to none come last."""
    found = list(processes)
    if sort.key == JOB_SORT:
        owned = [process for process in found if process.key in owners]
        owned.sort(key=lambda process: owners[process.key], reverse=sort.descending)
        return owned + [process for process in found if process.key not in owners]
    found.sort(key=SORTS.get(sort.key, SORTS["cpu"]), reverse=sort.descending)
    return found


def with_ancestors(
    found: Sequence[MachineProcess], processes: Sequence[MachineProcess]
) -> tuple[list[MachineProcess], frozenset[Key]]:
    """The processes and all their ancestors, and the keys of those that are only ancestors."""
    by_pid = {process.pid: process for process in processes}
    shown = {process.pid for process in found}
    extra: set[int] = set()
    for process in found:
        above = process.parent
        while above in by_pid and above not in shown and above not in extra:
            extra.add(above)
            above = by_pid[above].parent
    added = [by_pid[pid] for pid in extra]
    return [*found, *added], frozenset(process.key for process in added)


def as_tree(ordered: Sequence[MachineProcess]) -> list[tuple[int, MachineProcess]]:
    """Each process with its depth, below its parent; children of one parent stay in the order they came."""
    known = {process.pid for process in ordered}
    below: dict[int | None, list[MachineProcess]] = {}
    for process in reversed(ordered):
        is_child = process.parent in known and process.parent != process.pid
        below.setdefault(process.parent if is_child else None, []).append(process)
    found: list[tuple[int, MachineProcess]] = []
    waiting = [(0, process) for process in below.pop(None, [])]
    while waiting or below:
        if not waiting:  # a pid that was reused between two readings can make a ring
            waiting = [(0, process) for process in below.pop(next(iter(below)))]
        depth, process = waiting.pop()
        found.append((depth, process))
        waiting += [(depth + 1, child) for child in below.pop(process.pid, [])]
    return found


def split_cpu(processes: Iterable[MachineProcess], owners: Mapping[Key, OwnerJob]) -> tuple[float, float]:
    """The CPU percent that jobs use, and that other processes use."""
    of_jobs = of_others = 0.0
    for process in processes:
        if process.cpu_percent:
            if process.key in owners:
                of_jobs += process.cpu_percent
            else:
                of_others += process.cpu_percent
    return of_jobs, of_others


def heaviest_others(
    processes: Iterable[MachineProcess], owners: Mapping[Key, OwnerJob], most: int
) -> list[MachineProcess]:
    """The processes of no job that use the most CPU; of those that use equally little, the ones with most memory."""
    others = (process for process in processes if process.key not in owners)
    return nlargest(most, others, key=lambda each: (round(each.cpu_percent or 0.0), each.memory_bytes or 0))
