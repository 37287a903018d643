"""The host and its devices over a part of the time, read from a store in the reader's thread; new samples are added."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from jobtop.core.measure.device import Device
from jobtop.core.metrics import Kind, Scope, find_metric
from jobtop.core.record import record
from jobtop.core.series.downsample import select_positions
from jobtop.core.series.drawing import Curve, make_curve
from jobtop.core.series.machine_readings import LATENCY, LATENCY_PARTS, latency
from jobtop.store.database import Database
from jobtop.store.samples.machine import MachineRecord, Owner, device_order
from jobtop.tui.data.view import MachineView, Number

READ: Mapping[Scope, tuple[str, ...]] = {
    Scope.HOST: (
        *("cpu.percent", "cpu.iowait", "cpu.steal", "mem.used", "mem.total", "mem.cached", "swap.used", "swap.total"),
        *("load.1", "cpu.pressure", "mem.pressure", "io.pressure", "temp", "energy.cpu"),
    ),
    Scope.CORE: ("cpu.percent", "cpu.iowait", "cpu.steal"),
    Scope.DISK: (
        *("disk.read_bytes", "disk.write_bytes", "disk.busy", "disk.used", "disk.total"),
        *LATENCY_PARTS,
    ),
    Scope.INTERFACE: ("net.rx_bytes", "net.tx_bytes", "net.errors", "net.drops"),
    Scope.GPU: ("gpu.util", "gpu.mem_used", "gpu.mem_total", "gpu.temp", "gpu.power"),
    Scope.NUMA: ("mem.used", "mem.total", "numa.misses"),
    Scope.SENSOR: ("temp", "fan.speed"),
    Scope.BATTERY: ("battery.charge", "battery.power"),
    Scope.PACKAGE: ("energy.cpu",),
}
LONGEST_SECONDS = 86400.0  # that are shown; `jobtop metrics --host --since` prints more
BEFORE_SECONDS = 15.0  # that are read before the window, so that its first rate is known
MOST_POINTS, MOST_CORE_POINTS = 600, 240  # of a curve: more than a chart, or the line of a core, has columns
DETAIL_KINDS = {"disks": Scope.DISK, "interfaces": Scope.INTERFACE, "gpus": Scope.GPU}


@record
class DeviceCurves:
    """The curves of the host (without a device) or of a device by key, over seconds since the epoch."""

    device: Device | None
    curves: Mapping[str, Curve]

    def value(self, key: str, at: float | None = None) -> Number | None:
        """The newest known value, or the value at a moment; None if the last sample does not have it."""
        curve = self.curves.get(key)
        if curve is None or not curve.times:
            return None
        if at is None:
            return curve.values[-1]
        return curve.values[min(len(curve.times) - 1, bisect_left(curve.times, at))]

    def has(self, *keys: str) -> bool:
        """Whether one of these is known at any time of the window."""
        return any(key in self.curves and any(v is not None for v in self.curves[key].values) for key in keys)


@record
class HostHistory:
    """The host and its devices in a part of the time; `known` is the time that has samples, up to now."""

    host: str
    known: tuple[float, float]
    devices: tuple[DeviceCurves, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not any(curve.times for device in self.devices for curve in device.curves.values())

    def of_host(self) -> DeviceCurves:
        """The host itself."""
        return next((part for part in self.devices if part.device is None), DeviceCurves(None, {}))

    def of(self, scope: Scope) -> list[DeviceCurves]:
        """The devices of a kind; for the host, itself."""
        kind = None if scope is Scope.HOST else scope.value
        return [part for part in self.devices if (None if part.device is None else part.device.kind) == kind]


class Columns:
    """The samples of one owner by key, oldest first: gauges as they are, counters as rates."""

    def __init__(self, scope: Scope) -> None:
        self.keys = READ[scope]
        self.cursor: int | None = None
        self.times: list[float] = []
        shown = [key for key in self.keys if key not in LATENCY_PARTS]
        self.values: dict[str, list[Number | None]] = {
            key: [] for key in (*shown, *([LATENCY.key] * (scope is Scope.DISK)))
        }
        # The load of a core is drawn, of the rest of its time only one value is shown.
        self._drawn = ("cpu.percent",) if scope is Scope.CORE else tuple(self.values)
        self._most_points = MOST_CORE_POINTS if scope is Scope.CORE else MOST_POINTS
        self._last: dict[str, tuple[float, Number | None]] = {}

    def add(self, times: Sequence[float], values: Mapping[str, Sequence[Number | None]]) -> None:
        """Add later samples, with counters as they are; those that are there already are passed over."""
        begin = bisect_left(times, self.times[-1] + 1e-4) if self.times else 0
        new = times[begin:]
        if not new:
            return
        shown = {key: self._shown(key, new, values[key][begin:]) for key in self.keys}
        if LATENCY.key in self.values:
            rows = zip(*(shown.pop(key) for key in LATENCY_PARTS), strict=True)
            shown[LATENCY.key] = [latency(dict(zip(LATENCY_PARTS, row, strict=True))) for row in rows]
        self.times += new
        for key, column in shown.items():
            self.values[key] += column

    def _shown(self, key: str, times: Sequence[float], column: Sequence[Number | None]) -> list[Number | None]:
        """A column as it is shown; the first rate is that since the last sample that was added before."""
        metric = find_metric(key)
        if metric.kind is Kind.GAUGE:
            return list(column)
        before = self._last.get(key)
        self._last[key] = times[-1], column[-1]
        if before is None:
            return make_curve(metric, list(times), list(column)).values
        return make_curve(metric, [before[0], *times], [before[1], *column]).values[1:]

    def drop_before(self, moment: float) -> None:
        count = bisect_left(self.times, moment)
        if count:
            del self.times[:count]
            for column in self.values.values():
                del column[:count]

    def curves(self, start: float, end: float) -> dict[str, Curve]:
        """The curves of a part of the time, thinned to what a screen can show; peaks are kept."""
        begin, last = max(0, bisect_left(self.times, start) - 1), bisect_left(self.times, end + 1e-4)
        times = self.times[begin:last]
        found = {}
        for key, column in self.values.items():
            curve = Curve(LATENCY if key == LATENCY.key else find_metric(key), times, column[begin:last])
            found[key] = thinned(curve, self._most_points) if key in self._drawn else curve
        return found


class HostReading:
    """Reads the window of one host of a store; called only in the reader's thread, one call at a time."""

    def __init__(self, host: str | None = None) -> None:
        self.host = host
        self._columns: dict[tuple[Device | None, int], Columns] = {}  # by device and number of its boots
        self._start: float | None = None
        self._machine: MachineRecord | None = None

    def read(self, database: Database, span: float | None, end: float | None, now: float) -> HostHistory:
        """The window that ends at a moment, or now; `span` is None for all of the last day."""
        last = now if end is None else end
        start = last - min(LONGEST_SECONDS, span or LONGEST_SECONDS)
        if self._machine is None or self._machine.database is not database:
            self._machine, self._columns = MachineRecord(database), {}
        if end is None and (self._start is None or start - BEFORE_SECONDS < self._start):
            self._columns = {}
        if end is None:
            self._start = start - BEFORE_SECONDS
        machine, host = self._machine, self.host or self._machine.host
        owners = [owner for owner in machine.owners() if owner.host == host and owner.scope in READ]
        devices = [
            DeviceCurves(owner.device, MappingProxyType(self._curves(machine, owner, (start, end), now)))
            for owner in owners
        ]
        known = tuple(part for part in devices if part.device is None or any(c.times for c in part.curves.values()))
        first = next((machine.oldest_at(owner) for owner in owners if owner.device is None), None)
        return HostHistory(host, (now if first is None else min(first, now), now), known)

    def hosts(self, database: Database) -> list[str]:
        """The hosts of a store: its own, and those that were merged into it."""
        return list(dict.fromkeys(owner.host for owner in MachineRecord(database).owners()))

    def _curves(
        self, machine: MachineRecord, owner: Owner, window: tuple[float, float | None], now: float
    ) -> dict[str, Curve]:
        """The curves of a window; of one that ends now, only what is new is read."""
        assert owner.scope is not None
        keys, (start, end) = READ[owner.scope], window
        if end is not None:
            columns = Columns(owner.scope)
            news = machine.series(owner, keys, start - BEFORE_SECONDS, end)
            columns.add(news.times, news.values)
            return columns.curves(start, end)
        if (owner.device, len(owner.parts)) not in self._columns:
            columns = self._columns[owner.device, len(owner.parts)] = Columns(owner.scope)
            columns.cursor = machine.last_id(owner)
            news = machine.series(owner, keys, start - BEFORE_SECONDS)
            columns.add(news.times, news.values)
        else:
            columns = self._columns[owner.device, len(owner.parts)]
            self._add_new(machine, owner, columns)
        columns.drop_before(start - BEFORE_SECONDS)
        return columns.curves(start, now)

    def _add_new(self, machine: MachineRecord, owner: Owner, columns: Columns) -> None:
        """Add what was stored since the last reading."""
        part = owner.parts[-1]
        news = machine.follow(owner, part, columns.cursor)
        columns.cursor = news.cursor
        times = [part.boot_time + sample.elapsed for sample in news.samples]
        places = {key: owner.keys.index(key) for key in columns.keys}
        columns.add(times, {key: [s.values[place] for s in news.samples] for key, place in places.items()})


def thinned(curve: Curve, most_points: int) -> Curve:
    """A curve of at most so many points, with its extremes."""
    if len(curve.times) <= most_points:
        return curve
    kept = select_positions(curve.times, [curve.values], most_points)
    return Curve(curve.metric, [curve.times[place] for place in kept], [curve.values[place] for place in kept])


class LiveHost:
    """What the console itself has read of its machine while the screen was open, if no process records the machine."""

    def __init__(self) -> None:
        self._columns: dict[Device | None, tuple[list[float], dict[str, list[Number | None]]]] = {}
        self._at = 0.0

    def see(self, machine: MachineView, space: Mapping[str, tuple[int, int]] = MappingProxyType({})) -> None:
        """Remember a reading, with the space of disks; its counters are rates already."""
        if machine.at <= self._at:
            return
        self._at = machine.at
        for device, values in machine_devices(machine):
            if device is not None and device.kind == Scope.DISK and device.name in space:
                values["disk.used"], values["disk.total"] = space[device.name]
            self.add(device, machine.at, values)

    def add(self, device: Device | None, at: float, values: Mapping[str, Number | None]) -> None:
        """Remember one reading of a device."""
        times, columns = self._columns.setdefault(device, ([], {}))
        for key, value in values.items():
            columns.setdefault(key, [None] * len(times)).append(value)
        times.append(at)
        for column in columns.values():
            column.extend([None] * (len(times) - len(column)))
        if times[0] < at - LONGEST_SECONDS:
            del times[0]
            for column in columns.values():
                del column[0]

    def joined(self, history: HostHistory, start: float, end: float) -> HostHistory:
        """The recorded history, with what was seen after its last sample."""
        recorded = {part.device: part for part in history.devices}
        parts = [self._joined(part, start, end) for part in history.devices]
        parts += [
            self._joined(DeviceCurves(device, {}), start, end) for device in self._columns if device not in recorded
        ]
        parts.sort(key=lambda part: device_order(part.device))
        known = tuple(part for part in parts if part.device is None or part.curves)
        seen = [times[0] for times, _ in self._columns.values() if times]
        return HostHistory(history.host, (min([*seen, history.known[0]]), history.known[1]), known)

    def _joined(self, part: DeviceCurves, start: float, end: float) -> DeviceCurves:
        if part.device not in self._columns:
            return part
        times, columns = self._columns[part.device]
        curves = dict(part.curves)
        for key, column in columns.items():
            before = curves.get(key)
            last = before.times[-1] if before is not None and before.times else start
            begin, stop = bisect_left(times, last + 1e-4), bisect_left(times, end + 1e-4)
            if begin < stop:
                metric = LATENCY if key == LATENCY.key else find_metric(key)
                old_times, old_values = (before.times, before.values) if before is not None else ([], [])
                curves[key] = Curve(metric, [*old_times, *times[begin:stop]], [*old_values, *column[begin:stop]])
        return DeviceCurves(part.device, curves)


def machine_devices(machine: MachineView) -> Iterator[tuple[Device | None, dict[str, Number | None]]]:
    """The host and its devices in a view, with the keys that the screen shows."""
    yield None, {key: machine.values.get(key) for key in READ[Scope.HOST] if machine.values.get(key) is not None}
    for core, loads in machine.detail.get("cores", {}).items():
        percent, iowait, steal = (*loads, None, None, None)[:3]
        shares = [None if value is None else value / 100 for value in (iowait, steal)]
        yield Device("core", core), {"cpu.percent": percent, "cpu.iowait": shares[0], "cpu.steal": shares[1]}
    for group, scope in DETAIL_KINDS.items():
        for name, values in machine.detail.get(group, {}).items():
            known = {key: values.get(key) for key in READ[scope] if key not in LATENCY_PARTS}
            found = {key: value for key, value in known.items() if value is not None}
            if scope is Scope.DISK and LATENCY_PARTS[0] in values:
                found[LATENCY.key] = latency(values)
            yield Device(scope.value, name), found
