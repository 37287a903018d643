"""Curves of a job made ready to be drawn: where they break, the marks of their axes, a line of bars. Pure."""

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
# Between marks that differ by less there is nothing to read: bytes and processes are whole, percents have a decimal.
LEAST_STEPS = {
    (Unit.BYTES, Kind.GAUGE): 1.0,
    (Unit.BYTES, Kind.COUNTER): 1.0,
    (Unit.COUNT, Kind.GAUGE): 1.0,
    (Unit.PERCENT, Kind.GAUGE): 0.1,
    (Unit.SECONDS, Kind.COUNTER): 0.001,
}
HAIR = 0.01
ROUND = (1, 2, 2.5, 3, 4, 5, 6, 8, 10)
# A silence more than so many times as long as usual is a gap, not a slower rhythm.
GAP = 3
FEWEST_SPACINGS = 5  # of which one can be unusual


@record
class Curve:
    """One metric over the life of a job as it is drawn: a gauge as it was, a counter by its rate."""

    metric: Metric
    times: list[float]
    values: list[Number | None]

    @property
    def is_rate(self) -> bool:
        """Whether a value is the mean since the moment before."""
        return self.metric.kind is Kind.COUNTER or self.metric.key in DERIVED[Scope.JOB]

    def known(self) -> list[Number]:
        return [value for value in self.values if value is not None]


def make_curve(metric: Metric, times: list[float], column: list[Number | None]) -> Curve:
    """The curve of a stored column; a counter has no rate at its first moment."""
    if metric.kind is Kind.GAUGE:
        return Curve(metric, times, column)
    rates: list[Number | None] = [None] if times else []
    for (begun, before), (ended, after) in pairwise(zip(times, column, strict=True)):
        rates.append(rate(before, after, 0.0 if is_too_short(begun, ended - begun) else ended - begun))
    return Curve(metric, times, rates)


def segments(curve: Curve) -> list[Points]:
    """The parts of a curve that are drawn in one stroke: it breaks where nothing is known."""
    parts: list[Points] = [[]]
    silences = set(gaps(curve.times))
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
    """Where nobody had looked for a while: the positions behind such silences.

    A job that grows old is looked at less often, so a silence has to be long beside its neighbours too.
    """
    spacing = [after - before for before, after in pairwise(times)]
    if len(spacing) < FEWEST_SPACINGS:
        return
    usual = sorted(spacing)[len(spacing) // 2]
    for position in range(1, len(spacing) - 1):
        if spacing[position] > GAP * max(usual, spacing[position - 1], spacing[position + 1]):
            yield position + 1


def value_marks(metric: Metric, top: float, count: int = 5) -> list[float]:
    """Round values from 0 to `top` or a little more, about `count` of them; a hair above a mark needs no other."""
    top *= 1 - HAIR
    size = 1.0
    if metric.unit is Unit.BYTES:
        while top / size >= 1024:
            size *= 1024
    least = LEAST_STEPS.get((metric.unit, metric.kind), 0.0)
    steps = (max(round_step(top / size / parts), least) * size for parts in (count - 1, count))
    step, number = min(((step, ceil(top / step * (1 - 1e-9))) for step in steps), key=prod)
    return [mark * step for mark in range(number + 1)]


def round_step(least: float) -> float:
    """The smallest round number that is no less; 1 for nothing."""
    if least <= 0:
        return 1.0
    power = 10.0 ** len(str(int(least))) if least >= 1 else 1.0
    while power > least:
        power /= 10
    return next(power * factor for factor in ROUND if power * factor >= least * (1 - 1e-9))


def time_marks(end: float, count: int = 6) -> list[float]:
    """Round moments from 0 to at most `end`, no more than `count` steps."""
    if end <= 0:
        return [0.0]
    least = end / count
    step = next((float(step) for step in TIME_STEPS if step >= least), DAY * ceil(least / DAY))
    if least < 1:
        step = round_step(least)
    return [number * step for number in range(int(end / step * (1 + 1e-9)) + 1)]


def sparkline(curve: Curve, width: int) -> str:
    """The curve as bars from 0 to its peak, the highest of each part of the time; blank where nothing is known."""
    highest = columns(curve, width)
    top = max((value for value in highest if value is not None), default=0)
    return "".join(
        " " if value is None else BARS[min(7, int(value / top * 8)) if top > 0 else 0] for value in highest
    ).rstrip()


def columns(curve: Curve, width: int) -> list[Number | None]:
    """The highest of each of at most `width` equal parts of the time; between two samples, the later."""
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
