"""The source of the host around the jobs, and of each of its cores, disks and network interfaces."""

from __future__ import annotations

from functools import lru_cache

from jobtop.core.measure.collectors.host.reading import core_load, open_host
from jobtop.core.measure.collectors.host.slow_source import SlowHostSource
from jobtop.core.measure.device import Device
from jobtop.core.measure.source import Readings
from jobtop.core.metrics import Scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.core.measure.collectors.host.reading import HostReader, HostSample
    from jobtop.core.measure.source import DeviceReading, Jobs
    from jobtop.core.measure.sources import Options


class HostSource:
    """Reads the host; what a core did is known from the second reading on.

    `space` gives the space of disks, which another source reads: so that a sample of a disk has all of its numbers.
    """

    name = "host"
    interval_seconds = None

    def __init__(self, reader: HostReader, space: Callable[[], dict[str, tuple[int, int]]] = dict) -> None:
        self._reader, self._space = reader, space
        self._before: HostSample | None = None

    def available(self) -> str | None:
        """Why it cannot be used here, or None."""
        return self._reader.available()

    def collect(self, jobs: Jobs) -> Readings:
        """All that can be read of the host now."""
        before, sample = self._before, self._reader.collect()
        self._before = sample
        devices = device_readings(before, sample, self._space())
        return Readings(host=sample.values, devices=devices, host_sample=sample)

    def forget(self, key: str) -> None:
        """Nothing is kept for a job."""

    def close(self) -> None:
        self._reader.close()


@lru_cache(1024)  # the same devices every second
def device(kind: Scope, name: str) -> Device:
    return Device(kind.value, name)


def device_readings(
    before: HostSample | None, after: HostSample, space: dict[str, tuple[int, int]]
) -> list[DeviceReading]:
    """What a sample of the host says of its devices; the percentage of a core is of the time since the one before."""
    readings: list[DeviceReading] = []
    cores_before = before.cores if before is not None else {}
    for core, times in after.cores.items():
        percent = core_load(cores_before[core], times).percent if core in cores_before else None
        values = {"cpu.percent": percent, "cpu.iowait": times.iowait, "cpu.steal": times.steal}
        readings.append((device(Scope.CORE, str(core)), values))
    for name, values in after.disks.items():
        used, total = space.get(name, (None, None))
        readings.append((device(Scope.DISK, name), {**values, "disk.used": used, "disk.total": total}))
    readings += [(device(Scope.INTERFACE, name), values) for name, values in after.interfaces.items()]
    return readings


def open_source(options: Options) -> HostSource:
    slow = options.opened.get("devices")
    space = slow.space if isinstance(slow, SlowHostSource) else dict
    return HostSource(open_host(options.disk_path, options.proc, options.sys), space)
