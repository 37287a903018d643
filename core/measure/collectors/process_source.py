"""The source of what the processes of jobs use, read from /proc: CPU time, memory, I/O, threads, open files."""

from __future__ import annotations

import os
import threading

from jobtop.core.measure.collectors.jobs import fold
from jobtop.core.measure.collectors.processes import ProcessTable
from jobtop.core.measure.source import Readings
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.procfs import HAS_PROC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobtop.core.measure.collectors.members import Tree
    from jobtop.core.measure.collectors.process_fields import JobRow
    from jobtop.core.measure.source import Jobs
    from jobtop.core.measure.sources import Options
    from jobtop.core.measure.target import Target

NEVER = -1
USER, SYSTEM, USED, RESIDENT, PROCESSES, READ_CHARS, WRITE_CHARS = (
    JOB_COLUMNS.index(key)
    for key in ("cpu.user", "cpu.system", "mem.used", "mem.rss", "proc.count", "io.read_chars", "io.write_chars")
)


class JobProcesses:
    """The processes of one job, and what they used when a process had last run."""

    __slots__ = ("row", "tree", "version")

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.row: JobRow = (None,) * len(JOB_COLUMNS)
        self.version = NEVER

    @property
    def cpu_seconds(self) -> float:
        """User and system time together."""
        return (self.row[USER] or 0) + (self.row[SYSTEM] or 0)

    @property
    def chars(self) -> float | None:
        """The bytes that were read and written by system calls; None if that is not known."""
        read, written = self.row[READ_CHARS], self.row[WRITE_CHARS]
        return None if read is None or written is None else read + written


class ActiveJobs:
    """The jobs in which a process has run since a reader last took them; the reader has a thread of its own."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._lock = threading.Lock()

    def note(self, keys: Iterable[str]) -> None:
        with self._lock:
            self._keys.update(keys)

    def drop(self, key: str) -> None:
        """Forget a job that is not sampled any more."""
        with self._lock:
            self._keys.discard(key)

    def take(self) -> set[str]:
        with self._lock:
            taken, self._keys = self._keys, set()
        return taken


class ProcessSource:
    """Reads the processes below the roots of jobs; a job in which no process has run is not read.

    `details_seconds` of CPU time may be spent on expensive files in each call.
    """

    name = "processes"
    interval_seconds = None

    def __init__(self, table: ProcessTable, without: frozenset[str] = frozenset()) -> None:
        self.table, self.without = table, without
        self.details_seconds = 0.0
        self.details_cores: float | None = None  # the same per second; None before the first tick
        self.budget_cores: float | None = None  # what all sampling may cost; None before the first tick
        self.jobs: dict[str, JobProcesses] = {}
        self._due: Jobs | None = None
        self._due_trees: dict[Tree, tuple[str, JobProcesses]] = {}
        self._swept: list[Tree] = []
        self._keys: dict[Tree, str] = {}
        self._readers: list[ActiveJobs] = []

    def available(self) -> str | None:
        """Why it cannot be used here, or None."""
        return None if HAS_PROC or self.table.proc != "/proc" else "there is no /proc on this system"

    def add(self, key: str, target: Target) -> Tree:
        """Read the processes of a job from the next call on."""
        tree = self.table.add_target(target)
        tree.counts_memfds = not any(os.path.exists(f"{directory}/memory.stat") for directory in target.cgroups)
        self.jobs[key] = JobProcesses(tree)
        self._keys[tree] = key
        return tree

    def news(self) -> ActiveJobs:
        """The jobs that will be active from now on, for one more reader."""
        self._readers.append(news := ActiveJobs())
        return news

    def collect(self, jobs: Jobs) -> Readings:
        """Sum the processes of each job in which one has run since."""
        if jobs is not self._due:
            self._set_due(jobs)
        self.table.sweep(self._swept)
        self.table.read_details(self.details_seconds, self.without)
        read_at = self.table.read_at
        found: dict[str, JobRow] = {}
        moments: dict[str, float] = {}
        all_changed = self.table.changed
        changed = all_changed & self._due_trees.keys()
        active = [self._keys[tree] for tree in all_changed if tree in self._keys] if self._readers else ()
        self.table.changed -= changed
        for tree in changed:
            key, job = self._due_trees[tree]
            job.version = tree.version
            found[key] = job.row = row = fold(tree)
            if tree.read_at > read_at:  # its processes were read once more
                moments[key] = tree.read_at
            else:
                tree.read_at = read_at
            if tree.touched_bytes and tree.counts_memfds and (row[PROCESSES] or 0) > 1:
                tree.note_possible(row[USED] or 0, row[RESIDENT] or 0)
        for reader in self._readers:
            reader.note(active)
        return Readings(rows=found, moments=moments, moment=read_at)

    def forget(self, key: str) -> None:
        """Read the processes of a job no longer."""
        job = self.jobs.pop(key, None)
        self._due = None
        if job is not None:
            self._keys.pop(job.tree, None)
            for reader in self._readers:
                reader.drop(key)
            self.table.remove(job.tree)

    def close(self) -> None:
        self.table.close()

    def _set_due(self, jobs: Jobs) -> None:
        for key, target in jobs.items():
            if key not in self.jobs:
                self.add(key, target)
        self._due = jobs
        self._due_trees = {self.jobs[key].tree: (key, self.jobs[key]) for key in jobs}
        self._swept = list(self._due_trees)


def open_source(options: Options) -> ProcessSource:
    return ProcessSource(ProcessTable(options.proc), options.without)
