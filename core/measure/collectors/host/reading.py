"""The machine around the jobs: CPU per core, load, memory, disks, network, pressure, temperature.

A sample holds what the kernel counted; `host_frame` makes rates of two of them.
"""

from __future__ import annotations

import os
import time

from jobtop.core.measure.collectors.host.files import (
    DISK_KEYS,
    NET_KEYS,
    CoreTimes,
    Counters,
    parse_diskstats,
    parse_loadavg,
    parse_meminfo,
    parse_net_dev,
    parse_stat,
    parse_uptime,
    total_of,
)
from jobtop.core.measure.collectors.host.hardware import Thermometer, physical_disks, physical_interfaces
from jobtop.core.measure.collectors.open_file import KeptFile
from jobtop.core.measure.collectors.pressure import PressureCollector
from jobtop.core.measure.derive import rate
from jobtop.core.metrics import BY_KEY, Kind, Scope, metrics_of
from jobtop.core.record import fresh, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Protocol

    class HostReader(Protocol):
        """Whatever samples a machine."""

        name: str

        @property
        def missing(self) -> dict[str, str]: ...
        def available(self) -> str | None: ...
        def collect(self) -> HostSample: ...
        def close(self) -> None: ...


# cpu.percent is of two samples, and another source reads the energy.
NOT_SAMPLED = ("cpu.percent", "energy.cpu")
SAMPLED_KEYS = tuple(metric.key for metric in metrics_of(Scope.HOST) if metric.key not in NOT_SAMPLED)


@record
class HostSample:
    """The counters and gauges of a machine at one moment; None is not known.

    `values` are of the whole machine, by catalogue key; `full` has the seconds in which all tasks were stalled.
    """

    monotonic: float
    values: Counters
    uptime_seconds: float | None = None
    cores: dict[int, CoreTimes] = fresh(default_factory=dict)
    disks: dict[str, Counters] = fresh(default_factory=dict)
    interfaces: dict[str, Counters] = fresh(default_factory=dict)
    full: Counters = fresh(default_factory=dict)


@record
class CpuLoad:
    """What a core did, or all of them together; 100 % is one core."""

    percent: float | None = None
    iowait_percent: float | None = None
    steal_percent: float | None = None


@record
class HostFrame:
    """Two samples of a machine derived: gauges as they are, counters per second, so that a time becomes a ratio.

    `disk.busy` in `values` is the sum over disks and may exceed 1; of one disk it cannot.
    """

    seconds: float
    values: Counters
    cpu: CpuLoad
    cores: dict[int, CpuLoad]
    disks: dict[str, Counters]
    interfaces: dict[str, Counters]
    full: Counters


def host_frame(before: HostSample, after: HostSample) -> HostFrame:
    """Rates between two samples; what fell (a device replaced, a core that was off) or is new is absent."""
    seconds = after.monotonic - before.monotonic
    cores = {core: core_load(before.cores[core], times) for core, times in after.cores.items() if core in before.cores}
    cpu = CpuLoad(
        _sum(load.percent for load in cores.values()),
        _sum(load.iowait_percent for load in cores.values()),
        _sum(load.steal_percent for load in cores.values()),
    )
    values = rates(before.values, after.values, seconds)
    values["cpu.percent"] = cpu.percent
    values["cpu.iowait"] = None if cpu.iowait_percent is None else cpu.iowait_percent / 100
    values["cpu.steal"] = None if cpu.steal_percent is None else cpu.steal_percent / 100
    disks = _device_rates(before.disks, after.disks, seconds)
    for disk in disks.values():
        # The kernel counts busy time in its own ticks.
        disk["disk.busy"] = None if (busy := disk.get("disk.busy")) is None else min(1.0, busy)
    interfaces = _device_rates(before.interfaces, after.interfaces, seconds)
    return HostFrame(seconds, values, cpu, cores, disks, interfaces, rates(before.full, after.full, seconds))


def host_detail(frame: HostFrame, uptime_seconds: float | None) -> dict[str, object]:
    """What a frame has beyond the catalogue: each core, disk and interface; for people who look closer."""
    return {
        "uptime_seconds": uptime_seconds,
        "cores": {
            str(core): [_rounded(value) for value in (load.percent, load.iowait_percent, load.steal_percent)]
            for core, load in frame.cores.items()
        },
        "disks": {name: _rounded_all(rates) for name, rates in frame.disks.items()},
        "interfaces": {name: _rounded_all(rates) for name, rates in frame.interfaces.items()},
        "full": _rounded_all(frame.full),
    }


def core_load(before: CoreTimes, after: CoreTimes) -> CpuLoad:
    """What one core did, in percent of the time the kernel accounted for on it, so that nothing exceeds 100."""
    busy, rest = after.busy - before.busy, after.rest - before.rest
    whole = busy + rest
    if busy < 0 or rest < 0 or whole <= 0:
        return CpuLoad()
    iowait = steal = None
    if before.iowait is not None and after.iowait is not None:
        # The kernel moves time from iowait to idle when the I/O is done (filesystems/proc.rst): it was idle after all.
        iowait = max(0.0, after.iowait - before.iowait) / whole * 100
    if before.steal is not None and after.steal is not None and after.steal >= before.steal:
        steal = (after.steal - before.steal) / whole * 100
    return CpuLoad(busy / whole * 100, iowait, steal)


def rates(before: Counters, after: Counters, seconds: float) -> Counters:
    """Gauges as they are, counters per second; absent if a counter fell or one of its ends is not known."""
    return {
        key: value if BY_KEY[key].kind is Kind.GAUGE else rate(before.get(key), value, seconds)
        for key, value in after.items()
    }


class HostCollector:
    """Samples a Linux machine from its `proc` and `sys`; `disk_path` is on the file system to report the free space of.

    Space and temperature are read every `slow_seconds`: both may ask a device.
    """

    name = "host"

    def __init__(
        self,
        proc: str = "/proc",
        sys: str = "/sys",
        disk_path: str = "/",
        clock: Callable[[], float] = time.monotonic,
        slow_seconds: float = 10.0,
    ) -> None:
        self._sys, self._disk_path, self._clock, self._slow_seconds = sys, disk_path, clock, slow_seconds
        names = ("stat", "loadavg", "meminfo", "diskstats", "net/dev", "uptime")
        self._files = {name: KeptFile(f"{proc}/{name}") for name in names}
        self._pressure = PressureCollector(f"{proc}/pressure")
        self._thermometer = Thermometer(sys)
        self._disk_names: frozenset[str] = frozenset()
        self._disks: frozenset[str] = frozenset()
        self._physical_disks: frozenset[str] = frozenset()
        self._interface_names: frozenset[str] = frozenset()
        self._physical_interfaces: frozenset[str] = frozenset()
        self._slow_due = float("-inf")
        self._slow: Counters = {}
        self._space_problem: str | None = None
        self._last: HostSample | None = None

    def available(self) -> str | None:
        """Why this machine cannot be sampled, or None."""
        stat = self._files["stat"]
        return None if stat.read() else stat.problem

    def collect(self) -> HostSample:
        """All that can be read now; why something cannot is in `missing`."""
        now = self._clock()
        cores = parse_stat(self._read("stat"))
        disks, interfaces = self._read_disks(), self._read_interfaces()
        stalls = self._pressure.collect()
        found: Counters = {
            "cpu.iowait": _sum(times.iowait for times in cores.values()),
            "cpu.steal": _sum(times.steal for times in cores.values()),
            **parse_loadavg(self._read("loadavg")),
            **parse_meminfo(self._read("meminfo")),
            **total_of(disks, self._physical_disks, DISK_KEYS),
            **total_of(interfaces, self._physical_interfaces, NET_KEYS),
            **{key: stall.some for key, stall in stalls.items()},
            **self._read_slow(now),
        }
        full = {key: stall.full for key, stall in stalls.items()}
        values = {key: found.get(key) for key in SAMPLED_KEYS}
        self._last = HostSample(now, values, parse_uptime(self._read("uptime")), cores, disks, interfaces, full)
        return self._last

    @property
    def missing(self) -> dict[str, str]:
        """Why each value of the last sample that is not known is not, by catalogue key."""
        if self._last is None:
            return {}
        reasons = {key: self._reason(key) for key, value in self._last.values.items() if value is None}
        return reasons if self._last.cores else {"cpu.percent": self._reason("cpu.percent"), **reasons}

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._pressure.close()

    def _read(self, name: str) -> str:
        return self._files[name].read()

    def _read_disks(self) -> dict[str, Counters]:
        """Whole disks, also stacked ones."""
        devices = parse_diskstats(self._read("diskstats"))
        if devices.keys() != self._disk_names:
            self._disk_names = frozenset(devices)
            self._disks, self._physical_disks = physical_disks(devices, self._sys)
        return {name: counters for name, counters in devices.items() if name in self._disks}

    def _read_interfaces(self) -> dict[str, Counters]:
        interfaces = parse_net_dev(self._read("net/dev"))
        if interfaces.keys() != self._interface_names:
            self._interface_names = frozenset(interfaces)
            self._physical_interfaces = physical_interfaces(interfaces, self._sys)
        return interfaces

    def _read_slow(self, now: float) -> Counters:
        if now >= self._slow_due:
            self._slow_due = now + self._slow_seconds
            used, total, self._space_problem = read_space(self._disk_path)
            self._slow = {"disk.used": used, "disk.total": total, "temp": self._thermometer.read()}
        return self._slow

    def _reason(self, key: str) -> str:
        if key in self._pressure.missing:
            return self._pressure.missing[key]
        if key == "temp":
            return self._thermometer.problem or "not read yet"
        if key in ("disk.used", "disk.total"):
            return self._space_problem or "not read yet"
        sources = {"cpu": "stat", "load": "loadavg", "disk": "diskstats", "net": "net/dev"}
        file = self._files[sources.get(key.partition(".")[0], "meminfo")]
        return file.problem or f"{file.path}: does not tell"


def read_space(path: str) -> tuple[int | None, int | None, str | None]:
    """Bytes used and in all of the file system a path is on, as df counts them, or why they are not known."""
    try:
        space = os.statvfs(path)
    except OSError as error:
        return None, None, f"{path}: {os.strerror(error.errno or 0)}"
    return (space.f_blocks - space.f_bfree) * space.f_frsize, space.f_blocks * space.f_frsize, None


def open_host(disk_path: str = "/", proc: str = "/proc", sys: str = "/sys") -> HostReader:
    """The collector for this machine: its own files where it has /proc, else psutil."""
    if os.path.exists(f"{proc}/stat"):
        return HostCollector(proc, sys, disk_path)
    from jobtop.core.measure.collectors.host.portable import PortableHostCollector

    return PortableHostCollector(disk_path)


def _device_rates(before: Mapping[str, Counters], after: Mapping[str, Counters], seconds: float) -> dict[str, Counters]:
    return {name: rates(before[name], counters, seconds) for name, counters in after.items() if name in before}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _rounded_all(values: Mapping[str, float | None]) -> dict[str, float | None]:
    return {key: _rounded(value) for key, value in values.items()}


def _sum(numbers: Iterable[float | None]) -> float | None:
    """The sum of what there is; absent if there is nothing, or if a part of it is not known."""
    known = list(numbers)
    return None if not known or None in known else sum(number for number in known if number is not None)
