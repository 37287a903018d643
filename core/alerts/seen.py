"""The newest values of an owner of alerts, those before, and whether a gap is between them. Pure."""

from __future__ import annotations

from operator import itemgetter

from jobtop.core.alerts.expressions.expression import JOB_POSITIONS
from jobtop.core.measure.derive import SHORTEST_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SHORTEST_GAP_SECONDS, GAP_SPACINGS = 30.0, 12.0  # a quiet job is sampled once in ten ticks, which is no gap
CPU_USER = JOB_POSITIONS["cpu.user"]
# Of what a job does: other values are read once in a while, and may change long after.
WORK_KEYS = (
    *("cpu.system", "io.read_chars", "io.write_chars", "io.read_bytes", "io.write_bytes"),
    *("net.rx_bytes", "net.tx_bytes", "gpu.util"),
)
WORK = itemgetter(*(JOB_POSITIONS[key] for key in WORK_KEYS))


def longest_gap(spacing_seconds: float) -> float:
    """Return from when on the time between two samples is a gap, given how far apart they are otherwise."""
    return max(SHORTEST_GAP_SECONDS, GAP_SPACINGS * spacing_seconds)


class Seen:
    """The newest values of an owner, the ones before, and the time between them (0 if no rate is possible).

    `repeats` is how often the values were the same object again: from the second time on, every expression without the
    age of a job has the value that it had the time before.
    """

    __slots__ = ("_next_gap", "after", "before", "gap", "moment", "repeats", "seconds", "seen_at", "worked")

    def __init__(self, moment: float, values: Any, seen_at: float) -> None:
        self.moment, self.after, self.before, self.seconds = moment, values, values, 0.0
        self.gap = self._next_gap = longest_gap(0.0)
        self.seen_at, self.repeats = seen_at, 0
        self.worked = moment  # when a counter of the work of a job had last grown

    def note_work(self, moment: float, values: Any) -> None:
        """Note whether the next values of a job say that it worked; nearly always the first comparison decides."""
        after = self.after
        if values[CPU_USER] != after[CPU_USER] or WORK(values) != WORK(after):
            self.worked = moment

    def update(self, moment: float, values: Any, seen_at: float) -> None:
        """Take the next values; a rate over a gap would be of a time in which the machine may have been suspended."""
        seconds = moment - self.moment
        gap = self.gap = self._next_gap
        is_usable = SHORTEST_SECONDS <= seconds <= gap
        self.repeats = self.repeats + 1 if values is self.after and is_usable else 0
        self.before, self.after, self.seconds = self.after, values, seconds if is_usable else 0.0
        self._next_gap = longest_gap(seconds) if seconds <= gap else min(longest_gap(seconds), 2 * gap)
        self.moment, self.seen_at = moment, seen_at
