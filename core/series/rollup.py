"""Reduces old samples to a block with one row per minute, and expands it to points that a chart can draw. Pure.

Of a gauge, a minute has the mean, in the column of its key, and the minimum, maximum and last value. Of a counter, it
has the total at its end, and the minimum and maximum rate. Columns that would repeat another are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, groupby, pairwise

from jobtop.core.measure.derive import is_too_short, percent, rate
from jobtop.core.metrics import STORED_METRICS, VALUE, Kind, Metric, Scope, Unit, derived_of, steps
from jobtop.core.record import record
from jobtop.core.series.blocks import EXACT, MINUTE_SUFFIXES, SAMPLES, Block, OpenBlock, encode_columns

Number = float | int
Column = list[Number | None]

MINUTE_SECONDS = 60
LEAST, GREATEST, LAST = MINUTE_SUFFIXES
MAX_POINTS_PER_MINUTE = 4
FINE_STEPS = 1000  # the precision of means and rates, except for bytes


@record
class PreviousSample:
    """The sample before some others: its time, and the totals of counters."""

    elapsed: float
    values: Mapping[str, Number | None]


def roll_up(block: Block, scope: Scope | None, before: PreviousSample | None = None) -> bytes:
    """Return a block of minutes of some samples; a minute that is cut at either end is a row of its own."""
    bounds = _minute_bounds(block.elapsed)
    starts = [before.elapsed if before is not None else block.elapsed[0], *block.elapsed]
    seconds = _intervals(starts)
    walls = [0.0 if is_too_short(was, wall) else wall for was, wall in zip(starts, seconds, strict=False)]
    rates: dict[str, Column] = {}
    columns: dict[str, tuple[Sequence[Number | None], int]] = {}
    for key, values in block.columns.items():
        metric = STORED_METRICS.get(key)
        if metric is None:  # a column of minutes, or of a later version
            continue
        whole, fine = _steps(metric)
        lasts = [values[end - 1] for _, end in bounds]
        if metric.kind is Kind.COUNTER:
            was = before.values.get(key) if before is not None else None
            rates[key] = list(map(rate, [was, *values], values, walls))
            columns[key] = (lasts, whole)
            columns |= _extremes(key, rates[key], bounds, fine, None)
        else:
            means = [_mean(values[begin:end], seconds[begin:end]) for begin, end in bounds]
            columns[key] = (means, max(whole, fine))
            columns |= _extremes(key, values, bounds, whole, means)
            if lasts != means:
                columns[f"{key}{LAST}"] = (lasts, whole)
    for key, parts in derived_of(scope).items():
        if rates.keys() >= set(parts):
            sums = [percent(list(row)) for row in zip(*(rates[part] for part in parts), strict=True)]
            columns |= _extremes(key, sums, bounds, FINE_STEPS, None)
    counts = [end - begin for begin, end in bounds]
    ends = [end - 1 for _, end in bounds]
    ids, moments = [block.ids[end] for end in ends], [block.elapsed[end] for end in ends]
    return encode_columns(ids, moments, columns | {SAMPLES: (counts, 1)})


def expand_minutes(
    opened: OpenBlock, keys: Iterable[str], scope: Scope | None, before: PreviousSample | None
) -> tuple[list[float], dict[str, Column]]:
    """Expand the minutes of a block to samples with the same extremes, ends, means and sums: at most four per minute.

    The minimum comes first, then the maximum, then the rest.
    """
    block = opened.decode((SAMPLES,))
    moments, counts = block.elapsed, [int(count or 1) for count in block.columns[SAMPLES]]
    starts = [before.elapsed if before is not None else moments[0] // MINUTE_SECONDS * MINUTE_SECONDS, *moments]
    sizes = [
        1 if wall <= 0 else min(count, MAX_POINTS_PER_MINUTE)
        for count, wall in zip(counts, _intervals(starts), strict=True)
    ]
    times: list[float] = []
    for start, end, count, size in zip(starts, moments, counts, sizes, strict=False):
        step = (end - start) / count
        times += [*(round(start + step * place, 3) for place in range(1, size)), end]
    wanted = {key: _column(opened, key) for key in keys}
    counters = {
        key: [before.values.get(key) if before is not None else None, *column]
        for key, column in wanted.items()
        if STORED_METRICS[key].kind is Kind.COUNTER
    }
    extremes = {key: (_column(opened, f"{key}{LEAST}"), _column(opened, f"{key}{GREATEST}")) for key in wanted}
    for key, parts in derived_of(scope).items():
        if counters.keys() >= set(parts):
            extremes |= _part_extremes(opened, key, {part: counters[part] for part in parts})
    columns = {
        key: _expanded_counter(counters[key], *extremes[key], [starts[0], *times], sizes)
        if key in counters
        else _expanded_gauge(column, *extremes[key], counts, sizes)
        for key, column in wanted.items()
    }
    return times, columns


def _steps(metric: Metric) -> tuple[int, int]:
    """Return the steps per unit of a value, and of a mean or rate; a value that a job chose stays exact."""
    if metric.key == VALUE:
        return EXACT, EXACT
    return steps(metric.key), 1 if metric.unit is Unit.BYTES else FINE_STEPS


def _minute_bounds(moments: Sequence[float]) -> list[tuple[int, int]]:
    """Return begin and end of each minute among the samples."""
    sizes = [len(list(group)) for _, group in groupby(moments, lambda moment: int(moment // MINUTE_SECONDS))]
    return [(end - size, end) for end, size in zip(accumulate(sizes), sizes, strict=True)]


def _extremes(
    key: str,
    values: Sequence[Number | None],
    bounds: Sequence[tuple[int, int]],
    factor: int,
    same: Sequence[Number | None] | None,
) -> dict[str, tuple[Sequence[Number | None], int]]:
    """Return the columns of minimum and maximum of each minute; without those that equal `same` or have no values."""
    found: dict[str, tuple[Sequence[Number | None], int]] = {}
    for name, choose in ((LEAST, min), (GREATEST, max)):
        column = [_choose_present(values[begin:end], choose) for begin, end in bounds]
        if column != same and any(value is not None for value in column):
            found[f"{key}{name}"] = (column, factor)
    if same is None and not any(value for column, _ in found.values() for value in column):
        return {}
    return found


def _choose_present(values: Sequence[Number | None], choose: Callable[[list[Number]], Number]) -> Number | None:
    present = [value for value in values if value is not None]
    return choose(present) if present else None


def _mean(values: Sequence[Number | None], seconds: Sequence[float]) -> Number | None:
    """Return the mean over time: each value applies to the interval before it."""
    known = [(value, wall) for value, wall in zip(values, seconds, strict=True) if value is not None]
    if not known:
        return None
    first = known[0][0]
    if all(value == first for value, _ in known):
        return first
    total = sum(wall for _, wall in known)
    if total <= 0:
        return sum(value for value, _ in known) / len(known)
    return sum(value * wall for value, wall in known) / total


def _intervals(starts: Sequence[float]) -> list[float]:
    return [after - was for was, after in pairwise(starts)]


def _column(opened: OpenBlock, name: str) -> Column:
    return opened.values(name) or [None] * opened.count


def _part_extremes(opened: OpenBlock, key: str, counters: Mapping[str, Column]) -> dict[str, tuple[Column, Column]]:
    """Return minimum and maximum rates of the counters of a percentage, such that they add up to its extremes."""
    grown = {part: [rate(was, end, 1.0) for was, end in pairwise(column)] for part, column in counters.items()}
    sums = [percent(list(row)) for row in zip(*grown.values(), strict=True)]
    extremes = [_column(opened, f"{key}{which}") for which in (LEAST, GREATEST)]

    def share(part: str, extreme: Column) -> Column:
        return [
            None if value is None or some is None or not whole else value * some / whole
            for value, some, whole in zip(extreme, grown[part], sums, strict=True)
        ]

    return {part: (share(part, extremes[0]), share(part, extremes[1])) for part in counters}


def _expanded_gauge(
    means: Column, least: Column, greatest: Column, counts: Sequence[int], sizes: Sequence[int]
) -> Column:
    column: Column = []
    for mean, lowest, highest, count, size in zip(means, least, greatest, counts, sizes, strict=True):
        if size == 1 or mean is None:
            column += [mean] * size
            continue
        low, high = mean if lowest is None else lowest, mean if highest is None else highest
        rest = min(max((mean * count - low - high) / (count - 2), low), high) if size > 2 else mean
        column += (low, high, rest, rest)[:size]
    return column


def _expanded_counter(
    ends: Column, least: Column, greatest: Column, moments: Sequence[float], sizes: Sequence[int]
) -> Column:
    """Return the totals of a counter that grows first at its lowest rate, then at its highest, then evenly."""
    column: Column = []
    for was, end, low, high, size in zip(ends, ends[1:], least, greatest, sizes, strict=False):
        times = moments[len(column) : len(column) + size + 1]
        total = was
        for place in range(size - 1):
            if total is not None and end is not None:
                left = end - total
                wanted_rate = (low, high, None)[place]
                even_rate = left / (times[-1] - times[place])
                speed = even_rate if wanted_rate is None else wanted_rate
                total += min(left, speed * (times[place + 1] - times[place]))
            column.append(None if end is None else total)
        column.append(end)
    return column
