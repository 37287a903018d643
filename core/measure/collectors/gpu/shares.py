"""What jobs use of GPUs: the memory, the utilisation and the share of the energy of their processes. Pure."""

from __future__ import annotations

from jobtop.core.measure.job_gpus import MEMORY, PERCENT, series_name
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jobtop.core.measure.source import Event, Number

MOST_PERCENT = 100.0
NO_PRODUCTS: Mapping[str, str] = {}


@record
class GpuProcesses:
    """The processes of one GPU since the reading before; None is not known.

    `memory_bytes` and `percents` are by pid. A process without a percentage did not run. A percentage of None is not
    known now; no energy of this step is that process's. `joules` were used by all. `counts_energy`: it has a counter of
    energy, though there may be no reading before. `name` is that of the device: with it, what a job uses of this GPU
    alone is kept too.
    """

    uuid: str
    memory_bytes: Mapping[int, int | None] | None
    percents: Mapping[int, float | None] | None
    joules: float | None = None
    counts_energy: bool = False
    name: str = ""

    @property
    def pids(self) -> set[int]:
        return {*(self.memory_bytes or ()), *(self.percents or ())}

    def used_by(self, pids: Iterable[int]) -> dict[str, Number]:
        """What some processes use of this GPU alone, as far as it is known."""
        pids = set(pids)
        memory = None if self.memory_bytes is None else [self.memory_bytes.get(pid, 0) for pid in pids]
        read = {PERCENT: _at_most_all(self.percents, pids), MEMORY: _sum(0, memory)}
        return {key: value for key, value in read.items() if value is not None}


class JobOnGpus:
    """What one job uses of all GPUs that it is on; None is not known of one of them."""

    __slots__ = (
        *("energy_joules", "gone", "gpus", "has_missed_energy", "has_unknown_energy", "memory_bytes", "percent"),
        *("pids", "used"),
    )

    def __init__(self) -> None:
        self.gpus: set[str] = set()  # by UUID
        self.gone: set[str] = set()  # those that it was on, and that do not exist any more since the last reading
        self.used: set[str] = set()  # those that it is on, or was on
        self.memory_bytes: Number | None = 0
        self.percent: Number | None = 0.0
        self.energy_joules: float | None = None
        self.pids: dict[str, set[int]] = {}  # its processes on each GPU, at the last reading of that
        self.has_missed_energy = False  # the energy of some steps is not in the sum
        self.has_unknown_energy = False  # a part of it was never counted, so no sum is right

    def add(self, gpu: GpuProcesses, pids: Iterable[int]) -> None:
        """Add what its processes use of one GPU."""
        pids = set(pids)
        used = gpu.used_by(pids)
        self.memory_bytes = _sum(self.memory_bytes, [used.get(MEMORY)])
        self.percent = _sum(self.percent, [used.get(PERCENT)])
        if gpu.percents is None or not gpu.counts_energy:
            self.has_unknown_energy = True
            return
        known = {pid for pid in pids if gpu.percents.get(pid, 0.0) is not None}
        stayed = pids & self.pids.get(gpu.uuid, set())
        self.pids[gpu.uuid] = pids
        self.has_missed_energy |= bool(stayed) if gpu.joules is None else not stayed <= known
        everyone = sum(percent or 0 for percent in gpu.percents.values())
        share = sum(gpu.percents.get(pid) or 0 for pid in pids) / everyone if everyone > 0 else 0.0
        self.energy_joules = (self.energy_joules or 0.0) + share * (gpu.joules or 0.0)

    def values(self) -> dict[str, Number]:
        energy = None if self.has_unknown_energy else self.energy_joules
        read = {"gpu.util": self.percent, "gpu.mem_used": self.memory_bytes, "energy.gpu": energy}
        return {key: value for key, value in read.items() if value is not None}


class GpuShares:
    """Sums what jobs use; a job has numbers from its first process on a GPU on.

    `named`: what each job uses of each GPU that it is or was on, of the last call, as `Readings.named` has it.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, JobOnGpus] = {}
        self._begun: list[tuple[str, str]] = []  # job and GPU
        self.named: dict[tuple[str, str], float] = {}

    def add(
        self, read: list[GpuProcesses], owners: Mapping[int, Iterable[str]], exists: Callable[[str], bool]
    ) -> dict[str, dict[str, Number]]:
        """The numbers of each job; gauges of a job on a GPU that exists and was not read are absent."""
        awake = {gpu.uuid for gpu in read}
        for job in self._jobs.values():
            job.memory_bytes, job.percent = 0, 0.0
            job.pids = {uuid: pids for uuid, pids in job.pids.items() if uuid in awake}
            job.gone = {uuid for uuid in job.gpus if not exists(uuid)}
            job.gpus -= job.gone | awake
            if job.gpus:
                job.memory_bytes = job.percent = None
        self.named = {}
        for gpu in read:
            by_job: dict[str, set[int]] = {key: set() for key, job in self._jobs.items() if gpu.uuid in job.used}
            for pid in gpu.pids:
                for key in owners.get(pid, ()):
                    by_job.setdefault(key, set()).add(pid)
            for key, pids in by_job.items():
                job = self._jobs.setdefault(key, JobOnGpus())
                if pids:
                    job.gpus.add(gpu.uuid)
                    job.add(gpu, pids)
                self._keep_apart(key, job, gpu, pids)
        return {key: job.values() for key, job in self._jobs.items()}

    def jobs_on(self, uuid: str) -> set[str]:
        """The jobs with a process on a GPU when it was read last."""
        return {key for key, job in self._jobs.items() if uuid in job.gpus or uuid in job.gone}

    def take_events(self, products: Mapping[str, str] = NO_PRODUCTS) -> list[Event]:
        """Which jobs have begun to use which GPUs since the last call, with what makers call these, by name."""
        begun, self._begun = self._begun, []
        found: list[Event] = []
        for key, name in begun:
            product = {"product": products[name]} if name in products else {}
            found.append((key, "gpu_used", {"gpu": name, **product}))
        return found

    def has_missed_energy(self, key: str) -> bool:
        """Whether a part of the energy of a job is not in its sum: a reading of its GPU failed."""
        job = self._jobs.get(key)
        return job is not None and job.has_missed_energy

    def forget(self, key: str) -> None:
        self._jobs.pop(key, None)

    def _keep_apart(self, key: str, job: JobOnGpus, gpu: GpuProcesses, pids: set[int]) -> None:
        """Keep what a job uses of one GPU alone."""
        if not gpu.name:
            return
        self.named.update(((key, series_name(metric, gpu.name)), value) for metric, value in gpu.used_by(pids).items())
        if gpu.uuid not in job.used:
            job.used.add(gpu.uuid)
            self._begun.append((key, gpu.name))


def _at_most_all(percents: Mapping[int, float | None] | None, pids: Iterable[int]) -> Number | None:
    """The utilisation of one GPU by these processes: they may use several engines of it at once."""
    total = _sum(0.0, None if percents is None else [percents.get(pid, 0) for pid in pids])
    return None if total is None else min(total, MOST_PERCENT)


def _sum(before: Number | None, values: Iterable[Number | None] | None) -> Number | None:
    """A sum in which what is not known makes all unknown."""
    if before is None or values is None:
        return None
    total = before
    for value in values:
        if value is None:
            return None
        total += value
    return total
