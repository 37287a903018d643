"""Sensors, batteries, NUMA nodes and the space of disks of this machine, read while the Host screen is open."""

from __future__ import annotations

import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.derive import rate
from jobtop.core.measure.device import Device
from jobtop.core.measure.source_runs import SlowRun
from jobtop.core.measure.sources import Options, collector
from jobtop.core.metrics import BY_KEY, Kind
from jobtop.tui.data.view import Number

Values = dict[str, Number | None]


class SlowDevices:
    """Polls the source of slow devices, which has a thread of its own; counters become rates."""

    def __init__(self) -> None:
        self._source = collector("host.slow_source")(Options())
        self._run = SlowRun(self._source)
        self._run.set_jobs({})
        self._before: dict[tuple[Device, str], tuple[float, Number | None]] = {}

    def poll(self) -> tuple[float, list[tuple[Device, Values]]] | None:
        """What was read since the last call, and when, in seconds since the epoch; None if nothing."""
        news = self._run.poll({})
        if news is None:
            return None
        ago = 0.0 if news.boottime is None else time.clock_gettime(BOOTTIME) - news.boottime
        at = time.time() - ago
        return at, [(device, self._shown(device, at, dict(values))) for device, values in news.readings.devices]

    @property
    def space(self) -> dict[str, tuple[int, int]]:
        """Bytes used and in all by disk, as read last."""
        from jobtop.core.measure.collectors.host.slow_source import SlowHostSource

        return self._source.space() if isinstance(self._source, SlowHostSource) else {}

    def close(self) -> None:
        self._run.close()

    def _shown(self, device: Device, at: float, values: Values) -> Values:
        for key, value in values.items():
            if BY_KEY[key].kind is Kind.COUNTER:
                before, self._before[device, key] = self._before.get((device, key), (at, None)), (at, value)
                values[key] = rate(before[1], value, at - before[0])
        return values
