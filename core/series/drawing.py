"""Prepares curves of a job for drawing: where they break, the marks of their axes, a line of bars. Pure."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil, prod

from jobtop.core.measure.derive import is_too_short, rate
from jobtop.core.metrics import DERIVED, Kind, Metric, Scope, Unit
from jobtop.core.record import record

Number = float | int
Values = Sequence[Number | None]
Points = list[tuple[float, Number]]
BARS = "▁▂▃▄▅▆▇█"
TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
DAY = 86400.0
# The smallest useful step between two marks: bytes and processes are whole numbers, percents have one decimal.
MIN_STEPS = {
    (Unit.BYTES, Kind.GAUGE): 1.0,
    (Unit.BYTES, Kind.COUNTER): 1.0,
    (Unit.COUNT, Kind.GAUGE): 1.0,
    (Unit.PERCENT, Kind.GAUGE): 0.1,
    (Unit.SECONDS, Kind.COUNTER): 0.001,
}
MARK_TOLERANCE = 0.01  # a value may exceed the highest mark by this share
ROUND_FACTORS = (1, 2, 2.5, 3, 4, 5, 6, 8, 10)
# An interval this many times longer than usual is a gap in sampling, not a longer sampling interval.
GAP_FACTOR = 3
MIN_SPACINGS = 5  # among fewer intervals none can be called unusual


@record
class Curve:
    """One metric over the life of a job as it is drawn: a gauge as its value, a counter as its rate."""

    metric: Metric
    times: list[float]
    values: list[Number | None]
    is_thinned: bool = False  # its times are uneven; None marks gaps

    @property
    def is_rate(self) -> bool:
        """Whether a value is the mean since the previous sample."""
        return self.metric.kind is Kind.COUNTER or self.metric.key in DERIVED[Scope.JOB]

    def known(self) -> list[Number]:
        return [value for value in self.values if value is not None]


def make_curve(metric: Metric, times: list[float], column: list[Number | None]) -> Curve:
    """Return the curve of a stored column; a counter has no rate at its first sample."""
    if metric.kind is Kind.GAUGE:
        return Curve(metric, times, column)
    rates: list[Number | None] = [None] if times else []
    for (start, before), (end, after) in pairwise(zip(times, column, strict=True)):
        rates.append(rate(before, after, 0.0 if is_too_short(start, end - start) else end - start))
    return Curve(metric, times, rates)


def segments(curve: Curve) -> list[Points]:
    """Return the unbroken parts of a curve; it breaks at absent values and at gaps."""
    parts: list[Points] = [[]]
    silences = set() if curve.is_thinned else set(gaps(curve.times))
    for position, (moment, value) in enumerate(zip(curve.times, curve.values, strict=True)):
        if value is None or position in silences:
            parts.append([])
        if value is None:
            continue
        if curve.is_rate and not parts[-1] and position > 0 and position not in silences:
            parts[-1].append((curve.times[position - 1], value))
        parts[-1].append((moment, value))
    return [part for part in parts if part]


def gaps(times: Sequence[float]) -> Iterator[int]:
    """Yield the positions that follow a gap in sampling.

    The sampling interval grows with a job's age, so a gap has to be long compared with its neighbours too.
    """
    spacing = [after - before for before, after in pairwise(times)]
    if len(spacing) < MIN_SPACINGS:
        return
    usual = sorted(spacing)[len(spacing) // 2]
    for position in range(1, len(spacing) - 1):
        if spacing[position] > GAP_FACTOR * max(usual, spacing[position - 1], spacing[position + 1]):
            yield position + 1


def value_marks(metric: Metric, top: float, count: int = 5) -> list[float]:
    """Return about `count` round values from 0 to `top` or a little more."""
    top *= 1 - MARK_TOLERANCE
    size = 1.0
    if metric.unit is Unit.BYTES:
        while top / size >= 1024:
            size *= 1024
    least = MIN_STEPS.get((metric.unit, metric.kind), 0.0)
    steps = (max(round_step(top / size / parts), least) * size for parts in (count - 1, count))
    step, number = min(((step, ceil(top / step * (1 - 1e-9))) for step in steps), key=prod)
    return [mark * step for mark in range(number + 1)]


def round_step(least: float) -> float:
    """Return the smallest round number that is at least `least`; 1 for 0."""
    if least <= 0:
        return 1.0
    power = 10.0 ** len(str(int(least))) if least >= 1 else 1.0
    while power > least:
        power /= 10
    return next(power * factor for factor in ROUND_FACTORS if power * factor >= least * (1 - 1e-9))


def time_marks(end: float, count: int = 6) -> list[float]:
    """Return round times from 0 to at most `end`, in at most `count` steps."""
    if end <= 0:
        return [0.0]
    step = time_step(end / count)
    return [number * step for number in range(int(end / step * (1 + 1e-9)) + 1)]


def time_step(least: float) -> float:
    """Return the shortest round time of at least so many seconds."""
    if least < 1:
        return round_step(least)
    return next((float(step) for step in TIME_STEPS if step >= least), DAY * ceil(least / DAY))


def sparkline(curve: Curve, width: int) -> str:
    """Return the curve as a line of bars from 0 to its peak, the maximum of each part of the time; blank in gaps."""
    highest = bar_heights(curve, width)
    top = max((value for value in highest if value is not None), default=0)
    return "".join(
        " " if value is None else BARS[min(7, int(value / top * 8)) if top > 0 else 0] for value in highest
    ).rstrip()


def bar_heights(curve: Curve, width: int) -> list[Number | None]:
    """Return the maximum of each of at most `width` equal parts of the time; between two samples the later applies."""
    if not curve.times:
        return []
    width = min(width, len(curve.times))
    end = curve.times[-1] or 1.0
    silences = set(gaps(curve.times))
    cells: list[Number | None] = [None] * width
    last = -1
    for position, (moment, value) in enumerate(zip(curve.times, curve.values, strict=True)):
        cell = min(width - 1, int(moment / end * width))
        if value is not None:
            begin = cell if position in silences or last < 0 else min(cell, last + 1)
            for covered in range(begin, cell + 1):
                was = cells[covered]
                cells[covered] = value if was is None else max(was, value)
        last = cell
    return cells
