"""Turns two samples into values to show: counters become rates. Live and stored samples use the same function."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add, sub

from jobtop.core.metrics import DERIVED, STORED_METRICS, Kind, Scope, columns
from jobtop.core.model import Sample
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.series.blocks import Growth

Number = float | int
COUNTERS = frozenset(key for key, metric in STORED_METRICS.items() if metric.kind is Kind.COUNTER)
STORED = {scope: columns(scope) for scope in (Scope.JOB, Scope.HOST)}
# Counters of processes that were waited for move in hundredths of a second.
SHORTEST_SECONDS = 0.02
PART = 600


@record
class Frame:
    """A moment of a job or a host by key: gauges as they were, counters per second since the sample before."""

    elapsed: float
    values: dict[str, Number | None]


def derive(before: Sample | None, after: Sample, scope: Scope = Scope.JOB) -> Frame:
    """Gauges as they are, counters as rates; a counter that fell is absent, and the first sample has no rates."""
    frame = derive_keys(before, after, STORED[scope])
    for key, parts in DERIVED.get(scope, {}).items():
        frame.values[key] = percent([frame.values[part] for part in parts])
    return frame


def derive_keys(before: Sample | None, after: Sample, keys: Sequence[str]) -> Frame:
    """The same for samples of any keys, without what is made of several keys."""
    seconds = after.elapsed - before.elapsed if before is not None else 0.0
    earlier = before.values if before is not None else after.values
    if before is not None and is_too_short(before.elapsed, seconds):
        seconds = 0.0
    values: dict[str, Number | None] = {
        key: rate(was, value, seconds) if key in COUNTERS else value
        for key, was, value in zip(keys, earlier, after.values, strict=True)
    }
    return Frame(after.elapsed, values)


def is_too_short(began: float, seconds: float) -> bool:
    """Whether a time is too short for a rate; from the very start, when nothing had been used, none is."""
    return seconds < SHORTEST_SECONDS and began > 0


def rate(before: Number | None, after: Number | None, seconds: float) -> float | None:
    """How fast a counter grew; None if it fell, if no time passed, or if it was not known."""
    if before is None or after is None or seconds <= 0 or after < before:
        return None
    return (after - before) / seconds


def percent(rates: list[Number | None]) -> float | None:
    """The sum of CPU seconds a second, in percent of one core; None if one is not known."""
    known = [value for value in rates if value is not None]
    return 100 * sum(known) if len(known) == len(rates) else None


def percents(times: Sequence[float], counters: Sequence[Sequence[Number | None]]) -> list[Number | None]:
    """What `derive` gives for each sample of a series, from counters of CPU time: a day of seconds in some 20 ms."""
    values: list[Number | None] = [None] if times else []
    for begin in range(0, len(times) - 1, PART):
        moments = times[begin : begin + PART + 1]
        parts = [column[begin : begin + PART + 1] for column in counters]
        values += _percents_at_once(moments, parts) or _percents_one_by_one(moments, parts)
    return values


def percents_of_growth(walls: Sequence[int], per_second: int, counters: Sequence[Growth]) -> list[Number | None]:
    """The percents of a block without its first, from growth of time and counters; none if it needs a closer look."""
    factor = counters[0].factor
    if min(walls, default=0) < SHORTEST_SECONDS * per_second or any(part.factor != factor for part in counters):
        return []
    least, more = counters[0].least, counters[0].extra
    for part in counters[1:]:
        least, more = least + part.least, list(map(add, more, part.extra))
    scale = 100 * per_second / factor
    return [scale * (least + cpu) / wall for cpu, wall in zip(more, walls, strict=True)]


def _percents_at_once(times: Sequence[float], counters: Sequence[Sequence[Number | None]]) -> list[Number | None]:
    """The percents without the first; none if one of them needs a closer look."""
    try:
        seconds = list(map(sub, times[1:], times))
        grown = [list(map(sub, values[1:], values)) for values in counters]
    except TypeError:  # a value is absent
        return []
    if any(min(part) < 0 for part in grown) or min(seconds) < SHORTEST_SECONDS:
        return []
    total = grown[0]
    for part in grown[1:]:
        total = list(map(add, total, part))
    return [100 * cpu / wall for cpu, wall in zip(total, seconds, strict=True)]


def _percents_one_by_one(times: Sequence[float], counters: Sequence[Sequence[Number | None]]) -> list[Number | None]:
    values: list[Number | None] = []
    for position in range(1, len(times)):
        seconds = times[position] - times[position - 1]
        if is_too_short(times[position - 1], seconds):
            seconds = 0.0
        values.append(percent([rate(part[position - 1], part[position], seconds) for part in counters]))
    return values
