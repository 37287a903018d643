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

CPU = ("cpu.user", "cpu.system")
CALLS, STORAGE = ("io.read_chars", "io.write_chars"), ("io.read_bytes", "io.write_bytes")
NETWORK = ("net.rx_bytes", "net.tx_bytes")
GPU, OUTPUT = "gpu.util", "output.bytes"
KEYS = (*CPU, *CALLS, *STORAGE, *NETWORK, GPU, OUTPUT)


class StallWatch:
    """Remembers since when a job has done nothing. A counter that is absent says nothing: the job is not judged."""

    __slots__ = ("_active", "_before", "_newest")

    def __init__(self) -> None:
        self._active: float | None = None  # the elapsed time at which the job was last seen at work
        self._before: dict[str, Number | None] = {}
        self._newest: float | None = None

    def see(self, elapsed: float, get: Get) -> None:
        """Compare the values of a job with the ones before; a sample that was seen already changes nothing."""
        if self._newest == elapsed:
            return
        before, after = self._before, {key: get(key) for key in KEYS}
        seconds = elapsed - (self._newest if self._newest is not None else elapsed)
        self._before, self._newest = after, elapsed
        if self._active is None or seconds <= 0 or not is_idle(before, after, seconds):
            self._active = elapsed

    @property
    def idle_seconds(self) -> float:
        """For how long the job has done nothing, up to its newest sample."""
        return 0.0 if self._active is None or self._newest is None else self._newest - self._active


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

    def __init__(self) -> None:
        self._exempt: set[str] = set()
        self._watches: dict[Owner, StallWatch] = {}

    def join(self, job: Job) -> None:
        """Watch a job, or no longer if it was paused."""
        if job.status is Status.PAUSED or takes_over_terminal(job.command):
            self._exempt.add(job.id)
            self._watches.pop(job.id, None)
        else:
            self._exempt.discard(job.id)

    def leave(self, owner: Owner) -> None:
        """Forget a job."""
        self._watches.pop(owner, None)
        self._exempt.discard(str(owner))

    def look(self, readings: Sequence[Reading], now: float) -> Iterator[Finding]:
        """Say which jobs have done nothing since the last look; `for` is counted by the evaluator."""
        del now
        for reading in readings:
            owner = reading.owner
            if owner in self._exempt:
                seconds = 0.0
            else:
                watch = self._watches.setdefault(owner, StallWatch())
                watch.see(reading.moment, reading.get)
                seconds = watch.idle_seconds
            if seconds > 0:
                text = f"no CPU time, no I/O and no output for {format_duration(seconds)}"
                yield Finding(owner, Verdict.BAD, seconds, text, detail={"idle_seconds": seconds})
            else:
                yield Finding(owner, Verdict.GOOD, 0.0)


def open_detector(rule: Rule) -> StallDetector:
    """Return the detector of a rule."""
    del rule
    return StallDetector()
