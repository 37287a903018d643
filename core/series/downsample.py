"""Selects which of many samples to show, so that the curve looks the same. Pure."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

Number = float | int
Values = Sequence[Number | None]


def select_positions(times: Sequence[float], columns: Sequence[Values], max_points: int) -> list[int]:
    """Return the positions of the minimum and maximum of each column in equal parts of the time, and of both ends.

    If these are more than `max_points`, an even selection of them.
    """
    columns = [values for values in columns if any(value is not None for value in values)]
    parts = max(1, (max_points - 2) // (2 * len(columns))) if columns else max(1, max_points - 2)
    first, span = times[0], times[-1] - times[0]
    edges = [bisect_left(times, first + span * part / parts) for part in range(parts)] + [len(times)]
    positions = {0, len(times) - 1}
    for begin, end in pairwise(edges):
        if begin < end:
            positions.update(position for values in columns for position in extremes(values, begin, end))
            if not columns:
                positions.add(begin)
    return pick_evenly(sorted(positions), max_points)


def extremes(values: Values, begin: int, end: int) -> tuple[int, ...]:
    """Return the positions of minimum and maximum in a part; its first position if all are absent, to show the gap."""
    part = values[begin:end]
    try:
        low, high = min(part), max(part)  # type: ignore[type-var]
    except TypeError:
        known = [value for value in part if value is not None]
        if not known:
            return (begin,)
        low, high = min(known), max(known)
    return begin + part.index(low), begin + part.index(high)


def pick_evenly(positions: list[int], count: int) -> list[int]:
    """Return `count` of the positions, evenly spaced, including the first and the last."""
    if len(positions) <= count:
        return positions
    if count < 2:
        return positions[:count]
    return [positions[number * (len(positions) - 1) // (count - 1)] for number in range(count)]
