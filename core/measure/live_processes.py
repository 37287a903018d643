"""One job looked at closely, again and again: its processes and their threads, as a person wants to see them."""

from __future__ import annotations

from functools import lru_cache

from jobtop.core.measure.collectors.job_cgroup import JobCgroup
from jobtop.core.measure.collectors.members import TICK_SECONDS
from jobtop.core.measure.collectors.processes import ProcessTable
from jobtop.core.measure.collectors.threads import read_arguments, read_task, read_threads
from jobtop.core.measure.derive import Frame, derive
from jobtop.core.measure.sampler import Watch
from jobtop.core.measure.snapshot import ProcessRow
from jobtop.core.record import record
from jobtop.core.redact import redact_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobtop.core.measure.collectors.members import Member
    from jobtop.core.measure.collectors.threads import Task
    from jobtop.core.measure.target import Target
    from jobtop.core.model import Sample

LOOK_SECONDS = 0.02  # of CPU time a second go to the dear files
COMMANDS_KEPT = 4096


@record
class ThreadLine:
    """A thread at a moment; None is not known."""

    tid: int
    name: str
    state: str
    cpu_seconds: float
    cpu_percent: float | None


@record
class ProcessLine:
    """A process at a moment; `memory_kind` is pss or rss, `threads` are there if they were asked for."""

    row: ProcessRow
    memory_kind: str | None = None
    threads: tuple[ThreadLine, ...] = ()


@record
class Reading:
    """A job at a moment: its values by catalogue key, its processes, parents first; `over` if its shim is gone."""

    frame: Frame
    processes: tuple[ProcessLine, ...]
    over: bool


class CloseUp:
    """The processes of one job; percentages are of the time since the reading before."""

    def __init__(
        self,
        target: Target,
        secret: Iterable[str] = (),
        with_threads: bool = False,
        table: ProcessTable | None = None,
    ) -> None:
        self.table = table or ProcessTable()
        cgroup = JobCgroup(target.cgroups) if target.cgroups else None
        self.watch = Watch("", self.table.add_target(target), target.start_boottime, None, cgroup)
        self.with_threads = with_threads
        self._rates = Rates()
        self._last: Sample | None = None
        patterns = tuple(secret)
        self._redacted = lru_cache(COMMANDS_KEPT)(lambda words: " ".join(redact_command(words, patterns)))

    def read(self) -> Reading:
        """All of them now; one that vanishes while it is read is simply gone."""
        tree = self.watch.tree
        self.table.sweep([tree])
        self._rates.turn(tree.read_at)
        self.table.read_details(LOOK_SECONDS * max(self._rates.seconds, 1.0), frozenset({"fds"}))
        sample = self.watch.sample()
        shares = sum(member.threads > 0 for member in tree.members.values()) > 1
        lines = [self._line(member, shares) for member in tree.members.values()]
        frame, self._last = derive(self._last, sample), sample
        return Reading(frame, tuple(line for line in lines if line is not None), tree.root_is_gone)

    def close(self) -> None:
        if self.watch.cgroup is not None:
            self.watch.cgroup.close()
        self.table.close()

    def _line(self, member: Member, shares: bool) -> ProcessLine | None:
        words = read_arguments(member.pid, self.table.proc)
        task = read_task(f"{self.table.proc}/{member.pid}", member.pid)
        if task is None or task.start != member.start:
            return None
        cpu = task.cpu_seconds if member.cpu_ns is None else member.cpu_ns / 1e9
        memory, kind = memory_of(member, shares)
        row = ProcessRow(
            pid=member.pid,
            parent=member.parent,
            command=self._redacted(words) if words else f"[{task.name}]",
            cpu_seconds=cpu,
            cpu_percent=self._rates.percent(member.pid, member.start, cpu),
            memory_bytes=memory,
            threads=member.threads,
            age_seconds=max(0.0, self.watch.tree.read_at - member.start * TICK_SECONDS),
            state=task.state,
        )
        threads = read_threads(member.pid, self.table.proc) if self.with_threads else []
        return ProcessLine(row, kind, tuple(map(self._thread_line, threads)))

    def _thread_line(self, thread: Task) -> ThreadLine:
        # The first thread has the number of its process, whose time is another.
        percent = self._rates.percent(-thread.id, thread.start, thread.cpu_seconds)
        return ThreadLine(thread.id, thread.name, thread.state, thread.cpu_seconds, percent)


class Rates:
    """CPU time since the reading before in percent of one core, by number and start time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._at: float | None = None
        self._before: dict[tuple[int, int], float] = {}
        self._now: dict[tuple[int, int], float] = {}

    def turn(self, at: float) -> None:
        """Another reading begins."""
        self.seconds = 0.0 if self._at is None else at - self._at
        self._at = at
        self._before, self._now = self._now, {}

    def percent(self, number: int, start: int, cpu_seconds: float) -> float | None:
        """None at the first reading, and of one that was there before but is seen for the first time."""
        self._now[number, start] = cpu_seconds
        before = self._before.get((number, start))
        if before is None and start * TICK_SECONDS >= (self._at or 0.0) - self.seconds - TICK_SECONDS:
            before = 0.0
        if before is None or self.seconds <= 0:
            return None
        return 100 * max(0.0, cpu_seconds - before) / self.seconds


def memory_of(member: Member, shares: bool) -> tuple[int, str]:
    """What it holds, shared pages split; between two close looks as much more as its resident memory grew."""
    if shares and member.pss is not None:
        return max(0, member.pss + member.rss - member.pss_rss), "pss"
    return member.rss, "rss"
