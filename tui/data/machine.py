"""The machine as the console shows it: recorded by an engine, or read from /proc; with its last minute."""

from __future__ import annotations

import os
import time
from collections import deque
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.live.newest_gpus import NewestGpus
from jobtop.core.record import replace
from jobtop.store.samples.live import KEPT_SAMPLES, KEPT_SECONDS
from jobtop.tui.data.view import MachineMoment, MachineView, read_only

if TYPE_CHECKING:
    from jobtop.core.measure.collectors.host.reading import HostReader, HostSample
    from jobtop.core.measure.sources import Run
    from jobtop.store.samples.hosts import HostNow

SAME_READING_SECONDS = 0.2  # two readings that are closer together count as one


class MachineSource(Protocol):
    """Provides the machine's current values."""

    def read(self) -> MachineView | None: ...


class MachineReader:
    """Reads the host of the console from /proc, for the time in which no engine records it."""

    def __init__(self, source: HostReader | None = None, without: frozenset[str] = frozenset()) -> None:
        self._source, self._without = source, without
        self._gpu_runs: list[Run] | None = None
        self._gpus = NewestGpus()
        self._last_sample: HostSample | None = None
        self._cpu_line: deque[float | int | None] = deque(maxlen=KEPT_SAMPLES)
        self._past = MachinePast()
        self._shown: MachineView | None = None

    def read(self) -> MachineView | None:
        """The machine since the last reading; the first reading returns the view that was shown before, if any."""
        from jobtop.core.measure.collectors.host.reading import host_detail, host_frame, open_host

        if self._source is None:
            self._source = open_host()
        before, sample = self._last_sample, self._source.collect()
        if before is None:
            self._last_sample = sample
            return self._shown
        if sample.monotonic - before.monotonic < SAME_READING_SECONDS:
            return self._shown
        self._last_sample = sample
        frame = host_frame(before, sample)
        self._cpu_line.append(percent_of_all(frame.cpu.percent, len(frame.cores)))
        detail = host_detail(frame, sample.uptime_seconds) | {"gpus": {}} | self._read_gpus()
        machine = MachineView(
            machine_name(), time.time(), read_only(frame.values), read_only(detail), tuple(self._cpu_line)
        )
        self._shown = self._past.with_past(machine)
        return self._shown

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
        self._source = None
        self._close_gpus()

    def _read_gpus(self) -> dict[str, dict[str, Any]]:
        """What the sources of GPUs read last; they have threads of their own."""
        if self._gpu_runs is None:
            from jobtop.core.measure.sources import GPU_SOURCES, Options, open_runs

            self._gpu_runs = open_runs(GPU_SOURCES, Options(without=self._without))
            for run in self._gpu_runs:
                run.set_jobs({})
        now = time.clock_gettime(BOOTTIME)
        for run in self._gpu_runs:
            if (news := run.poll({})) is not None:
                devices = news.readings.devices
                self._gpus.see(
                    ((device, news.boottime or now, values) for device, values in devices), news.readings.products
                )
        return self._gpus.detail(now)

    def _close_gpus(self) -> None:
        for run in self._gpu_runs or ():
            run.close()
        self._gpu_runs = None

    def take_recorded(self, machine: MachineView) -> MachineView:
        """Take over a recorded machine: its newest value continues the CPU line, and later readings continue that."""
        self._last_sample = None
        self._close_gpus()
        if self._shown is None or abs(machine.at - self._shown.at) > SAME_READING_SECONDS:
            self._cpu_line.extend(machine.cpu_line if self._shown is None else machine.cpu_line[-1:])
            self._shown = self._past.with_past(replace(machine, cpu_line=tuple(self._cpu_line)))
        return self._shown


class MachinePast:
    """Remembers the network and the GPUs of the machine for a minute, and adds that minute to each view of it."""

    def __init__(self) -> None:
        self._moments: deque[MachineMoment] = deque()

    def with_past(self, machine: MachineView) -> MachineView:
        """The machine with its last minute, which ends now; the minute starts again if the clock was set back."""
        moments = self._moments
        while moments and not moments[0].at <= machine.at <= moments[0].at + KEPT_SECONDS:
            moments.popleft()
        moments.append(moment_of(machine))
        return replace(machine, past=tuple(moments))


def moment_of(machine: MachineView) -> MachineMoment:
    values = machine.values
    gpus = {
        name: (gpu.get("gpu.util"), gpu.get("gpu.mem_used"), gpu.get("gpu.mem_total"))
        for name, gpu in machine.detail.get("gpus", {}).items()
    }
    return MachineMoment(machine.at, values.get("net.rx_bytes"), values.get("net.tx_bytes"), MappingProxyType(gpus))


def machine_of(recorded: HostNow) -> MachineView:
    """A recorded machine, in the same form as one that the console reads itself."""
    cores = len(recorded.detail.get("cores", ()))
    cpu_line = tuple(percent_of_all(percent, cores) for percent in recorded.cpu)
    at = time.time() - recorded.age_seconds
    return MachineView(machine_name(), at, read_only(recorded.values), read_only(recorded.detail), cpu_line)


def machine_name() -> str:
    return os.uname().nodename.split(".")[0]


def percent_of_all(percent: float | int | None, cores: int) -> float | None:
    """The percentage of all cores, from one in which each core counts 100."""
    return None if percent is None or not cores else percent / cores
