"""Fewer points that look the same: which of many samples to show. Pure."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

Number = float | int
Values = Sequence[Number | None]


def kept_positions(times: Sequence[float], columns: Sequence[Values], max_points: int) -> list[int]:
    """Where the least and the greatest of each column are in each of equal parts of the time, and both ends.

    Where that is more than `max_points`, an even choice of them.
    """
    columns = [values for values in columns if any(value is not None for value in values)]
    parts = max(1, (max_points - 2) // (2 * len(columns))) if columns else max(1, max_points - 2)
    first, span = times[0], times[-1] - times[0]
    edges = [bisect_left(times, first + span * part / parts) for part in range(parts)] + [len(times)]
    kept = {0, len(times) - 1}
    for begin, end in pairwise(edges):
        if begin < end:
            kept.update(position for values in columns for position in extremes(values, begin, end))
            if not columns:
                kept.add(begin)
    return evenly(sorted(kept), max_points)


def extremes(values: Values, begin: int, end: int) -> tuple[int, ...]:
    """Where the least and the greatest of a part are; where all are absent, its first, so that the gap shows."""
    part = values[begin:end]
    try:
        low, high = min(part), max(part)  # type: ignore[type-var]
    except TypeError:
        known = [value for value in part if value is not None]
        if not known:
            return (begin,)
        low, high = min(known), max(known)
    return begin + part.index(low), begin + part.index(high)


def evenly(positions: list[int], count: int) -> list[int]:
    """So many of them, the first and the last among them."""
    if len(positions) <= count:
        return positions
    if count < 2:
        return positions[:count]
    return [positions[number * (len(positions) - 1) // (count - 1)] for number in range(count)]
