"""Finds a job that does nothing: no CPU time, no I/O, no output. Pure."""

from __future__ import annotations

from jobtop.core.alerts.detector import Finding, Indifferent
from jobtop.core.alerts.state_machine import Verdict
from jobtop.core.model import Status
from jobtop.core.run.interactive import takes_over_terminal
from jobtop.core.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jobtop.core.alerts.detector import Reading
    from jobtop.core.alerts.model import Owner, Rule
    from jobtop.core.model import Job

    Number = float | int
    Get = Callable[[str], Number | None]

IDLE_CPU = 0.01  # of a core: a process that wakes up to see whether there is work uses less
IDLE_BYTES_PER_SECOND = 1024  # of I/O: the same
IDLE_PERCENT = 1.0  # of a GPU
LOOK_SECONDS = 10.0  # between two looks

CPU = ("cpu.user", "cpu.system")
CALLS, STORAGE = ("io.read_chars", "io.write_chars"), ("io.read_bytes", "io.write_bytes")
NETWORK = ("net.rx_bytes", "net.tx_bytes")
GPU, OUTPUT = "gpu.util", "output.bytes"
KEYS = (*CPU, *CALLS, *STORAGE, *NETWORK, GPU, OUTPUT)


class StallWatch:
    """Remembers since when a job has done nothing. A counter that is absent says nothing: the job is not judged."""

    __slots__ = ("_active", "_before", "_newest", "_newest_clock")

    def __init__(self) -> None:
        self._active = 0.0  # when the job was last seen at work, by the clock
        self._before: dict[str, Number | None] | None = None
        self._newest = self._newest_clock = 0.0

    def see(self, elapsed: float, get: Get, clock: float | None = None, still_seconds: float = 0.0) -> None:
        """Compare the values of a job with the ones before; a sample that was seen already changes nothing.

        `clock` is when they were sampled by a clock that stands still while the machine is suspended. Before that, no
        counter of the job had grown for `still_seconds`: it stopped working then, and not at this look.
        """
        clock = elapsed if clock is None else clock
        if self._before is not None and self._newest == elapsed:
            return
        after = values_of(get)
        before, seconds = after if self._before is None else self._before, elapsed - self._newest
        longest = still_seconds if self._before is None else min(still_seconds, clock - self._newest_clock)
        is_first = self._before is None
        self._before, self._newest, self._newest_clock = after, elapsed, clock
        if is_first or seconds <= 0 or not is_idle(before, after, seconds):
            # Output and a GPU at a constant load are work that no counter of a sample tells of.
            is_over = is_idle(after, after, 1.0) and not (_growth(before, after, (OUTPUT,)) or 0)
            self._active = clock - (max(0.0, longest) if is_over else 0.0)

    def idle_seconds_at(self, elapsed: float, get: Get, clock: float) -> float | None:
        """For how long the job has done nothing up to a sample between two looks; None if it did something.

        As much is allowed as between two looks: a job that wakes up now and then may do so in a short time.
        """
        if self._before is None or not is_idle(self._before, values_of(get), max(elapsed - self._newest, LOOK_SECONDS)):
            return None
        return clock - self._active

    @property
    def idle_seconds(self) -> float:
        """For how long the job has done nothing, up to its newest sample."""
        return self._newest_clock - self._active


def values_of(get: Get) -> dict[str, Number | None]:
    """The values that tell of work."""
    return {key: get(key) for key in KEYS}


def is_idle(before: dict[str, Number | None], after: dict[str, Number | None], seconds: float) -> bool:
    """Whether every counter that tells of work is known and has hardly moved."""
    cpu, io = _growth(before, after, CPU), _growth(before, after, CALLS)
    if io is None:
        io = _growth(before, after, STORAGE)
    if cpu is None or io is None:
        return False
    if cpu > IDLE_CPU * seconds or io > IDLE_BYTES_PER_SECOND * seconds:
        return False
    if (_growth(before, after, NETWORK) or 0) > IDLE_BYTES_PER_SECOND * seconds:
        return False
    if (after[GPU] or 0) > IDLE_PERCENT:
        return False
    output = _growth(before, after, (OUTPUT,))
    # Without a log, output is part of what is written by system calls: any of it counts.
    return output == 0 if output is not None else _growth(before, after, CALLS[1:]) == 0


def _growth(before: dict[str, Number | None], after: dict[str, Number | None], keys: tuple[str, ...]) -> float | None:
    """How much counters grew together; None if one is absent or fell."""
    grown = 0.0
    for key in keys:
        was, value = before[key], after[key]
        if was is None or value is None or value < was:
            return None
        grown += value - was
    return grown


class StallDetector(Indifferent):
    """Judges jobs by whether they do anything; interactive and paused jobs are exempt."""

    looks_early = True

    def __init__(self) -> None:
        self._exempt: set[str] = set()
        self._resumed: set[Owner] = set()  # not looked at since: the time of the pause does not count
        self._watches: dict[Owner, StallWatch] = {}

    def join(self, job: Job) -> None:
        """Watch a job, or no longer if it was paused."""
        if job.status is Status.PAUSED or takes_over_terminal(job.command):
            self._exempt.add(job.id)
            self._watches.pop(job.id, None)
        elif job.id in self._exempt:
            self._exempt.discard(job.id)
            self._resumed.add(job.id)

    def leave(self, owner: Owner) -> None:
        """Forget a job."""
        self._watches.pop(owner, None)
        self._exempt.discard(str(owner))
        self._resumed.discard(owner)

    def look(self, readings: Sequence[Reading], now: float) -> Iterator[Finding]:
        """Say which jobs have done nothing since the last look; `for` is counted by the evaluator."""
        for reading in readings:
            owner = reading.owner
            if owner in self._exempt:
                seconds = 0.0
            else:
                watch = self._watches.setdefault(owner, StallWatch())
                still_seconds = 0.0 if owner in self._resumed else reading.still_seconds
                self._resumed.discard(owner)
                watch.see(reading.moment, reading.get, now - reading.age_seconds, still_seconds)
                seconds = watch.idle_seconds
            yield stalled(owner, seconds) if seconds > 0 else Finding(owner, Verdict.GOOD, 0.0)

    def look_early(self, reading: Reading, now: float) -> Finding | None:
        """Say that a job still does nothing; None if it did something, which the next look judges."""
        watch = self._watches.get(reading.owner)
        if watch is None or reading.owner in self._exempt:
            return None
        seconds = watch.idle_seconds_at(reading.moment, reading.get, now - reading.age_seconds)
        return None if seconds is None else stalled(reading.owner, seconds)


def stalled(owner: Owner, seconds: float) -> Finding:
    """A job has done nothing for some seconds."""
    text = f"no CPU time, no I/O and no output for {format_duration(seconds)}"
    detail = {"idle_seconds": seconds}
    return Finding(owner, Verdict.BAD, seconds, text, detail=detail, lasted_seconds=seconds)


def open_detector(rule: Rule) -> StallDetector:
    """Return the detector of a rule."""
    del rule
    return StallDetector()
