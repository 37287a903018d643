"""Checks what is read slowly of the host's devices, a finding each: space of disks, NUMA nodes, sensors, batteries."""

from __future__ import annotations

from jobtop.core.doctor.checks import Finding, MachineFiles, State
from jobtop.core.doctor.sources import name_list
from jobtop.core.measure.collectors.host.slow_source import LinuxReader, open_reader
from jobtop.core.metrics import Scope
from jobtop.core.units import number_of, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from jobtop.core.measure.collectors.host.slow_source import SlowReader

HIDDEN_SYSFS = "a container may hide it: docker run -v /sys:/sys:ro …"


def device_findings(machine: MachineFiles, reader: SlowReader | None = None) -> list[Finding]:
    """Check what can be read of slow devices, with the reader that does it."""
    if reader is None:
        proc, sys = machine.path("proc"), machine.path("sys")
        reader = LinuxReader(proc, sys) if machine.platform == "linux" else open_reader(proc, sys)
    devices, found = reader.devices(), [disk_space(reader)]
    nodes, sensors, batteries = (devices.get(kind, {}) for kind in (Scope.NUMA, Scope.SENSOR, Scope.BATTERY))
    if nodes:
        found.append(Finding("NUMA nodes", State.WORKS, f"{number_of(len(nodes), 'node')}: memory and misses of each"))
    elif machine.has("sys/devices/system"):
        found.append(Finding("NUMA nodes", State.ABSENT, "not reported", "use a kernel with CONFIG_NUMA"))
    else:
        found.append(Finding("NUMA nodes", State.ABSENT, f"/sys/devices/system/node is missing; {HIDDEN_SYSFS}"))
    found.append(_named("sensors", sensors, "no temperature or fan in /sys/class/hwmon and /sys/class/thermal"))
    found.append(_named("batteries", batteries, "this machine has none"))
    return found


def disk_space(reader: SlowReader) -> Finding:
    """Check of which disks the space is known."""
    space = reader.space()
    if space:
        return Finding("space by disk", State.WORKS, name_list([printable(name) for name in space]))
    return Finding("space by disk", State.ABSENT, "no mounted file system is on a disk that this process can see")


def _named(name: str, devices: Collection[str], without: str) -> Finding:
    if not devices:
        return Finding(name, State.ABSENT, without)
    return Finding(name, State.WORKS, name_list([printable(device) for device in devices]))
