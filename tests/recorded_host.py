"""The store of this host with samples of the host and of devices, as tests make them."""

import time
from collections.abc import Mapping
from pathlib import Path

from jobtop.core.measure.device import Device
from jobtop.core.paths import StatePaths
from jobtop.core.procfs import boot_id
from jobtop.store.database import open_to_write
from jobtop.store.leases import now_since_boot
from jobtop.store.samples.devices import DeviceRecord
from jobtop.store.samples.hosts import HostRecord
from records import HERE, this_process

GIB = 1 << 30
Values = Mapping[str, float | None]


def host_values(number: int) -> dict[str, float | None]:
    """Values of a machine that uses half a core, and reads 1 MiB and receives 1 kB a second."""
    return {
        "cpu.percent": 50.0,
        "load.1": 0.5,
        "mem.total": 16 * GIB,
        "mem.used": 4 * GIB,
        "disk.read_bytes": number << 20,
        "disk.write_bytes": 0,
        "net.rx_bytes": number * 1000,
        "net.tx_bytes": 0,
        "temp": 40.0,
    }


def device_values(number: int) -> dict[Device, dict[str, float | None]]:
    """Values of devices; the disk needs 2 ms for each of its ten reads a second."""
    return {
        Device("core", "0"): {"cpu.percent": 25.0, "cpu.iowait": number * 0.1, "cpu.steal": 0.0},
        Device("core", "10"): {"cpu.percent": 5.0, "cpu.iowait": 0.0, "cpu.steal": 0.0},
        Device("core", "2"): {"cpu.percent": 75.0, "cpu.iowait": 0.0, "cpu.steal": number * 0.05},
        Device("disk", "sda"): {
            "disk.read_bytes": number << 20,
            "disk.write_bytes": 0,
            "disk.read_ops": number * 10,
            "disk.write_ops": 0,
            "disk.read_time": number * 0.02,
            "disk.write_time": 0.0,
            "disk.busy": number * 0.02,
            "disk.used": 30 * GIB,
            "disk.total": 100 * GIB,
        },
        Device("interface", "eth0"): {"net.rx_bytes": number * 1000, "net.tx_bytes": 0, "net.errors": 0},
        Device("numa", "0"): {"mem.total": 16 * GIB, "mem.used": 4 * GIB, "mem.cached": GIB, "numa.misses": number},
        Device("sensor", "coretemp Package id 0"): {"temp": 61.5},
        Device("sensor", "nct6775 fan1"): {"fan.speed": 1180},
        Device("battery", "BAT0"): {"battery.charge": 81.0, "battery.power": -12.5},
    }


def record_host(root: Path, count: int = 5, seconds_ago: float = 60.0, sealed: bool = False) -> float:
    """Record samples a second apart, the first one so long ago; return the time of the first one."""
    database = open_to_write(StatePaths(root, HERE))
    try:
        host, devices = HostRecord(database), DeviceRecord(database)
        begin = now_since_boot() - seconds_ago
        assert host.lease(this_process())
        host.append([(begin + number, host_values(number)) for number in range(count)])
        for number in range(count):
            devices.append([(device, begin + number, values) for device, values in device_values(number).items()])
        if sealed:
            for device in devices.devices(boot_id()):
                devices.store.seal(device.seq)
        host.release(this_process())
    finally:
        database.close()
    return time.time() - seconds_ago
