"""The machine as psutil knows it, for systems without /proc."""

from __future__ import annotations

import os
import time

from jobtop.core.measure.collectors.host.files import DISK_KEYS, NET_KEYS, CoreTimes, Counters, total_of
from jobtop.core.measure.collectors.host.hardware import VIRTUAL_INTERFACES
from jobtop.core.measure.collectors.host.reading import SAMPLED_KEYS, HostSample, read_space
from jobtop.core.metrics import Scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

NOT_TOLD = "psutil does not report it on this system"


class PortableHostCollector:
    """Samples a machine through psutil, which is imported when it is first asked."""

    name = "host"

    def __init__(self, disk_path: str = "/", clock: Callable[[], float] = time.monotonic) -> None:
        self._disk_path, self._clock = disk_path, clock
        self.missing: dict[str, str] = {}

    def available(self) -> str | None:
        """Why this machine cannot be sampled, or None."""
        try:
            import psutil  # noqa: F401
        except ImportError as error:
            return str(error)
        return None

    def collect(self) -> HostSample:
        """All that can be read now; why something cannot is in `missing`."""
        import psutil

        now = self._clock()
        used, total, space_problem = read_space(self._disk_path)
        disks, interfaces = read_disks(), read_interfaces()
        physical = [name for name in interfaces if not VIRTUAL_INTERFACES.match(name)]
        found: Counters = {
            **dict(zip(("load.1", "load.5", "load.15"), os.getloadavg(), strict=True)),
            **read_memory(),
            **total_of(disks, disks, DISK_KEYS),
            **total_of(interfaces, physical, NET_KEYS),
            "disk.used": used,
            "disk.total": total,
        }
        values = {key: found.get(key) for key in SAMPLED_KEYS}
        self.missing = {key: NOT_TOLD for key, value in values.items() if value is None}
        if space_problem:
            self.missing |= dict.fromkeys(("disk.used", "disk.total"), space_problem)
        uptime = time.time() - psutil.boot_time()
        return HostSample(now, values, uptime, read_cores(), disks, interfaces)

    def close(self) -> None:
        """Nothing is held."""


def read_cores() -> dict[int, CoreTimes]:
    """The times of each core; what waits and is stolen is known on Linux only."""
    import psutil

    cores = {}
    for core, times in enumerate(psutil.cpu_times(percpu=True)):
        iowait, steal = getattr(times, "iowait", None), getattr(times, "steal", None)
        guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
        rest = times.idle + (iowait or 0.0) + (steal or 0.0)
        # Rounded, or the error of the sums would make an idle core's counter fall.
        cores[core] = CoreTimes(round(sum(times) - rest - guests, 3), round(rest, 3), iowait, steal)
    return cores


def read_memory() -> Counters:
    """Memory and swap."""
    import psutil

    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    return {
        "mem.total": memory.total,
        "mem.available": memory.available,
        "mem.used": memory.total - memory.available,
        "swap.total": swap.total,
        "swap.used": swap.used,
    }


def read_disks() -> dict[str, Counters]:
    """The counters of each disk; how long it was busy is not known everywhere."""
    import psutil

    disks: dict[str, Counters] = {}
    for name, counted in psutil.disk_io_counters(perdisk=True, nowrap=False).items():
        times = (getattr(counted, name, None) for name in ("read_time", "write_time", "busy_time"))
        seconds = [None if time is None else time / 1000 for time in times]
        counts = (counted.read_bytes, counted.write_bytes, counted.read_count, counted.write_count)
        disks[name] = dict(zip(DISK_KEYS, (*counts, *seconds), strict=True))
    return disks


def read_interfaces() -> dict[str, Counters]:
    """The counters of each interface."""
    import psutil

    interfaces: dict[str, Counters] = {}
    for name, seen in psutil.net_io_counters(pernic=True, nowrap=False).items():
        amounts = (
            seen.bytes_recv,
            seen.bytes_sent,
            seen.packets_recv,
            seen.packets_sent,
            seen.errin + seen.errout,
            seen.dropin + seen.dropout,
        )
        interfaces[name] = dict(zip(NET_KEYS, amounts, strict=True))
    return interfaces


class PortableSlowReader:
    """Temperatures, fans and the battery as far as psutil reports them; which disk a file system is on is not known."""

    def space(self) -> dict[str, tuple[int, int]]:
        return {}

    def devices(self) -> Mapping[Scope, dict[str, Counters]]:
        """The values by name; functions that psutil does not have on this system are passed over."""
        import psutil

        sensors: dict[str, Counters] = {}
        for function, key in (("sensors_temperatures", "temp"), ("sensors_fans", "fan.speed")):
            chips: dict[str, list[Any]] = getattr(psutil, function, dict)()
            for chip, entries in chips.items():
                for number, entry in enumerate(entries, 1):
                    sensors[f"{chip} {entry.label or number}"] = {key: entry.current}
        battery = getattr(psutil, "sensors_battery", lambda: None)()
        charged: dict[str, Counters] = {} if battery is None else {"battery": {"battery.charge": battery.percent}}
        return {Scope.SENSOR: sensors, Scope.BATTERY: charged}
