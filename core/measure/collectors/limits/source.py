"""The source of the limits of jobs, which change rarely: a few jobs are read in each tick, in turn."""

from __future__ import annotations

import os
import resource
from collections import deque

from jobtop.core.analysis.process_limits import ADDRESS_SPACE, FINDING, OPEN_FILES, ProcessLimit
from jobtop.core.measure.collectors.limits.reading import (
    CapturedLimits,
    CgroupLimits,
    KernelLimits,
    LimitSet,
    find_mounts,
    slurm_limits,
)
from jobtop.core.measure.collectors.process_source import ProcessSource
from jobtop.core.measure.collectors.turns import Turns
from jobtop.core.measure.source import Readings, Remarks
from jobtop.core.procfs import HAS_PROC, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.source import Jobs, Number
    from jobtop.core.measure.sources import Options
    from jobtop.core.measure.target import Target

PAUSE_TICKS = 10  # between two readings of a job
IDLE_TICKS = 60  # the same of a job in which no process has run: only from outside its limits can change
MOST_JOBS = 10  # that are read in one tick
MOST_PROCESSES = 8  # of a job that are asked for their own limits


class JobLimits:
    """One job: what to read, and what was read last."""

    __slots__ = ("at_start", "has_run", "idle_until", "lowest", "read", "slurm", "target", "told", "values")

    def __init__(self, target: Target) -> None:
        self.target = target
        self.slurm: LimitSet | None = None  # does not change
        self.values: dict[str, Number] = {}
        self.read: tuple[LimitSet, int | None, dict[str, int]] | None = None  # what they were made of
        self.at_start: dict[str, int] | None = None  # the limits of the shim, with which the job starts
        self.lowest: dict[str, int] = {}  # of its processes
        self.told: list[ProcessLimit] = []
        self.has_run = True  # one of its processes at least, since they were last read
        self.idle_until = 0  # the tick in which it is read though no process has run

    def keep_lowest(self, limits: dict[str, int]) -> None:
        """Remember the lowest limits that its processes had."""
        self.lowest |= {name: min(value, self.lowest.get(name, value)) for name, value in limits.items()}

    def remarkable(self) -> list[ProcessLimit]:
        """The limit of open files if the job lowered it, and that of its address space if it has one."""
        if self.at_start is None:
            return []
        limits = [ProcessLimit(name, self.at_start.get(name), value) for name, value in self.lowest.items()]
        return [limit for limit in limits if limit.name == ADDRESS_SPACE or limit.is_lowered]


class LimitSource:
    """Reads the limits of jobs, each at most every tenth tick; what has not changed is not returned again.

    A job in which no process has run is read every sixtieth tick.
    """

    name = "limits"
    interval_seconds = None

    def __init__(self, proc: str = "/proc", processes: ProcessSource | None = None, cores: int | None = None) -> None:
        self._proc, self._processes, self._cores = proc, processes, cores or os.cpu_count() or 1
        self._cgroups = CgroupLimits(find_mounts(proc))
        has_calls = proc == "/proc" and hasattr(os, "sched_getaffinity") and hasattr(resource, "prlimit")
        self._limits = KernelLimits() if has_calls else CapturedLimits(proc)
        self._jobs: dict[str, JobLimits] = {}
        self._news = None if processes is None else processes.news()
        self._waiting: deque[str] = deque()  # jobs to read now, as far as one tick may
        self._turns = Turns()  # the end of the pause of jobs that were read, and of the sleep of idle ones
        self._asleep: set[str] = set()  # idle jobs after their pause
        self._due: Jobs | None = None

    def available(self) -> str | None:
        """Why it cannot be used here, or None."""
        return None if HAS_PROC or self._proc != "/proc" else "there is no /proc on this system"

    def collect(self, jobs: Jobs) -> Readings:
        """The limits of the jobs that are next in turn, if they have changed."""
        self._end_pauses()
        if jobs is not self._due:
            self._due = jobs
            new = [key for key in jobs if key not in self._jobs]
            self._jobs |= {key: JobLimits(jobs[key]) for key in new}
            self._waiting.extendleft(new)
        found: dict[str, dict[str, Number]] = {}
        remarks: dict[str, Remarks] = {}
        if self._turns.calls % PAUSE_TICKS == 0:
            self._cgroups.renew()
        read = 0
        while self._waiting and read < MOST_JOBS:
            key = self._waiting.popleft()
            job = self._jobs.get(key)
            if job is None:
                continue
            read += 1
            job.has_run, job.idle_until = self._news is None, self._turns.calls + IDLE_TICKS
            self._turns.set(key, PAUSE_TICKS)
            values = self._read(key, job)
            if values is None:
                continue
            if values != job.values:
                job.values = found[key] = values
            if (limits := job.remarkable()) != job.told:
                job.told = limits
                remarks[key] = Remarks(findings={FINDING: [limit.to_json() for limit in limits]})
        return Readings(found, remarks=remarks)

    def forget(self, key: str) -> None:
        self._due = None
        self._jobs.pop(key, None)
        self._asleep.discard(key)
        self._turns.forget(key)

    def close(self) -> None:
        """Nothing is open."""

    def _end_pauses(self) -> None:
        """Let those jobs be read that have run and were not read lately, and idle ones after a long time."""
        in_turn = self._turns.next_call()
        for key in self._news.take() & self._jobs.keys() if self._news is not None else ():
            self._jobs[key].has_run = True
            if key in self._asleep:
                self._asleep.discard(key)
                self._waiting.append(key)
        for key in in_turn:
            job = self._jobs.get(key)
            if job is None:
                continue
            left = job.idle_until - self._turns.calls
            if job.has_run or left <= 0:
                self._asleep.discard(key)
                self._waiting.append(key)
            else:
                self._asleep.add(key)
                self._turns.set(key, left)

    def _read(self, key: str, job: JobLimits) -> dict[str, Number] | None:
        """All limits of a job; None if no process of it can be asked, or if they are the same as before."""
        pids = self._pids(key, job.target)
        main, cgroups = self._main(pids)
        if main is None:
            return None
        if job.slurm is None:
            job.slurm = slurm_limits(f"{self._proc}/{main}")
        own = self._limits.soft_limits(pids[:MOST_PROCESSES])
        read = self._cgroups.of_text(cgroups), self._limits.affinity(main, self._cores), own
        has_start = job.at_start is not None or job.target.includes_root
        if read == job.read and has_start:
            return None
        job.read = read
        job.keep_lowest(own)
        if not has_start:
            shim = f"{self._proc}/{job.target.root.pid}"
            job.at_start = self._limits.soft_limits([job.target.root.pid]) if os.path.exists(f"{shim}/limits") else None
        found, allowed, _ = read
        limits = (
            found.tightest(job.slurm)
            .tightest(LimitSet(None if allowed is None else float(allowed)))
            .tightest(declared(job.target))
        )
        values = {
            "limit.cpus": limits.cpus,
            "limit.memory": limits.memory_bytes,
            "limit.pids": limits.pids,
            "limit.fds": own.get(OPEN_FILES),
        }
        return {name: value for name, value in values.items() if value is not None}

    def _main(self, pids: list[int]) -> tuple[int | None, str]:
        """The first of some processes that has not exited, and what it says of its cgroups."""
        for pid in pids:
            text = read_text(f"{self._proc}/{pid}/cgroup")
            if text or os.path.exists(f"{self._proc}/{pid}"):
                return pid, text
        return None, ""

    def _pids(self, key: str, target: Target) -> list[int]:
        """The processes of a job, its main process first; the shim above a job is not one of them."""
        pids = [target.main.pid] if target.main is not None else [target.root.pid] if target.includes_root else []
        processes = self._processes.jobs.get(key) if self._processes is not None else None
        if processes is not None:
            pids += [pid for pid in processes.tree.members if pid not in pids and pid != target.root.pid]
        return pids


def declared(target: Target) -> LimitSet:
    """What the job asked for, and what jobtop enforces."""
    asked = target.declared
    limits = LimitSet(None, target.memory_limit_bytes)
    return limits if asked is None else limits.tightest(LimitSet(asked.cpus, asked.memory_bytes))


def open_source(options: Options) -> LimitSource:
    opened = options.opened.get("processes")
    return LimitSource(options.proc, opened if isinstance(opened, ProcessSource) else None)
