"""The chart of a run: CPU and memory of all its jobs together. Pure."""

from __future__ import annotations

from jobtop.core.metrics import find_metric
from jobtop.core.units import format_bytes
from jobtop.tui.chart.plotting import ChartSeries, ChartView, Side
from jobtop.tui.data.workflow_reading import RunView

EMPTY = "no samples yet"
EMPTY_AFTER_END = "no samples: its jobs were too short, or are not monitored"


def usage_chart(view: RunView) -> ChartView:
    """CPU at the left, memory at the right; the time axis starts with the first job."""
    curves = view.curves
    series = [
        ChartSeries("CPU", find_metric("cpu.percent"), curves.times, curves.cpu, Side.LEFT, True),
        ChartSeries("memory", find_metric("mem.used"), curves.times, curves.memory, Side.RIGHT),
    ]
    peak = f"peak {max(curves.cpu):.0f} % · {format_bytes(max(curves.memory))}" if curves.times else ""
    return ChartView(
        series=series if curves.times else [],
        is_live=not view.is_over,
        note=peak,
        empty=EMPTY_AFTER_END if view.is_over else EMPTY,
    )
