"""A robust line through a few points, with the error of its slope. Pure."""

from __future__ import annotations

import math
from itertools import pairwise

from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

DEVIATION_PER_MAD = 1.4826  # the standard deviation of a normal distribution whose median absolute deviation is 1


@record
class Line:
    """A line, how far points lie from it, and how much of that is noise from one point to the next.

    `slope_error` and `level_error` are standard errors; they grow where neighbouring points err to the same side.
    """

    slope: float
    middle: float  # the time at which the line has its `level`
    level: float
    scatter: float
    noise: float
    slope_error: float
    level_error: float

    def at(self, time: float) -> float:
        """The value of the line at a time."""
        return self.level + self.slope * (time - self.middle)


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two in the middle."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def median_slope(times: Sequence[float], values: Sequence[float]) -> float:
    """The median of the slopes between all pairs of points (Theil and Sen): up to 29 % of the points may be wrong."""
    slopes = [
        (values[later] - values[earlier]) / (times[later] - times[earlier])
        for later in range(1, len(times))
        for earlier in range(later)
    ]
    return median(slopes)


def fit_line(times: Sequence[float], values: Sequence[float]) -> Line:
    """Fit a line to at least three points at different times."""
    count = len(times)
    slope = median_slope(times, values)
    middle = sum(times) / count
    level = median([value - slope * (time - middle) for time, value in zip(times, values, strict=True)])
    rests = [value - level - slope * (time - middle) for time, value in zip(times, values, strict=True)]
    squares = sum(rest * rest for rest in rests)
    scatter = math.sqrt(squares / count)
    together = sum(one * other for one, other in pairwise(rests)) / squares if squares else 0.0
    together = min(max(together, 0.0), 0.9)
    inflation = math.sqrt((1 + together) / (1 - together))
    spread = math.sqrt(sum((time - middle) ** 2 for time in times))
    steps = [later - earlier for earlier, later in pairwise(rests)]
    noise = DEVIATION_PER_MAD * median([abs(step) for step in steps]) / math.sqrt(2)
    return Line(
        slope, middle, level, scatter, noise, inflation * scatter / spread, inflation * scatter / math.sqrt(count)
    )
