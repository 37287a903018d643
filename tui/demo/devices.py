"""The devices of the simulated machine beside GPUs, as they are recorded: rates of the view are counters here."""

from __future__ import annotations

from collections.abc import Mapping
from math import sin

from jobtop.core.measure.device import Device
from jobtop.tui.data.view import MachineView
from jobtop.tui.demo.demo_job import GIB

Number = float | int
Values = dict[str, Number | None]
OPERATION_BYTES = 96 * 1024
SENSORS = {"k10temp Tctl": 0.0, "k10temp Tccd1": -4.0, "nvme0 Composite": -18.0}
FANS = {"nct6775 CPU fan": 1150.0, "nct6775 Rear fan": 720.0}
NODES = 2


class DemoDevices:
    """The counters of the devices since the start."""

    def __init__(self) -> None:
        self._counters: dict[tuple[Device, str], float] = {}
        self._at: float | None = None

    def readings(self, machine: MachineView) -> dict[Device, Values]:
        """The devices of a view; counters grow by the time since the last view."""
        seconds = 1.0 if self._at is None else machine.at - self._at
        self._at = machine.at
        found: dict[Device, Values] = {}
        for core, (percent, iowait, steal) in machine.detail["cores"].items():
            device = Device("core", core)
            waits = self._grown(device, "cpu.iowait", seconds * iowait / 100)
            stolen = self._grown(device, "cpu.steal", seconds * steal / 100)
            found[device] = {"cpu.percent": percent, "cpu.iowait": waits, "cpu.steal": stolen}
        for name, rates in machine.detail["disks"].items():
            found[Device("disk", name)] = self._disk(Device("disk", name), rates, machine.values, seconds)
        for name, rates in machine.detail["interfaces"].items():
            device = Device("interface", name)
            found[device] = {key: int(self._grown(device, key, seconds * rate)) for key, rate in rates.items()}
            found[device] |= {"net.errors": 0, "net.drops": 0}
        return found | self._slow(machine, seconds)

    def _disk(self, device: Device, rates: Values, values: Mapping[str, Number | None], seconds: float) -> Values:
        known = {key: rate or 0.0 for key, rate in rates.items()}
        found: Values = {key: self._grown(device, key, seconds * rate) for key, rate in known.items()}
        each = 0.0004 + 0.004 * known["disk.busy"] ** 2
        for what in ("read", "write"):
            operations = known[f"disk.{what}_bytes"] / OPERATION_BYTES
            found[f"disk.{what}_bytes"] = int(found[f"disk.{what}_bytes"] or 0)
            found[f"disk.{what}_ops"] = round(self._grown(device, f"{what} operations", seconds * operations))
            found[f"disk.{what}_time"] = self._grown(device, f"{what} time", seconds * operations * each)
        return found | {key: values[key] for key in ("disk.used", "disk.total")}

    def _slow(self, machine: MachineView, seconds: float) -> dict[Device, Values]:
        """NUMA nodes, sensors and fans."""
        used, total = machine.values["mem.used"] or 0, machine.values["mem.total"] or 0
        heat = machine.values["temp"] or 0.0
        found: dict[Device, Values] = {}
        for node in range(NODES):
            device = Device("numa", str(node))
            share = 0.5 + (0.07 if node else -0.07)
            misses = round(self._grown(device, "numa.misses", seconds * (40 if node else 15)))
            memory: Values = {"mem.total": total // NODES, "mem.used": int(used * share), "mem.cached": 4 * GIB}
            found[device] = memory | {"numa.misses": misses}
        for name, above in SENSORS.items():
            found[Device("sensor", name)] = {"temp": round(heat + above + sin(machine.at / 37 + above), 1)}
        for name, speed in FANS.items():
            found[Device("sensor", name)] = {"fan.speed": round(speed * (1 + heat / 400) + 12 * sin(machine.at / 19))}
        return found

    def _grown(self, device: Device, key: str, by: float) -> float:
        self._counters[device, key] = grown = self._counters.get((device, key), 0.0) + by
        return grown
