"""Whether a process of a job can have opened a GPU since the last look: while none can, no process is looked at.

Each open file of a GPU holds a reference to the module of its driver, which the kernel counts. A process can have a
GPU without a new reference only by inheritance, or if another process passes it an open file, which is rare.
"""

from __future__ import annotations

from jobtop.core.measure.collectors.attribute import read_number
from jobtop.core.measure.collectors.gpu.drm_fdinfo import LONGEST_WAIT_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobtop.core.measure.collectors.process_source import ProcessSource
    from jobtop.core.measure.source import Jobs

LOOK_SECONDS = 60.0  # between two looks though no reference is new: an open file may have been passed


class NewUsers:
    """Compares the references to drivers, and the processes that were started, with those of the last question."""

    def __init__(self, sys: str, processes: ProcessSource | None) -> None:
        self._sys, self._processes = sys, processes
        self._references: tuple[int | None, ...] = ()
        self._started: tuple[int, int] = (0, 0)
        self._jobs: Jobs = {}
        self._look_until = self._look_at = -float("inf")
        self.are_likely = True  # at the last question: not only a file that was passed

    def possible(self, drivers: Iterable[str], jobs: Jobs, now: float) -> bool:
        """Whether processes have to be looked at; True where the kernel does not count references."""
        processes = self._processes
        if processes is None:
            return True
        references = tuple(read_number(f"{self._sys}/module/{name}/refcnt") for name in sorted(set(drivers)))
        if references != self._references or None in references:
            self._references = references
            # A process that was looked at often is looked at again after this time.
            self._look_until = now + LONGEST_WAIT_SECONDS
        read = list(processes.jobs.values())
        started = len(read), sum(job.tree.births for job in read)
        is_new = jobs is not self._jobs or started != self._started
        self._jobs, self._started = jobs, started
        self.are_likely = is_new or now <= self._look_until
        if not self.are_likely and now < self._look_at:
            return False
        self._look_at = now + LOOK_SECONDS
        return True
