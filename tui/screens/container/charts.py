"""The charts of a container: what the monitor saw since the page was opened. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobtop.core.metrics import find_metric
from jobtop.core.record import record
from jobtop.core.units import format_bytes
from jobtop.tui.chart.plotting import Axis, ChartSeries, ChartView, Side
from jobtop.tui.chart.window import TimeWindow

if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.snapshot import ContainerRow
    from jobtop.tui.data.containers.feed import Track

LEAST_TRAFFIC = 8192.0  # bytes a second: less traffic is drawn near the bottom instead of magnified
WAITING = "no readings yet"


@record
class ContainerChart:
    """One chart: its title, and its curves with their labels."""

    name: str
    title: str
    curves: tuple[tuple[str, str, Side], ...]


CPU = ("cpu.percent", "CPU", Side.LEFT)
BOTH = ContainerChart("cpu", "", (CPU, ("mem.used", "memory", Side.RIGHT)))
NETWORK = ContainerChart(
    "net", "network", (("net.rx_bytes", "received", Side.LEFT), ("net.tx_bytes", "sent", Side.LEFT))
)
CHARTS = (
    ContainerChart("cpu", "", (CPU,)),
    ContainerChart("memory", "", (("mem.used", "memory", Side.LEFT),)),
    NETWORK,
    ContainerChart("io", "I/O", (("io.read_bytes", "read", Side.LEFT), ("io.write_bytes", "written", Side.LEFT))),
    ContainerChart("gpu", "GPU", (("gpu.util", "busy", Side.LEFT),)),
)


def container_chart(chart: ContainerChart, row: ContainerRow, track: Track, window: TimeWindow) -> ChartView:
    """A chart of the container; an empty one says why it is empty."""
    series: list[ChartSeries] = []
    for key, label, side in chart.curves:
        times, values = track.curve(key)
        begin = times[0] if times else 0.0
        moments = [at - begin for at in times]
        series.append(ChartSeries(label, find_metric(key), moments, values, side, is_filled=not series))
    left, right = (axis_of(chart, row, side) for side in Side)
    is_alive = row.container.is_alive
    return ChartView(
        title=chart.title,
        series=series,
        left=left,
        right=right,
        is_live=is_alive,
        note=" · ".join(filter(None, ("" if window.span is None else window.words, note_of(chart, row)))),
        empty=row.reason(chart.curves[0][0]) or WAITING,
    )


def axis_of(chart: ContainerChart, row: ContainerRow, side: Side) -> Axis:
    """The scale of one side, with the limit that the engine enforces."""
    keys = {key for key, _, place in chart.curves if place is side}
    limits = row.container.limits
    if "cpu.percent" in keys:
        return Axis(limit=100 * limits.cpus if limits.cpus else None, least=10.0)
    if "mem.used" in keys:
        return Axis(limit=limits.memory_bytes)
    if "gpu.util" in keys:
        return Axis(top=100.0)
    return Axis(least=LEAST_TRAFFIC)


def note_of(chart: ContainerChart, row: ContainerRow) -> str:
    """The totals of the container, and where its numbers come from."""
    values = row.values

    def total(key: str) -> str | None:
        return format_bytes(values[key]) if key in values else None

    if chart.name == "cpu" and row.source is not None:
        return f"from its {row.source}"
    if chart.name == "memory" and row.memory_peak_bytes is not None:
        return f"peak {format_bytes(row.memory_peak_bytes)} with page cache"
    if chart.name == "net" and (received := total("net.rx_bytes")) and (sent := total("net.tx_bytes")):
        return f"{received} received, {sent} sent"
    if chart.name == "io" and (read := total("io.read_bytes")) and (written := total("io.write_bytes")):
        return f"{read} read, {written} written"
    return ""
