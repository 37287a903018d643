"""The busiest threads of the busiest processes of a job, for its snapshots; within a budget of CPU time."""

from __future__ import annotations

import time

from jobtop.core.measure.collectors.threads import read_threads
from jobtop.core.measure.snapshot import ThreadLine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jobtop.core.measure.collectors.members import Member
    from jobtop.core.measure.collectors.threads import Task

MOST_PROCESSES = 5
KEPT = 8  # threads of a process
MOST_THREADS = 256  # of a process: one with more is not read, since the busiest could not be told without reading all
CREDIT_SECONDS = 0.02  # may be saved up


class ThreadBudget:
    """CPU time for threads that all jobs of a sampler share; what one reading overdraws is saved up again."""

    def __init__(self, cpu_clock: Callable[[], float] = time.thread_time) -> None:
        self.cpu_clock, self.credit_seconds = cpu_clock, CREDIT_SECONDS

    def earn(self, seconds: float) -> None:
        self.credit_seconds = min(self.credit_seconds + seconds, CREDIT_SECONDS)


class BusyThreads:
    """Reads the threads of one job; the CPU share of a thread is that since its process was last read."""

    def __init__(self) -> None:
        self._lines: dict[tuple[int, int], tuple[ThreadLine, ...]] = {}
        self._before: dict[tuple[int, int], tuple[float, dict[tuple[int, int], float]]] = {}

    def of(self, member: Member) -> tuple[ThreadLine, ...]:
        """The busiest threads of a process when they were last read; none if they never were."""
        return self._lines.get((member.pid, member.start), ())

    def read(
        self,
        proc: str,
        members: Iterable[Member],
        used: Mapping[tuple[int, int], float],
        now: float,
        budget: ThreadBudget,
    ) -> None:
        """Read the processes with several threads that used most CPU time, `used`; `now` is a moment since boot."""
        present = {(member.pid, member.start): member for member in members}
        self._lines = {key: lines for key, lines in self._lines.items() if key in present}
        self._before = {key: before for key, before in self._before.items() if key in present}
        chosen = [
            key for key, member in present.items() if 1 < member.threads <= MOST_THREADS and used.get(key, 0.0) > 0
        ]
        for key in sorted(chosen, key=lambda key: used[key], reverse=True)[:MOST_PROCESSES]:
            if budget.credit_seconds <= 0:
                return
            began = budget.cpu_clock()
            self._read_process(proc, key, now)
            budget.credit_seconds -= budget.cpu_clock() - began

    def _read_process(self, proc: str, key: tuple[int, int], now: float) -> None:
        threads = read_threads(key[0], proc)
        at, before = self._before.get(key, (None, {}))
        self._before[key] = now, {(thread.id, thread.start): thread.cpu_seconds for thread in threads}
        seconds = None if at is None else now - at
        lines = [thread_line(thread, before, seconds) for thread in threads]
        lines.sort(key=lambda line: (-(line.cpu_percent or 0.0), -line.cpu_seconds))
        self._lines[key] = tuple(lines[:KEPT])


def thread_line(thread: Task, before: Mapping[tuple[int, int], float], seconds: float | None) -> ThreadLine:
    """A thread with its CPU percent since the reading before; one that is new since then started at 0."""
    percent = None
    if seconds:
        percent = 100 * max(0.0, thread.cpu_seconds - before.get((thread.id, thread.start), 0.0)) / seconds
    return ThreadLine(thread.id, thread.name, thread.state, thread.cpu_seconds, percent)
