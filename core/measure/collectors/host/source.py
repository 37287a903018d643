"""The source of the host around the jobs, and of each of its cores, disks and network interfaces."""

from __future__ import annotations

from functools import lru_cache

from jobtop.core.measure.collectors.host.reading import core_load, open_host
from jobtop.core.measure.device import Device
from jobtop.core.measure.source import Readings
from jobtop.core.metrics import Scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.collectors.host.reading import HostReader, HostSample
    from jobtop.core.measure.source import DeviceReading, Jobs
    from jobtop.core.measure.sources import Options


class HostSource:
    """Reads the host; what a core did is known from the second reading on."""

    name = "host"
    interval_seconds = None

    def __init__(self, reader: HostReader) -> None:
        self._reader = reader
        self._before: HostSample | None = None

    def available(self) -> str | None:
        """Why it cannot be used here, or None."""
        return self._reader.available()

    def collect(self, jobs: Jobs) -> Readings:
        """All that can be read of the host now."""
        before, sample = self._before, self._reader.collect()
        self._before = sample
        return Readings(host=sample.values, devices=device_readings(before, sample), host_sample=sample)

    def forget(self, key: str) -> None:
        """Nothing is kept for a job."""

    def close(self) -> None:
        self._reader.close()


@lru_cache(1024)  # the same devices every second
def device(kind: Scope, name: str) -> Device:
    return Device(kind.value, name)


def device_readings(before: HostSample | None, after: HostSample) -> list[DeviceReading]:
    """What a sample of the host says of its devices; the percentage of a core is of the time since the one before."""
    readings: list[DeviceReading] = []
    cores_before = before.cores if before is not None else {}
    for core, times in after.cores.items():
        percent = core_load(cores_before[core], times).percent if core in cores_before else None
        values = {"cpu.percent": percent, "cpu.iowait": times.iowait, "cpu.steal": times.steal}
        readings.append((device(Scope.CORE, str(core)), values))
    readings += [(device(Scope.DISK, name), values) for name, values in after.disks.items()]
    readings += [(device(Scope.INTERFACE, name), values) for name, values in after.interfaces.items()]
    return readings


def open_source(options: Options) -> HostSource:
    return HostSource(open_host(options.disk_path, options.proc, options.sys))
