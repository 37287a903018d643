"""Draws the stored samples of the host and its devices: `jobtop plot --host`."""

import time
from collections.abc import Sequence
from datetime import datetime

from jobtop.cli.app import App
from jobtop.cli.machine import Chosen, choose, scopes_of, start_of, warn_if_empty
from jobtop.core.clock import local
from jobtop.core.errors import UsageError
from jobtop.core.metrics import Metric, Scope, find_metric
from jobtop.core.record import record
from jobtop.core.series.drawing import Curve, make_curve
from jobtop.core.series.machine_readings import LATENCY, LATENCY_PARTS, latency, machine_metrics
from jobtop.core.units import format_duration, printable

MOST_DRAWN = 10  # devices
DRAWN: dict[Scope, tuple[str, ...]] = {
    Scope.HOST: ("cpu.percent", "mem.used"),
    Scope.GPU: ("gpu.util", "gpu.mem_used"),
    Scope.CORE: ("cpu.percent",),
    Scope.DISK: ("disk.read_bytes", "disk.write_bytes", "disk.busy", LATENCY.key),
    Scope.INTERFACE: ("net.rx_bytes", "net.tx_bytes"),
    Scope.NUMA: ("mem.used",),
    Scope.SENSOR: ("temp", "fan.speed"),
    Scope.BATTERY: ("battery.charge", "battery.power"),
    Scope.PACKAGE: ("energy.cpu",),
}


@record
class Drawing:
    """The curves of the host or of one device, from `start` on, over `end` seconds."""

    title: str
    subtitle: str
    curves: list[Curve]
    end: float


def drawings(app: App, words: tuple[str, ...], keys: tuple[str, ...], since: float | datetime | None) -> list[Drawing]:
    """Return what to draw of the host or of the chosen devices since a time; counters as rates."""
    chosen = choose(app, words)
    given = machine_metrics(scopes_of(chosen), [key for key in keys if key != LATENCY.key])
    start, now = start_of(app, since), time.time()
    if start > now:
        raise UsageError(f"there is nothing to draw: --since {local(start)} is in the future")
    if len(chosen) > MOST_DRAWN:
        app.warn(f"the first {MOST_DRAWN} of {len(chosen)} devices are drawn (--device chooses others)")
    found = [_drawing(item, given, keys, start, now) for item in chosen[:MOST_DRAWN]]
    if not any(curve.known() for drawing in found for curve in drawing.curves):
        warn_if_empty(app, chosen, start)
    return [drawing for drawing in found if drawing.curves]


def _drawing(chosen: Chosen, given: Sequence[Metric], keys: Sequence[str], start: float, now: float) -> Drawing:
    scope = chosen.owner.scope
    metrics = [metric for metric in given if scope in metric.scopes]
    if LATENCY.key in keys and scope is Scope.DISK:
        metrics.append(LATENCY)
    if not keys and scope is not None:
        metrics = [LATENCY if key == LATENCY.key else find_metric(key) for key in DRAWN[scope]]
    curves = machine_curves(chosen, metrics, start, now)
    if not keys:  # a sensor has a temperature or a speed, never both
        curves = [curve for curve in curves if curve.known()] or curves[:1]
    device = chosen.owner.device
    title = chosen.owner.host if device is None else f"{chosen.owner.host}  {device.kind} {device.name}"
    subtitle = f"the last {format_duration(now - start)}, from {local(start)}"
    return Drawing(printable(title), subtitle, curves, now - start)


def machine_curves(chosen: Chosen, metrics: Sequence[Metric], start: float, now: float) -> list[Curve]:
    """Return the curves of these metrics in seconds since `start`."""
    keys = [metric.key for metric in metrics if metric is not LATENCY]
    wanted = list(dict.fromkeys((*keys, *(LATENCY_PARTS if LATENCY in metrics else ()))))
    series = chosen.machine.series(chosen.owner, wanted, start, now)
    times = [moment - start for moment in series.times]
    curves = {key: make_curve(find_metric(key), times, series.values[key]) for key in wanted}
    if LATENCY in metrics:
        rows = zip(*(curves[key].values for key in LATENCY_PARTS), strict=True)
        values = [latency(dict(zip(LATENCY_PARTS, row, strict=True))) for row in rows]
        curves[LATENCY.key] = Curve(LATENCY, times, list(values))
    return [curves[metric.key] for metric in metrics]
