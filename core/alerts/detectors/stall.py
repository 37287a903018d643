"""Finds a job that does nothing: no CPU time, no I/O, no output. Pure."""

from __future__ import annotations

from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.model import Sample

IDLE_CPU = 0.01  # of a core: a process that wakes up to see whether there is work uses less
IDLE_BYTES_PER_SECOND = 1024  # of I/O: the same
IDLE_PERCENT = 1.0  # of a GPU

CPU = tuple(map(JOB_COLUMNS.index, ("cpu.user", "cpu.system")))
IO = tuple(map(JOB_COLUMNS.index, ("io.read_chars", "io.write_chars", "io.read_bytes", "io.write_bytes")))
NETWORK = tuple(map(JOB_COLUMNS.index, ("net.rx_bytes", "net.tx_bytes")))
GPU = JOB_COLUMNS.index("gpu.util")
WRITTEN = JOB_COLUMNS.index("io.write_chars")


@record
class Stall:
    """A job that has done nothing for so many seconds."""

    idle_seconds: float


class StallWatch:
    """Remembers when a job last did something. A counter that is absent says nothing: the job is not judged."""

    __slots__ = ("_active", "_before", "_newest", "_output")

    def __init__(self) -> None:
        self._active: float | None = None  # the elapsed time at which the job was last seen at work
        self._before: Sample | None = None
        self._newest: float | None = None
        self._output: int | None = None

    def see(self, sample: Sample, output_bytes: int | None) -> None:
        """Compare a sample with the one before; `output_bytes` is the size of the job's output, if that is known."""
        before, self._before = self._before, sample
        was_output, self._output = self._output, output_bytes
        self._newest = sample.elapsed
        if before is None or sample.elapsed <= before.elapsed or not _is_idle(before, sample, was_output, output_bytes):
            self._active = sample.elapsed

    def forget(self) -> None:
        """Start anew: the job was paused, or it waits for a person."""
        self._active = self._newest = self._before = None

    def found(self, for_seconds: float) -> Stall | None:
        """Return the stall if the job has done nothing for that long, up to its newest sample."""
        if self._active is None or self._newest is None or self._newest - self._active < for_seconds:
            return None
        return Stall(self._newest - self._active)


def _is_idle(before: Sample, after: Sample, was_output: int | None, output: int | None) -> bool:
    """Whether every counter that tells of work is known and has hardly moved."""
    seconds = after.elapsed - before.elapsed
    cpu, io = _growth(before, after, CPU), _growth(before, after, IO[:2])
    if io is None:
        io = _growth(before, after, IO[2:])
    if cpu is None or io is None:
        return False
    if cpu > IDLE_CPU * seconds or io > IDLE_BYTES_PER_SECOND * seconds:
        return False
    if (_growth(before, after, NETWORK) or 0) > IDLE_BYTES_PER_SECOND * seconds:
        return False
    if (after.values[GPU] or 0) > IDLE_PERCENT:
        return False
    if was_output is not None and output is not None:
        return output == was_output
    # Without a log, output is part of what is written by system calls: any of it counts.
    return _growth(before, after, (WRITTEN,)) == 0


def _growth(before: Sample, after: Sample, places: tuple[int, ...]) -> float | None:
    """How much counters grew together; None if one is absent or fell."""
    grown = 0.0
    for place in places:
        was, value = before.values[place], after.values[place]
        if was is None or value is None or value < was:
            return None
        grown += value - was
    return grown
