"""The source of what is slow to read of the host: space of its disks, NUMA nodes, temperatures, fans, batteries.

It has a thread of its own, so that a device which answers late never delays a sample.
"""

from __future__ import annotations

import os
import time

from jobtop.core.measure.device import Device
from jobtop.core.measure.source import Readings
from jobtop.core.metrics import Scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from jobtop.core.measure.collectors.host.files import Counters
    from jobtop.core.measure.source import DeviceReading, Jobs
    from jobtop.core.measure.sources import Options

    class SlowReader(Protocol):
        """Reads everything that this source has; the space of disks goes with their other numbers."""

        def space(self) -> dict[str, tuple[int, int]]: ...
        def devices(self) -> Mapping[Scope, dict[str, Counters]]: ...


INTERVAL_SECONDS = 10.0
NOTHING = "no local file system, NUMA node, sensor or battery is to be seen here"


class SlowHostSource:
    """Reads slow devices; `space` is what it read last, for the samples of disks, until it is too old."""

    name = "devices"
    interval_seconds = INTERVAL_SECONDS

    def __init__(self, open_reader: Callable[[], SlowReader], clock: Callable[[], float] = time.monotonic) -> None:
        self._open_reader, self._clock = open_reader, clock
        self._reader: SlowReader | None = None
        self._space: dict[str, tuple[int, int]] = {}
        self._space_until = -float("inf")

    def available(self) -> str | None:
        """Why it cannot be used here, or None."""
        reader = self._opened()
        return None if reader.space() or any(reader.devices().values()) else NOTHING

    def collect(self, jobs: Jobs) -> Readings:
        """All that can be read now."""
        reader = self._opened()
        self._space = reader.space()  # replaced, never changed: another thread reads it
        self._space_until = self._clock() + 3 * INTERVAL_SECONDS
        devices: list[DeviceReading] = []
        for kind, by_name in reader.devices().items():
            devices += [(Device(kind.value, name), values) for name, values in by_name.items()]
        return Readings(devices=devices)

    def space(self) -> dict[str, tuple[int, int]]:
        """Bytes used and in all by disk, as read last; nothing if the thread hangs."""
        return self._space if self._clock() < self._space_until else {}

    def _opened(self) -> SlowReader:
        """The reader; the thread imports its modules, so that the first sample does not wait for them."""
        if self._reader is None:
            self._reader = self._open_reader()
        return self._reader

    def forget(self, key: str) -> None:
        """Nothing is kept for a job."""

    def close(self) -> None:
        """Nothing is open."""


class LinuxReader:
    """Reads the files of Linux."""

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        from jobtop.core.measure.collectors.host.sensors import Sensors
        from jobtop.core.measure.collectors.host.space import DiskSpace

        self._sys = sys
        self._sensors, self.disk_space = Sensors(sys), DiskSpace(proc, sys)

    def space(self) -> dict[str, tuple[int, int]]:
        """Bytes used and in all by disk."""
        return self.disk_space.collect()

    def devices(self) -> Mapping[Scope, dict[str, Counters]]:
        """The values of NUMA nodes, sensors and batteries by name."""
        from jobtop.core.measure.collectors.host.batteries import read_batteries
        from jobtop.core.measure.collectors.host.numa import read_nodes

        return {
            Scope.NUMA: read_nodes(self._sys),
            Scope.SENSOR: self._sensors.collect(),
            Scope.BATTERY: read_batteries(self._sys),
        }


def open_reader(proc: str = "/proc", sys: str = "/sys") -> SlowReader:
    """The reader for this machine: its own files where it has /proc, else psutil."""
    if os.path.exists(f"{proc}/stat"):
        return LinuxReader(proc, sys)
    from jobtop.core.measure.collectors.host.portable import PortableSlowReader

    return PortableSlowReader()


def open_source(options: Options) -> SlowHostSource:
    return SlowHostSource(lambda: open_reader(options.proc, options.sys))
