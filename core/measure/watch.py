"""One job that is sampled: what its sources read of it, merged into samples; and the jobs of one interval."""

from __future__ import annotations

from jobtop.core.clock import AUTO_SECONDS
from jobtop.core.measure.collectors import jobs as job_values
from jobtop.core.measure.collectors.heaviest import Heaviest
from jobtop.core.metrics import BY_KEY, JOB_COLUMNS, Kind
from jobtop.core.model import Sample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobtop.core.measure.collectors.members import Tree
    from jobtop.core.measure.source import Number
    from jobtop.core.measure.target import Target
    from jobtop.core.run.limits import Guard

# The constructor of a record knows names and defaults: for the samples of many jobs it takes four times as long.
NEW_SAMPLE = Sample.__new__
SET_ELAPSED, SET_VALUES, SET_MINUTE = (Sample.__dict__[name].__set__ for name in ("elapsed", "values", "minute"))
COUNTERS = frozenset(key for key in JOB_COLUMNS if BY_KEY[key].kind is Kind.COUNTER)
IMPOSSIBLE_SECONDS, IMPOSSIBLE_SHARE = 0.1, 0.05  # more CPU time than there can be, by more than the kernel rounds


class Watch:
    """One job that is sampled."""

    __slots__ = (
        *("_has_news", "elapsed", "guard", "heaviest", "impossible_seconds", "interval", "interval_until", "key"),
        *(
            "last_members",
            "longest_stretch",
            "next_snapshot",
            "parts",
            "row",
            "snapshot_share",
            "start",
            "target",
            "tree",
            "values",
        ),
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
        self.parts: dict[str, dict[str, Number]] = {}  # what each source read last, by its name
        self.values: dict[str, Number] = {}
        self.row: tuple[Number | None, ...] = (None,) * len(JOB_COLUMNS)
        self.elapsed = 0.0
        self.last_members = (0.0, 0.0)  # of the last sample that found a process: seconds elapsed, moment since boot
        self.interval_until = float("inf")  # moment since boot
        self.next_snapshot = -float("inf")
        # Jobs that started together do not have their snapshots taken together.
        self.snapshot_share = (hash(key) % 1000) / 1000
        self.heaviest = Heaviest(secret)
        self.longest_stretch = 1.0
        self.impossible_seconds = 0.0
        self._has_news = False

    def interval_at(self, age: float) -> float:
        """The seconds between samples at this age of the job."""
        if self.interval is not None:
            return self.interval
        until, seconds = next((until, seconds) for until, seconds in AUTO_SECONDS if age < until)
        self.interval_until = self.start + until
        return seconds

    def take(self, source: str, values: dict[str, Number]) -> None:
        """Take over what a source read; without values those of that source are absent from now on."""
        self.parts[source] = values
        self._has_news = True

    def sample(self, boottime: float) -> Sample:
        """A sample of this moment; where no source has read anything new its values are those of the last one.

        Counters never fall, and no CPU time is more than the cores can give.
        """
        elapsed = max(self.elapsed, boottime - self.start)
        if self._has_news:
            self._has_news = False
            self._merge(elapsed)
        self.elapsed = elapsed
        if self.tree.members:
            self.last_members = elapsed, self.tree.read_at
        sample = NEW_SAMPLE(Sample)
        SET_ELAPSED(sample, elapsed)
        SET_VALUES(sample, self.row)
        SET_MINUTE(sample, None)
        return sample

    def _merge(self, elapsed: float) -> None:
        """Make one row of what the sources read; of two values of one key the later source's counts."""
        read: dict[str, Number] = {}
        for values in self.parts.values():
            read = read | values if read else values
        if read.get("proc.count") == 0:  # it has ended, and its record has not: it uses no memory any more
            read = {key: value for key, value in read.items() if key in COUNTERS}
        read = job_values.never_falling(self.values, read, COUNTERS)
        seconds = elapsed - self.elapsed
        self.values, excess = job_values.within_cores(self.values, read, seconds)
        if excess > 0:
            self._has_news = True  # the rest comes with the next sample, though no process may run any more
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
