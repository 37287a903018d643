"""The last minute of the machine as a chart: its GPUs if it has any, else what goes over its network."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from jobtop.core.metrics import find_metric
from jobtop.core.record import record
from jobtop.store.live import KEPT_SAMPLES
from jobtop.tui.plotting import Axis, ChartView, Series, Side
from jobtop.tui.view import Machine

Number = float | int
BUSY, GPU_MEMORY = find_metric("gpu.util"), find_metric("gpu.mem_used")
RECEIVED, SENT = find_metric("net.rx_bytes"), find_metric("net.tx_bytes")
MOST_CURVES = 4
LEAST_TRAFFIC = 8192.0  # bytes a second: less is silence, and not to be blown up
SAME_SECONDS = 0.2  # a picture no newer than that is the one before
UNKNOWN = "neither a GPU nor a network is known here"


@record
class Moment:
    """What the chart may show of the machine."""

    at: float
    received: Number | None
    sent: Number | None
    gpus: dict[str, tuple[Number | None, Number | None, Number | None]]  # busy, memory, of how much


def moment_of(machine: Machine) -> Moment:
    values = machine.values
    gpus = {
        name: (gpu.get("gpu.util"), gpu.get("gpu.mem_used"), gpu.get("gpu.mem_total"))
        for name, gpu in machine.detail.get("gpus", {}).items()
    }
    return Moment(machine.at, values.get("net.rx_bytes"), values.get("net.tx_bytes"), gpus)


class MachinePast:
    """What has been seen of the machine; a source that remembers more hands it over as `detail["past"]`."""

    def __init__(self) -> None:
        self.moments: deque[Moment] = deque(maxlen=KEPT_SAMPLES)

    def take(self, machine: Machine) -> bool:
        """Another picture of it; whether there is anything new."""
        last = before = self.moments[-1].at if self.moments else -float("inf")
        for seen in (*machine.detail.get("past", ()), machine):
            if seen.at > last + SAME_SECONDS:
                self.moments.append(moment_of(seen))
                last = seen.at
        return last > before

    def chart(self) -> ChartView:
        """The GPUs, which is which by marker and legend; or the network."""
        if not self.moments:
            return ChartView(empty="")
        names = sorted({name for moment in self.moments for name in moment.gpus}, key=lambda name: (len(name), name))
        times = [moment.at - self.moments[0].at for moment in self.moments]
        if len(names) == 1:
            return self._one_gpu(names[0], times)
        return self._gpus(names, times) if names else self._network(times)

    def _network(self, times: Sequence[float]) -> ChartView:
        received = [moment.received for moment in self.moments]
        sent = [moment.sent for moment in self.moments]
        series = (Series("in", RECEIVED, times, received, is_filled=True), Series("out", SENT, times, sent))
        return ChartView("network", series, Axis(least=LEAST_TRAFFIC), is_live=True, note="60 s", empty=UNKNOWN)

    def _one_gpu(self, name: str, times: Sequence[float]) -> ChartView:
        """What it does, and how full it is."""
        busy, memory, totals = zip(*(moment.gpus.get(name, (None, None, None)) for moment in self.moments), strict=True)
        series = [Series("busy", BUSY, times, busy, is_filled=True)]
        if any(held is not None for held in memory):
            series.append(Series("mem", GPU_MEMORY, times, memory, Side.RIGHT))
        return ChartView("GPU", series, Axis(top=100.0), Axis(least=totals[-1] or 0.0), is_live=True, note="60 s")

    def _gpus(self, names: Sequence[str], times: Sequence[float]) -> ChartView:
        """A curve for each of a few; of more, the busiest, the mean and the idlest at every moment."""
        busy = {name: [moment.gpus.get(name, (None,))[0] for moment in self.moments] for name in names}
        if len(names) > MOST_CURVES:
            together = [known(each) for each in zip(*busy.values(), strict=True)]
            busy = {
                "most": [max(each, default=None) for each in together],
                "mean": [sum(each) / len(each) if each else None for each in together],
                "least": [min(each, default=None) for each in together],
            }
            title = f"{len(names)} GPUs"
        else:
            busy = {f"gpu{name}": values for name, values in busy.items()}
            title = ""
        series = [Series(label, BUSY, times, values) for label, values in busy.items()]
        return ChartView(title, series, Axis(top=100.0), is_live=True, note="busy · 60 s")


def known(values: Sequence[Number | None]) -> list[Number]:
    return [value for value in values if value is not None]
