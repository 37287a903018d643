"""A window of a series in a bounded number of points: means and minima of equal spans of time."""

from __future__ import annotations

from array import array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_POINTS = 60


class ThinnedWindow:
    """The last `seconds` of a series, as the mean and the least value of each of at most `MOST_POINTS` spans.

    Means of spans keep what every sample says: a slope from them is as exact as one from all samples.
    """

    __slots__ = ("_count", "_least", "_moments", "_position", "_total", "latest", "least", "means", "seconds", "times")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.latest: float | None = None  # the time of the newest value
        self.clear()

    def clear(self) -> None:
        """Forget all values."""
        self.times, self.means, self.least = array("d"), array("d"), array("d")
        self.latest = None
        self._position, self._count = -1, 0
        self._moments = self._total = self._least = 0.0

    @property
    def width(self) -> float:
        """The seconds of one span."""
        return self.seconds / MOST_POINTS

    def add(self, time: float, value: float) -> None:
        """Add a value; a time before the newest one starts the window anew, because a clock was set back."""
        if self.latest is not None and time < self.latest:
            self.clear()
        position = int(time * MOST_POINTS / self.seconds)
        if position != self._position:
            self._close_span(position)
        self.latest = time
        self._count += 1
        self._moments += time
        self._total += value
        self._least = min(self._least, value)

    def points(self) -> tuple[Sequence[float], Sequence[float]]:
        """The times and means of the spans; the newest span counts once it is half full."""
        times, means = self.times, self.means
        first = self._first_kept()
        times, means = times[first:], means[first:]
        if self._is_half_full():
            times.append(self._moments / self._count)
            means.append(self._total / self._count)
        return times, means

    def minima(self) -> tuple[Sequence[float], Sequence[float]]:
        """The times and least values of the complete spans."""
        first = self._first_kept()
        return self.times[first:], self.least[first:]

    def _close_span(self, position: int) -> None:
        if self._count:
            self.times.append(self._moments / self._count)
            self.means.append(self._total / self._count)
            self.least.append(self._least)
            if len(self.times) > MOST_POINTS:
                del self.times[0], self.means[0], self.least[0]
        self._position, self._count = position, 0
        self._moments = self._total = 0.0
        self._least = float("inf")

    def _is_half_full(self) -> bool:
        """Whether the newest span covers half of its time: the mean of a few values would be as noisy as they are."""
        return self.latest is not None and self.latest / self.width - self._position >= 0.5

    def _first_kept(self) -> int:
        """The first span that is not older than the window: values may be missing for a while."""
        oldest = (self.latest or 0.0) - self.seconds
        return next((index for index, time in enumerate(self.times) if time >= oldest), len(self.times))
