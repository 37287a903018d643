"""Whether the processes of a job have run: without that they open no file and no socket, and start no process."""

from __future__ import annotations

import time

from jobtop.core.procfs import pid_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.core.measure.collectors.process_source import ProcessSource

FEW = 32  # processes of all jobs: of more, the last tick of the sampler is asked instead of their clocks


class Activity:
    """Compares the CPU clocks of the processes of jobs with those of the last question."""

    def __init__(self, processes: ProcessSource | None, clock: Callable[[int], int] = time.clock_gettime_ns) -> None:
        self._processes, self._clock = processes, clock
        self._marks: dict[str, object] = {}

    def has_run(self, key: str) -> bool:
        """Whether a process of the job has run since the last question; True if its processes are not known yet."""
        job = None if self._processes is None else self._processes.jobs.get(key)
        if job is None or not job.tree.members:
            return True
        pids = list(job.tree.members)
        is_small = len(pids) * len(self._processes.jobs) <= FEW if self._processes is not None else True
        mark = tuple(map(self._read, pids)) if is_small else job.tree.version
        before, self._marks[key] = self._marks.get(key), mark
        return before != mark

    def forget(self, key: str) -> None:
        """Answer the next question about this job with True."""
        self._marks.pop(key, None)

    def _read(self, pid: int) -> int | None:
        try:
            return self._clock(pid_clock(pid))
        except OSError:  # it has exited
            return None
