"""What the Host screen shows of each kind of device: which small charts, on which scales. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from jobtop.core.measure.live.newest_gpus import gpu_number
from jobtop.core.metrics import Scope, find_metric
from jobtop.core.record import record
from jobtop.core.series.drawing import Curve
from jobtop.core.series.machine_readings import LATENCY
from jobtop.tui.data.host_reading import DeviceCurves, HostHistory
from jobtop.tui.widgets.cells import short_bytes
from jobtop.tui.widgets.multiples import CoreLoad, Stroke, Tile, short_value

LEAST_TRAFFIC = 64 * 1024.0  # bytes a second: less is drawn near the bottom instead of magnified
LEAST_LATENCY = 0.001
LEAST_STALL = 0.1
PERCENT = find_metric("cpu.percent")


@record
class Section:
    """A heading and the charts below it, or the cores; `group` charts belong together."""

    title: str
    tiles: Sequence[Tile] = ()
    cores: Sequence[CoreLoad] = ()
    group: int = 1
    note: str = ""


def sections(history: HostHistory, at: float | None) -> list[Section]:
    """All sections that have something to show; with `at`, the values are those of that moment."""
    cores = history.of(Scope.CORE)
    nodes = history.of(Scope.NUMA)
    found = [
        Section("Host", [tile for host in history.of(Scope.HOST) for tile in host_tiles(host, len(cores), at)]),
        Section("Cores", cores=[core_of(core, at) for core in cores], note="━ busy  ╍ waits for I/O  ┄ stolen"),
        Section("Disks", [tile for disk in history.of(Scope.DISK) for tile in disk_tiles(disk, at)], group=4),
        Section("Interfaces", [t for part in history.of(Scope.INTERFACE) for t in interface_tiles(part, at)], group=2),
        Section("GPUs", [tile for gpu in history.of(Scope.GPU) for tile in gpu_tiles(gpu, at)], group=4),
        # The only node has the memory of the host.
        Section("NUMA nodes", [t for node in nodes for t in node_tiles(node, at)] if len(nodes) > 1 else [], group=2),
        Section("Temperatures and fans", [t for part in history.of(Scope.SENSOR) for t in sensor_tiles(part, at)]),
        Section("Power", [*battery_tiles(history, at), *package_tiles(history, at)]),
    ]
    return [section for section in found if section.tiles or section.cores]


def host_tiles(host: DeviceCurves, cores: int, at: float | None) -> list[Tile]:
    """The machine as a whole; CPU in percent of all cores."""
    share = 1 / cores if cores else 1.0
    tiles = [
        Tile(
            "CPU",
            [
                scaled_stroke(host, "cpu.percent", "use", share, at),
                scaled_stroke(host, "cpu.iowait", "wait", 100 * share, at),
                scaled_stroke(host, "cpu.steal", "steal", 100 * share, at),
            ],
            top=100.0 if cores else None,
        ),
        used_of_total("memory", host, "mem.used", "mem.total", at),
    ]
    if host.value("swap.total"):
        tiles.append(used_of_total("swap", host, "swap.used", "swap.total", at))
    if host.has("cpu.pressure", "mem.pressure", "io.pressure"):
        stalls = [stroke(host, f"{what}.pressure", what, at) for what in ("cpu", "mem", "io")]
        tiles.append(Tile("stalled", stalls, least=LEAST_STALL))
    tiles.append(Tile("load", [stroke(host, "load.1", "", at)], least=float(cores or 1)))
    if host.has("temp"):
        tiles.append(Tile("temperature", [stroke(host, "temp", "", at)], least=100.0))
    if host.has("energy.cpu"):
        tiles.append(Tile("power of the CPU", [stroke(host, "energy.cpu", "", at)], least=10.0))
    return tiles


def core_of(core: DeviceCurves, at: float | None) -> CoreLoad:
    assert core.device is not None
    busy, iowait, steal = (core.value(key, at) for key in ("cpu.percent", "cpu.iowait", "cpu.steal"))
    waits, stolen = (None if value is None else 100 * value for value in (iowait, steal))
    return CoreLoad(core.device.name, core.curves.get("cpu.percent"), busy, waits, stolen)


def disk_tiles(disk: DeviceCurves, at: float | None) -> list[Tile]:
    name = name_of(disk)
    traffic = [stroke(disk, "disk.read_bytes", "r", at), stroke(disk, "disk.write_bytes", "w", at)]
    return [
        Tile(name, traffic, least=LEAST_TRAFFIC),
        Tile(f"{name} busy", [stroke(disk, "disk.busy", "", at)], top=1.0),
        Tile(f"{name} latency", [stroke(disk, LATENCY.key, "", at)], least=LEAST_LATENCY),
        used_of_total(f"{name} space", disk, "disk.used", "disk.total", at),
    ]


def interface_tiles(interface: DeviceCurves, at: float | None) -> list[Tile]:
    name = name_of(interface)
    traffic = [stroke(interface, "net.rx_bytes", "↓", at), stroke(interface, "net.tx_bytes", "↑", at)]
    losses = [stroke(interface, "net.errors", "errors", at), stroke(interface, "net.drops", "drops", at)]
    return [Tile(name, traffic, least=LEAST_TRAFFIC), Tile(name, losses, least=1.0)]


def gpu_tiles(gpu: DeviceCurves, at: float | None) -> list[Tile]:
    name = f"GPU {gpu_number(name_of(gpu))}"
    return [
        Tile(name, [stroke(gpu, "gpu.util", "", at)], top=100.0),
        used_of_total(f"{name} memory", gpu, "gpu.mem_used", "gpu.mem_total", at),
        Tile(f"{name} temp", [stroke(gpu, "gpu.temp", "", at)], least=100.0),
        Tile(f"{name} power", [stroke(gpu, "gpu.power", "", at)], least=100.0),
    ]


def node_tiles(node: DeviceCurves, at: float | None) -> list[Tile]:
    name = f"node {name_of(node)}"
    return [
        used_of_total(name, node, "mem.used", "mem.total", at),
        Tile(f"{name} misses", [stroke(node, "numa.misses", "", at)], least=1.0),
    ]


def sensor_tiles(sensor: DeviceCurves, at: float | None) -> list[Tile]:
    key, least = ("temp", 100.0) if sensor.has("temp") else ("fan.speed", 1000.0)
    return [Tile(name_of(sensor), [stroke(sensor, key, "", at)], least=least)]


def battery_tiles(history: HostHistory, at: float | None) -> list[Tile]:
    """The charge of each battery, and the power that it supplies, or takes."""
    tiles = []
    for battery in history.of(Scope.BATTERY):
        power = battery.value("battery.power", at)
        note = "" if power is None else short_value(find_metric("battery.power"), power)
        tiles.append(Tile(name_of(battery), [stroke(battery, "battery.charge", "", at)], top=100.0, note=note))
    return tiles


def package_tiles(history: HostHistory, at: float | None) -> list[Tile]:
    packages = history.of(Scope.PACKAGE)
    return [Tile(name_of(part), [stroke(part, "energy.cpu", "", at)], least=10.0) for part in packages]


def used_of_total(title: str, part: DeviceCurves, used: str, total: str, at: float | None) -> Tile:
    """What is used of something, on a scale up to all of it."""
    whole = part.value(total, at) or next((v for v in reversed(known_of(part, total)) if v), None)
    note = f"of {short_bytes(whole)}" if whole else ""
    return Tile(title, [stroke(part, used, "", at)], top=float(whole) if whole else None, least=1.0, note=note)


def known_of(part: DeviceCurves, key: str) -> list[float | int]:
    curve = part.curves.get(key)
    return [] if curve is None else curve.known()


def stroke(part: DeviceCurves, key: str, label: str, at: float | None) -> Stroke:
    metric = LATENCY if key == LATENCY.key else find_metric(key)
    return Stroke(label, part.curves.get(key) or Curve(metric, [], []), part.value(key, at))


def scaled_stroke(part: DeviceCurves, key: str, label: str, factor: float, at: float | None) -> Stroke:
    """A curve in percent, multiplied by a factor."""
    curve = part.curves.get(key)
    if curve is None:
        return Stroke(label, Curve(PERCENT, [], []), None)
    values = [None if value is None else value * factor for value in curve.values]
    value = part.value(key, at)
    return Stroke(label, Curve(PERCENT, curve.times, values), None if value is None else value * factor)


def name_of(part: DeviceCurves) -> str:
    return "" if part.device is None else part.device.name
