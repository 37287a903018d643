"""Which jobs a process belongs to, by its pid alone: for sources that learn of processes from a driver."""

from __future__ import annotations

from jobtop.core.measure.collectors.machine_pids import UNSEEN, is_first_namespace
from jobtop.core.measure.collectors.process_fields import is_count
from jobtop.core.procfs import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobtop.core.measure.collectors.machine_pids import MachinePids
    from jobtop.core.measure.collectors.process_source import ProcessSource
    from jobtop.core.measure.source import Jobs

PPID, START = 1, 19  # fields of /proc/PID/stat after the name
DEEPEST = 1000  # generations
LONGEST_KEPT = 5  # calls for which the owner of an exited process is remembered


class PidOwners:
    """Finds the jobs of a process among its ancestors; a job inside another job belongs to both.

    An exited process keeps its owners for some calls: drivers report what it did a little later. `processes` knows
    the processes of an attached job that init has inherited. With `machine_pids`, pids are those of a driver.
    """

    def __init__(
        self,
        proc: str = "/proc",
        processes: ProcessSource | None = None,
        machine_pids: MachinePids | None = None,
    ) -> None:
        self._proc, self._processes, self._machine_pids = proc, processes, machine_pids
        self._known: dict[int, tuple[int, frozenset[str], int]] = {}  # by pid: start, owners, calls since it was seen
        self._stats: dict[int, tuple[int, int | None]] = {}  # of this call: most processes have the same ancestors

    def problem(self) -> str | None:
        """Why pids of the machine mean nothing here, or None."""
        if self._machine_pids is not None:
            return self._machine_pids.problem()
        return None if is_first_namespace(self._proc) else UNSEEN

    def find(self, pids: Iterable[int], jobs: Jobs) -> dict[int, frozenset[str]]:
        """The keys of the jobs that each process belongs to; a process of no job has none."""
        self._stats = {}
        roots: dict[int, list[tuple[int | None, str]]] = {}
        for key, target in jobs.items():
            roots.setdefault(target.root.pid, []).append((target.root.start, key))
        found = {pid: self._owners(pid, roots) for pid in pids}
        before, self._known = self._known, {}
        for pid, (start, owners) in found.items():
            if start is not None:
                self._known[pid] = start, owners, 0
        for pid, (start, owners, calls) in before.items():
            if pid not in self._known and calls < LONGEST_KEPT:
                self._known[pid] = start, owners, calls + 1
        return {pid: owners & jobs.keys() for pid, (_, owners) in found.items()}

    def _owners(self, pid: int, roots: dict[int, list[tuple[int | None, str]]]) -> tuple[int | None, frozenset[str]]:
        known = self._known.get(pid)
        local = pid if self._machine_pids is None else self._machine_pids.local(pid)
        parent, start = (0, None) if local is None else self._stat(local)
        if local is None or start is None:
            return None, frozenset() if known is None else known[1]
        pid = local
        owners = {key for began, key in roots.get(pid, ()) if began in (None, start)}
        for _ in range(DEEPEST):
            if parent <= 0:
                break
            above, (parent, began_at) = parent, self._stat(parent)
            owners.update(key for began, key in roots.get(above, ()) if began in (None, began_at))
        owners.update(self._adopted(pid, start))
        if known is not None and known[0] == start:
            owners.update(known[1])
        return start, frozenset(owners)

    def _adopted(self, pid: int, start: int) -> list[str]:
        """The jobs that were read with this process among their processes."""
        listed = [] if self._processes is None else list(self._processes.jobs.items())
        members = ((key, job.tree.members.get(pid)) for key, job in listed)
        return [key for key, member in members if member is not None and member.start == start]

    def _stat(self, pid: int) -> tuple[int, int | None]:
        """The parent and the start time of a process; no start if it has exited."""
        if (known := self._stats.get(pid)) is not None:
            return known
        fields = read_text(f"{self._proc}/{pid}/stat").rpartition(")")[2].split()
        found: tuple[int, int | None] = 0, None
        if len(fields) > START and is_count(fields[PPID]) and is_count(fields[START]):
            found = int(fields[PPID]), int(fields[START])
        self._stats[pid] = found
        return found
