"""Reads the processes and threads of one job repeatedly, for `jobtop top` and the console."""

from __future__ import annotations

import time
from functools import lru_cache

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors.cgroup_source import CgroupSource
from jobtop.core.measure.collectors.members import TICK_SECONDS
from jobtop.core.measure.collectors.process_source import ProcessSource
from jobtop.core.measure.collectors.processes import ProcessTable
from jobtop.core.measure.collectors.threads import read_arguments, read_task, read_threads
from jobtop.core.measure.derive import Frame, derive
from jobtop.core.measure.snapshot import ProcessRow, ThreadLine
from jobtop.core.measure.watch import Watch
from jobtop.core.record import record
from jobtop.core.redact import redact_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobtop.core.measure.collectors.members import Member
    from jobtop.core.measure.collectors.threads import Task
    from jobtop.core.measure.target import Target
    from jobtop.core.model import Sample

DETAILS_SECONDS = 0.02  # of CPU time a second, for expensive files
MOST_COMMANDS = 4096  # that are remembered without their secrets
JOB = "job"  # its key


@record
class ProcessLine:
    """A process at a moment; `memory_kind` is pss or rss, `threads` are there if they were asked for."""

    row: ProcessRow
    memory_kind: str | None = None
    threads: tuple[ThreadLine, ...] = ()


@record
class LiveJob:
    """A job at a moment: its values by catalogue key, its processes, parents first; `over` if its shim is gone."""

    frame: Frame
    processes: tuple[ProcessLine, ...]
    over: bool


class LiveProcesses:
    """Reads the processes of one job; percentages are of the time since the reading before."""

    def __init__(
        self,
        target: Target,
        secret: Iterable[str] = (),
        with_threads: bool = False,
        table: ProcessTable | None = None,
    ) -> None:
        self.table = table or ProcessTable()
        self._jobs = {JOB: target}
        self._processes = ProcessSource(self.table, frozenset({"fds"}))
        self._cgroups = CgroupSource(self._processes)
        self.watch = Watch(JOB, target, self._processes.add(JOB, target), None)
        self.with_threads = with_threads
        self._rates = Rates()
        self._last: Sample | None = None
        self._read_at = 0.0
        patterns = tuple(secret)
        self._redacted = lru_cache(MOST_COMMANDS)(lambda words: " ".join(redact_command(words, patterns)))

    def read(self) -> LiveJob:
        """The job and all of its processes now; a process that vanishes meanwhile is left out."""
        tree = self.watch.tree
        seconds = time.clock_gettime(BOOTTIME) - self.watch.start - self.watch.elapsed
        self._processes.details_seconds = DETAILS_SECONDS * max(seconds, 1.0)
        moment = 0.0
        for source in (self._processes, self._cgroups):
            readings = source.collect(self._jobs)
            for row in readings.rows.values():
                self.watch.take_row(row)
            for values in readings.jobs.values():
                self.watch.take(source.name, values)
            moment = readings.moments.get(JOB, readings.moment or moment)
        self._read_at = max(tree.read_at, self.table.read_at)
        self._rates.advance(self._read_at)
        sample = self.watch.sample(moment)
        has_shares = sum(member.is_alive for member in tree.members.values()) > 1
        lines = [self._line(member, has_shares) for member in tree.members.values()]
        frame, self._last = derive(self._last, sample), sample
        return LiveJob(frame, tuple(line for line in lines if line is not None), tree.root_is_gone)

    def close(self) -> None:
        self._cgroups.close()
        self._processes.close()

    def _line(self, member: Member, has_shares: bool) -> ProcessLine | None:
        words = read_arguments(member.pid, self.table.proc)
        task = read_task(f"{self.table.proc}/{member.pid}", member.pid)
        if task is None or task.start != member.start:
            return None
        cpu = task.cpu_seconds if member.cpu_ns is None else member.cpu_ns / 1e9
        memory, kind = memory_of(member, has_shares)
        row = ProcessRow(
            pid=member.pid,
            parent=member.parent,
            command=self._redacted(words) if words else f"[{task.name}]",
            cpu_seconds=cpu,
            cpu_percent=self._rates.percent(member.pid, member.start, cpu),
            memory_bytes=memory,
            threads=member.threads,
            age_seconds=max(0.0, self._read_at - member.start * TICK_SECONDS),
            state=task.state,
        )
        threads = read_threads(member.pid, self.table.proc) if self.with_threads else []
        return ProcessLine(row, kind, tuple(map(self._thread_line, threads)))

    def _thread_line(self, thread: Task) -> ThreadLine:
        # The first thread has the number of its process, but another CPU time.
        percent = self._rates.percent(-thread.id, thread.start, thread.cpu_seconds)
        return ThreadLine(thread.id, thread.name, thread.state, thread.cpu_seconds, percent)


class Rates:
    """CPU time since the reading before in percent of one core, by number and start time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._at: float | None = None
        self._before: dict[tuple[int, int], float] = {}
        self._now: dict[tuple[int, int], float] = {}

    def advance(self, at: float) -> None:
        """Begin another reading."""
        self.seconds = 0.0 if self._at is None else at - self._at
        self._at = at
        self._before, self._now = self._now, {}

    def percent(self, number: int, start: int, cpu_seconds: float) -> float | None:
        """CPU percent since the reading before; None at the first one, and for one that is older but was not read."""
        self._now[number, start] = cpu_seconds
        before = self._before.get((number, start))
        if before is None and start * TICK_SECONDS >= (self._at or 0.0) - self.seconds - TICK_SECONDS:
            before = 0.0
        if before is None or self.seconds <= 0:
            return None
        return 100 * max(0.0, cpu_seconds - before) / self.seconds


def memory_of(member: Member, has_shares: bool) -> tuple[int, str]:
    """The memory of a process and which kind that is: with shared pages split where that is known, else resident."""
    share = member.share if has_shares else None
    return (member.rss, "rss") if share is None else (share, "pss")
