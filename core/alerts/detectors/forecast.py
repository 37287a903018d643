"""Predicts when a growing value reaches its limit, and stays silent where it does not grow like a line. Pure."""

from __future__ import annotations

import math

from jobtop.core.alerts.detectors.slope import Line, fit_line, median_slope
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobtop.core.alerts.detectors.thinned import ThinnedWindow

# A sawtooth with a period of a quarter of the window has fallen at least once by then.
EARLIEST_SHARE = 0.3
SPANS = (1.0, 0.5, 0.25)  # the parts of the window in which growth is looked for, the longest first
FEWEST_POINTS = 8
SURE_SLOPE = 4.0  # standard errors
MOST_SCATTER = 0.12  # of the rise, beyond noise: a step has 0.17 at least, a sawtooth more
MOST_DRIFT = 0.05  # of the rise: how far the newest quarter may lie beside the line
FALL_SHARE = 0.5  # of the rise: a fall of more is that of a sawtooth
NEW_HEIGHT_SHARE = 0.25  # of a fall: growth so far above the height before the fall is new
SLOWING = 0.75  # the slope of the second half, in parts of that of the first: less, and the value levels off
LEAST_CONFIDENCE = 0.7


@record
class Forecast:
    """When a value reaches its limit if it goes on growing as it does.

    `confidence` 0.9 means that the time left is known to about 10 %.
    """

    slope: float  # per second
    level: float  # now, without noise
    limit: float
    eta_seconds: float
    confidence: float


def forecast(window: ThinnedWindow, limit: float, within_seconds: float) -> Forecast | None:
    """Predict when the value reaches the limit; None if it does not grow steadily, or needs longer than that."""
    times, values = window.points()
    if window.latest is None or len(times) < FEWEST_POINTS:
        return None
    if times[-1] - times[0] < EARLIEST_SHARE * window.seconds - window.width:
        return None
    if not _may_reach(times, values, limit, within_seconds, window.seconds):
        return None
    for share in SPANS:
        first = _first_since(times, window.latest - share * window.seconds)
        if len(times) - first < FEWEST_POINTS:
            return None
        line = fit_line(times[first:], values[first:])
        if _is_steady(line, times[first:], values[first:]) and not _has_fallen_before(line, times, values, first):
            found = _prediction(line, times[first:], values[first:], window.latest, limit)
            return found if found is not None and found.eta_seconds <= within_seconds else None
    return None


def _may_reach(
    times: Sequence[float], values: Sequence[float], limit: float, within_seconds: float, window_seconds: float
) -> bool:
    """Whether the value has grown at all like one that reaches the limit: a cheap look that most series end with."""
    newest = sum(values[-4:]) / len(values[-4:])
    if newest >= limit:
        return True
    first = _first_since(times, times[-1] - SPANS[-1] * window_seconds)
    seconds = times[-1] - times[first]
    grown = max(newest - min(values[: first + 4]), newest - min(values))
    return seconds > 0 and grown >= 0.3 * (limit - newest) * seconds / within_seconds


def _first_since(times: Sequence[float], moment: float) -> int:
    return next((index for index, time in enumerate(times) if time >= moment), len(times))


def _is_steady(line: Line, times: Sequence[float], values: Sequence[float]) -> bool:
    """Whether the points grow along the line up to the newest ones, and not by a step."""
    rise = line.slope * (times[-1] - times[0])
    if line.slope <= 0 or line.slope < SURE_SLOPE * line.slope_error:
        return False
    if line.scatter**2 - line.noise**2 > (MOST_SCATTER * rise) ** 2 + 0.5 * line.noise**2:
        return False
    count = max(len(times) // 4, 3)
    newest = [value - line.at(time) for time, value in zip(times[-count:], values[-count:], strict=True)]
    return abs(sum(newest) / count) <= MOST_DRIFT * rise + 3 * line.noise / math.sqrt(count)


def _has_fallen_before(line: Line, times: Sequence[float], values: Sequence[float], first: int) -> bool:
    """Whether the value fell by as much as it rose, and has not grown clearly beyond its height before the fall."""
    rise = line.slope * (times[-1] - times[first])
    height = highest = values[0]
    fall = 0.0
    for value in values:
        highest = max(highest, value)
        if highest - value > fall:
            fall, height = highest - value, highest
    fall -= 4 * line.noise
    return fall > FALL_SHARE * rise and line.at(times[-1]) < height + NEW_HEIGHT_SHARE * fall


def _prediction(
    line: Line, times: Sequence[float], values: Sequence[float], now: float, limit: float
) -> Forecast | None:
    """The time left along the line, or along a curve that levels off; None if that never reaches the limit."""
    level = line.at(now)
    missing = max(limit - level, 0.0)
    eta = missing / line.slope
    half = len(times) // 2
    early, late = median_slope(times[:half], values[:half]), median_slope(times[half:], values[half:])
    # Of evenly spaced points, the slope of a half has 2√2 times the error of the slope of the whole.
    error = 4 * line.noise / (0.29 * (times[-1] - times[0]) * math.sqrt(len(times)))
    if 0 < late < SLOWING * early and early - late > 2 * error:
        ratio, seconds = late / early, (times[-1] - times[0]) / 2
        # Each further half of the window grows by `ratio` of the one before.
        left = 1 - missing * (1 - ratio) / (late * seconds * ratio)
        if left <= 0:
            return None
        eta = max(eta, seconds * math.log(left) / math.log(ratio))
    elif late <= 0 and early > 2 * error:
        return None
    eta_error = math.hypot(line.level_error, eta * line.slope_error) / line.slope
    confidence = max(0.0, 1 - 2 * eta_error / max(eta, 60.0))
    if confidence < LEAST_CONFIDENCE:
        return None
    return Forecast(line.slope, level, limit, eta, confidence)
