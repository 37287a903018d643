"""Finds a value that grows steadily over a long time: the minima of the parts of a window rise. Pure."""

from __future__ import annotations

from itertools import pairwise

from jobtop.core.alerts.detectors.slope import median_slope
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobtop.core.alerts.detectors.thinned import ThinnedWindow

PARTS = 12
FEWEST_PARTS = 11  # values may be missing for a while
RISING_PAIRS = 0.85  # of all pairs of parts the later one is higher: by chance in fewer than 1 of 10,000 windows
LEAST_RISE = 0.1  # of the value at the start of the window
RECENT_SHARE = 0.6  # of the growth in the first half must go on in the second: a cache that fills grows less and less
MOST_IN_ONE_PART = 0.5  # of the whole growth: more is a step


@record
class Leak:
    """Steady growth: per second, how much in the window, and the share of pairs of parts that rise."""

    slope: float
    grown: float
    window_seconds: float
    confidence: float


def find_leak(window: ThinnedWindow) -> Leak | None:
    """Return the growth of a full window whose minima rise; None for a sawtooth, a step, a cache that fills."""
    times, minima = _part_minima(*window.minima(), window.seconds / PARTS)
    count = len(minima)
    if count < FEWEST_PARTS:
        return None
    grown = minima[-1] - minima[0]
    if grown <= LEAST_RISE * abs(minima[0]):
        return None
    pairs = count * (count - 1) / 2
    rising = sum(later > earlier for place, later in enumerate(minima) for earlier in minima[:place]) / pairs
    if rising < RISING_PAIRS:
        return None
    steps = [later - earlier for earlier, later in pairwise(minima)]
    half = count // 2
    early, late = median_slope(times[:half], minima[:half]), median_slope(times[half:], minima[half:])
    if max(steps) > MOST_IN_ONE_PART * grown or late < RECENT_SHARE * early:
        return None
    return Leak(median_slope(times, minima), grown, window.seconds, rising)


def _part_minima(
    times: Sequence[float], minima: Sequence[float], part_seconds: float
) -> tuple[list[float], list[float]]:
    """The least value of each part of the window that is complete, and the time in the middle of the part."""
    if not times:
        return [], []
    parts: dict[int, float] = {}
    for time, least in zip(times, minima, strict=True):
        part = int((times[-1] - time) / part_seconds)
        parts[part] = min(least, parts.get(part, least))
    if parts and (times[-1] - times[0]) < (max(parts) + 0.5) * part_seconds:
        del parts[max(parts)]
    ordered = sorted(parts, reverse=True)
    return [times[-1] - (part + 0.5) * part_seconds for part in ordered], [parts[part] for part in ordered]
