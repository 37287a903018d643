"""One thread on a monotonic grid that samples all jobs of an engine, measures its own cost, and stays in its budget."""

from __future__ import annotations

import threading
import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collecting import Collecting, known_values
from jobtop.core.measure.collectors.busy_threads import ThreadBudget
from jobtop.core.measure.derive import SHORTEST_SECONDS
from jobtop.core.measure.sources import Options
from jobtop.core.measure.watch import Rhythm, Watch
from jobtop.core.record import fresh, record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobtop.core.alerts.model import Transition
    from jobtop.core.measure.collectors.host.reading import HostSample
    from jobtop.core.measure.collectors.processes import ProcessTable
    from jobtop.core.measure.device import Device
    from jobtop.core.measure.snapshot import ProcessRow
    from jobtop.core.measure.source import Number
    from jobtop.core.measure.source_runs import SourceStatus
    from jobtop.core.measure.target import Target
    from jobtop.core.model import Sample
    from jobtop.core.run.limits import Guard

    Happened = tuple[str | Device | None, float, str, dict[str, object]]

SNAPSHOT_SECONDS = 10.0
DETAILS_SHARE, LEAST_DETAILS_SHARE = 0.3, 0.03  # of the sampling budget, for expensive files
THREADS_SHARE = 0.2  # of what expensive files may cost, for the busiest threads
YOUNG_SECONDS = 10.0  # the threads of a younger job are read before its snapshots too
LARGEST_STRETCH = 64.0
SMOOTHING = 0.2
SHORTEST_SLEEP_SECONDS = 2.0
LARGEST_SURPRISE = 4.0  # budgets that one tick counts for at most
CALM_SHARE = 0.8  # of the budget


@record
class Batch:
    """What one tick brought, by the keys of the jobs; `host` is a moment since boot and two samples to derive from.

    `devices`: device, seconds since boot, raw counters and gauges by catalogue key.
    `named`: job key, the name the job chose, elapsed seconds, value. The owner of an event is a job key, None for the
    host, or a device. `products`: what the makers of devices call them. `alerts` are added when it was judged.
    """

    samples: list[tuple[str, Sample]] = fresh(default_factory=list)
    snapshots: list[tuple[str, float, list[ProcessRow]]] = fresh(default_factory=list)
    host: tuple[float, HostSample, HostSample] | None = None
    events: Sequence[Happened] = ()  # by the wall clock
    devices: list[tuple[Device, float, dict[str, Number | None]]] = fresh(default_factory=list)
    named: list[tuple[str, str, float, float]] = fresh(default_factory=list)
    products: dict[Device, str] = fresh(default_factory=dict)
    alerts: Sequence[Transition] = ()

    def __bool__(self) -> bool:
        return bool(self.samples or self.host or self.devices or self.named or self.events or self.alerts)


class Sampler:
    """Calls the sources for all watched jobs, and for the host if it may record that, and hands batches to a sink."""

    def __init__(
        self,
        sink: Callable[[Batch], None],
        budget: float = 0.01,
        without: frozenset[str] = frozenset(),
        secret: Sequence[str] = (),
        options: Options | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        asked_budget: float = 0.0,
    ) -> None:
        """`asked_budget` is for jobs with an interval that a user asked for; the larger budget counts."""
        self.asked_budget = asked_budget
        self.sink, self.budget, self.without, self.secret, self.monotonic = sink, budget, without, secret, monotonic
        self.watches: dict[str, Watch] = {}
        self.collecting = Collecting(replace(options or Options(), without=without), self.watches)
        self.table: ProcessTable = self.collecting.processes.table
        self._guarded: dict[str, tuple[Watch, Guard]] = {}
        self._rhythms: dict[float, Rhythm] = {}
        self._new: list[Watch] = []
        self._asked = 0  # watches with an interval of their own
        self.cpu_seconds = 0.0
        self.charged_seconds = 0.0  # what storing the samples has cost meanwhile
        self.load = 0.0  # cores, smoothed
        self.stretch = 1.0
        self.details_share = DETAILS_SHARE
        self._thread_budget = ThreadBudget()
        self.thinned = False
        self._host_due = -float("inf")
        self._origin = monotonic()
        self._asleep = time.clock_gettime(BOOTTIME) - self._origin
        self._noted_stretch = 1.0
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._stopped = False
        self._sink_problem: str | None = None
        self._thread: threading.Thread | None = None

    @property
    def problem(self) -> str | None:
        """What went wrong first: in the sink, or in a source of numbers of jobs."""
        return self._sink_problem or self.collecting.problem

    def problem_of(self, watch: Watch) -> str | None:
        """What went wrong first for this job."""
        return self._sink_problem or self.collecting.problem_of(watch)

    @property
    def records_host(self) -> bool:
        return self.collecting.records_host

    def source_statuses(self) -> list[SourceStatus]:
        """Every source that is opened: whether it can be used here, and what went wrong."""
        return self.collecting.statuses

    def watch(
        self,
        key: str,
        target: Target,
        interval: float | None = None,
        guard: Guard | None = None,
    ) -> None:
        """Sample this job at once, and then on the grid; with a guard, read its memory as often as the guard needs."""
        with self._lock:
            tree = self.collecting.processes.add(key, target)
            watch = Watch(key, target, tree, interval, self.secret, guard)
            self.watches[key] = watch
            self._asked += interval is not None
            if guard is not None:
                self._guarded[key] = watch, guard
            self._new.append(watch)
            self._set_jobs()
        self._wake.set()

    def conclude(self, key: str) -> Sample | None:
        """The last sample of a job that has ended, with what sources could still read of it; None if nothing."""
        read = self.collecting.conclude(key)
        with self._lock:
            watch = self.watches.get(key)
            if watch is None or not read:
                return None
            for name, readings in read:
                if key in readings.jobs:
                    watch.take(name, known_values(readings.jobs[key]))
            return watch.last_sample(time.clock_gettime(BOOTTIME))

    def forget(self, key: str) -> Watch | None:
        """Sample a job no longer; return it as it was last sampled."""
        with self._lock:
            watch = self.watches.pop(key, None)
            if watch is not None:
                self._asked -= watch.interval is not None
                self._guarded.pop(key, None)
                self._new = [other for other in self._new if other is not watch]
                self._leave_rhythms(watch)
                self.collecting.take_last_remarks(watch)
                self.collecting.forget(key)
                self._set_jobs()
        return watch

    def set_interval(self, key: str, seconds: float) -> bool:
        """Sample a job at another interval from now on; False if it is not sampled here."""
        with self._lock:
            watch = self.watches.get(key)
            if watch is None:
                return False
            self._asked += watch.interval is None
            watch.interval = seconds
            if watch not in self._new:
                self._leave_rhythms(watch)
                self._new.append(watch)
        self._wake.set()
        return True

    def _leave_rhythms(self, watch: Watch) -> None:
        for rhythm in self._rhythms.values():
            if watch.key in rhythm.quiet:
                self._hand_over(Batch([(watch.key, sample) for sample in rhythm.samples_until_now(watch)]))
            rhythm.remove(watch.key)

    def _set_jobs(self) -> None:
        self.collecting.set_jobs({key: watch.target for key, watch in self.watches.items()})

    def record_host(self, is_ours: bool) -> None:
        """Read the host and its devices too from now on, or no longer."""
        with self._lock:
            self.collecting.record_host(is_ours)

    def start(self) -> None:
        thread = threading.Thread(target=self._run, name="jobtop-sampler", daemon=True)
        thread.start()
        self._thread = thread

    def stop(self) -> None:
        """End within a tick; jobs that are still watched are forgotten."""
        self._stopped = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        for key in list(self.watches):
            self.forget(key)
        self.collecting.close()

    def tick(self) -> Batch:
        """One pass over everything that is due; its cost decides how often the next ones come."""
        with self._lock:
            now, boottime = self.monotonic(), time.clock_gettime(BOOTTIME)
            over = self._enforce(now) if self._guarded else []
            began = time.thread_time()
            host = self._collect_host(now)
            beating = [rhythm for rhythm in self._rhythms.values() if now >= rhythm.next_due and rhythm.watches]
            new = self._new
            due = [watch for rhythm in beating for watch in rhythm.watches.values()] + new
            due += [watch for watch in over if watch not in due]
            if not due:
                return Batch(
                    host=host,
                    events=self.collecting.take_events(),
                    devices=self.collecting.take_devices(),
                    products=self.collecting.products,
                )
            beating += self._place(beating, boottime)
            step = min((rhythm.interval for rhythm in beating), default=1.0) * self.stretch
            details_cores = self.budget * self.details_share
            details_seconds = details_cores * step
            self.collecting.processes.details_seconds = details_seconds
            self.collecting.processes.details_cores = details_cores
            self.collecting.processes.budget_cores = self.budget
            self._thread_budget.earn(THREADS_SHARE * details_seconds)
            moved, moments, moment = self.collecting.collect_jobs(due, boottime)
            samples = self._samples(beating, new + over, moments, moment)
            snapshots = [] if "snapshots" in self.without else self._snapshots(moved, now)
            stored, self.charged_seconds = self.charged_seconds, 0.0
            cost = time.thread_time() - began + stored
            # Slow sources have budgets of their own: they do not make the sampler leave out samples.
            self.cpu_seconds += cost + self.collecting.take_cost()
            self._adapt(cost / step)
            events: list[Happened] = [*self._events(due, now, boottime), *(over_event(watch) for watch in over)]
            events += self.collecting.take_events()
            for rhythm in beating:
                rhythm.next_due = self._next_on_grid(rhythm.interval * self.stretch)
            devices, named = self.collecting.take_devices(), self.collecting.take_named()
        return Batch(samples, snapshots, host, events, devices, named, self.collecting.products)

    def _samples(
        self, beating: list[Rhythm], others: list[Watch], moments: dict[str, float], moment: float
    ) -> list[tuple[str, Sample]]:
        """A sample of each job that is due, except for quiet ones, which have turns."""
        news = self.collecting.take_news()
        chosen = {watch.key: watch for watch in others}
        samples = []
        for rhythm in beating:
            for watch in rhythm.wake(news):
                samples += [(watch.key, sample) for sample in rhythm.samples_until_now(watch)]
            chosen |= rhythm.next_watches(moment)
        samples += [(key, watch.sample(moments.get(key, moment))) for key, watch in chosen.items()]
        return samples

    def _enforce(self, now: float) -> list[Watch]:
        """Read the memory of jobs that have to stay below a limit, whatever it costs; return those that are killed."""
        near = [(watch, guard) for watch, guard in self._guarded.values() if now >= guard.due]
        if not near:
            return []
        began = time.thread_time()
        self.table.sweep([watch.tree for watch, _ in near])
        over = [watch for watch, guard in near if guard.look(watch.tree.members.values(), now)]
        self.cpu_seconds += time.thread_time() - began
        return over

    def _place(self, beating: list[Rhythm], boottime: float) -> list[Rhythm]:
        """Add new jobs, and those that are old enough for another interval, to their rhythms; return new rhythms."""
        moving, self._new = self._new, []
        for rhythm in beating:
            if boottime >= rhythm.next_change:
                moving += rhythm.watches.values()
                rhythm.clear()
        started = []
        for watch in moving:
            seconds = watch.interval_at(boottime - watch.start)
            rhythm = self._rhythms.setdefault(seconds, Rhythm(seconds))
            if rhythm not in beating and not rhythm.watches:
                started.append(rhythm)
            rhythm.add(watch)
        return started

    def _events(self, due: list[Watch], now: float, boottime: float) -> list[tuple[str, float, str, dict[str, object]]]:
        """Events that a curve cannot show: a suspended machine, and samples taken less often than requested."""
        asleep, self._asleep = boottime - now - self._asleep, boottime - now
        events: list[tuple[str, dict[str, object]]] = []
        if asleep > SHORTEST_SLEEP_SECONDS:
            events.append(("suspended", {"seconds": round(asleep, 1)}))
        if self.stretch != self._noted_stretch:
            self._noted_stretch = self.stretch
            events.append(("sampling_slowed" if self.stretch > 1 else "sampling_restored", {"factor": self.stretch}))
        return [(watch.key, time.time(), kind, detail) for kind, detail in events for watch in due]

    def _snapshots(self, moved: list[Watch], now: float) -> list[tuple[str, float, list[ProcessRow]]]:
        """The heaviest processes of the jobs that have run and are due for it."""
        taken = []
        budget = None if "threads" in self.without else self._thread_budget
        for watch in moved:
            watch.heaviest.learn(self.table.proc, watch.tree)
            if budget is not None and watch.elapsed < YOUNG_SECONDS and now < watch.next_snapshot:
                watch.heaviest.learn_threads(self.table.proc, watch.tree, budget)
            if now >= watch.next_snapshot and watch.tree.members:
                watch.next_snapshot = now + SNAPSHOT_SECONDS * self.stretch * watch.snapshot_share
                watch.snapshot_share = 1.0
                rows = watch.heaviest.rows(self.table.proc, watch.tree, budget=budget)
                if rows is not None:
                    taken.append((watch.key, watch.elapsed, rows))
        return taken

    def _collect_host(self, now: float) -> tuple[float, HostSample, HostSample] | None:
        """The host around the jobs, as often as they are sampled."""
        if now < self._host_due or not self.collecting.records_host:
            return None
        shortest = min((rhythm.interval for rhythm in self._rhythms.values() if rhythm.watches), default=1.0)
        self._host_due = self._next_on_grid(max(1.0, shortest) * self.stretch)
        return self.collecting.collect_host()

    def _next_on_grid(self, period: float) -> float:
        """The next point of the grid that is far enough away for a rate between two samples.

        After a late tick the next point may be a millisecond away. Blocks keep whole milliseconds: two samples in one
        would be the same moment twice.
        """
        since = self.monotonic() + SHORTEST_SECONDS - self._origin
        return self._origin + (int(since / period + 1e-6) + 1) * period

    def _run(self) -> None:
        while not self._stopped:
            self._wake.clear()
            with self._lock:  # or a job could be forgotten between its last sample and its being handed over
                batch = self.tick()
                if batch:
                    self._hand_over(batch)
                next_due = self.next_due()
            if not self._stopped:
                self._wake.wait(None if next_due is None else max(0.0, next_due - self.monotonic()))

    def next_due(self) -> float | None:
        """The next moment to sample, on the monotonic clock; None: never."""
        due = [rhythm.next_due for rhythm in self._rhythms.values() if rhythm.watches]
        due += [guard.due for _, guard in self._guarded.values() if guard.over_bytes is None]
        return min(due, default=None)

    def _hand_over(self, batch: Batch) -> None:
        try:
            self.sink(batch)
        except Exception as error:  # noqa: BLE001 - a border: a sink's mistake must not end the sampling
            self._sink_problem = self._sink_problem or f"{type(error).__name__}: {error}"

    def _adapt(self, load: float) -> None:
        """Over budget, first read fewer expensive files, then sample less often; well below it, undo this.

        One expensive tick, as when a large job is sampled for the first time, changes nothing.
        """
        budget = max(self.budget, self.asked_budget) if self._asked else self.budget
        self.load += SMOOTHING * (min(load, LARGEST_SURPRISE * budget) - self.load)
        if self.load > budget:
            if self.details_share > LEAST_DETAILS_SHARE:
                self.details_share = LEAST_DETAILS_SHARE
                self.thinned = True
            elif self.stretch < LARGEST_STRETCH:
                self.stretch *= 2
                self.load /= 2
                for watch in self.watches.values():
                    watch.longest_stretch = max(watch.longest_stretch, self.stretch)
        elif self.stretch > 1 and 2 * self.load < CALM_SHARE * budget:
            self.stretch /= 2
            self.load *= 2
        elif self.load < (CALM_SHARE - DETAILS_SHARE) * budget:
            self.details_share = DETAILS_SHARE


def over_event(watch: Watch) -> tuple[str, float, str, dict[str, object]]:
    """The event that a job is killed because of the memory that it holds."""
    assert watch.guard is not None
    detail: dict[str, object] = {"used_bytes": watch.guard.over_bytes, "limit_bytes": watch.guard.limit_bytes}
    return watch.key, time.time(), "limit_reached", detail
