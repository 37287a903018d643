"""The source of NVIDIA's GPUs: each GPU and MIG instance as a device, and what jobs use of them, by pid."""

from __future__ import annotations

import time

from jobtop.core.measure.collectors.gpu.incidents import GpuIncidents
from jobtop.core.measure.collectors.gpu.nvidia import NvmlProblem
from jobtop.core.measure.collectors.gpu.nvidia_session import NvidiaSession
from jobtop.core.measure.collectors.gpu.shares import GpuProcesses, GpuShares
from jobtop.core.measure.collectors.machine_pids import MachinePids
from jobtop.core.measure.collectors.pid_owners import PidOwners
from jobtop.core.measure.collectors.process_source import ProcessSource
from jobtop.core.measure.device import Device
from jobtop.core.measure.source import Readings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.collectors.gpu.nvidia import Gpu
    from jobtop.core.measure.source import DeviceReading, Event, Jobs, Number
    from jobtop.core.measure.sources import Options

SELDOM = 10  # collections between two readings of what seldom changes


class NvidiaSource:
    """Reads all GPUs through NVML, which is opened by the first collection, in the thread of the source."""

    name = "nvidia"
    interval_seconds = 1.0

    def __init__(self, session: NvidiaSession, owners: PidOwners) -> None:
        self._session, self._owners = session, owners
        self._knows_pids = owners.problem() is None
        self._shares, self._incidents = GpuShares(), GpuIncidents()
        self._joules: dict[str, float] = {}  # by UUID, of the collection before
        self._seldom: dict[str, dict[str, Number | None]] = {}
        self._slowdowns: dict[str, tuple[str, ...] | None] = {}  # by UUID, of this collection
        self._products: dict[str, str | None] = {}
        self._collections = 0

    def available(self) -> str | None:
        """None: it is opened only where a driver is, and a GPU may answer later."""
        return None

    def collect(self, jobs: Jobs) -> Readings:
        """All GPUs now, and every job that has been seen on one."""
        joules_before, self._joules = self._joules, {}
        self._slowdowns = {}
        devices: list[DeviceReading] = []
        read: list[GpuProcesses] = []
        answered: list[Gpu] = []
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
            answered.append(gpu)
        self._collections += 1
        job_values = self._job_values(read, jobs)
        events = self._happened(answered)
        products = {gpu.name: product for gpu in answered if (product := self._product(gpu)) is not None}
        return Readings(
            jobs=job_values,
            devices=devices,
            named=self._shares.named,
            events=[*self._shares.take_events(products), *events],
            remarks=self._incidents.remarks(),
            products={Device("gpu", name): product for name, product in products.items()},
        )

    def forget(self, key: str) -> None:
        self._shares.forget(key)
        self._incidents.forget(key)

    def close(self) -> None:
        self._session.close()

    def _job_values(self, read: list[GpuProcesses], jobs: Jobs) -> dict[str, dict[str, Number]]:
        pids = {pid for gpu in read for pid in gpu.pids} if self._knows_pids else set()
        return self._shares.add(read, self._owners.find(pids, jobs), self._session.knows)

    def _happened(self, answered: list[Gpu]) -> list[Event]:
        """The events of GPUs since the last collection."""
        now = time.monotonic()
        for gpu in answered:
            self._session.find(gpu)
            self._incidents.see(gpu.uuid, gpu.name, self._slowdowns.get(gpu.uuid), self._shares.jobs_on(gpu.uuid), now)
        for uuid, (name, reason) in self._session.lost.items():
            self._incidents.lose(uuid, name, reason, self._shares.jobs_on(uuid))
        return self._incidents.take()

    def _product(self, gpu: Gpu) -> str | None:
        if gpu.uuid not in self._products:
            try:
                self._products[gpu.uuid] = gpu.product()
            except NvmlProblem:  # the next collection notes that it is lost
                return None
        return self._products[gpu.uuid]

    def _device_values(self, gpu: Gpu) -> dict[str, Number | None]:
        used, total, free = gpu.memory_bytes() or (None, None, None)
        values: dict[str, Number | None] = {"gpu.mem_used": used, "gpu.mem_total": total, "gpu.mem_free": free}
        if gpu.is_mig:
            return values
        if self._collections % SELDOM == 0 or gpu.uuid not in self._seldom:
            received, sent = gpu.pcie_bytes_per_second()
            self._seldom[gpu.uuid] = {
                "gpu.power_limit": gpu.power_limit_watts(),
                "gpu.fan": gpu.fan_percent(),
                "gpu.ecc_errors": gpu.ecc_errors(),
                "gpu.pcie_rx": received,
                "gpu.pcie_tx": sent,
            }
        slowdowns, joules = gpu.slowdowns(), gpu.energy_joules()
        self._slowdowns[gpu.uuid] = slowdowns
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
            "gpu.throttled": None if slowdowns is None else int(bool(slowdowns)),
            "gpu.encoder": gpu.encoder_percent(),
            "gpu.decoder": gpu.decoder_percent(),
            "energy.gpu": joules,
        }

    def _processes(self, gpu: Gpu, joules: Number | None, before: float | None) -> GpuProcesses | None:
        """The processes of a GPU; None of one with MIG instances, which have them. NVML has no percentages of MIG."""
        if gpu.has_instances:
            return None
        percents = None if gpu.is_mig else gpu.process_percents(time.time())
        used = None if joules is None or before is None or joules < before else joules - before
        return GpuProcesses(gpu.uuid, gpu.process_memory(), percents, used, joules is not None, gpu.name)


def open_source(options: Options) -> NvidiaSource:
    opened = options.opened.get("processes")
    processes = opened if isinstance(opened, ProcessSource) else None
    owners = PidOwners(options.proc, processes, MachinePids(options.proc))
    return NvidiaSource(NvidiaSession(sys=options.sys), owners)
