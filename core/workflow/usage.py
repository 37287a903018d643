"""CPU and memory of a whole run over time: the sum of its jobs, in bins of equal length. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_BINS = 400
FIRST_BIN_SECONDS = 0.25


class UsageGrid:
    """Sums of CPU time and of memory over time, by bin; bins double in length when the run needs more of them."""

    def __init__(self, bin_seconds: float = FIRST_BIN_SECONDS) -> None:
        self.bin_seconds = bin_seconds
        self._cpu: list[float] = []  # percent times seconds
        self._memory: list[float] = []  # bytes times seconds

    def add(self, begin: float, end: float, cpu_percent: float | None, memory_bytes: float | None) -> None:
        """Add what a job used between two moments, in seconds since the start of the run."""
        begin = max(0.0, begin)
        if end <= begin:
            return
        while end > MOST_BINS * self.bin_seconds:
            self.bin_seconds *= 2
            self._cpu, self._memory = _pairs(self._cpu), _pairs(self._memory)
        size = self.bin_seconds
        first, last = int(begin / size), min(MOST_BINS - 1, int(end / size))
        missing = last + 1 - len(self._cpu)
        if missing > 0:
            self._cpu += [0.0] * missing
            self._memory += [0.0] * missing
        for place in range(first, last + 1):
            seconds = min(end, (place + 1) * size) - max(begin, place * size)
            self._cpu[place] += (cpu_percent or 0.0) * seconds
            self._memory[place] += (memory_bytes or 0.0) * seconds

    def curves(self, until: float) -> tuple[list[float], list[float], list[float]]:
        """The middle of each bin up to a moment, and the CPU percent and the memory in it."""
        count = min(len(self._cpu), int(until / self.bin_seconds))
        times = [(place + 0.5) * self.bin_seconds for place in range(count)]
        cpu, memory = ([sums / self.bin_seconds for sums in kept[:count]] for kept in (self._cpu, self._memory))
        return times, cpu, memory


def _pairs(sums: Sequence[float]) -> list[float]:
    return [sum(sums[place : place + 2]) for place in range(0, len(sums), 2)]
