"""What containers use of GPUs: the sources of GPUs for jobs, with containers in the place of jobs, found by cgroup."""

from __future__ import annotations

import os

from jobtop.core.measure.collectors.docker.cgroup_paths import container_id_in
from jobtop.core.measure.collectors.docker.snapshot import GpuUse
from jobtop.core.measure.collectors.pid_owners import PidOwners
from jobtop.core.measure.job_gpus import MEMORY, PERCENT, parse_series
from jobtop.core.measure.source_runs import SlowRun
from jobtop.core.measure.sources import Options, has_render_node
from jobtop.core.procfs import read_text
from jobtop.core.record import fresh, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobtop.core.measure.collectors.gpu.drm_source import Members
    from jobtop.core.measure.collectors.machine_pids import MachinePids
    from jobtop.core.measure.source import Jobs, Number, Source

START = 19  # a field of /proc/PID/stat after the name
KEYS = ("gpu.util", "gpu.mem_used", "energy.gpu")
NO_PROCESS = "no process of it uses a GPU"


@record
class GpuNumbers:
    """What one container uses of all GPUs, by catalogue key, and of each of them."""

    values: dict[str, Number] = fresh(default_factory=dict)
    gpus: tuple[GpuUse, ...] = ()


class ContainerOwners(PidOwners):
    """Finds the container of a process, which a driver names by its pid, among the cgroups of that process."""

    def __init__(self, proc: str, machine_pids: MachinePids) -> None:
        super().__init__(proc, None, machine_pids)
        self._place, self._pids = proc, machine_pids

    def find(self, pids: Iterable[int], jobs: Jobs) -> dict[int, frozenset[str]]:
        """The ids of the containers of these processes; a process of none has none."""
        local = {pid: self._pids.local(pid) for pid in pids}
        found = {pid: container_id_in(read_text(f"{self._place}/{here}/cgroup"), jobs) for pid, here in local.items()}
        return {pid: frozenset() if key is None else frozenset((key,)) for pid, key in found.items()}


class ContainerGpus:
    """The sources of GPUs, each in a thread of its own; without a GPU nothing is opened and nothing imported."""

    def __init__(self, options: Options, runs: list[SlowRun] | None = None) -> None:
        self._runs = [SlowRun(source) for source in open_gpu_sources(options)] if runs is None else runs
        self._jobs: Jobs = {}
        self._values: dict[str, dict[str, dict[str, Number]]] = {}  # by source and container
        self._named: dict[str, dict[tuple[str, str], float]] = {}

    @property
    def is_empty(self) -> bool:
        return not self._runs

    def read(self, containers: Jobs) -> dict[str, GpuNumbers]:
        """The newest numbers of containers on GPUs, by id; it never waits."""
        if not self._runs:
            return {}
        for key in self._jobs.keys() - containers.keys():
            for run in self._runs:
                run.forget(key)
        self._jobs = containers
        for run in self._runs:
            run.set_jobs(containers)
            news = run.poll(containers)
            if news is not None:
                self._values[run.name], self._named[run.name] = news.readings.jobs, news.readings.named
            elif run.is_lost:
                self._values.pop(run.name, None)
                self._named.pop(run.name, None)
        return {key: found for key in containers if (found := self._numbers(key)).values}

    def close(self) -> None:
        for run in self._runs:
            run.close()

    def _numbers(self, key: str) -> GpuNumbers:
        values: dict[str, Number] = {}
        for read in self._values.values():
            for name in KEYS:
                if name in read.get(key, {}):
                    values[name] = values.get(name, 0) + read[key][name]
        uses: dict[str, dict[str, float]] = {}
        for named in self._named.values():
            for (owner, series), value in named.items():
                if owner == key and (parsed := parse_series(series)) is not None:
                    uses.setdefault(parsed[1], {})[parsed[0]] = value
        return GpuNumbers(values, tuple(_use(name, use) for name, use in sorted(uses.items())))


def _use(name: str, use: dict[str, float]) -> GpuUse:
    memory = use.get(MEMORY)
    return GpuUse(name, use.get(PERCENT), None if memory is None else int(memory))


def open_gpu_sources(options: Options) -> list[Source]:
    """The sources of GPUs that this machine has."""
    from jobtop.core.measure.collectors.gpu.nvidia_driver import driver_problem

    found: list[Source] = []
    if driver_problem(options.proc) is None:
        from jobtop.core.measure.collectors.gpu.nvidia_session import NvidiaSession
        from jobtop.core.measure.collectors.gpu.nvidia_source import NvidiaSource
        from jobtop.core.measure.collectors.machine_pids import MachinePids

        owners = ContainerOwners(options.proc, MachinePids(options.proc))
        found.append(NvidiaSource(NvidiaSession(sys=options.sys), owners))
    if has_render_node(options.sys):
        from jobtop.core.measure.collectors.gpu.drm_cards import find_cards
        from jobtop.core.measure.collectors.gpu.drm_source import DrmSource

        if find_cards(options.sys, options.without):
            found.append(DrmSource(options, None, list_members=lambda jobs: list_members(jobs, options.proc)))
    return found


def list_members(containers: Jobs, proc: str) -> Members:
    """The processes in the cgroups of containers: container, start, pid; what they have used of the CPU is not read."""
    for key, target in containers.items():
        directory = target.cgroups[0] if target.cgroups else None
        for place, _, _ in os.walk(directory) if directory is not None else ():
            for word in read_text(f"{place}/cgroup.procs").split():
                fields = read_text(f"{proc}/{word}/stat").rpartition(")")[2].split()
                if word.isdecimal() and len(fields) > START and fields[START].isdecimal():
                    yield key, int(fields[START]), int(word), None
