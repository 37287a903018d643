"""Counters become rates, gauges stay, and what cannot be known is absent."""

import random

import pytest

from jobtop.core.measure.derive import derive, percents
from jobtop.core.metrics import JOB_COLUMNS, Scope, columns, metrics_of
from jobtop.core.model import Sample


def sample(elapsed: float, **values: float | int | None) -> Sample:
    """A sample with some values, by key with an underscore for the dot."""
    return Sample(elapsed, tuple(values.get(key.replace(".", "_", 1)) for key in JOB_COLUMNS))


def test_gauges_stay_and_counters_become_rates() -> None:
    before = sample(10.0, mem_used=100, io_read_bytes=1000, cpu_user=1.0, cpu_system=0.5)
    after = sample(12.0, mem_used=50, io_read_bytes=5000, cpu_user=3.0, cpu_system=0.5)
    frame = derive(before, after)
    assert frame.elapsed == 12.0
    assert (frame.values["mem.used"], frame.values["io.read_bytes"]) == (50, 2000.0)
    assert frame.values["cpu.user"] == 1.0
    assert frame.values["cpu.percent"] == 100.0


def test_a_counter_that_fell_is_absent_and_so_is_what_is_made_of_it() -> None:
    frame = derive(sample(0.0, cpu_user=2.0, cpu_system=1.0), sample(1.0, cpu_user=1.0, cpu_system=9.0))
    assert frame.values["cpu.user"] is None
    assert frame.values["cpu.system"] == 8.0
    assert frame.values["cpu.percent"] is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, sample(1.0, cpu_user=1.0, cpu_system=1.0, mem_used=7)),
        (sample(1.0, cpu_user=0.5, cpu_system=1.0), sample(1.0, cpu_user=1.0, cpu_system=1.0, mem_used=7)),
        (sample(2.0, cpu_user=0.5, cpu_system=1.0), sample(1.0, cpu_user=1.0, cpu_system=1.0, mem_used=7)),
        (sample(0.0, mem_used=6), sample(1.0, cpu_user=1.0, cpu_system=1.0, mem_used=7)),
    ],
    ids=["the first", "no time passed", "time went back", "not known before"],
)
def test_a_rate_that_cannot_be_known_is_absent_and_gauges_are_not(before: Sample | None, after: Sample) -> None:
    frame = derive(before, after)
    assert frame.values["cpu.percent"] is None
    assert frame.values["cpu.user"] is None
    assert frame.values["mem.used"] == 7


def test_there_is_no_rate_over_less_than_the_kernel_counts_in_but_from_the_start() -> None:
    last, end = sample(9.0, cpu_user=8.0, cpu_system=1.0), sample(9.005, cpu_user=8.9, cpu_system=1.0, mem_used=7)
    assert derive(last, end).values["cpu.percent"] is None
    assert derive(last, end).values["mem.used"] == 7
    start, brief = sample(0.0, cpu_user=0, cpu_system=0), sample(0.005, cpu_user=0.003, cpu_system=0.001)
    assert derive(start, brief).values["cpu.percent"] == pytest.approx(80)


@pytest.mark.parametrize("oddity", [None, 700])
def test_a_long_series_is_derived_as_a_short_one_is(oddity: int | None) -> None:
    times = [float(second) for second in range(2000)]
    user: list[float | int | None] = [0.25 * second for second in range(2000)]
    if oddity is not None:
        user[oddity] = None
    expected: list[float | None] = [None] + [25.0] * 1999
    if oddity is not None:
        expected[oddity] = expected[oddity + 1] = None
    assert percents(times, [user, [0.0] * 2000]) == expected


def test_a_frame_has_every_key_of_a_job() -> None:
    assert set(derive(None, sample(0.0)).values) == {metric.key for metric in metrics_of(Scope.JOB)}
    assert (
        set(columns(Scope.JOB))
        == set(JOB_COLUMNS)
        == {metric.key for metric in metrics_of(Scope.JOB)} - {"cpu.percent"}
    )
    assert "cpu.percent" in columns(Scope.HOST)


@pytest.mark.parametrize("oddity", ["none", "absent", "fell", "same moment", "short", "at once"])
def test_a_whole_series_is_derived_as_its_samples_are(oddity: str) -> None:
    chance = random.Random(2)
    times, user, system = [0.0], [0.0], [0.0]
    for _ in range(50):
        times.append(times[-1] + chance.uniform(0.5, 2))
        user.append(user[-1] + chance.uniform(0, 4))
        system.append(system[-1] + chance.uniform(0, 1))
    counters: list[list[float | int | None]] = [[*user], [*system]]
    if oddity == "absent":
        counters[0][20] = None
    elif oddity == "fell":
        counters[1][20] = 0.0
    elif oddity == "same moment":
        times[20] = times[19]
    elif oddity == "short":
        times[20] = times[19] + 0.01
    elif oddity == "at once":
        times[1] = 0.004
    made = [sample(time, cpu_user=a, cpu_system=b) for time, a, b in zip(times, *counters, strict=True)]
    expected = [derive(before, after).values["cpu.percent"] for before, after in zip([None, *made], made, strict=False)]
    assert percents(times, counters) == pytest.approx(expected)
    assert percents([], [[], []]) == []
    assert percents([1.0], [[1.0], [2.0]]) == [None]
