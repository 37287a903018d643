"""One thread on a monotonic grid that samples all jobs of an engine, knows its own cost, and keeps its budget."""

from __future__ import annotations

import threading
import time

from jobtop.core.clock import AUTO_SECONDS, BOOTTIME
from jobtop.core.measure.collectors import jobs as job_values
from jobtop.core.measure.collectors.heaviest import Heaviest
from jobtop.core.measure.collectors.job_cgroup import JobCgroup
from jobtop.core.measure.collectors.processes import ProcessTable
from jobtop.core.measure.derive import SHORTEST_SECONDS
from jobtop.core.metrics import BY_KEY, JOB_COLUMNS, Kind
from jobtop.core.model import Sample
from jobtop.core.record import fresh, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobtop.core.measure.collectors.host import HostSample, HostSource
    from jobtop.core.measure.collectors.jobs import Number
    from jobtop.core.measure.collectors.members import Tree
    from jobtop.core.measure.device import Device
    from jobtop.core.measure.snapshot import ProcessRow
    from jobtop.core.measure.target import Target
    from jobtop.core.run.limits import Guard

COUNTERS = frozenset(key for key in JOB_COLUMNS if BY_KEY[key].kind is Kind.COUNTER)
SNAPSHOT_SECONDS = 10.0
STALE_SAMPLES = 10  # after so many a job that stands still is looked at again
CLOSER_SHARE, LEAST_CLOSER_SHARE = 0.3, 0.03  # of the budget goes to the dear files
LEFT_SECONDS = 0.05  # of CPU time that the job's cgroup has not counted: a process may have left it
UNREAD = -1
LARGEST_STRETCH = 64.0
SMOOTHING = 0.2
SHORTEST_SLEEP_SECONDS = 2.0
LARGEST_SURPRISE = 4.0  # budgets that one tick counts for at most
CALM_SHARE = 0.8  # of the budget
IMPOSSIBLE_SECONDS, IMPOSSIBLE_SHARE = 0.1, 0.05  # more CPU time than there can be, by more than the kernel rounds


@record
class Batch:
    """What one tick brought, by the keys of the jobs; `host` is a moment since boot and two samples to derive from.

    `devices`: device, seconds since boot, raw counters and gauges by catalogue key.
    `named`: job key, the name the job chose, elapsed seconds, value.
    """

    samples: list[tuple[str, Sample]] = fresh(default_factory=list)
    snapshots: list[tuple[str, float, list[ProcessRow]]] = fresh(default_factory=list)
    host: tuple[float, HostSample, HostSample] | None = None
    events: list[tuple[str, float, str, dict[str, object]]] = fresh(default_factory=list)  # by the wall clock
    devices: list[tuple[Device, float, dict[str, Number | None]]] = fresh(default_factory=list)
    named: list[tuple[str, str, float, float]] = fresh(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.samples or self.host or self.devices or self.named)


class Watch:
    """One job under observation."""

    __slots__ = (
        *("cgroup", "elapsed", "guard", "heaviest", "impossible_seconds", "interval", "interval_until", "key"),
        *(
            "last_members",
            "longest_stretch",
            "looked_at",
            "next_snapshot",
            "row",
            "snapshot_share",
            "start",
            "tree",
            "unread",
            "values",
            "version",
        ),
    )

    def __init__(
        self,
        key: str,
        tree: Tree,
        start_boottime: float,
        interval: float | None,
        cgroup: JobCgroup | None = None,
        secret: Sequence[str] = (),
        guard: Guard | None = None,
    ) -> None:
        self.guard = guard
        self.key, self.tree, self.start, self.cgroup, self.interval = key, tree, start_boottime, cgroup, interval
        self.values: dict[str, Number] = {}
        self.row: tuple[Number | None, ...] = ()
        self.elapsed = 0.0
        self.last_members = (0.0, 0.0)  # of the last sample that found a process: seconds elapsed, moment since boot
        self.version = UNREAD
        self.unread = 0
        self.interval_until = float("inf")  # moment since boot
        self.next_snapshot = -float("inf")
        # Jobs that began together are not looked at together again.
        self.snapshot_share = (hash(key) % 1000) / 1000
        self.heaviest = Heaviest(secret)
        self.longest_stretch = 1.0
        self.looked_at = UNREAD
        self.impossible_seconds = 0.0

    def interval_at(self, age: float) -> float:
        if self.interval is not None:
            return self.interval
        until, seconds = next((until, seconds) for until, seconds in AUTO_SECONDS if age < until)
        self.interval_until = self.start + until
        return seconds

    def sample(self) -> Sample:
        """Fold what was swept; the moment is that of the reading the CPU time comes from.

        Where nobody has run nothing has changed. Counters never fall, and no CPU time is more than the cores can give.
        """
        tree = self.tree
        at = tree.read_at
        self.unread += 1
        if tree.version != self.version or (self.unread % STALE_SAMPLES == 0 and self._is_stale()):
            self.version, self.unread = tree.version, 0
            read = job_values.fold(tree)
            if self.cgroup is not None:
                read, at = self._with_cgroup(read, at, self.cgroup)
            if read["proc.count"] > 1 and ("mem.anon" not in read or tree.has_left_cgroup):
                tree.note_possible(read.get("mem.used", 0), read["mem.rss"])
            self._take(read, max(self.elapsed, at - self.start))
        self.elapsed = max(self.elapsed, at - self.start)
        if tree.members:
            self.last_members = self.elapsed, tree.read_at
        return Sample(self.elapsed, self.row)

    def _with_cgroup(self, read: dict[str, Number], at: float, own: JobCgroup) -> tuple[dict[str, Number], float]:
        """What the job's cgroup counts in place of what its processes tell, where that is not more."""
        counted, moment = own.read()
        uncounted_seconds = 0.0 if moment is None else job_values.cpu_seconds(read) - job_values.cpu_seconds(counted)
        if self.looked_at != self.tree.details_pass or (
            uncounted_seconds > LEFT_SECONDS and not self.tree.has_left_cgroup
        ):
            self.looked_at = self.tree.details_pass
            self.tree.note_left_cgroup(own.misses(self.tree.members.values()))
        outside = job_values.memory_of_processes(self.tree) if self.tree.has_left_cgroup else None
        if outside is not None and outside > counted.get("mem.used", outside):
            counted["mem.used"] = outside
        if moment is None or uncounted_seconds > 0:
            counted = {key: value for key, value in counted.items() if key not in job_values.CPU_TIMES}
            moment = at
        return read | counted, moment

    def _is_stale(self) -> bool:
        """Whether there is something new in a job in which nobody has run, as only a cgroup can tell."""
        return self.cgroup is not None and self.cgroup.has_changed()

    def _take(self, read: dict[str, Number], elapsed: float) -> None:
        if not read.get("proc.count"):  # it has ended, and we were not told yet: what it held is not held any more
            read = {key: value for key, value in read.items() if key in COUNTERS}
        read = job_values.never_falling(self.values, read, COUNTERS)
        seconds = elapsed - self.elapsed
        self.values, excess = job_values.within_cores(self.values, read, seconds)
        if excess > 0:
            self.version = UNREAD  # the rest comes with the next sample, though nobody may run any more
        if excess > IMPOSSIBLE_SECONDS and excess > IMPOSSIBLE_SHARE * job_values.CORES * seconds:
            self.impossible_seconds = max(self.impossible_seconds, excess)
        self.row = tuple(map(self.values.get, JOB_COLUMNS))


class Rhythm:
    """The jobs that are sampled at one interval, on one grid."""

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.watches: dict[str, Watch] = {}
        self.next_due = float("inf")
        self.next_change = float("inf")

    def add(self, watch: Watch) -> None:
        self.watches[watch.key] = watch
        self.next_change = min(self.next_change, watch.interval_until)


class Sampler:
    """Takes samples of all watched jobs, and of the machine if it is given a host, and hands them to a sink."""

    def __init__(
        self,
        sink: Callable[[Batch], None],
        budget: float = 0.01,
        without: frozenset[str] = frozenset(),
        secret: Sequence[str] = (),
        proc: str = "/proc",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sink, self.budget, self.without, self.secret, self.monotonic = sink, budget, without, secret, monotonic
        self.table = ProcessTable(proc)
        self.watches: dict[str, Watch] = {}
        self._guarded: dict[str, tuple[Watch, Guard]] = {}
        self._rhythms: dict[float, Rhythm] = {}
        self._fresh: list[Watch] = []
        self.host: HostSource | None = None
        self.cpu_seconds = 0.0
        self.charged_seconds = 0.0  # what keeping the samples has cost meanwhile
        self.load = 0.0  # cores, smoothed
        self.stretch = 1.0
        self.closer_share = CLOSER_SHARE
        self.thinned = False
        self._last_host: HostSample | None = None
        self._host_due = -float("inf")
        self._origin = monotonic()
        self._asleep = time.clock_gettime(BOOTTIME) - self._origin
        self._stretch_told = 1.0
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._stopped = False
        self.problem: str | None = None
        self._thread: threading.Thread | None = None

    def watch(
        self,
        key: str,
        target: Target,
        interval: float | None = None,
        guard: Guard | None = None,
    ) -> None:
        """Sample this job at once, and then on the grid; with a guard, look at its memory as often as that wants."""
        cgroup = JobCgroup(target.cgroups, "pressure" not in self.without) if target.cgroups else None
        with self._lock:
            tree = self.table.add_target(target)
            tree.counts_memfds = cgroup is None or not cgroup.counts_memory
            watch = Watch(key, tree, target.start_boottime, interval, cgroup, self.secret, guard)
            self.watches[key] = watch
            if guard is not None:
                self._guarded[key] = watch, guard
            self._fresh.append(watch)
        self._wake.set()

    def forget(self, key: str) -> Watch | None:
        """Watch a job no longer; as it was last seen."""
        with self._lock:
            watch = self.watches.pop(key, None)
            if watch is not None:
                self._guarded.pop(key, None)
                self._fresh = [other for other in self._fresh if other is not watch]
                for rhythm in self._rhythms.values():
                    rhythm.watches.pop(key, None)
                self.table.remove(watch.tree)
                if watch.cgroup is not None:
                    watch.cgroup.close()
        return watch

    def start(self) -> None:
        thread = threading.Thread(target=self._run, name="jobtop-sampler", daemon=True)
        thread.start()
        self._thread = thread

    def stop(self) -> None:
        """End within a tick; what is still watched is let go."""
        self._stopped = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        for key in list(self.watches):
            self.forget(key)
        self.table.close()

    def tick(self) -> Batch:
        """One pass over everything that is due; its cost is kept, and what it means for the next."""
        with self._lock:
            now, boottime = self.monotonic(), time.clock_gettime(BOOTTIME)
            over = self._enforce(now) if self._guarded else []
            began = time.thread_time()
            host = self._sample_host(now)
            beating = [rhythm for rhythm in self._rhythms.values() if now >= rhythm.next_due and rhythm.watches]
            due = [watch for rhythm in beating for watch in rhythm.watches.values()] + self._fresh
            due += [watch for watch in over if watch not in due]
            if not due:
                return Batch(host=host)
            beating += self._placed(beating, boottime)
            step = min((rhythm.interval for rhythm in beating), default=1.0) * self.stretch
            self.table.sweep([watch.tree for watch in due])
            self.table.read_details(self.budget * self.closer_share * step, self.without)
            moved = [watch for watch in due if watch.tree.version != watch.version]
            samples = [(watch.key, watch.sample()) for watch in due]
            snapshots = [] if "snapshots" in self.without else self._snapshots(moved, now)
            cost, self.charged_seconds = time.thread_time() - began + self.charged_seconds, 0.0
            self.cpu_seconds += cost
            self._adapt(cost / step)
            events = self._events(due, now, boottime) + [over_event(watch) for watch in over]
            for rhythm in beating:
                rhythm.next_due = self._next_on_grid(rhythm.interval * self.stretch)
        return Batch(samples, snapshots, host, events)

    def _enforce(self, now: float) -> list[Watch]:
        """Look at the memory of jobs that have to stay below a limit, whatever it costs; who is killed for it."""
        near = [(watch, guard) for watch, guard in self._guarded.values() if now >= guard.due]
        if not near:
            return []
        began = time.thread_time()
        self.table.sweep([watch.tree for watch, _ in near])
        over = [watch for watch, guard in near if guard.look(watch.tree.members.values(), now)]
        self.cpu_seconds += time.thread_time() - began
        return over

    def _placed(self, beating: list[Rhythm], boottime: float) -> list[Rhythm]:
        """Put new jobs, and those that are old enough for another interval, where they belong; whose grid begins."""
        moving, self._fresh = self._fresh, []
        for rhythm in beating:
            if boottime >= rhythm.next_change:
                moving += rhythm.watches.values()
                rhythm.watches, rhythm.next_change = {}, float("inf")
        begun = []
        for watch in moving:
            seconds = watch.interval_at(boottime - watch.start)
            rhythm = self._rhythms.setdefault(seconds, Rhythm(seconds))
            if rhythm not in beating and not rhythm.watches:
                begun.append(rhythm)
            rhythm.add(watch)
        return begun

    def _events(self, due: list[Watch], now: float, boottime: float) -> list[tuple[str, float, str, dict[str, object]]]:
        """What a curve cannot show: that the machine slept, that we look less often than we were asked to."""
        asleep, self._asleep = boottime - now - self._asleep, boottime - now
        events: list[tuple[str, dict[str, object]]] = []
        if asleep > SHORTEST_SLEEP_SECONDS:
            events.append(("suspended", {"seconds": round(asleep, 1)}))
        if self.stretch != self._stretch_told:
            self._stretch_told = self.stretch
            events.append(("sampling_slowed" if self.stretch > 1 else "sampling_restored", {"factor": self.stretch}))
        return [(watch.key, time.time(), kind, detail) for kind, detail in events for watch in due]

    def _snapshots(self, moved: list[Watch], now: float) -> list[tuple[str, float, list[ProcessRow]]]:
        taken = []
        for watch in moved:
            watch.heaviest.learn(self.table.proc, watch.tree)
            if now >= watch.next_snapshot and watch.tree.members:
                watch.next_snapshot = now + SNAPSHOT_SECONDS * self.stretch * watch.snapshot_share
                watch.snapshot_share = 1.0
                rows = watch.heaviest.rows(self.table.proc, watch.tree)
                if rows is not None:
                    taken.append((watch.key, watch.elapsed, rows))
        return taken

    def _sample_host(self, now: float) -> tuple[float, HostSample, HostSample] | None:
        """The machine around the jobs, as often as they are looked at."""
        if self.host is None or now < self._host_due:
            return None
        shortest = min((rhythm.interval for rhythm in self._rhythms.values() if rhythm.watches), default=1.0)
        self._host_due = self._next_on_grid(max(1.0, shortest) * self.stretch)
        before, self._last_host = self._last_host, self.host.collect()
        return None if before is None else (time.clock_gettime(BOOTTIME), before, self._last_host)

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
        """When there is something to look at again, on the monotonic clock; None: never."""
        due = [rhythm.next_due for rhythm in self._rhythms.values() if rhythm.watches]
        due += [guard.due for _, guard in self._guarded.values() if guard.over_bytes is None]
        return min(due, default=None)

    def _hand_over(self, batch: Batch) -> None:
        try:
            self.sink(batch)
        except Exception as error:  # noqa: BLE001 - a border: a sink's mistake must not end the sampling
            self.problem = self.problem or f"{type(error).__name__}: {error}"

    def _adapt(self, load: float) -> None:
        """Over budget, first read the dear files less, then look less often; well below it, the way back.

        One dear tick, as when a large job is met for the first time, changes nothing.
        """
        self.load += SMOOTHING * (min(load, LARGEST_SURPRISE * self.budget) - self.load)
        if self.load > self.budget:
            if self.closer_share > LEAST_CLOSER_SHARE:
                self.closer_share = LEAST_CLOSER_SHARE
                self.thinned = True
            elif self.stretch < LARGEST_STRETCH:
                self.stretch *= 2
                self.load /= 2
                for watch in self.watches.values():
                    watch.longest_stretch = max(watch.longest_stretch, self.stretch)
        elif self.stretch > 1 and 2 * self.load < CALM_SHARE * self.budget:
            self.stretch /= 2
            self.load *= 2
        elif self.load < (CALM_SHARE - CLOSER_SHARE) * self.budget:
            self.closer_share = CLOSER_SHARE


def over_event(watch: Watch) -> tuple[str, float, str, dict[str, object]]:
    """That a job is killed for what it holds."""
    assert watch.guard is not None
    detail: dict[str, object] = {"used_bytes": watch.guard.over_bytes, "limit_bytes": watch.guard.limit_bytes}
    return watch.key, time.time(), "limit_reached", detail
