"""Whether the processes of a job have run: without that they open no file and no socket, and start no process."""

from __future__ import annotations

import time

from jobtop.core.procfs import pid_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jobtop.core.measure.collectors.process_source import ProcessSource
    from jobtop.core.measure.source import Jobs

FEW = 32  # processes of all jobs: of more, the last tick of the sampler is asked instead of their clocks


class Activity:
    """Compares the CPU clocks of the processes of jobs with those of the last question."""

    def __init__(self, processes: ProcessSource | None, clock: Callable[[int], int] = time.clock_gettime_ns) -> None:
        self._processes, self._clock = processes, clock
        self._marks: dict[str, object] = {}
        self._news = None if processes is None else processes.news()
        self._jobs: Jobs = {}
        self.is_told = False  # the last answer is of the sampler: these jobs have run
        self._unknown: set[str] = set()  # jobs of which no process was known at the last question

    def candidates(self, jobs: Jobs) -> Collection[str]:
        """The jobs in which a process may have run since the last question: many idle jobs cost nothing.

        Of few jobs all: the sampler may not have noticed yet.
        """
        ticked = None if self._news is None else self._news.take()
        self.is_told = ticked is not None and self._processes is not None and len(jobs) > FEW
        if ticked is None or self._processes is None or not self.is_told:
            return jobs.keys()
        if jobs is not self._jobs:
            self._unknown |= jobs.keys() - self._jobs.keys()
            self._jobs = jobs
        found = (ticked | self._unknown) & jobs.keys()
        read = self._processes.jobs
        self._unknown = {key for key in found if key not in read or not read[key].tree.members}
        return found

    @property
    def processes(self) -> int:
        """How many processes the jobs had at the last tick of the sampler."""
        return 0 if self._processes is None else self._processes.table.count_members()

    def has_run(self, key: str) -> bool:
        """Whether a process of the job has run since the last question; True if its processes are not known yet."""
        job = None if self._processes is None else self._processes.jobs.get(key)
        if job is None or not job.tree.members:
            return True
        pids = list(job.tree.members)
        mark = tuple(map(self._read, pids)) if self.is_small(len(pids)) else job.tree.version
        before, self._marks[key] = self._marks.get(key), mark
        return before != mark

    def is_small(self, processes: int) -> bool:
        """Whether the clocks of a job with so many processes are asked, and not the sampler."""
        return self._processes is None or processes * len(self._processes.jobs) <= FEW

    def forget(self, key: str) -> None:
        """Answer the next question about this job with True."""
        self._marks.pop(key, None)

    def _read(self, pid: int) -> int | None:
        try:
            return self._clock(pid_clock(pid))
        except OSError:  # it has exited
            return None
