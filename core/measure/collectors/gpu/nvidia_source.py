"""The source of NVIDIA's GPUs: each GPU and MIG instance as a device, and what jobs use of them, by pid."""

from __future__ import annotations

import time

from jobtop.core.measure.collectors.gpu.nvidia import NvmlProblem
from jobtop.core.measure.collectors.gpu.nvidia_session import NvidiaSession
from jobtop.core.measure.collectors.gpu.shares import GpuProcesses, GpuShares
from jobtop.core.measure.collectors.pid_owners import PidOwners
from jobtop.core.measure.collectors.process_source import ProcessSource
from jobtop.core.measure.device import Device
from jobtop.core.measure.source import Readings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.collectors.gpu.nvidia import Gpu
    from jobtop.core.measure.source import DeviceReading, Jobs, Number
    from jobtop.core.measure.sources import Options

SELDOM = 10  # collections between two readings of what seldom changes


class NvidiaSource:
    """Reads all GPUs through NVML, which is opened by the first collection, in the thread of the source."""

    name = "nvidia"
    interval_seconds = 1.0

    def __init__(self, session: NvidiaSession, owners: PidOwners) -> None:
        self._session, self._owners = session, owners
        self._knows_pids = owners.problem() is None
        self._shares = GpuShares()
        self._joules: dict[str, float] = {}  # by UUID, of the collection before
        self._seldom: dict[str, dict[str, Number | None]] = {}
        self._collections = 0

    def available(self) -> str | None:
        """None: it is opened only where a driver is, and a GPU may answer later."""
        return None

    def collect(self, jobs: Jobs) -> Readings:
        """All GPUs now, and every job that has been seen on one."""
        joules_before, self._joules = self._joules, {}
        devices: list[DeviceReading] = []
        read: list[GpuProcesses] = []
        for gpu in self._session.gpus():
            try:
                values = self._device_values(gpu)
                processes = self._processes(gpu, values.get("energy.gpu"), joules_before.get(gpu.uuid))
            except NvmlProblem as problem:
                self._session.lose(gpu, problem)
                continue
            if processes is not None:
                values["gpu.processes"] = None if processes.memory_bytes is None else len(processes.memory_bytes)
                read.append(processes)
            devices.append((Device("gpu", gpu.name), values))
        self._collections += 1
        return Readings(jobs=self._job_values(read, jobs), devices=devices)

    def forget(self, key: str) -> None:
        self._shares.forget(key)

    def close(self) -> None:
        self._session.close()

    def _job_values(self, read: list[GpuProcesses], jobs: Jobs) -> dict[str, dict[str, Number]]:
        pids = {pid for gpu in read for pid in gpu.pids} if self._knows_pids else set()
        return self._shares.add(read, self._owners.find(pids, jobs), self._session.knows)

    def _device_values(self, gpu: Gpu) -> dict[str, Number | None]:
        used, total = gpu.memory_bytes() or (None, None)
        values: dict[str, Number | None] = {"gpu.mem_used": used, "gpu.mem_total": total}
        if gpu.is_mig:
            return values
        if self._collections % SELDOM == 0 or gpu.uuid not in self._seldom:
            self._seldom[gpu.uuid] = {
                "gpu.power_limit": gpu.power_limit_watts(),
                "gpu.fan": gpu.fan_percent(),
                "gpu.ecc_errors": gpu.ecc_errors(),
            }
        is_slowed, joules = gpu.is_slowed(), gpu.energy_joules()
        if joules is not None:
            self._joules[gpu.uuid] = joules
        return {
            **values,
            **self._seldom[gpu.uuid],
            "gpu.util": gpu.utilisation_percent(),
            "gpu.temp": gpu.temperature_celsius(),
            "gpu.power": gpu.power_watts(),
            "gpu.clock_sm": gpu.clock_sm_hertz(),
            "gpu.clock_mem": gpu.clock_memory_hertz(),
            "gpu.throttled": None if is_slowed is None else int(is_slowed),
            "energy.gpu": joules,
        }

    def _processes(self, gpu: Gpu, joules: Number | None, before: float | None) -> GpuProcesses | None:
        """The processes of a GPU; None of one with MIG instances, which have them. NVML has no percentages of MIG."""
        if gpu.has_instances:
            return None
        percents = None if gpu.is_mig else gpu.process_percents(time.time())
        used = None if joules is None or before is None or joules < before else joules - before
        return GpuProcesses(gpu.uuid, gpu.process_memory(), percents, used, joules is not None)


def open_source(options: Options) -> NvidiaSource:
    opened = options.opened.get("processes")
    owners = PidOwners(options.proc, opened if isinstance(opened, ProcessSource) else None)
    return NvidiaSource(NvidiaSession(sys=options.sys), owners)
