"""One job that is sampled: what its sources read of it, merged into samples; and the jobs of one interval."""

from __future__ import annotations

from functools import lru_cache
from math import inf
from operator import itemgetter, lt

from jobtop.core.clock import AUTO_SECONDS
from jobtop.core.measure.collectors import jobs as job_values
from jobtop.core.measure.collectors.heaviest import Heaviest
from jobtop.core.metrics import BY_KEY, JOB_COLUMNS, Kind
from jobtop.core.model import Sample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobtop.core.measure.collectors.members import Tree
    from jobtop.core.measure.collectors.process_fields import JobRow
    from jobtop.core.measure.source import Number, Remarks
    from jobtop.core.measure.target import Target
    from jobtop.core.run.limits import Guard

# The constructor of a record knows names and defaults: for the samples of many jobs it takes four times as long.
NEW_SAMPLE = Sample.__new__
SET_ELAPSED, SET_VALUES, SET_MINUTE = (Sample.__dict__[name].__set__ for name in ("elapsed", "values", "minute"))
COUNTERS = frozenset(key for key in JOB_COLUMNS if BY_KEY[key].kind is Kind.COUNTER)
PLACES = {key: place for place, key in enumerate(JOB_COLUMNS)}
COUNTER_PLACES = tuple(PLACES[key] for key in JOB_COLUMNS if key in COUNTERS)
USER, SYSTEM, PROCESSES = PLACES["cpu.user"], PLACES["cpu.system"], PLACES["proc.count"]
GPU_KEYS = frozenset({"gpu.util", "gpu.mem_used", "energy.gpu"})  # that several sources have a part of
UNKNOWN_ROW: JobRow = (None,) * len(JOB_COLUMNS)
pick_counters = itemgetter(*COUNTER_PLACES)
QUIET_TICKS = 10  # an idle job among many is sampled once in so many ticks …
QUIET_AFTER = 3  # … after so many samples without new readings
FEWEST_QUIET = 16  # jobs of one interval: of fewer, all are sampled in every tick
IMPOSSIBLE_SECONDS, IMPOSSIBLE_SHARE = 0.1, 0.05  # more CPU time than there can be, by more than the kernel rounds


class Watch:
    """One job that is sampled."""

    __slots__ = (
        *("_counters", "_known_places", "_pick_known", "_unknown_counters", "elapsed", "guard", "has_news", "heaviest"),
        *(
            "idle_samples",
            "impossible_seconds",
            "interval",
            "interval_until",
            "key",
            "last_counts",
            "last_members",
            "longest_stretch",
        ),
        *("next_snapshot", "parts", "process_row", "remarks", "row", "snapshot_share", "start", "target", "tree"),
    )

    def __init__(
        self,
        key: str,
        target: Target,
        tree: Tree,
        interval: float | None,
        secret: Sequence[str] = (),
        guard: Guard | None = None,
    ) -> None:
        self.key, self.target, self.tree, self.interval, self.guard = key, target, tree, interval, guard
        self.start = target.start_boottime
        self.process_row = UNKNOWN_ROW  # what its processes use
        self.parts: dict[str, dict[str, Number]] = {}  # what each other source read last, by its name
        self.remarks: dict[str, Remarks] = {}  # by the name of the source
        self.row = UNKNOWN_ROW
        self._unknown_counters = len(COUNTER_PLACES)
        self._known_places: tuple[int, ...] = ()
        self._pick_known = picker(())
        self._counters: tuple[float, ...] = ()  # the known ones of `row`
        self.elapsed = 0.0
        self.last_counts: Sample | None = None  # of a job that has ended
        self.last_members = (0.0, 0.0)  # of the last sample that found a process: seconds elapsed, moment since boot
        self.interval_until = float("inf")  # moment since boot
        self.next_snapshot = -float("inf")
        # Jobs that started together do not have their snapshots taken together.
        self.snapshot_share = (hash(key) % 1000) / 1000
        self.heaviest = Heaviest(secret)
        self.longest_stretch = 1.0
        self.impossible_seconds = 0.0
        self.idle_samples = 0  # in a row, without new readings
        self.has_news = False

    def interval_at(self, age: float) -> float:
        """The seconds between samples at this age of the job."""
        if self.interval is not None:
            return self.interval
        until, seconds = next((until, seconds) for until, seconds in AUTO_SECONDS if age < until)
        self.interval_until = self.start + until
        return seconds

    def take(self, source: str, values: dict[str, Number]) -> None:
        """Take over what a source read; without values those of that source are absent from now on."""
        if self.parts.get(source) != values:
            self.parts[source] = values
            self.has_news = True

    def take_row(self, row: JobRow) -> None:
        """Take over what the processes use."""
        self.process_row = row
        self.has_news = True

    def sample(self, boottime: float) -> Sample:
        """A sample of this moment; where no source has read anything new its values are those of the last one.

        Counters never fall, and no CPU time is more than the cores can give.
        """
        elapsed, tree = max(self.elapsed, boottime - self.start), self.tree
        if self.has_news:
            self.has_news = False
            self.idle_samples = 0
            self._merge(elapsed)
        else:
            self.idle_samples += 1
        self.elapsed = elapsed
        if tree.members:
            self.last_members = elapsed, boottime
        sample = NEW_SAMPLE(Sample)
        SET_ELAPSED(sample, elapsed)
        SET_VALUES(sample, self.row)
        SET_MINUTE(sample, None)
        return sample

    def last_sample(self, boottime: float) -> Sample | None:
        """The sample of a job that has ended: counters alone; None if it adds nothing to the curves.

        A slow source reads before the tick that takes its values. Counters that were known in the sample before have
        grown since that reading, so that their rate since the sample would be too high: they go to the totals alone.
        """
        if not self.has_news:
            return None
        before = pick_counters(self.row)
        sample = self.sample(boottime)
        after = pick_counters(sample.values)
        if before == after:
            return None
        values = (value if place in COUNTER_PLACES else None for place, value in enumerate(sample.values))
        self.last_counts = Sample(sample.elapsed, tuple(values))
        is_new = any(was is None and value is not None for was, value in zip(before, after, strict=True))
        return self.last_counts if is_new else None

    def repeat(self, boottime: float) -> Sample:
        """A sample of an earlier moment, at which the values were still those of the last sample."""
        self.elapsed = boottime - self.start
        if self.last_members[0] and self.row[PROCESSES]:
            self.last_members = self.elapsed, boottime
        return Sample(self.elapsed, self.row)

    def _merge(self, elapsed: float) -> None:
        """Make one row of what the sources read; of two values of one key the later source's counts.

        GPUs of different vendors have different sources: a job on both has the sum.
        """
        row = self.process_row
        if self.parts:
            values = list(row)
            for part in self.parts.values():
                for key, value in part.items():
                    values[PLACES[key]] = value
            if len(of_gpus := [part for part in self.parts.values() if not GPU_KEYS.isdisjoint(part)]) > 1:
                for key in GPU_KEYS:
                    values[PLACES[key]] = sum_of_all(key, of_gpus)
            row = tuple(values)
        if row[PROCESSES] == 0:  # it has ended, and its record has not: it uses no memory any more
            row = tuple(value if place in COUNTER_PLACES else None for place, value in enumerate(row))
        unknown = pick_counters(row).count(None)
        if unknown > self._unknown_counters:  # switches, after the first process has exited
            values = list(row)
            for place in self._known_places:
                if values[place] is None:
                    values[place] = self.row[place]
            row = tuple(values)
            unknown = pick_counters(row).count(None)
        # How many cores the machine of another engine has is not known.
        seconds = elapsed - self.elapsed if self.target.engine is None else inf
        if self._has_fallen(row) or self._is_impossible(row, seconds):
            row = self._corrected(row, seconds)
        self.row = row
        if unknown != self._unknown_counters:  # a counter that was known once stays known
            self._unknown_counters = unknown
            self._known_places = tuple(place for place in COUNTER_PLACES if row[place] is not None)
            self._pick_known = picker(self._known_places)
        self._counters = self._pick_known(row)

    def _has_fallen(self, row: JobRow) -> bool:
        """Whether a counter is less than it was, or not known any more."""
        try:
            return any(map(lt, self._pick_known(row), self._counters))
        except TypeError:  # None
            return True

    def _is_impossible(self, row: JobRow, seconds: float) -> bool:
        """Whether there is more CPU time than the cores could give meanwhile."""
        grown = (row[USER] or 0) + (row[SYSTEM] or 0) - (self.row[USER] or 0) - (self.row[SYSTEM] or 0)
        return grown > max(0.0, job_values.CORES * seconds)

    def _corrected(self, row: JobRow, seconds: float) -> JobRow:
        """A row with no counter less than before, and with no more CPU time than the cores could give."""
        before, read = values_by_key(self.row), values_by_key(row)
        read = job_values.never_falling(before, read, COUNTERS)
        values, excess = job_values.within_cores(before, read, seconds)
        if excess > 0:
            self.has_news = True  # the rest comes with the next sample, though no process may run any more
        if excess > IMPOSSIBLE_SECONDS and excess > IMPOSSIBLE_SHARE * job_values.CORES * seconds:
            self.impossible_seconds = max(self.impossible_seconds, excess)
        return tuple(map(values.get, JOB_COLUMNS))


def sum_of_all(key: str, parts: Sequence[dict[str, Number]]) -> Number | None:
    """The sum of one key; None if one of the parts does not know it."""
    known = [part[key] for part in parts if key in part]
    return sum(known) if len(known) == len(parts) else None


def values_by_key(row: JobRow) -> dict[str, Number]:
    """The values of a row that are known, by catalogue key."""
    return {key: value for key, value in zip(JOB_COLUMNS, row, strict=True) if value is not None}


@lru_cache
def picker(places: tuple[int, ...]) -> Callable[[JobRow], tuple[float, ...]]:
    """A function that picks the values at these places of a row."""
    if not places:
        return lambda _: ()
    return itemgetter(*places, places[0])  # of a single place it would not return a tuple


class QuietJobs:
    """Idle jobs of one interval: they are sampled in turns, each once in QUIET_TICKS ticks.

    Their values stay the same meanwhile, so that no curve changes. When a job has new readings it leaves, and gets a
    sample of the tick before: until then its values were the old ones.
    """

    def __init__(self) -> None:
        self._turns: list[dict[str, Watch]] = [{} for _ in range(QUIET_TICKS)]
        self._turn_of: dict[str, int] = {}
        self._turn = 0
        self.last_moment = 0.0  # of the tick before

    def __contains__(self, key: str) -> bool:
        return key in self._turn_of

    def __len__(self) -> int:
        return len(self._turn_of)

    def add(self, watch: Watch) -> None:
        """Add a job to the turn with the fewest."""
        turn = min(range(QUIET_TICKS), key=lambda number: len(self._turns[number]))
        self._turns[turn][watch.key] = watch
        self._turn_of[watch.key] = turn

    def remove(self, key: str) -> None:
        turn = self._turn_of.pop(key, None)
        if turn is not None:
            del self._turns[turn][key]

    def next_turn(self) -> dict[str, Watch]:
        """The jobs to sample in this tick."""
        self._turn = (self._turn + 1) % QUIET_TICKS
        return self._turns[self._turn]


class Rhythm:
    """The jobs that are sampled at one interval, on one grid; `busy` are all but the quiet ones."""

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.watches: dict[str, Watch] = {}
        self.busy: dict[str, Watch] = {}
        self.quiet = QuietJobs()
        self._ticks = 0
        self.next_due = float("inf")
        self.next_change = float("inf")

    def add(self, watch: Watch) -> None:
        self.watches[watch.key] = self.busy[watch.key] = watch
        self.next_change = min(self.next_change, watch.interval_until)

    def wake(self, news: list[Watch]) -> list[Watch]:
        """Sample those quiet jobs in every tick again that have new readings; return them."""
        woken = [watch for watch in news if watch.key in self.quiet] if len(self.quiet) else []
        for watch in woken:
            self.quiet.remove(watch.key)
            self.busy[watch.key] = watch
        return woken

    def samples_until_now(self, watch: Watch) -> list[Sample]:
        """The sample that a quiet job would have had in the tick before, if it had none then."""
        moment = self.quiet.last_moment
        return [watch.repeat(moment)] if moment - watch.start > watch.elapsed else []

    def next_watches(self, moment: float) -> dict[str, Watch]:
        """The jobs to sample in this tick: busy ones, and quiet ones that have their turn."""
        chosen = self.busy | self.quiet.next_turn()
        self.quiet.last_moment = moment
        self._ticks += 1
        if self._ticks % QUIET_AFTER == 0 and len(self.watches) >= FEWEST_QUIET:
            for watch in list(self.busy.values()):
                if watch.idle_samples >= QUIET_AFTER and watch.interval is None and watch.guard is None:
                    del self.busy[watch.key]
                    self.quiet.add(watch)
        return chosen

    def remove(self, key: str) -> None:
        self.watches.pop(key, None)
        self.busy.pop(key, None)
        self.quiet.remove(key)

    def clear(self) -> None:
        self.watches, self.busy, self.quiet, self.next_change = {}, {}, QuietJobs(), float("inf")
