"""Samples any number of jobs: one thread samples, another one stores the samples and sums them for the records."""

from __future__ import annotations

import threading
import time
from collections import deque
from functools import partial

from jobtop.core.errors import JobtopError, StartError, StoreBusy, StoreError
from jobtop.core.measure.budget import asked_budget
from jobtop.core.measure.derive import derive
from jobtop.core.measure.observation import Observation
from jobtop.core.measure.sampler import Batch, Sampler
from jobtop.core.measure.tally import Tally
from jobtop.core.record import record, replace
from jobtop.core.run.start_problems import TOO_MANY
from jobtop.core.series.endpoints import FIRST_SAMPLE
from jobtop.core.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from typing import Protocol

    from jobtop.core.alerts.model import Transition
    from jobtop.core.config import Config
    from jobtop.core.measure.derive import Frame
    from jobtop.core.measure.target import Target
    from jobtop.core.measure.watch import Watch
    from jobtop.core.model import Sample

    class Sink(Protocol):
        """Where readings are kept; called from one thread. `pace_seconds` is how long they may wait for each other.

        `lost` says until when the samples of a job are gone, though they were kept. `watched` are the keys of all jobs
        that are sampled, also of those without a sample in a batch.
        """

        pace_seconds: float
        lost: dict[str, float]
        watched: Collection[str]

        def keep(self, batches: list[Batch]) -> None: ...
        def may_record_host(self) -> bool: ...
        def step(self) -> bool: ...
        def finish(self, key: str) -> None: ...
        def close(self) -> None: ...

    class AlertRules(Protocol):
        """What judges the samples; called from the writer thread. It returns what has changed, to be stored."""

        def see(self, batch: Batch) -> Sequence[Transition]: ...
        def leave(self, key: str) -> None: ...


HOST_LEASE_SECONDS = 3.0
SHORT_SECONDS = 0.9  # so that the batch of the first second asks for the lease
MOST_HELD = 3600  # batches, while another process holds the store
STEPS_PER_BATCH = 8
BUSY_SECONDS = 0.2  # until a store that another process holds is tried again


@record
class Settings:
    """How to watch; no interval: by the age of the job. `asked_budget` is for intervals that a user asked for."""

    interval: float | None = None
    budget: float = 0.01
    asked_budget: float = 0.0
    without: frozenset[str] = frozenset()
    keeps_series: bool = True
    secret: tuple[str, ...] = ()


def chosen(config: Config, interval: float | None) -> Settings:
    """How to sample, from the settings."""
    return Settings(
        interval,
        config.number("monitor.budget"),
        asked_budget(config),
        frozenset(config.texts("monitor.without")),
        config.text("monitor.granularity") == "time_series",
        config.texts("run.redact"),
    )


class Watched:
    """One job's sum so far."""

    __slots__ = ("report", "report_seconds", "reported", "tally")

    def __init__(self, tally: Tally, report: Callable[[Frame], None] | None, report_seconds: float) -> None:
        self.tally, self.report, self.report_seconds = tally, report, report_seconds
        self.reported: Sample = FIRST_SAMPLE

    def report_on(self, sample: Sample) -> None:
        """Report the rates since the last report, if there is one to make."""
        if self.report is not None and sample.elapsed - self.reported.elapsed >= self.report_seconds * 0.99:
            self.report(derive(self.reported, sample))
            self.reported = sample


class Engine:
    """Runs the two threads; `close` ends both."""

    def __init__(self, sink: Sink, settings: Settings, alerts: AlertRules | None = None) -> None:
        self.sink, self.settings, self.alerts = sink, settings, alerts
        self.sampler = Sampler(
            self._take, settings.budget, settings.without, settings.secret, asked_budget=settings.asked_budget
        )
        self.watched: dict[str, Watched] = {}
        sink.watched = self.watched.keys()
        self._summarized: set[str] = set()  # jobs with samples that are not stored
        self._batches: deque[Batch] = deque()
        self._news = threading.Event()
        self._flushing = threading.Event()
        self._idle = threading.Event()
        self._closing = False
        self.problem: str | None = None  # the first there was in keeping what was sampled
        self._finished: deque[str] = deque()
        self._host_due = time.monotonic() + min(SHORT_SECONDS, HOST_LEASE_SECONDS)  # a short job does not ask for it
        self._writer = threading.Thread(target=self._write, name="jobtop-writer", daemon=True)

    def start(self) -> None:
        """Start both threads; StartError if no more may be started."""
        try:
            self._writer.start()
            self.sampler.start()
        except RuntimeError as error:  # what Python makes of EAGAIN
            raise StartError(TOO_MANY) from error

    def watch(
        self, key: str, target: Target, report: Callable[[Frame], None] | None = None, report_seconds: float = 0.0
    ) -> None:
        """Sample a job from now on, at the interval of the settings."""
        self.watched[key] = Watched(Tally(), report, report_seconds)
        self._sample(key, target, self.settings.interval)

    def adopt(self, key: str, target: Target, interval: float | None, keeps_series: bool = True) -> None:
        """Sample a job that started earlier, at an interval of its own; store its samples, or only their summary."""
        self.watched[key] = Watched(Tally(), None, 0.0)
        if not keeps_series:
            self._summarized.add(key)
        self._sample(key, target, interval)

    def _sample(self, key: str, target: Target, interval: float | None) -> None:
        guard = None
        if target.memory_limit_bytes is not None:
            from jobtop.core.run.limits import Guard

            guard = Guard(target.root, target.memory_limit_bytes)
        self.sampler.watch(key, target, interval, guard)

    def conclude(self, key: str, patience_seconds: float) -> Observation | None:
        """Stop sampling a job, store its samples, and return what they add to its record."""
        return self.conclude_all((key,), patience_seconds).get(key)

    def conclude_all(self, keys: Iterable[str], patience_seconds: float) -> dict[str, Observation]:
        """The same for jobs that end together: wait for the writer once."""
        watches = {key: watch for key in keys if (watch := self._part_with(key)) is not None}
        if watches:
            self.flush(patience_seconds)
        return {key: self._observation(key, watch) for key, watch in watches.items()}

    def _part_with(self, key: str) -> Watch | None:
        last = self.sampler.conclude(key)
        if last is not None:
            self._take(Batch(samples=[(key, last)]))
        watch = self.sampler.forget(key)
        if watch is None or key not in self.watched:
            return None
        if "snapshots" not in self.settings.without:
            elapsed, read_at = watch.last_members
            rows = watch.heaviest.rows(self.sampler.table.proc, watch.tree, read_at)
            if rows:
                self._take(Batch(snapshots=[(key, elapsed, rows)]))
        return watch

    def _observation(self, key: str, watch: Watch) -> Observation:
        interval = watch.interval_at(watch.elapsed)
        longest = interval * watch.longest_stretch
        lost = self.sink.lost.get(key)
        problem = self.problem or self.sampler.problem_of(watch)
        if lost is not None:
            problem = f"those until {format_duration(lost)} are lost: the store was deleted or replaced"
        over = watch.guard.over_bytes if watch.guard is not None else None
        tree, thinned = watch.tree, self.sampler.thinned
        possible = max(tree.possible_peak, tree.possible[0]) if "pss" not in self.settings.without else 0
        return Observation(
            self.watched[key].tally,
            interval,
            longest,
            thinned,
            watch.impossible_seconds,
            problem,
            over,
            high_bytes=tree.high_bytes or None,
            possible_bytes=possible,
            unread_memfd_bytes=tree.memfd_unread_bytes,
            remarks=tuple(watch.remarks.values()),
            last_counts=watch.last_counts,
        )

    def finish(self, key: str) -> None:
        """Note that a job has no more samples: they can be packed."""
        self.watched.pop(key, None)
        if self.alerts is not None:
            self.alerts.leave(key)
        self._finished.append(key)
        self._news.set()

    def flush(self, patience_seconds: float) -> bool:
        """Wait until all samples are stored, up to a limit."""
        self._idle.clear()
        self._flushing.set()
        self._news.set()
        return self._idle.wait(patience_seconds)

    def close(self, patience_seconds: float) -> None:
        """End both threads; if another process holds the store for longer, batches that wait for it are lost."""
        self.sampler.stop()
        self._closing = True
        self._flushing.set()
        self._news.set()
        self._writer.join(patience_seconds)

    def _take(self, batch: Batch) -> None:
        """From the sampling thread: never waits."""
        self._batches.append(batch)
        self._news.set()

    def _write(self) -> None:
        kept_at = -float("inf")
        waiting: list[Batch] = []
        while True:
            self._news.wait()
            began = time.thread_time()
            waiting += self._batches_until(kept_at + self.sink.pace_seconds)
            waiting, is_busy = self._keep(waiting)
            self.sampler.charged_seconds += time.thread_time() - began
            kept_at = time.monotonic()
            if not is_busy and not self._batches:
                self._idle.set()
                if not waiting:
                    self._keep_house()
            if is_busy or self._finished:  # another process holds the store: try again
                self._flushing.wait(BUSY_SECONDS)
                self._news.set()
            if self._closing and not (waiting or self._batches or self._finished):
                break
        self._guarded(self.sink.close)

    def _batches_until(self, moment: float) -> list[Batch]:
        """The batches that came until a moment, or until they are wanted at once; each is judged when it comes."""
        taken: list[Batch] = []
        while True:
            self._news.clear()
            taken += self._new_batches()
            left = moment - time.monotonic()
            if self._flushing.is_set() or left <= 0 or not self._news.wait(left):
                break
        self._flushing.clear()
        return taken + self._new_batches()  # what came with a flush since the last look

    def _new_batches(self) -> list[Batch]:
        batches = [self._judged(self._batches.popleft()) for _ in range(len(self._batches))]
        for batch in batches:
            for key, sample in batch.samples:
                watched = self.watched.get(key)
                if watched is not None:
                    watched.tally.add(sample)
                    if watched.report is not None:
                        watched.report_on(sample)
        return batches

    def _judged(self, batch: Batch) -> Batch:
        """The batch with the alerts that it changes."""
        if self.alerts is None:
            return batch
        try:
            changes = self.alerts.see(batch)
        except Exception as error:  # noqa: BLE001 - a border: a mistake in a rule costs alerts, never samples
            self._note(error)
            return batch
        return replace(batch, alerts=changes) if changes else batch

    def _keep(self, batches: list[Batch]) -> tuple[list[Batch], bool]:
        """The batches to try again later, and whether the only reason is that another process holds the store."""
        try:
            if batches and self.settings.keeps_series:
                self.sink.keep(list(map(self._stored_part, batches)) if self._summarized else batches)
        except StoreBusy:
            return batches[-MOST_HELD:], True
        except StoreError as error:  # full, or read-only: with the next samples it is tried again
            self._note(error)
            return [] if self._closing else batches[-MOST_HELD:], False
        except Exception as error:  # noqa: BLE001 - a border: whatever the store does, the job goes on and its totals are kept
            self._note(error)
        return [], False

    def _stored_part(self, batch: Batch) -> Batch:
        """The batch without the samples of jobs that only keep a summary."""
        samples = [entry for entry in batch.samples if entry[0] not in self._summarized]
        return replace(batch, samples=samples)

    def _keep_house(self) -> None:
        """Between ticks, in small steps: pack full blocks and ended jobs, and maintain the record of the host."""
        while self._finished and self._guarded(partial(self._finish, self._finished[0])):
            self._finished.popleft()
        for _ in range(STEPS_PER_BATCH):
            if self._batches or not self._guarded(self.sink.step):
                break
        now = time.monotonic()
        wants_host = self.settings.keeps_series and "host" not in self.settings.without and not self._closing
        if wants_host and now > self._host_due:
            self._host_due = now + HOST_LEASE_SECONDS
            self.sampler.record_host(bool(self._guarded(self.sink.may_record_host)))

    def _finish(self, key: str) -> bool:
        """Let a job's samples be packed; StoreBusy if that has to wait."""
        try:
            self.sink.finish(key)
            self._summarized.discard(key)
        except StoreBusy:
            raise
        except Exception as error:  # noqa: BLE001 - the same border
            self._note(error)
        return True

    def _guarded(self, call: Callable[[], object]) -> object:
        try:
            return call()
        except StoreBusy:
            return None
        except Exception as error:  # noqa: BLE001 - the same border
            self._note(error)
            return None

    def _note(self, error: Exception) -> None:
        if self.problem is None:
            self.problem = str(error) if isinstance(error, JobtopError) else f"{type(error).__name__}: {error}"
