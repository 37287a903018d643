"""The machine around a tracked block: readings of host and GPUs, and their summary in the shape of Keystone's profile.

A reading is a plain dict that can be written as JSON; what is not known has no key. Of the host, gauges are as they
are and counters per second; `cpu.percent`, `cpu.iowait` and `cpu.steal` are in percent, and 100 is one core.
`host_counters` has the counters of traffic as they stand. `cores` has the percentage of each core.
"""

from __future__ import annotations

import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors.host.reading import host_frame, open_host
from jobtop.core.measure.live.newest_gpus import NewestGpus
from jobtop.core.measure.source_runs import FastRun
from jobtop.core.measure.sources import GPU_SOURCES, Options, open_runs
from jobtop.core.track.gpu_profile import GpuTally, vendor_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from jobtop.core.measure.collectors.host.reading import HostFrame, HostReader, HostSample

MIB = 1 << 20  # a megabyte of Keystone
TRAFFIC = ("net.rx_bytes", "net.tx_bytes", "net.rx_packets", "net.tx_packets")
COUNTED = (*TRAFFIC, "disk.read_bytes", "disk.write_bytes")
Number = int | float


class ProfileReader:
    """Opens the readers of the host and of GPUs that exist here; one that fails costs its own numbers alone.

    `without` leaves sources out, as the setting monitor.without does: `host`, `gpu`, `nvidia`, `intel` …
    """

    def __init__(self, without: Collection[str] = (), options: Options | None = None) -> None:
        options = options or Options(without=frozenset(without))
        self._host: HostReader | None = None
        if "host" not in options.without:
            self._host = open_host(options.disk_path, options.proc, options.sys)
        self._runs = open_runs(GPU_SOURCES, options)
        for run in self._runs:
            run.set_jobs({})
        self._gpus = NewestGpus()
        self._before: HostSample | None = None

    def read(self) -> dict[str, Any]:
        """What is known now; rates are since the call before, and the first call has none."""
        reading = self._read_host()
        if gpus := self._read_gpus():
            reading["gpus"] = gpus
        return reading

    def close(self) -> None:
        for run in self._runs:
            run.close()
        if self._host is not None:
            self._host.close()

    def _read_host(self) -> dict[str, Any]:
        before, sample = self._before, self._sample()
        self._before = sample or before
        if sample is None:
            return {}
        frame = host_frame(sample if before is None else before, sample)
        reading: dict[str, Any] = {"host": _host_values(frame)}
        counters = {key: value for key in COUNTED if (value := sample.values.get(key)) is not None}
        if counters:
            reading["host_counters"] = counters
        cores = [load.percent for _, load in sorted(frame.cores.items())]
        if any(percent is not None for percent in cores):
            reading["cores"] = cores
        return reading

    def _sample(self) -> HostSample | None:
        try:
            return None if self._host is None else self._host.collect()
        except Exception:  # noqa: BLE001 - a border: a reader's mistake costs its own numbers
            return None

    def _read_gpus(self) -> list[dict[str, Any]]:
        """The newest gauges of each GPU: their sources have threads and rhythms of their own."""
        now = time.clock_gettime(BOOTTIME)
        for run in self._runs:
            news = run.poll({})
            if news is not None:
                at = now if isinstance(run, FastRun) or news.boottime is None else news.boottime
                devices = [(device, at, values) for device, values in news.readings.devices]
                self._gpus.see(devices, news.readings.products)
        detail = self._gpus.detail(now)
        products: Mapping[str, str] = detail.get("gpu_products", {})
        return [
            {"vendor": vendor_of(name), "name": name}
            | ({"product": products[name]} if name in products else {})
            | {key: value for key, value in gauges.items() if value is not None}
            for name, gauges in detail.get("gpus", {}).items()
        ]


def _host_values(frame: HostFrame) -> dict[str, Number]:
    """What a frame knows of the whole machine; what cores did is in percent."""
    percents = {
        "cpu.percent": frame.cpu.percent,
        "cpu.iowait": frame.cpu.iowait_percent,
        "cpu.steal": frame.cpu.steal_percent,
    }
    return {key: value for key, value in (frame.values | percents).items() if value is not None}


class Spread:
    """The mean, the highest and the lowest of values that came one after the other; without any, they are None."""

    def __init__(self) -> None:
        self.count, self._sum = 0, 0.0
        self.highest: Number | None = None
        self.lowest: Number | None = None

    def add(self, value: Number | None) -> None:
        if value is None:
            return
        self.count += 1
        self._sum += value
        self.highest = value if self.highest is None else max(self.highest, value)
        self.lowest = value if self.lowest is None else min(self.lowest, value)

    @property
    def mean(self) -> float | None:
        return self._sum / self.count if self.count else None


class ProfileTally:
    """Sums up the readings of one block; the counters of its job are since the start of the block."""

    def __init__(self) -> None:
        self.samples = 0
        self._cpu, self._memory, self._process_cpu, self._process_memory = (Spread() for _ in range(4))
        self._io: dict[str, Number] = {}
        self._first: dict[str, Number] = {}  # the counters of the host when they were first read
        self._last: dict[str, Number] = {}
        self._gpus = GpuTally()

    def add(self, reading: Mapping[str, Any]) -> None:
        """Take one reading."""
        self.samples += 1
        host, job = reading.get("host", {}), reading.get("job", {})
        percent, cores = host.get("cpu.percent"), reading.get("cores")
        if percent is not None and cores:  # in Keystone's profile 100 % is the whole machine
            self._cpu.add(percent / len(cores))
        self._memory.add(host.get("mem.used"))
        self._process_cpu.add(job.get("cpu.percent"))
        self._process_memory.add(job.get("mem.used", job.get("mem.rss")))
        self._io.update((key, value) for key, value in job.items() if key.startswith("io.") and value is not None)
        counters = reading.get("host_counters", {})
        self._first = counters | self._first
        self._last = self._last | counters
        self._gpus.add(reading.get("gpus", ()))

    def summary(self, duration_seconds: float, interval_seconds: float) -> dict[str, Any]:
        """Keystone's `detailed_profile`; a number that is not known is None."""
        return {
            "duration_seconds": round(duration_seconds, 6),
            "samples_collected": self.samples,
            "sampling_interval_seconds": interval_seconds,
            "cpu": {
                "mean_percent": rounded(self._cpu.mean),
                "max_percent": rounded(self._cpu.highest),
                "min_percent": rounded(self._cpu.lowest),
            },
            "memory": {
                "mean_used_mb": megabytes(self._memory.mean),
                "max_used_mb": megabytes(self._memory.highest),
                "min_used_mb": megabytes(self._memory.lowest),
            },
            "process_cpu": {
                "mean_percent": rounded(self._process_cpu.mean),
                "max_percent": rounded(self._process_cpu.highest),
            },
            "process_memory": {
                "mean_mb": megabytes(self._process_memory.mean),
                "max_mb": megabytes(self._process_memory.highest),
                "min_mb": megabytes(self._process_memory.lowest),
            },
            "io_stats": io_stats(
                *map(self._io.get, ("io.read_bytes", "io.write_bytes", "io.read_ops", "io.write_ops"))
            ),
            "gpu_stats": self._gpus.summary(),
            "network": self._network(),
            "container_stats": {},
        }

    def _network(self) -> dict[str, Any]:
        """The traffic of the machine between the first and the last reading."""
        grown = [self._growth(key) for key in TRAFFIC]
        received, sent = map(megabytes, grown[:2])
        return {
            "received_mb": received,
            "sent_mb": sent,
            "packets_received": grown[2],
            "packets_sent": grown[3],
            "total_mb": None if received is None or sent is None else round(received + sent, 6),
        }

    def _growth(self, key: str) -> Number | None:
        first, last = self._first.get(key), self._last.get(key)
        return None if first is None or last is None or last < first else last - first


def io_stats(
    read_bytes: Number | None, write_bytes: Number | None, reads: Number | None, writes: Number | None
) -> dict[str, Any]:
    """The part of a profile that says what went to and from storage."""
    total = None if read_bytes is None or write_bytes is None else read_bytes + write_bytes
    return {
        "read_mb": megabytes(read_bytes),
        "write_mb": megabytes(write_bytes),
        "read_count": reads,
        "write_count": writes,
        "total_io_mb": megabytes(total),
    }


def megabytes(value: Number | None) -> float | None:
    """Bytes as Keystone prints them: 1 MB is 2**20 bytes."""
    return rounded(None if value is None else value / MIB, 6)


def rounded(value: Number | None, digits: int = 3) -> float | None:
    return None if value is None else round(float(value), digits)
