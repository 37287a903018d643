"""ResourceMonitor: the numbers, the CSV files and the alerts of a training loop, without Lightning.

    with ResourceMonitor(log_interval=50) as monitor:
        for epoch in range(3):
            for batch in monitor.watch(loader):
                ...

The numbers come from the sampler process of a tracked block; nothing is measured in the process of the training.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import sys
import time
from datetime import datetime
from pathlib import Path

from jobtop.resource_alerts import alerts_text, hot_gpus, io_bottleneck, memory_pressure, underused_gpus
from jobtop.resource_csv import EpochFile
from jobtop.resource_numbers import (
    columns,
    console_text,
    cpu_memory_metrics,
    disk_traffic,
    gpu_metrics,
    network_rates,
    network_traffic,
    wait_metrics,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import Any, Concatenate, ParamSpec, Self, TypeVar

    from jobtop.tracking import Block

    T = TypeVar("T")
    Monitor = TypeVar("Monitor", bound="ResourceMonitor")
    P = ParamSpec("P")

SAMPLING_SECONDS = 3.0  # a reading costs about 10 ms of CPU, and the monitor has to stay well below 1 % of a core
SILENT_SECONDS = 30.0  # without an answer of the sampler process, after which it is reported
FIRST_READING_SECONDS = 8.0  # how long a question outside of a training waits for the sampler process to start
LOG = logging.getLogger("jobtop")


def border(
    hook: Callable[Concatenate[Monitor, P], None],
) -> Callable[Concatenate[Monitor, P], None]:
    """Return at once where the monitor is switched off; an error is logged once and never reaches the training."""

    @functools.wraps(hook)
    def call(self: Monitor, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if not self.enabled:
            return
        try:
            hook(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - a border: a training goes on whatever happens to its monitor
            self.tell_failure(hook.__name__.lstrip("_"), error)

    return call


class TimeseriesExport:
    """A flag that can be called: in the OCR callback `export_timeseries` is both a parameter and a method."""

    def __init__(self, monitor: ResourceMonitor) -> None:
        self._monitor = monitor

    def __bool__(self) -> bool:
        return self._monitor.exports

    def __eq__(self, other: object) -> bool:
        return bool(self) == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(bool(self))

    def __call__(self, metrics: dict[str, float], step: int) -> None:
        """Append a row to the file of the current epoch."""
        self._monitor.write_row(metrics, step)


class ResourceMonitor:
    """Watches a training: prints what it uses every few batches, warns, and writes a CSV file per epoch.

    Parameters and their defaults are those of the OCR callback. The training is a job in the history.
    """

    def __init__(
        self,
        enabled: bool = True,
        log_interval: int = 10,
        gpu_monitoring: bool = True,
        cpu_monitoring: bool = True,
        io_monitoring: bool = True,
        alert_gpu_underutilization: bool = True,
        alert_memory_pressure: bool = True,
        alert_io_bottleneck: bool = True,
        gpu_util_threshold: float = 0.5,
        memory_threshold: float = 0.9,
        io_wait_threshold: float = 0.3,
        export_timeseries: bool = True,
        timeseries_path: str = "resource_logs",
    ) -> None:
        if log_interval < 1:
            raise ValueError("log_interval must be 1 or more; enabled=False switches the monitor off")
        self.enabled, self.log_interval = enabled, log_interval
        self.gpu_monitoring, self.cpu_monitoring, self.io_monitoring = gpu_monitoring, cpu_monitoring, io_monitoring
        self.alert_gpu_underutilization = alert_gpu_underutilization
        self.alert_memory_pressure, self.alert_io_bottleneck = alert_memory_pressure, alert_io_bottleneck
        self.gpu_util_threshold, self.memory_threshold = gpu_util_threshold, memory_threshold
        self.io_wait_threshold = io_wait_threshold
        self.exports, self.timeseries_path = export_timeseries, timeseries_path
        self.current_epoch = self._next_epoch = 0
        self.rank, self.is_in_epoch = 0, False
        self._told: set[str] = set()
        self._forget_training()
        self._join_lightning()

    def _join_lightning(self) -> None:
        """Nothing here; the callback becomes one of Lightning's."""

    def _forget_training(self) -> None:
        self._block: Block | None = None
        self._show: Callable[[str], None] = print
        self._held: Mapping[str, Any] | None = None  # the reading that all methods use during one check
        self._last: Mapping[str, Any] | None = None
        self._asked_at, self._answered_at = 0.0, time.monotonic()
        self._has_begun = False  # the first reading has no percentages: the next one is asked for at once
        self._disk, self._network = disk_traffic(), network_traffic()
        self._host: Mapping[str, float] | None = None  # as it was last read
        self._file: EpochFile | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Copies, and the processes of a distributed training, have no block yet."""
        dropped = ("_block", "_held", "_last", "_file", "_disk", "_network", "_host", "_show")
        return {name: value for name, value in self.__dict__.items() if name not in dropped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget_training()
        self._join_lightning()

    @property
    def export_timeseries(self) -> TimeseriesExport:
        """Whether rows are written; called with metrics and a step, it writes one."""
        return TimeseriesExport(self)

    @export_timeseries.setter
    def export_timeseries(self, is_wanted: bool) -> None:
        self.exports = bool(is_wanted)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)

    @border
    def start(
        self,
        name: str | None = None,
        *,
        tool: str | None = None,
        params: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Begin the job; `watch` does it for you. A job that was begun goes on."""
        if self._block is not None:
            return
        from jobtop.tracking import open_block

        self._forget_training()
        script = os.path.basename(sys.argv[0])
        script = "" if script.startswith("-") else script  # of python -c
        self._block = open_block(
            name or (os.path.splitext(script)[0] if script else "training"),
            tool=tool,
            script=script or None,
            params=dict(params or {}),
            tags=dict(tags or {}),
            interval=SAMPLING_SECONDS,
            profile=True,
        )
        atexit.register(self._close_at_exit)

    @border
    def close(self, error: BaseException | None = None) -> None:
        """End the job: successful, or as the exception says."""
        block = self._block
        self._forget_training()
        if block is None:
            return
        atexit.unregister(self._close_at_exit)
        if error is None or isinstance(error, GeneratorExit):
            block.close()
        else:
            from jobtop.tracking import outcome_of

            block.close(*outcome_of(error)[0])

    def watch(self, loader: Iterable[T], epoch: int | None = None) -> Iterable[T]:
        """Return the batches of a loader; each time through them is an epoch, counted from 0 or from `epoch`.

        Switched off, it returns the loader itself.
        """
        if not self.enabled:
            return loader
        if epoch is not None:
            self._next_epoch = epoch
        return WatchedLoader(self, loader)

    def begin_epoch(self) -> None:
        """Let rows go to the file of the next epoch."""
        self.current_epoch = self._next_epoch
        self._next_epoch += 1

    @property
    def job_id(self) -> str | None:
        """The id of the job, for `jobtop show`; None while there is none."""
        return None if self._block is None else self._block.id

    def get_gpu_metrics(self) -> dict[str, float]:
        """Return `gpu_0_util`, `gpu_0_memory_used_mb`, … of all GPUs that the training can see."""
        return gpu_metrics(self._reading(), os.environ)

    def get_cpu_memory_metrics(self) -> dict[str, float]:
        """Return CPU and memory of the machine, of its cores, and of this process with its children."""
        return cpu_memory_metrics(self._reading())

    def get_io_metrics(self) -> dict[str, float]:
        """Return what the training read and wrote since the last call, the time waited for I/O, and the network."""
        reading = self._reading()
        disk = self._disk.metrics(reading.get("job", {}), reading.get("elapsed", 0.0))
        # The same reading of the machine again says nothing about what came since.
        is_new, self._host = reading.get("host") != self._host, reading.get("host")
        network = self._network.metrics(reading.get("host_counters", {})) if is_new else {}
        return disk | wait_metrics(reading) | network | network_rates(reading)

    def check_alerts(self, metrics: dict[str, float]) -> list[str]:
        """Return a text for each threshold that these metrics cross; what is not in them crosses none."""
        alerts: list[str] = []
        if self.alert_gpu_underutilization:
            alerts += underused_gpus(metrics, self.gpu_util_threshold)
        if self.alert_memory_pressure:
            alerts += memory_pressure(metrics, self.memory_threshold)
        if self.alert_io_bottleneck:
            alerts += io_bottleneck(metrics, self.io_wait_threshold)
        return [*alerts, *hot_gpus(metrics)]

    def write_row(self, metrics: dict[str, float], step: int) -> None:
        """Append a row to the file of the current epoch; each rank of a distributed training has its own."""
        suffix = f"_rank_{self.rank}" if self.rank else ""
        path = Path(self.timeseries_path) / f"epoch_{self.current_epoch}{suffix}.csv"
        if self._file is None or self._file.path != path:
            self._file = EpochFile(path)
        now = datetime.now().isoformat(timespec="seconds")  # noqa: DTZ005 - local time, as in the OCR callback
        self._file.append(step, now, metrics, columns(metrics, self.cpu_monitoring, self.io_monitoring))

    def collect(self) -> dict[str, float]:
        """Return all metrics of one reading; empty if the sampler process has none yet."""
        self._held = self._newest()
        if not self._held:
            return {}
        try:
            metrics: dict[str, float] = {}
            if self.gpu_monitoring:
                metrics |= self.get_gpu_metrics()
            if self.cpu_monitoring:
                metrics |= self.get_cpu_memory_metrics()
            if self.io_monitoring:
                metrics |= self.get_io_metrics()
            return metrics
        finally:
            self._held = None

    @border
    def batch_ended(self, batch: int) -> None:
        """Print, warn and write a row if it is time for it."""
        if batch % self.log_interval or self._block is None:
            return
        metrics = self.collect()
        if metrics and self.exports:
            self._export(metrics, batch)
        if metrics and self.rank == 0:
            self._tell(metrics, batch)

    @border
    def _export(self, metrics: dict[str, float], batch: int) -> None:
        self.export_timeseries(metrics, batch)

    @border
    def _tell(self, metrics: dict[str, float], batch: int) -> None:
        self._print(console_text(batch, metrics))
        if alerts := self.check_alerts(metrics):
            self._print(f"\n{alerts_text(alerts)}")

    def tell_failure(self, hook: str, error: Exception) -> None:
        """Log the first failure of each kind."""
        if hook not in self._told:
            self._told.add(hook)
            LOG.warning("resource monitor: %s: %s: %s; the training goes on", hook, type(error).__name__, error)

    def _print(self, text: str) -> None:
        try:
            self._show(text)
        except UnicodeEncodeError:  # a terminal or a log without Unicode
            self._show(text.encode("ascii", "replace").decode("ascii"))

    def _close_at_exit(self) -> None:
        """End the job of a program that did not: an unknown end, unless its loops ran through or an error ended it."""
        # A notebook has the last exception of any cell.
        error = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
        if error is not None or not self.is_in_epoch:
            self.close(error)

    def _newest(self) -> Mapping[str, Any] | None:
        """Return the newest reading; the sampler is asked no more often than it samples."""
        now = time.monotonic()
        if self._block is not None and (not self._has_begun or now >= self._asked_at + SAMPLING_SECONDS):
            self._last, self._asked_at = self._block.latest(), now
            self._has_begun = self._has_begun or has_rates(self._last)
            if self._last:
                self._answered_at = now
            elif now > self._answered_at + SILENT_SECONDS:
                self.tell_failure("sampler", TimeoutError("there are no new numbers"))
        return self._last

    def _reading(self) -> Mapping[str, Any]:
        """Return the newest reading; outside of a training, begin the job and wait for its first one."""
        if self._held is not None:
            return self._held
        if not self.enabled:
            return {}
        is_new = self._block is None
        self.start()
        end = time.monotonic() + FIRST_READING_SECONDS
        while True:
            reading = None if self._block is None else self._block.latest()
            if has_rates(reading) or not is_new or self._block is None or time.monotonic() > end:
                return reading or {}
            time.sleep(0.02)


def has_rates(reading: Mapping[str, Any] | None) -> bool:
    """Whether a reading is not the first one, which has no percentages."""
    return reading is not None and "cpu.percent" in reading.get("job", {}) and "cores" in reading


class WatchedLoader:
    """The batches of a loader, with a check after each."""

    def __init__(self, monitor: ResourceMonitor, loader: Iterable[Any]) -> None:
        self._monitor, self._loader = monitor, loader

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        monitor = self._monitor
        monitor.start()
        monitor.begin_epoch()
        monitor.is_in_epoch = True
        for number, batch in enumerate(self._loader):
            yield batch
            monitor.batch_ended(number)
        monitor.is_in_epoch = False
