"""The last minute of the machine as a chart: its GPUs if it has any, else its network."""

from __future__ import annotations

from collections.abc import Sequence

from jobtop.core.measure.live.newest_gpus import gpu_number
from jobtop.core.metrics import find_metric
from jobtop.tui.chart.plotting import Axis, ChartSeries, ChartView, Side
from jobtop.tui.data.view import MachineMoment, Number

BUSY, GPU_MEMORY = find_metric("gpu.util"), find_metric("gpu.mem_used")
RECEIVED, SENT = find_metric("net.rx_bytes"), find_metric("net.tx_bytes")
MOST_CURVES = 4
LEAST_TRAFFIC = 8192.0  # bytes a second: less traffic is drawn near the bottom instead of magnified
UNKNOWN = "No GPU and no network found"


def machine_chart(past: Sequence[MachineMoment]) -> ChartView:
    """The chart of the GPUs, told apart by marker and legend; or of the network."""
    if not past:
        return ChartView(empty="")
    names = sorted({name for moment in past for name in moment.gpus}, key=lambda name: (len(name), name))
    times = [moment.at - past[0].at for moment in past]
    if len(names) == 1:
        return one_gpu(past, names[0], times)
    return gpus(past, names, times) if names else network(past, times)


def network(past: Sequence[MachineMoment], times: Sequence[float]) -> ChartView:
    received, sent = [moment.received for moment in past], [moment.sent for moment in past]
    series = (ChartSeries("in", RECEIVED, times, received, is_filled=True), ChartSeries("out", SENT, times, sent))
    return ChartView("network", series, Axis(least=LEAST_TRAFFIC), is_live=True, note="60s", empty=UNKNOWN)


def one_gpu(past: Sequence[MachineMoment], name: str, times: Sequence[float]) -> ChartView:
    """The load and the memory of a GPU."""
    busy, memory, totals = zip(*(moment.gpus.get(name, (None, None, None)) for moment in past), strict=True)
    series = [ChartSeries("busy", BUSY, times, busy, is_filled=True)]
    if any(held is not None for held in memory):
        series.append(ChartSeries("mem", GPU_MEMORY, times, memory, Side.RIGHT))
    return ChartView("GPU", series, Axis(top=100.0), Axis(least=totals[-1] or 0.0), is_live=True, note="60s")


def gpus(past: Sequence[MachineMoment], names: Sequence[str], times: Sequence[float]) -> ChartView:
    """A curve for each of a few GPUs; for more, the busiest, the mean and the idlest at every moment."""
    busy = {name: [moment.gpus.get(name, (None,))[0] for moment in past] for name in names}
    if len(names) > MOST_CURVES:
        together = [known(each) for each in zip(*busy.values(), strict=True)]
        busy = {
            "most": [max(each, default=None) for each in together],
            "mean": [sum(each) / len(each) if each else None for each in together],
            "least": [min(each, default=None) for each in together],
        }
        title = f"{len(names)} GPUs"
    else:
        numbers = {name: gpu_number(name) for name in busy}
        busy = {f"gpu{numbers[name]}" if numbers[name][0].isdigit() else numbers[name]: busy[name] for name in busy}
        title = ""
    series = [ChartSeries(label, BUSY, times, values) for label, values in busy.items()]
    return ChartView(title, series, Axis(top=100.0), is_live=True, note="busy · 60s")


def known(values: Sequence[Number | None]) -> list[Number]:
    return [value for value in values if value is not None]
