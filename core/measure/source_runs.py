"""Calls sources: a fast one in the tick, a slow one in its own thread. A failure affects only its own numbers."""

from __future__ import annotations

import threading
import time
from collections import deque

from jobtop.core.clock import BOOTTIME
from jobtop.core.record import record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.core.measure.source import Event, Jobs, Readings, Remarks, Source

LONGEST_END_SECONDS = 0.3  # that is waited for a thread to end: a driver may take seconds to open
FIRST_SECONDS = 0.25  # until a slow source is opened: a short job is over before that
MOST_CORES = 0.005  # that a slow source may use unless it has its own `most_cores`; above, it is called less often …
SLOWEST = 20  # … by this factor at most
MOST_EVENTS = 1000  # that wait for a tick
STALE_INTERVALS = 3  # after so many without new readings the values of a slow source are absent


@record
class SourceStatus:
    """A source as it is now: why it cannot be used here, or what went wrong first, if anything."""

    name: str
    unavailable: str | None
    problem: str | None


@record
class News:
    """New readings, and when they were complete if that was before this tick."""

    readings: Readings
    boottime: float | None = None


class FastRun:
    """Calls a fast source in the tick. `is_lost`: the last call gave nothing, so its values are absent."""

    def __init__(self, source: Source) -> None:
        self.source, self.name = source, source.name
        self.problem: str | None = None
        self.is_lost = False
        self.unavailable = _guarded(source.available)

    @property
    def status(self) -> SourceStatus:
        return SourceStatus(self.name, self.unavailable, self.problem)

    def poll(self, jobs: Jobs) -> News | None:
        """What the source reads of these jobs now; None if nothing."""
        if self.unavailable is not None:
            return None
        try:
            readings = self.source.collect(jobs)
        except Exception as error:  # noqa: BLE001 - a border: a source's mistake costs its own numbers
            self.problem = self.problem or words(error)
            self.is_lost = True
            return None
        self.is_lost = False
        return News(readings)

    def conclude(self, key: str) -> Readings | None:
        """None: the last tick has read the job."""
        return None

    def set_jobs(self, jobs: Jobs) -> None:
        """Nothing to do: each call names its jobs."""

    def forget(self, key: str) -> None:
        self._note(_guarded(lambda: self.source.forget(key)))

    def take_cost(self) -> float:
        """CPU seconds outside the tick since the last call."""
        return 0.0

    def close(self) -> None:
        self._note(_guarded(self.source.close))

    def _note(self, problem: str | None) -> None:
        self.problem = self.problem or problem


@record
class Slot:
    """The newest readings of a slow source, when they were complete, and how long they took."""

    readings: Readings
    boottime: float
    monotonic: float
    seconds: float


class SlowRun:
    """Calls a slow source in a thread of its own, which fills a slot; a tick reads the slot and never waits.

    `is_lost`: nothing came for some intervals, so its values are absent.
    """

    def __init__(self, source: Source, monotonic: Callable[[], float] = time.monotonic) -> None:
        assert source.interval_seconds is not None
        self.source, self.name, self.interval_seconds = source, source.name, source.interval_seconds
        self.unavailable: str | None = None
        self.problem: str | None = None
        self.is_lost = False
        self._monotonic = monotonic
        self._jobs: Jobs = {}
        self._slot: Slot | None = None
        self._taken: Slot | None = None
        self._spent_seconds = self._charged_seconds = 0.0
        self._forgotten: deque[str] = deque()
        self._concluded: dict[str, Remarks] = {}  # what was said last about jobs that have ended
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)  # also of readings that no tick took
        self._pause_seconds = self.interval_seconds
        self._most_cores: float = getattr(source, "most_cores", MOST_CORES)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._began = monotonic()

    @property
    def status(self) -> SourceStatus:
        return SourceStatus(self.name, self.unavailable, self.problem)

    def poll(self, jobs: Jobs) -> News | None:
        """The readings that came since the last call; None if there are none."""
        slot = self._slot
        self.is_lost = self._is_stale(slot)
        if slot is None or slot is self._taken or self.is_lost:
            return None
        self._taken = slot
        events = [self._events.popleft() for _ in range(len(self._events))]
        readings = replace(slot.readings, events=events) if events or slot.readings.events else slot.readings
        return News(readings, slot.boottime)

    def newest_remarks(self, key: str) -> Remarks | None:
        """What the source said last about a job, also if no tick has taken it yet."""
        slot, concluded = self._slot, self._concluded.pop(key, None)
        return concluded if concluded is not None or slot is None else slot.readings.remarks.get(key)

    def conclude(self, key: str) -> Readings | None:
        """What a source that can do so reads of a job that has ended."""
        conclude: Callable[[str, Jobs], Readings | None] | None = getattr(self.source, "conclude", None)
        if conclude is None or self._slot is None:
            return None
        try:
            readings = conclude(key, self._jobs)
        except Exception as error:  # noqa: BLE001 - the same border
            self.problem = self.problem or words(error)
            return None
        if readings is not None and key in readings.remarks:
            self._concluded[key] = readings.remarks[key]
        return readings

    def set_jobs(self, jobs: Jobs) -> None:
        """Read these jobs from now on; the thread is started by the first call."""
        self._jobs = jobs
        if self._thread is not None:
            return
        self._began = self._monotonic()
        self._thread = threading.Thread(target=self._run, name=f"jobtop-{self.name}", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # no more threads may be started
            self.problem = words(error)

    def forget(self, key: str) -> None:
        """Let the thread forget a job: no other thread calls the source."""
        self._forgotten.append(key)

    def take_cost(self) -> float:
        """CPU seconds outside the tick since the last call."""
        before, self._charged_seconds = self._charged_seconds, self._spent_seconds
        return self._charged_seconds - before

    def close(self) -> None:
        """Ask the thread to end, which it does at once unless the source hangs; the thread closes the source."""
        self._stopped.set()
        if self._thread is None:
            _guarded(self.source.close)
        elif self._thread.is_alive():
            self._thread.join(LONGEST_END_SECONDS)

    def _is_stale(self, slot: Slot | None) -> bool:
        if self._thread is None and slot is None:  # no job needed it yet
            return False
        now = self._monotonic()
        since, seconds = (self._began, 0.0) if slot is None else (slot.monotonic, slot.seconds)
        if now - since <= STALE_INTERVALS * max(self._pause_seconds, seconds) or self.unavailable is not None:
            return False
        self.problem = self.problem or f"no readings for {now - since:.0f} s"
        return True

    def _run(self) -> None:
        self._stopped.wait(min(FIRST_SECONDS, self.interval_seconds))
        self.unavailable = None if self._stopped.is_set() else _guarded(self.source.available)
        while self.unavailable is None and not self._stopped.is_set():
            began = self._monotonic()
            self._collect(began)
            self._stopped.wait(max(0.0, began + self._pause_seconds - self._monotonic()))
        self.problem = self.problem or _guarded(self.source.close)

    def _collect(self, began: float) -> None:
        spent = time.thread_time()
        try:
            while self._forgotten:
                self.source.forget(self._forgotten.popleft())
            readings = self.source.collect(self._jobs)
        except Exception as error:  # noqa: BLE001 - the same border
            self.problem = self.problem or words(error)
        else:
            now = self._monotonic()
            self._events.extend(readings.events)
            self._slot = Slot(readings, time.clock_gettime(BOOTTIME), now, now - began)
        cost = time.thread_time() - spent
        if self._spent_seconds:  # the first call opens things
            interval = self.source.interval_seconds or self.interval_seconds  # it may change
            self._pause_seconds = min(max(interval, cost / self._most_cores), SLOWEST * interval)
        self._spent_seconds += cost


class DeferredSource:
    """A slow source that is opened by its thread: what it needs is imported there, and not for a short job."""

    def __init__(self, name: str, interval_seconds: float, opener: Callable[[], Source]) -> None:
        self.name, self._interval_seconds, self._opener = name, interval_seconds, opener
        self._source: Source | None = None

    @property
    def interval_seconds(self) -> float:
        seconds = self._source.interval_seconds if self._source is not None else None
        return seconds or self._interval_seconds

    def available(self) -> str | None:
        """Open it; why it cannot be used here, or None."""
        self._source = self._opener()
        return self._source.available()

    def collect(self, jobs: Jobs) -> Readings:
        assert self._source is not None
        return self._source.collect(jobs)

    def conclude(self, key: str, jobs: Jobs) -> Readings | None:
        """What the source reads of a job that has ended; None if it reads nothing then."""
        conclude: Callable[[str, Jobs], Readings | None] | None = getattr(self._source, "conclude", None)
        return None if conclude is None else conclude(key, jobs)

    def forget(self, key: str) -> None:
        if self._source is not None:
            self._source.forget(key)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()


class UnopenedSource:
    """Stands for a source that could not be opened."""

    interval_seconds = None

    def __init__(self, name: str, why: str) -> None:
        self.name, self._why = name, why

    def available(self) -> str:
        return self._why

    def collect(self, jobs: Jobs) -> Readings:
        raise NotImplementedError(self._why)

    def forget(self, key: str) -> None: ...

    def close(self) -> None: ...


def _guarded(call: Callable[[], str | None]) -> str | None:
    """What a call answers, or why it failed."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - the same border
        return words(error)


def words(error: Exception) -> str:
    """An error as text: its class and its message."""
    return f"{type(error).__name__}: {error}"
