"""Fewer points keep the peaks, the ends and the gaps."""

import random

import pytest

from jobtop.core.series.downsample import select_positions


def test_the_extremes_of_every_column_stay() -> None:
    chance = random.Random(0)
    times = [float(second) for second in range(10_000)]
    columns = [[chance.gauss(0, 1) for _ in times] for _ in range(3)]
    for number, values in enumerate(columns):
        values[777 + number], values[5000 + number] = 50.0, -50.0
    kept = select_positions(times, columns, 600)
    assert len(kept) <= 600
    assert kept == sorted(set(kept))
    assert {0, 9999, 777, 778, 779, 5000, 5001, 5002} <= set(kept)


def test_parts_are_equal_in_time_not_in_number() -> None:
    times = [number / 10 for number in range(1000)] + [100.0 + number for number in range(900)]
    kept = select_positions(times, [[0] * len(times)], 102)
    early = sum(times[position] < 100 for position in kept)
    assert early == pytest.approx(len(kept) / 10, abs=2)


def test_a_gap_still_shows() -> None:
    times = [float(second) for second in range(1000)]
    values = [None if 400 <= second < 600 else second for second in range(1000)]
    kept = select_positions(times, [values], 42)
    assert any(values[position] is None for position in kept)
    assert {0, 999} <= set(kept)


@pytest.mark.parametrize("max_points", [1, 2, 3, 5, 50])
def test_there_are_never_more_than_asked_for(max_points: int) -> None:
    chance = random.Random(1)
    times = [float(second) for second in range(500)]
    columns = [[chance.random() for _ in times] for _ in range(20)]
    assert len(select_positions(times, columns, max_points)) <= max_points
    assert 0 in select_positions(times, columns, max_points)
    assert len(select_positions(times, [[None] * 500], max_points)) <= max_points
