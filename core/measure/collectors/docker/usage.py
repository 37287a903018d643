"""What one container uses at a moment, and how fast its counters grow between two of them. Pure."""

from __future__ import annotations

from collections import deque

from jobtop.core.measure.collectors.docker.snapshot import HISTORY, History
from jobtop.core.metrics import BY_KEY, Kind
from jobtop.core.record import fresh, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.model import ContainerLimits
    from jobtop.core.measure.collectors.docker.snapshot import Number

COUNTERS = frozenset(key for key, metric in BY_KEY.items() if metric.kind is Kind.COUNTER)
SHORTEST_SECONDS = 0.05  # between two readings: less makes wild percentages


@record
class Usage:
    """One reading: values by catalogue key, without percentages; `absent` says why values are missing.

    `moment`: when the CPU time was read, in seconds of a clock that is the same for all readings of a container.
    """

    values: dict[str, Number] = fresh(default_factory=dict)
    moment: float = 0.0
    working_set_bytes: int | None = None
    memory_peak_bytes: int | None = None
    absent: dict[str, str] = fresh(default_factory=dict)


class UsageTrack:
    """The readings of one container: rates between the last two, and short histories."""

    def __init__(self) -> None:
        self.last: Usage | None = None
        self.rates: dict[str, float] = {}
        self.cpu_percent: float | None = None
        self._cpu: deque[float | None] = deque(maxlen=HISTORY)
        self._memory: deque[int | None] = deque(maxlen=HISTORY)

    @property
    def history(self) -> History:
        return History(tuple(self._cpu), tuple(self._memory))

    def add(self, usage: Usage) -> None:
        """Take a reading; one that comes too soon after the one before changes no rate."""
        before = self.last
        elapsed = 0.0 if before is None else usage.moment - before.moment
        if before is not None and 0.0 <= elapsed < SHORTEST_SECONDS:
            return
        self.last = usage
        self.rates = rates_between(before, usage, elapsed) if before is not None and elapsed > 0 else {}
        self.cpu_percent = percent_of(self.rates)
        memory = usage.values.get("mem.used")
        self._cpu.append(self.cpu_percent)
        self._memory.append(None if memory is None else int(memory))

    def miss(self) -> None:
        """Note that nothing could be read: rates begin again."""
        if self.last is not None:
            self._cpu.append(None)
            self._memory.append(None)
        self.last, self.rates, self.cpu_percent = None, {}, None


def rates_between(before: Usage, after: Usage, seconds: float) -> dict[str, float]:
    """What counters grew by in a second; one that fell, as after a restart, is absent."""
    grown = {
        key: (value - earlier) / seconds
        for key, value in after.values.items()
        if key in COUNTERS and (earlier := before.values.get(key)) is not None
    }
    if min(grown.get("cpu.user", 0.0) + grown.get("cpu.system", 0.0), *grown.values(), 0.0) < 0.0:
        whole = grown.get("cpu.user", 0.0) + grown.get("cpu.system", 0.0)
        grown = {key: rate for key, rate in grown.items() if rate >= 0 or (key in CPU_TIMES and whole >= 0)}
    return grown


CPU_TIMES = ("cpu.user", "cpu.system")  # the kernel divides their sum, which only grows, anew each time


def percent_of(rates: dict[str, float]) -> float | None:
    """100 is one core."""
    known = [rates[key] for key in CPU_TIMES if key in rates]
    return max(0.0, 100.0 * sum(known)) if len(known) == len(CPU_TIMES) else None


def limit_values(limits: ContainerLimits) -> dict[str, Number]:
    """The limits of a container by catalogue key."""
    found = {"limit.cpus": limits.cpus, "limit.memory": limits.memory_bytes, "limit.pids": limits.pids}
    return {key: value for key, value in found.items() if value is not None}
