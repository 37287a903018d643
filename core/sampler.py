"""One thread on a monotonic grid that samples all jobs of an engine, knows its own cost, and keeps its budget."""

from __future__ import annotations

import logging
import threading
import time

from jobtop.core.collectors import jobs as job_values
from jobtop.core.collectors.processes import ProcessTable
from jobtop.core.metrics import BY_KEY, JOB_COLUMNS, Kind
from jobtop.core.model import Sample
from jobtop.core.shim import BOOTTIME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobtop.core.collectors.jobs import Number
    from jobtop.core.collectors.members import Tree

COUNTERS = tuple(key for key in JOB_COLUMNS if BY_KEY[key].kind is Kind.COUNTER)
AUTO_SECONDS = ((3600.0, 1.0), (14400.0, 5.0), (float("inf"), 10.0))  # age of the job: seconds between samples
CLOSER_SHARE, LEAST_CLOSER_SHARE = 0.3, 0.03  # of the budget goes to the dear files
LARGEST_STRETCH = 64.0
SMOOTHING = 0.2

log = logging.getLogger(__name__)


class Watch:
    """One job under observation."""

    def __init__(
        self, key: int, tree: Tree, start_boottime: float, cgroups: Sequence[str], interval: float | None
    ) -> None:
        self.key, self.tree, self.start, self.cgroups, self.interval = key, tree, start_boottime, cgroups, interval
        self.values: dict[str, Number] = {}
        self.next_due = -float("inf")

    def interval_at(self, age: float) -> float:
        if self.interval is not None:
            return self.interval
        return next(seconds for until, seconds in AUTO_SECONDS if age < until)

    def sample(self) -> Sample:
        """Fold what was swept; counters never fall. The moment is that of the reading the CPU time comes from."""
        at = self.tree.read_at
        read = job_values.fold(self.tree)
        if self.cgroups:
            counted, now = job_values.read_cgroup(self.cgroups), time.clock_gettime(BOOTTIME)
            at = now if "cpu.user" in counted else at
            read |= counted
        self.values = job_values.never_falling(self.values, read, COUNTERS)
        return Sample(max(0.0, at - self.start), tuple(self.values.get(key) for key in JOB_COLUMNS))


class Sampler:
    """Takes samples of all watched jobs and hands them to a sink, a list at a time."""

    def __init__(
        self,
        sink: Callable[[list[tuple[int, Sample]]], None],
        budget: float = 0.01,
        without: frozenset[str] = frozenset(),
        proc: str = "/proc",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sink, self.budget, self.without, self.monotonic = sink, budget, without, monotonic
        self.table = ProcessTable(proc)
        self.watches: dict[int, Watch] = {}
        self.cpu_seconds = 0.0
        self.load = 0.0  # cores, smoothed
        self.stretch = 1.0
        self.closer_share = CLOSER_SHARE
        self._origin = monotonic()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopped = False
        self._sink_failed = False
        self._thread: threading.Thread | None = None

    def watch(
        self, key: int, shim_pid: int, start_boottime: float, cgroups: Sequence[str] = (), interval: float | None = None
    ) -> None:
        """Sample this job at once, and then on the grid."""
        with self._lock:
            self.watches[key] = Watch(key, self.table.add(shim_pid), start_boottime, cgroups, interval)
        self._wake.set()

    def forget(self, key: int) -> Sample | None:
        """Watch a job no longer; its last sample, taken now: complete if the shim was not waited for yet."""
        with self._lock:
            watch = self.watches.pop(key, None)
            if watch is None:
                return None
            began = time.thread_time()
            self.table.sweep([watch.tree])
            last = watch.sample()
            self.table.remove(watch.tree)
            self.cpu_seconds += time.thread_time() - began
        return last

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="jobtop-sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End within a tick; what is still watched is let go."""
        self._stopped = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            for watch in self.watches.values():
                self.table.remove(watch.tree)
            self.watches.clear()

    def tick(self) -> list[tuple[int, Sample]]:
        """One pass over everything that is due; its cost is kept, and what it means for the next."""
        with self._lock:
            began, now = time.thread_time(), self.monotonic()
            due = [watch for watch in self.watches.values() if now >= watch.next_due]
            if not due:
                return []
            step = min(self._interval(watch) for watch in self.watches.values()) * self.stretch
            self.table.sweep([watch.tree for watch in due])
            self.table.look_closer(self.budget * self.closer_share * step, self.without)
            samples = [(watch.key, watch.sample()) for watch in due]
            cost = time.thread_time() - began
            self.cpu_seconds += cost
            self._adapt(cost / step)
            for watch in due:
                watch.next_due = self._next_on_grid(now, self._interval(watch) * self.stretch)
        return samples

    @staticmethod
    def _interval(watch: Watch) -> float:
        return watch.interval_at(time.clock_gettime(BOOTTIME) - watch.start)

    def _next_on_grid(self, now: float, period: float) -> float:
        return self._origin + (int((now - self._origin) / period + 1e-6) + 1) * period

    def _run(self) -> None:
        while not self._stopped:
            self._wake.clear()
            samples = self.tick()
            if samples:
                self._hand_over(samples)
            with self._lock:
                next_due = min((watch.next_due for watch in self.watches.values()), default=None)
            if not self._stopped:
                self._wake.wait(None if next_due is None else max(0.0, next_due - self.monotonic()))

    def _hand_over(self, samples: list[tuple[int, Sample]]) -> None:
        try:
            self.sink(samples)
        except Exception:  # a border: a sink's mistake must not end the sampling
            if not self._sink_failed:
                log.exception("samples could not be kept")
            self._sink_failed = True

    def _adapt(self, load: float) -> None:
        """Over budget, first read the dear files less, then look less often; well below it, the way back."""
        self.load += SMOOTHING * (load - self.load)
        if self.load > self.budget:
            if self.closer_share > LEAST_CLOSER_SHARE:
                self.closer_share = LEAST_CLOSER_SHARE
            elif self.stretch < LARGEST_STRETCH:
                self.stretch *= 2
                self.load /= 2
        elif self.load < self.budget / 4:
            if self.stretch > 1:
                self.stretch /= 2
                self.load *= 2
            else:
                self.closer_share = CLOSER_SHARE
