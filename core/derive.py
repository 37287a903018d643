"""From two samples to what a person reads: counters become rates. Live and replay use the same function."""

from collections.abc import Sequence
from operator import add, sub

from jobtop.core.metrics import BY_KEY, DERIVED, JOB_COLUMNS, Kind, Scope
from jobtop.core.model import Sample
from jobtop.core.record import record

Number = float | int
IS_COUNTER = tuple(BY_KEY[key].kind is Kind.COUNTER for key in JOB_COLUMNS)


@record
class Frame:
    """A moment of a job by key: gauges as they were, counters per second since the sample before."""

    elapsed: float
    values: dict[str, Number | None]


def derive(before: Sample | None, after: Sample) -> Frame:
    """Gauges as they are, counters as rates; a counter that fell is absent, and so is all of them at the first."""
    seconds = after.elapsed - before.elapsed if before is not None else 0.0
    earlier = before.values if before is not None else after.values
    values: dict[str, Number | None] = {
        key: rate(was, value, seconds) if is_counter else value
        for key, is_counter, was, value in zip(JOB_COLUMNS, IS_COUNTER, earlier, after.values, strict=True)
    }
    for key, parts in DERIVED[Scope.JOB].items():
        values[key] = percent([values[part] for part in parts])
    return Frame(after.elapsed, values)


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
    if not times:
        return []
    try:
        seconds = list(map(sub, times[1:], times))
        grown = [list(map(sub, values[1:], values)) for values in counters]
    except TypeError:  # a value is absent
        return _percents_one_by_one(times, counters)
    if any(min(part, default=0) < 0 for part in grown) or min(seconds, default=1) <= 0:
        return _percents_one_by_one(times, counters)
    total = grown[0]
    for part in grown[1:]:
        total = list(map(add, total, part))
    shares: list[Number | None] = [100 * cpu / wall for cpu, wall in zip(total, seconds, strict=True)]
    return [None, *shares]


def _percents_one_by_one(times: Sequence[float], counters: Sequence[Sequence[Number | None]]) -> list[Number | None]:
    values: list[Number | None] = [None]
    for position in range(1, len(times)):
        seconds = times[position] - times[position - 1]
        values.append(percent([rate(part[position - 1], part[position], seconds) for part in counters]))
    return values
