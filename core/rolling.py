"""Samples of some time ago as minutes: a block with one row for each, and back to points a chart can draw. Pure.

Of a gauge a minute has the mean, in the column of its key, and the least, the greatest and the last value; of a counter
how far it had come, and the least and the greatest rate. What a column would only repeat is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, groupby, pairwise

from jobtop.core.blocks import OF_MINUTES, SAMPLES, Block, Opened, encode_columns
from jobtop.core.derive import is_too_short, percent, rate
from jobtop.core.metrics import BY_KEY, DERIVED, Kind, Scope, Unit, steps
from jobtop.core.record import record

Number = float | int
Column = list[Number | None]

MINUTE_SECONDS = 60
LEAST, GREATEST, LAST = OF_MINUTES
FINE = 1000  # steps of means and rates, but for bytes


@record
class Before:
    """The sample before some others: its moment, and how far counters had come."""

    elapsed: float
    values: Mapping[str, Number | None]


@record
class Points:
    """Minutes as samples: of each the least, the greatest and the rest, as far as it had as many."""

    times: list[float]
    columns: dict[str, Column]
    extremes: dict[str, dict[int, Number | None]]  # of what is derived: the values of some positions


def roll(block: Block, scope: Scope, before: Before | None = None) -> bytes:
    """The minutes of some samples; one that is cut off at an end is a row of its own."""
    bounds = _bounds(block.elapsed)
    starts = [before.elapsed if before is not None else block.elapsed[0], *block.elapsed]
    seconds = _walls(starts)
    walls = [0.0 if is_too_short(was, wall) else wall for was, wall in zip(starts, seconds, strict=False)]
    rates: dict[str, Column] = {}
    columns: dict[str, tuple[Sequence[Number | None], int]] = {}
    for key, values in block.columns.items():
        metric = BY_KEY.get(key)
        if metric is None:  # of a minute already, or of a later version
            continue
        fine = 1 if metric.unit is Unit.BYTES else FINE
        lasts = [values[end - 1] for _, end in bounds]
        if metric.kind is Kind.COUNTER:
            was = before.values.get(key) if before is not None else None
            rates[key] = list(map(rate, [was, *values], values, walls))
            columns[key] = (lasts, steps(key))
            columns |= _extremes(key, rates[key], bounds, fine, None)
        else:
            means = [_mean(values[begin:end], seconds[begin:end]) for begin, end in bounds]
            columns[key] = (means, max(steps(key), fine))
            columns |= _extremes(key, values, bounds, steps(key), means)
            if lasts != means:
                columns[f"{key}{LAST}"] = (lasts, steps(key))
    for key, parts in DERIVED.get(scope, {}).items():
        if rates.keys() >= set(parts):
            sums = [percent(list(row)) for row in zip(*(rates[part] for part in parts), strict=True)]
            columns |= _extremes(key, sums, bounds, FINE, None)
    counts = [end - begin for begin, end in bounds]
    ends = [end - 1 for _, end in bounds]
    ids, moments = [block.ids[end] for end in ends], [block.elapsed[end] for end in ends]
    return encode_columns(ids, moments, columns | {SAMPLES: (counts, 1)})


def is_rolled(opened: Opened) -> bool:
    return opened.has(SAMPLES)


def stretched(opened: Opened, keys: Iterable[str], derived: Iterable[str], before: Before | None) -> Points:
    """The minutes of a block as samples that have the same extremes, ends and sums."""
    moments = opened.decoded(()).elapsed
    counts = [int(count or 1) for count in opened.values(SAMPLES)]
    starts = [before.elapsed if before is not None else moments[0], *moments]
    sizes = [1 if wall <= 0 else min(count, 3) for count, wall in zip(counts, _walls(starts), strict=True)]
    times: list[float] = []
    for start, end, count, size in zip(starts, moments, counts, sizes, strict=False):
        step = (end - start) / count
        times += [*(round(start + step * place, 3) for place in range(1, size)), end]
    columns = {}
    for key in keys:
        ends, least, greatest = (_column(opened, name) for name in (key, f"{key}{LEAST}", f"{key}{GREATEST}"))
        if BY_KEY[key].kind is Kind.COUNTER:
            was = before.values.get(key) if before is not None else None
            columns[key] = _counter([was, *ends], least, greatest, times, sizes, starts[0])
        else:
            columns[key] = _gauge(ends, least, greatest, sizes)
    firsts = [end - size for end, size in zip(accumulate(sizes), sizes, strict=True)]
    extremes = {}
    for key in derived:
        least, greatest = (_column(opened, f"{key}{which}") for which in (LEAST, GREATEST))
        wide = [(first, minute) for minute, (first, size) in enumerate(zip(firsts, sizes, strict=True)) if size > 1]
        extremes[key] = {first: least[minute] for first, minute in wide}
        extremes[key] |= {first + 1: greatest[minute] for first, minute in wide}
    return Points(times, columns, extremes)


def _bounds(moments: Sequence[float]) -> list[tuple[int, int]]:
    """Where each minute begins and ends among the samples."""
    sizes = [len(list(group)) for _, group in groupby(moments, lambda moment: int(moment // MINUTE_SECONDS))]
    return [(end - size, end) for end, size in zip(accumulate(sizes), sizes, strict=True)]


def _extremes(
    key: str,
    values: Sequence[Number | None],
    bounds: Sequence[tuple[int, int]],
    factor: int,
    same: Sequence[Number | None] | None,
) -> dict[str, tuple[Sequence[Number | None], int]]:
    """The columns of the least and the greatest of each minute; none if they say no more than `same`, or nothing."""
    found: dict[str, tuple[Sequence[Number | None], int]] = {}
    for name, choose in ((LEAST, min), (GREATEST, max)):
        column = [_chosen(values[begin:end], choose) for begin, end in bounds]
        if column != same and any(value is not None for value in column):
            found[f"{key}{name}"] = (column, factor)
    if same is None and not any(value for column, _ in found.values() for value in column):
        return {}
    return found


def _chosen(values: Sequence[Number | None], choose: Callable[[list[Number]], Number]) -> Number | None:
    present = [value for value in values if value is not None]
    return choose(present) if present else None


def _mean(values: Sequence[Number | None], seconds: Sequence[float]) -> Number | None:
    """The mean over time: each value held since the one before."""
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


def _walls(starts: Sequence[float]) -> list[float]:
    return [after - was for was, after in pairwise(starts)]


def _column(opened: Opened, name: str) -> Column:
    return opened.values(name) or [None] * opened.count


def _gauge(ends: Column, least: Column, greatest: Column, sizes: Sequence[int]) -> Column:
    column: Column = []
    for mean, low, high, size in zip(ends, least, greatest, sizes, strict=True):
        points = [mean if low is None else low, mean if high is None else high, mean]
        column += points[:size] if size > 1 else [mean]
    return column


def _counter(
    ends: Column, least: Column, greatest: Column, times: Sequence[float], sizes: Sequence[int], start: float
) -> Column:
    """How far a counter had come: first at its lowest rate, then at its highest, then as far as it came in all."""
    column: Column = []
    moments = [start, *times]
    for was, end, low, high, size in zip(ends, ends[1:], least, greatest, sizes, strict=False):
        place, came = len(column), was
        for fastness in (low, high)[: size - 1]:
            if came is not None and end is not None:
                wall = moments[place + 1] - moments[place]
                came = min(end, came + (fastness or 0) * wall) if end >= came else end
            column.append(came if end is not None else None)
            place += 1
        column.append(end)
    return column
