"""The source of the files that jobs read and write most: positions of open files, kept in the record at the end."""

from __future__ import annotations

import errno
import os
import threading
import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors.activity import Activity
from jobtop.core.measure.collectors.files.progress import ProcessFiles, Progress
from jobtop.core.measure.collectors.files.reading import (
    is_data,
    list_descriptors,
    read_counters,
    read_descriptor,
    read_link,
    read_mapped,
    read_parent,
    read_path,
)
from jobtop.core.measure.collectors.process_source import ProcessSource
from jobtop.core.measure.source import Readings, Remarks
from jobtop.core.procfs import HAS_PROC, SHIM_NAME, descendants
from jobtop.core.redact import redact_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jobtop.core.measure.collectors.files.progress import FileTotals
    from jobtop.core.measure.collectors.files.reading import Descriptor
    from jobtop.core.measure.collectors.members import Member
    from jobtop.core.measure.source import Jobs
    from jobtop.core.measure.sources import Options
    from jobtop.core.measure.target import Target

NAME = "files"
FIRST_SECONDS, CALM_SECONDS = 0.25, 1.0  # between calls: while a job is young, and else
AGES = ((10.0, 0.25), (60.0, 1.0), (float("inf"), 10.0))  # until this age of a job, its files are read so often
LITTLE_BYTES, LONGEST_SECONDS = 1 << 16, 10.0  # after less than so much, a job is not read before this time
SLACK_SECONDS = 0.05  # a job that is due so soon is read now: a call that comes a little early is no lost turn
FEW_IN_ALL, FEW_CORES = 64, 0.003  # all jobs together have so few processes: they may cost so much of a core …
MOST_CORES = 0.0005  # … and more processes so much: each reading of them is expensive
FEW_SHARE = 0.3  # of the sampling budget, for few processes, also while it is used up
DETAILS_SHARE = 0.25  # of what expensive files may cost, for more: less while the sampling budget is used up
MOST_CREDIT_SECONDS = 0.01  # that may be saved up for a large job
MOST_DESCRIPTORS = 256  # of one process in one reading; the others come in the next ones
MAPS_SECONDS, FIRST_MAPS_SECONDS = 10.0, 1.0  # between readings of mapped files, and until the first
MOST_MAPS = 3  # processes of a job of which the mapped files are read
KEPT = 20  # files in the record
MOST_FILES = 1000  # that are remembered of a job; beyond that, the smaller half is forgotten
LARGE_BYTES = 1 << 20  # a file of this size is kept too if it was open and its position never moved
LEAST_SHARE = 0.001  # of the bytes of the file that was read or written most
LAST_SECONDS = 0.05  # that the end of a job waits for the sizes of its files: a network file system may not answer
FEW_PROCESSES = 32  # of a young job: new ones are looked for in each reading


class JobFiles:
    """What was seen of the files of one job, and when it is due again."""

    __slots__ = (
        *("chars", "cursors", "denied", "due", "kept", "maps_due", "paths", "progress", "read_at", "seen", "version"),
    )

    def __init__(self) -> None:
        self.progress = Progress()
        self.due = 0.0
        self.maps_due: float | None = None
        self.version = -1  # of its processes, when their files were last read …
        self.read_at = -LONGEST_SECONDS  # … and when that was …
        self.chars: float | None = None  # … and what they had read and written
        self.seen: dict[int, int] = {}  # what each process had read and written when its files were last read
        self.cursors: dict[int, int] = {}  # the next descriptor of a process that has very many
        self.denied: set[int] = set()
        self.paths: dict[str, str] = {}  # as they are shown
        self.kept: list[tuple[Descriptor, dict[str, object]]] = []  # the files in the record


class FileSource:
    """Reads the open files of processes that have read or written since; those that did most come first."""

    name = NAME

    def __init__(
        self,
        processes: ProcessSource,
        proc: str = "/proc",
        sys: str = "/sys",
        clock: Callable[[], float] = lambda: time.clock_gettime(BOOTTIME),
        below: Callable[[int], list[int]] | None = None,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._processes, self._proc, self._sys, self._clock = processes, proc, sys, clock
        self._cpu_clock = cpu_clock
        self._below = below or (descendants if proc == "/proc" else lambda _: [])
        self._jobs: dict[str, JobFiles] = {}
        self._activity = Activity(processes, processes.table.clock)
        self._pending: set[str] = set()  # jobs of which a process may have run since their files were read
        self._known_jobs: Jobs = {}
        self._newest = -float("inf")  # when the youngest of them started, since boot
        self._remarks: dict[str, Remarks] = {}  # another one after each change: the sampler has the one before
        self._new_remarks: dict[str, Remarks] = {}
        self._credit_seconds = MOST_CREDIT_SECONDS
        self._called_at = clock()
        self.interval_seconds: float | None = FIRST_SECONDS

    def available(self) -> str | None:
        """Why it cannot be used here, or None."""
        return None if HAS_PROC or self._proc != "/proc" else "there is no /proc on this system"

    def collect(self, jobs: Jobs) -> Readings:
        """Read the jobs that are due, as far as the budget goes; what is known of all is in the remarks."""
        now = self._clock()
        if self._credit_seconds < MOST_CREDIT_SECONDS:
            earned = self._cores() * max(0.0, now - self._called_at)
            self._credit_seconds = min(self._credit_seconds + earned, MOST_CREDIT_SECONDS)
        self._called_at = now
        if jobs is not self._known_jobs:
            self._known_jobs = jobs
            self._newest = max((target.start_boottime for target in jobs.values()), default=-float("inf"))
            for key in jobs.keys() - self._jobs.keys():
                self._jobs[key] = JobFiles()
        self.interval_seconds = FIRST_SECONDS if now - self._newest < AGES[0][0] else CALM_SECONDS
        self._pending.update(self._activity.candidates(jobs))
        self._pending &= jobs.keys()
        due = [(self._jobs[key].due, key) for key in self._pending if now >= self._jobs[key].due - SLACK_SECONDS]
        for _, key in sorted(due):
            if self._credit_seconds <= 0:
                break
            if self._read_job(key, jobs[key], self._jobs[key], now):
                self._pending.discard(key)
        if self._new_remarks:
            self._remarks, self._new_remarks = self._remarks | self._new_remarks, {}
        return Readings(remarks=self._remarks)

    def conclude(self, key: str, jobs: Jobs) -> Readings | None:
        """The files of a job that has ended, with the size that they have now; other threads call it."""
        job = self._jobs.get(key)
        if job is None or not job.kept:
            return None
        kept, sizes = job.kept, dict[int, int | None]()

        def ask() -> None:
            for place, (found, _) in enumerate(kept):
                sizes[place] = size_of_same(found)

        asking = threading.Thread(target=ask, name="jobtop-file-sizes", daemon=True)
        asking.start()
        asking.join(LAST_SECONDS)
        known = {place: size for place, size in dict(sizes).items() if size is not None}
        files = [
            file | ({"size_bytes": known[place]} if place in known else {}) for place, (_, file) in enumerate(kept)
        ]
        return Readings(remarks={key: Remarks(findings={NAME: files})})

    def _cores(self) -> float:
        """The share of a core that reading may cost now: a few processes are read as often as is promised."""
        processes = self._processes
        jobs = list(processes.jobs.values())
        if len(jobs) <= FEW_IN_ALL and sum(len(job.tree.members) for job in jobs) <= FEW_IN_ALL:
            return FEW_CORES if processes.budget_cores is None else min(FEW_CORES, FEW_SHARE * processes.budget_cores)
        details_cores = processes.details_cores
        return MOST_CORES if details_cores is None else min(MOST_CORES, DETAILS_SHARE * details_cores)

    def forget(self, key: str) -> None:
        """Forget a job."""
        self._jobs.pop(key, None)
        if key in self._remarks:
            self._remarks = {other: remarks for other, remarks in self._remarks.items() if other != key}
        self._activity.forget(key)

    def close(self) -> None:
        self._jobs, self._remarks = {}, {}

    def _read_job(self, key: str, target: Target, job: JobFiles, now: float) -> bool:
        """Read the files of a job, if they can have changed; whether all that had changed was read."""
        age = now - target.start_boottime
        job.due = now + next(seconds for until, seconds in AGES if age < until)
        processes = self._processes.jobs.get(key)
        tree = None if processes is None else processes.tree
        members = {} if tree is None else dict(tree.members)
        is_young = age < AGES[0][0] and len(members) <= FEW_PROCESSES
        has_clocks = is_young and self._activity.is_small(len(members))  # else the last tick of the sampler tells
        version, chars = (-1, None) if processes is None else (processes.tree.version, processes.chars)
        if has_clocks and not self._activity.has_run(key):
            return True
        if not has_clocks and tree is not None and version == job.version:
            return True  # no process has run since
        if not has_clocks and self._is_little(job, chars, now):
            return False
        job.chars, job.read_at = chars, now
        began = self._cpu_clock()
        pids = list(members) or ([target.root.pid] if target.includes_root else [])
        if has_clocks or (is_young and not members):
            pids = list(dict.fromkeys([*pids, *self._below(target.root.pid)]))
        found, is_complete = [], True
        for pid in self._heaviest_first(pids, members, job):
            if self._cpu_clock() - began > self._credit_seconds:
                is_complete = False
                break
            process = self._process(key, pid, members.get(pid), job)
            if process is not None:
                found.append(process)
        self._read_maps(job, [process.pid for process in found[:MOST_MAPS]], now)
        self._settle(key, job, found, set(pids))
        if is_complete:
            job.version = version
        else:
            job.chars = None
            self._activity.forget(key)
        self._credit_seconds -= self._cpu_clock() - began
        return is_complete

    @staticmethod
    def _is_little(job: JobFiles, chars: float | None, now: float) -> bool:
        """Whether the job has read and written so little since its last reading that it can wait."""
        if chars is None or job.chars is None or now - job.read_at >= LONGEST_SECONDS:
            return False
        return chars - job.chars < LITTLE_BYTES

    def _heaviest_first(self, pids: Sequence[int], members: dict[int, Member], job: JobFiles) -> list[int]:
        """The processes that have read or written since; one that is not known yet, or unread for long, may have."""
        weights: dict[int, int] = {}
        for pid in pids:
            member = members.get(pid)
            if pid in job.denied or (member is not None and SHIM_NAME.encode() in member.name):
                continue
            if member is None or member.read_chars is None or pid not in job.seen:
                weights[pid] = 1
            else:
                weights[pid] = member.read_chars + (member.write_chars or 0) - job.seen[pid]
            # The counters of the sampler are of its last tick: those of this reading may be newer.
            if weights[pid] <= 0 and len(pids) > FEW_PROCESSES:
                del weights[pid]
        return sorted(weights, key=weights.__getitem__, reverse=True)

    def _process(self, key: str, pid: int, member: Member | None, job: JobFiles) -> ProcessFiles | None:
        fds, problem = list_descriptors(pid, self._proc)
        if problem in (errno.EACCES, errno.EPERM):
            job.denied.add(pid)
        if problem is not None:
            return None
        job.progress.drop(pid, set(fds))
        if len(fds) > MOST_DESCRIPTORS:
            first = job.cursors.get(pid, 0) % len(fds)
            job.cursors[pid] = first + MOST_DESCRIPTORS
            fds = [*fds, *fds][first : first + MOST_DESCRIPTORS]
        # Positions first: what is read meanwhile may then only be missing from them.
        found = [open_file for fd in fds if (open_file := self._open_file(key, pid, fd, job)) is not None]
        read, written = read_counters(pid, self._proc)
        job.seen[pid] = (read or 0) + (written or 0)
        parent = member.parent if member is not None else read_parent(pid, self._proc)
        return ProcessFiles(pid, parent, read, written, found)

    def _open_file(self, key: str, pid: int, fd: int, job: JobFiles) -> Descriptor | None:
        """An open file; where nothing has moved, the one that is known, without asking its file system."""
        path = read_path(pid, fd, self._proc)
        # The output of the job is in a directory with its key.
        if path is None or f"/{key}/" in path or not is_data(path, path.startswith("/dev/")):
            return None
        link = read_link(pid, fd, self._proc, path)
        if link is None:
            return None
        known = job.progress.known(pid, fd)
        if known is not None and (known.path, known.position, known.mode) == (link.path, link.position, link.mode):
            return known
        found = read_descriptor(pid, link, self._proc, self._sys)
        return found if found is not None and is_data(found.path, found.is_device) else None

    @staticmethod
    def is_large(found: Descriptor) -> bool:
        return (found.size_bytes or 0) >= LARGE_BYTES and is_data(found.path)

    def _read_maps(self, job: JobFiles, pids: Sequence[int], now: float) -> None:
        """Note large files that are only mapped, now and then: their list is expensive to read."""
        if job.maps_due is None:
            job.maps_due = now + FIRST_MAPS_SECONDS
        if now < job.maps_due:
            return
        job.maps_due = now + MAPS_SECONDS
        for pid in pids:
            for found in filter(self.is_large, read_mapped(pid, self._proc)):
                job.progress.note_mapped(found, pid)

    def _settle(self, key: str, job: JobFiles, found: list[ProcessFiles], pids: set[int]) -> None:
        progress = job.progress
        progress.take(found)
        gone = job.seen.keys() - pids
        if gone:
            progress.forget(set(gone))
            job.denied -= gone
            for pid in gone:
                del job.seen[pid]
                job.cursors.pop(pid, None)
        if len(progress.files) > MOST_FILES:
            progress.files = dict(sorted(progress.files.items(), key=lambda item: -weight(item[1]))[: MOST_FILES // 2])
        if progress.files:
            kept = files_to_keep(progress.files.values())
            if kept:
                job.kept = [(totals.descriptor, finding(totals, job.paths)) for totals in kept]
                files = [file for _, file in job.kept]
                if key not in self._remarks or self._remarks[key].findings[NAME] != files:
                    self._new_remarks[key] = Remarks(findings={NAME: files})


def size_of_same(descriptor: Descriptor) -> int | None:
    """The size of a regular file now; None if its path is gone, or is another file by now."""
    if descriptor.is_device or descriptor.is_deleted or descriptor.position is None:
        return None
    try:
        found = os.stat(descriptor.path)
    except OSError:
        return None
    return found.st_size if (found.st_dev, found.st_ino) == descriptor.file else None


def weight(totals: FileTotals) -> int:
    return totals.read_bytes + totals.written_bytes + totals.unknown_bytes


def files_to_keep(files: Iterable[FileTotals]) -> list[FileTotals]:
    """The files that were read and written most, without those that hardly count beside them.

    Large files that were open while their position did not move come last.
    """
    ordered = sorted(files, key=weight, reverse=True)
    least = LEAST_SHARE * weight(ordered[0]) if ordered else 0
    moved = [totals for totals in ordered if totals.moved and weight(totals) >= least]
    still = [totals for totals in ordered if not totals.moved and (totals.descriptor.size_bytes or 0) >= LARGE_BYTES]
    return [*moved, *still][:KEPT]


def finding(totals: FileTotals, paths: dict[str, str]) -> dict[str, object]:
    """A file as the record has it. Bytes are what was seen, at least; None if they are not known."""
    descriptor = totals.descriptor
    path = paths.get(descriptor.path)
    if path is None:
        if len(paths) > MOST_FILES:
            paths.clear()
        path = paths[descriptor.path] = redact_text(descriptor.path)
    return {
        "path": path,
        "size_bytes": descriptor.size_bytes,
        "read_bytes": totals.known_read_bytes,
        "written_bytes": totals.known_written_bytes,
        "passes": None if totals.known_read_bytes is None else totals.passes,
        "processes": len(totals.pids),
        "is_mapped": descriptor.position is None,
        "is_deleted": descriptor.is_deleted,
        "is_estimate": totals.is_estimate,
    }


def open_source(options: Options) -> FileSource:
    processes = options.opened.get("processes")
    assert isinstance(processes, ProcessSource)
    return FileSource(processes, options.proc, options.sys)
