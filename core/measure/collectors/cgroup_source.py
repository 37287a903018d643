"""The source of what the cgroups of jobs count; it replaces values of their processes that are not larger."""

from __future__ import annotations

from jobtop.core.measure.collectors.job_cgroup import CgroupReader
from jobtop.core.measure.collectors.jobs import CPU_TIMES, cpu_seconds, memory_of_processes
from jobtop.core.measure.collectors.process_source import ProcessSource
from jobtop.core.measure.collectors.storage import storage_by_device, storage_files
from jobtop.core.measure.collectors.turns import Turns
from jobtop.core.measure.source import Readings, Remarks
from jobtop.core.procfs import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.collectors.process_source import JobProcesses
    from jobtop.core.measure.source import Jobs, Number
    from jobtop.core.measure.sources import Options

IDLE_REREAD_SAMPLES = 10  # re-read the cgroup of an idle job after this many
STORAGE_SAMPLES = 10  # after so many the bytes of each device are read again
LEFT_SECONDS = 0.05  # of CPU time that the job's cgroup has not counted: a process may have left it
NEVER = -1


class JobCounters:
    """The cgroups of one job, and at which state of its processes they were read."""

    __slots__ = ("cpu_seconds", "details_pass", "read_in", "reader", "storage_files", "storage_samples", "version")

    def __init__(self, reader: CgroupReader, storage_files: dict[str, str]) -> None:
        self.reader, self.storage_files = reader, storage_files
        self.storage_samples = 0  # until they are read again
        self.cpu_seconds = 0.0
        self.version = NEVER
        self.details_pass = NEVER
        self.read_in = 0  # the number of the call that read it, or saw that it had not changed


class CgroupSource:
    """Reads the cgroups of jobs in which a process has run; without a source of processes, of all jobs.

    Idle jobs have turns, so that any number of them costs little.
    """

    name = "cgroups"
    interval_seconds = None

    def __init__(self, processes: ProcessSource | None = None, with_pressure: bool = True) -> None:
        self._processes, self._with_pressure = processes, with_pressure
        self._counters: dict[str, JobCounters] = {}
        self._due: Jobs | None = None
        self._due_counters: dict[str, tuple[JobCounters, JobProcesses | None]] = {}
        self._news = None if processes is None else processes.news()
        self._ran: set[str] = set()  # jobs in which a process has run, and that were not due since
        self._turns = Turns()  # of idle jobs …
        self._late: list[str] = []  # … and those that were not due in their turn

    def available(self) -> str | None:
        """None: a job that has no cgroup of its own is not read."""
        return None

    def collect(self, jobs: Jobs) -> Readings:
        """What the cgroups count, and the moment of the CPU time if they count it.

        The cgroup of a job in which no process has run is read now and then, if it has changed nevertheless.
        """
        if jobs is not self._due:
            self._set_due(jobs)
        found: dict[str, dict[str, Number]] = {}
        moments: dict[str, float] = {}
        remarks: dict[str, Remarks] = {}
        for key, counters, processes in self._to_read():
            values, moment = counters.reader.read()
            counters.cpu_seconds = max(counters.cpu_seconds, cpu_seconds(values))
            if processes is not None:
                counters.version, counters.read_in = processes.version, self._turns.calls
                values, moment = self._beside_processes(counters, processes, values, moment)
            found[key] = values
            if moment is not None:
                moments[key] = moment
            if counters.storage_files and (storage := self._storage(counters)) is not None:
                remarks[key] = storage
        return Readings(found, moments, remarks=remarks)

    def _to_read(self) -> list[tuple[str, JobCounters, JobProcesses | None]]:
        """The jobs that are due and in which a process has run, and idle ones in their turn that have changed."""
        due = self._due_counters
        in_turn = self._turns.next_call()
        if self._news is None:
            return [(key, counters, processes) for key, (counters, processes) in due.items()]
        ran = (self._ran | self._news.take()) & self._counters.keys()
        self._ran = ran - due.keys()
        chosen = [(key, *due[key]) for key in ran & due.keys()]
        found = [entry for entry in chosen if entry[2] is None or entry[2].version != entry[1].version]
        waiting, self._late = self._late + in_turn, []
        for key in waiting:
            if key in due:
                found += self._in_turn(key, *due[key], key in ran)
            elif key in self._counters:
                self._late.append(key)
        return found

    def _in_turn(
        self, key: str, counters: JobCounters, processes: JobProcesses | None, has_run: bool
    ) -> list[tuple[str, JobCounters, JobProcesses | None]]:
        """A job in its turn, if nothing else has read it for so long and it has changed nevertheless."""
        if processes is None:  # nothing says whether its processes have run
            self._turns.set(key, 1)
            return [] if has_run else [(key, counters, processes)]
        if processes.version != counters.version:  # it is read in this call
            self._turns.set(key, IDLE_REREAD_SAMPLES)
            return [] if has_run else [(key, counters, processes)]
        left = counters.read_in + IDLE_REREAD_SAMPLES - self._turns.calls
        self._turns.set(key, left if left > 0 else IDLE_REREAD_SAMPLES)
        if left > 0:
            return []
        counters.read_in = self._turns.calls
        return [(key, counters, processes)] if counters.reader.has_changed() else []

    @staticmethod
    def _storage(counters: JobCounters) -> Remarks | None:
        """What the job has read and written on each device; None if that is not to be read now."""
        counters.storage_samples -= 1
        if counters.storage_samples > 0:
            return None
        counters.storage_samples = STORAGE_SAMPLES
        devices = storage_by_device({name: read_text(path) for name, path in counters.storage_files.items()})
        return Remarks(findings={"storage": devices}) if devices else None

    def cpu_seconds(self, key: str) -> float:
        """The CPU time that the cgroups of a job had counted when they were read last; 0 if they count none."""
        counters = self._counters.get(key)
        return 0.0 if counters is None else counters.cpu_seconds

    def forget(self, key: str) -> None:
        self._due = None
        self._ran.discard(key)
        self._turns.forget(key)
        counters = self._counters.pop(key, None)
        if counters is not None:
            counters.reader.close()

    def close(self) -> None:
        for key in list(self._counters):
            self.forget(key)

    def _set_due(self, jobs: Jobs) -> None:
        for key, target in jobs.items():
            if target.cgroups and key not in self._counters:
                # A shim reads these files itself when the job has ended.
                files = storage_files(target.cgroups) if target.includes_root else {}
                self._counters[key] = JobCounters(CgroupReader(target.cgroups, self._with_pressure), files)
                self._ran.add(key)
                self._turns.set(key, 1)
        self._due = jobs
        processes = self._processes.jobs if self._processes is not None else {}
        self._due_counters = {
            key: (counters, processes.get(key)) for key, counters in self._counters.items() if key in jobs
        }

    def _beside_processes(
        self, counters: JobCounters, processes: JobProcesses, values: dict[str, Number], moment: float | None
    ) -> tuple[dict[str, Number], float | None]:
        """The counts of a cgroup without those that are less than what the processes of the job say."""
        tree = processes.tree
        uncounted_seconds = 0.0 if moment is None else processes.cpu_seconds - cpu_seconds(values)
        may_have_left = uncounted_seconds > LEFT_SECONDS and not tree.has_left_cgroup
        if counters.details_pass != tree.details_pass or may_have_left:
            counters.details_pass = tree.details_pass
            tree.note_left_cgroup(counters.reader.misses(tree.members.values()))
        outside = memory_of_processes(tree) if tree.has_left_cgroup else None
        if outside is not None and outside > values.get("mem.used", outside):
            values["mem.used"] = outside
        if moment is None or uncounted_seconds > 0:
            return {key: value for key, value in values.items() if key not in CPU_TIMES}, None
        return values, moment


def open_source(options: Options) -> CgroupSource:
    opened = options.opened.get("processes")
    return CgroupSource(opened if isinstance(opened, ProcessSource) else None, "pressure" not in options.without)
