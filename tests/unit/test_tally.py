"""Least, mean and greatest of what was sampled: weighted by time, bounded by each other, and of nothing nothing."""

import random
from itertools import pairwise

import pytest

from jobtop.core.measure.tally import BATCH, Spread, Tally
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Sample
from jobtop.core.series.endpoints import FIRST_SAMPLE
from sampled import sample, steady


def tallied(*samples: Sample, shortest: float = 0.5) -> dict[str, Spread]:
    tally = Tally()
    for one in samples:
        tally.add(one)
    return tally.spreads()


def approximately(least: float, mean: float, greatest: float) -> object:
    return (pytest.approx(least), pytest.approx(mean), pytest.approx(greatest))


def numbers(spread: Spread) -> tuple[float, float, float]:
    return spread.least, spread.mean, spread.greatest


def cpu(elapsed: float, seconds: float, **values: float | None) -> Sample:
    return sample(elapsed, cpu_user=seconds, cpu_system=0.0, **values)


def test_a_gauge_that_lasted_longer_weighs_more() -> None:
    held = tallied(sample(0.0, mem_used=100), sample(9.0, mem_used=100), sample(10.0, mem_used=200))
    assert numbers(held["mem.used"]) == approximately(100, 105, 200)


def test_the_mean_of_a_counter_is_its_growth_over_the_time_however_it_was_sampled() -> None:
    often = [cpu(moment / 10, 0.05 * moment) for moment in range(1, 51)]
    spread = tallied(*often, cpu(10.0, 2.5), cpu(40.0, 32.5))["cpu.percent"]
    assert numbers(spread) == approximately(0, 100 * 32.5 / 40, 100)


def test_the_start_counts_as_nothing_used() -> None:
    spreads = tallied(cpu(2.0, 1.0, io_read_bytes=3000))
    assert numbers(spreads["cpu.percent"]) == approximately(50, 50, 50)
    assert numbers(spreads["io.read_bytes"]) == approximately(1500, 1500, 1500)


def test_a_gauge_of_one_moment_is_all_three() -> None:
    assert numbers(tallied(sample(2.0, mem_used=7))["mem.used"]) == (7, 7, 7)


def test_nothing_is_said_of_what_was_never_read() -> None:
    spreads = tallied(cpu(1.0, 0.5), cpu(2.0, 1.0))
    assert spreads.keys() == {"cpu.percent", "cpu.user", "cpu.system"}
    assert tallied() == {}


def test_a_time_too_short_makes_no_extreme_but_counts_in_the_mean() -> None:
    """A step of 10 ms in 1 ms would be 1000 %."""
    spread = tallied(cpu(1.0, 0.5), cpu(2.0, 1.0), cpu(2.001, 1.01), cpu(3.001, 1.51))["cpu.percent"]
    assert numbers(spread) == approximately(50, 100 * 1.51 / 3.001, 50.316561)


def test_short_times_are_joined_until_they_are_long_enough() -> None:
    quick = [cpu(moment / 10, moment / 10 if moment <= 10 else 1.0) for moment in range(1, 21)]
    assert numbers(tallied(*quick)["cpu.percent"]) == approximately(0, 50, 100)


def test_what_grew_most_in_a_time_too_short_still_bounds_the_peak() -> None:
    spread = tallied(cpu(1.0, 0.0), cpu(1.1, 0.1))["cpu.percent"]
    assert spread.mean == pytest.approx(100 * 0.1 / 1.1)
    assert spread.least <= spread.mean <= spread.greatest


def test_a_job_shorter_than_any_time_for_a_rate_is_one_moment() -> None:
    assert numbers(tallied(cpu(0.05, 0.04))["cpu.percent"]) == approximately(80, 80, 80)
    assert tallied(cpu(0.0, 0.0)) == {}


def test_an_absent_gauge_is_a_gap_and_not_zero() -> None:
    gap = [sample(moment, mem_used=value) for moment, value in ((1, 10), (2, 10), (3, None), (4, 30), (5, 30))]
    assert numbers(tallied(*gap)["mem.used"]) == approximately(10, 20, 30)


def test_an_absent_counter_is_a_gap_and_not_zero() -> None:
    gap = [sample(moment, io_read_ops=value) for moment, value in ((1, None), (2, 10), (3, None), (4, 30), (5, 50))]
    assert numbers(tallied(*gap)["io.read_ops"]) == approximately(40 / 3, 40 / 3, 20)


def test_a_counter_the_end_knows_nothing_of_has_the_mean_it_had() -> None:
    ops = [sample(moment, io_read_ops=value) for moment, value in ((1, 0), (2, 100), (3, 100), (4, None))]
    assert numbers(tallied(*ops)["io.read_ops"]) == approximately(0, 50, 100)


def test_a_counter_that_is_not_there_any_more_has_the_mean_it_had() -> None:
    """A cgroup goes with its job, and an agent may look later."""
    pressed = [sample(float(moment), cpu_pressure=0.1 * moment) for moment in range(1, 4)]
    spread = tallied(*pressed, sample(4.0), sample(5.0), sample(6.0))["cpu.pressure"]
    assert numbers(spread) == approximately(0.1, 0.1, 0.1)


def test_percent_needs_both_times() -> None:
    spreads = tallied(sample(1.0, cpu_user=1.0), sample(2.0, cpu_user=2.0))
    assert "cpu.percent" not in spreads
    assert numbers(spreads["cpu.user"]) == approximately(1, 1, 1)


@pytest.mark.parametrize("count", [1, BATCH - 1, BATCH, BATCH + 1, 5 * BATCH + 7])
def test_however_many_samples_are_added_up_at_a_time_the_answer_is_the_same(count: int) -> None:
    spreads = tallied(*steady(count))
    assert numbers(spreads["cpu.percent"]) == approximately(50, 50, 50)
    assert numbers(spreads["io.read_bytes"]) == approximately(1000, 1000, 1000)
    assert numbers(spreads["mem.used"]) == approximately(1 << 20, (count + 1) / 2 * (1 << 20), count << 20)


@pytest.mark.parametrize("seed", range(20))
def test_sums_made_in_parts_are_those_made_at_once(seed: int) -> None:
    """Against a plain reckoning, over random walks with gaps."""
    dice = random.Random(seed)
    moment = used = 0.0
    samples = []
    for _ in range(dice.randrange(2, 300)):
        step = dice.choice((0.01, 0.3, 1.0, 5.0))
        moment, used = moment + step, used + dice.random() * step
        samples.append(cpu(moment, used, mem_used=dice.choice((None, dice.randrange(100)))))
    spreads = tallied(*samples)
    assert spreads["cpu.percent"].mean == pytest.approx(100 * used / moment)
    assert 0 <= spreads["cpu.percent"].least <= spreads["cpu.percent"].greatest <= 100 + 1e-6
    whole = [
        (after.elapsed - before.elapsed, (first + second) / 2)
        for before, after in pairwise(samples)
        if (first := held(before)) is not None and (second := held(after)) is not None
    ]
    seen = [value for one in samples if (value := held(one)) is not None]
    if seen:
        memory = spreads["mem.used"]
        assert (memory.least, memory.greatest) == (min(seen), max(seen))
        if whole:
            expected = sum(seconds * value for seconds, value in whole) / sum(seconds for seconds, _ in whole)
            assert memory.mean == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(20))
def test_a_time_in_which_nothing_was_read_anew_counts_like_any_other(seed: int) -> None:
    dice = random.Random(seed)
    moment, values = 0.0, cpu(0.0, 0.0).values
    shared = []
    for number in range(200):
        moment += dice.choice((0.001, 0.3, 1.0, 5.0))
        if dice.random() < 0.1:
            values = cpu(0.0, number / 100, mem_used=dice.choice((None, number % 7))).values
        shared.append(Sample(moment, values))
    whole = tallied(*(Sample(one.elapsed, (*one.values,)) for one in shared))
    assert {key: numbers(spread) for key, spread in tallied(*shared).items()} == {
        key: approximately(*numbers(spread)) for key, spread in whole.items()
    }


def held(one: Sample) -> float | None:
    return one.values[JOB_COLUMNS.index("mem.used")]


@pytest.mark.parametrize("seed", range(20))
def test_the_mean_is_never_outside_of_the_extremes(seed: int) -> None:
    dice = random.Random(seed)
    moment, used = 0.0, 0
    tally = Tally()
    for _ in range(200):
        moment += dice.choice((0.001, 0.2, 2.0))
        used += dice.choice((0, 0, 1000))
        tally.add(sample(moment, io_read_bytes=used, proc_count=dice.randrange(9)))
    for spread in tally.spreads().values():
        assert spread.least <= spread.mean <= spread.greatest


def test_asking_twice_changes_nothing_and_more_may_come() -> None:
    tally = Tally()
    for one in steady(100):
        tally.add(one)
    assert tally.spreads() == tally.spreads()
    tally.add(cpu(200.0, 50.0 + 100.0))
    assert tally.spreads()["cpu.percent"].mean == pytest.approx(75)


def test_the_start_is_a_sample() -> None:
    tally = Tally()
    assert (tally.samples, tally.last) == (1, FIRST_SAMPLE)
    tally.add(cpu(1.0, 1.0))
    assert tally.samples == 2


def test_the_energy_of_a_job_goes_on_when_another_samples_it() -> None:
    tally = Tally()
    assert tally.total("energy.gpu") is None
    counted = (None, 0.0, 30.0, None, 50.0, 5.0, 10.0, None)
    for moment, joules in enumerate(counted, 1):
        tally.add(cpu(float(moment), 0.1 * moment, energy_gpu=joules))
        tally.spreads()  # whatever was added up already counts once
    assert tally.total("energy.gpu") == 60.0
