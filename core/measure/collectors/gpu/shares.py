"""What jobs use of GPUs: the memory, the utilisation and the share of the energy of their processes. Pure."""

from __future__ import annotations

from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jobtop.core.measure.source import Number


@record
class GpuProcesses:
    """The processes of one GPU since the reading before; None is not known.

    `memory_bytes` and `percents` are by pid. A process without a percentage did not run. `joules` were used by all.
    `counts_energy`: it has a counter of energy, though there may be no reading before.
    """

    uuid: str
    memory_bytes: Mapping[int, int | None] | None
    percents: Mapping[int, float] | None
    joules: float | None = None
    counts_energy: bool = False

    @property
    def pids(self) -> set[int]:
        return {*(self.memory_bytes or ()), *(self.percents or ())}


class JobOnGpus:
    """What one job uses of all GPUs that it is on; None is not known of one of them."""

    __slots__ = ("energy_joules", "gpus", "has_unknown_energy", "memory_bytes", "percent")

    def __init__(self) -> None:
        self.gpus: set[str] = set()  # by UUID
        self.memory_bytes: Number | None = 0
        self.percent: Number | None = 0.0
        self.energy_joules: float | None = None
        self.has_unknown_energy = False  # a part of it was never counted, so no sum is right

    def add(self, gpu: GpuProcesses, pids: Iterable[int]) -> None:
        """Add what its processes use of one GPU."""
        pids = set(pids)
        memory = None if gpu.memory_bytes is None else [gpu.memory_bytes.get(pid, 0) for pid in pids]
        self.memory_bytes = _sum(self.memory_bytes, memory)
        self.percent = _sum(self.percent, None if gpu.percents is None else [gpu.percents.get(pid, 0) for pid in pids])
        if gpu.percents is None or not gpu.counts_energy:
            self.has_unknown_energy = True
            return
        everyone = sum(gpu.percents.values())
        share = sum(gpu.percents.get(pid, 0) for pid in pids) / everyone if everyone > 0 else 0.0
        self.energy_joules = (self.energy_joules or 0.0) + share * (gpu.joules or 0.0)

    def values(self) -> dict[str, Number]:
        energy = None if self.has_unknown_energy else self.energy_joules
        read = {"gpu.util": self.percent, "gpu.mem_used": self.memory_bytes, "energy.gpu": energy}
        return {key: value for key, value in read.items() if value is not None}


class GpuShares:
    """Sums what jobs use; a job has numbers from its first process on a GPU on."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobOnGpus] = {}

    def add(
        self, read: list[GpuProcesses], owners: Mapping[int, Iterable[str]], exists: Callable[[str], bool]
    ) -> dict[str, dict[str, Number]]:
        """The numbers of each job; gauges of a job on a GPU that exists and was not read are absent."""
        for job in self._jobs.values():
            job.memory_bytes, job.percent = 0, 0.0
            job.gpus = {uuid for uuid in job.gpus if exists(uuid)} - {gpu.uuid for gpu in read}
            if job.gpus:
                job.memory_bytes = job.percent = None
        for gpu in read:
            by_job: dict[str, set[int]] = {}
            for pid in gpu.pids:
                for key in owners.get(pid, ()):
                    by_job.setdefault(key, set()).add(pid)
            for key, pids in by_job.items():
                job = self._jobs.setdefault(key, JobOnGpus())
                job.gpus.add(gpu.uuid)
                job.add(gpu, pids)
        return {key: job.values() for key, job in self._jobs.items()}

    def forget(self, key: str) -> None:
        self._jobs.pop(key, None)


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
