"""The states of alerts: pending, firing, resolved; hysteresis, gaps, absent values, flapping."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from alerting import FIRST_JOB, NOON, feed, feed_many, ids, job, rule, sample, told, watching

from jobtop.core.alerts.model import State

FIRING, PENDING, RESOLVED = State.FIRING, State.PENDING, State.RESOLVED
SEEDS = 100
HOUR = 3600
LEVEL, NOISE = 100.0, 5.0
EXCURSION_SECONDS = 120


def noise(seed: int, seconds: int) -> list[float]:
    """White noise with a deviation of 5 % of the level."""
    gauss = random.Random(seed).gauss
    return [gauss(0.0, NOISE) for _ in range(seconds)]


def test_a_rule_without_a_time_fires_on_the_first_sample() -> None:
    assert told(feed(watching(rule()), [101])) == [(FIRING, 1.0)]


def test_a_value_at_the_level_is_not_above_it() -> None:
    assert told(feed(watching(rule()), [100.0] * 5)) == []


@pytest.mark.parametrize("for_seconds", [1.0, 5.0, 10.0, 30.0])
def test_an_alert_fires_with_the_first_sample_after_its_time(for_seconds: float) -> None:
    changes = told(feed(watching(rule(for_seconds=for_seconds)), [50, 50, *[101] * 60]))
    assert [change for change in changes if change[0] is FIRING] == [(FIRING, 3.0 + for_seconds)]


def test_a_time_between_two_samples_fires_with_the_next_one() -> None:
    evaluator = watching(rule(for_seconds=7.0))
    assert told(feed(evaluator, [101] * 5, interval=5.0)) == [(FIRING, 11.0)]


def test_one_good_value_restarts_the_time() -> None:
    changes = told(feed(watching(rule(for_seconds=5.0)), [101] * 5 + [99] + [101] * 6))
    assert changes == [(FIRING, 12.0)]


def test_a_firing_alert_is_resolved_after_two_good_samples_or_its_time() -> None:
    assert told(feed(watching(rule()), [101, 50, 50, 50])) == [(FIRING, 1.0), (RESOLVED, 3.0)]
    changes = told(feed(watching(rule(for_seconds=3.0)), [101] * 4 + [50] * 10))
    assert changes == [(FIRING, 4.0), (RESOLVED, 8.0)]


def test_a_value_between_the_levels_neither_fires_nor_resolves() -> None:
    assert told(feed(watching(rule()), [95] * 10)) == []
    assert told(feed(watching(rule()), [101, *[95, 50] * 25])) == [(FIRING, 1.0)]
    assert told(feed(watching(rule(clear=96.0)), [101, 95, 95])) == [(FIRING, 1.0), (RESOLVED, 3.0)]


def test_a_rule_below_a_level_clears_above_it() -> None:
    changes = told(feed(watching(rule(below=50.0)), [60, 49, 54, 54, 55, 55]))
    assert changes == [(FIRING, 2.0), (RESOLVED, 6.0)]


def test_a_level_of_zero_clears_at_zero() -> None:
    assert told(feed(watching(rule(above=0.0)), [0, 1, 0, 0])) == [(FIRING, 2.0), (RESOLVED, 4.0)]


def test_the_values_that_caused_it_come_with_a_change() -> None:
    evaluator = watching(rule("mem.used / limit.memory", above=0.9))
    changes = evaluator.see_jobs([(FIRST_JOB, sample(1.0, mem__used=95, limit__memory=100))], NOON)
    assert [(change.value, change.values) for change in changes] == [(0.95, {"mem.used": 95, "limit.memory": 100})]


def test_the_worst_value_comes_with_the_end() -> None:
    changes = list(feed(watching(rule()), [101, 180, 120, 50, 50]))
    assert (changes[0].value, changes[1].value, changes[1].detail["worst"]) == (101, 50, 180)


def test_noise_at_the_level_fires_at_most_twice_an_hour() -> None:
    keys = ids(SEEDS)
    series = {key: [LEVEL + error for error in noise(seed, HOUR)] for seed, key in enumerate(keys)}
    for values in series.values():  # what a rule without a time and a clear level does
        assert sum(now > LEVEL >= before for before, now in pairwise(values)) > 300
    evaluator = watching(rule(for_seconds=10.0, clear=90.0), jobs=map(job, keys))
    for changes in feed_many(evaluator, series).values():
        assert [state for state, _ in changes].count(FIRING) <= 2


@pytest.mark.parametrize("usual", [60.0, 85.0, 95.0])
def test_an_excursion_is_never_missed(usual: float) -> None:
    """Two minutes at 20 % above the level, at another place for each seed: it fires once, soon after that began."""
    keys, series, begins = ids(SEEDS), {}, {}
    for seed, key in enumerate(keys):
        begin = begins[key] = 20 + seed
        means = [usual] * begin + [1.2 * LEVEL] * EXCURSION_SECONDS + [usual] * 60
        series[key] = [mean + error for mean, error in zip(means, noise(seed, len(means)), strict=False)]
        series[key] += [usual] * (SEEDS - seed)
    evaluator = watching(rule(for_seconds=10.0, clear=90.0), jobs=map(job, keys))
    for key, changes in feed_many(evaluator, series).items():
        fired = [at for state, at in changes if state is FIRING]
        assert len(fired) == 1
        assert begins[key] < fired[0] <= begins[key] + 30


def test_an_absent_value_never_counts_as_zero() -> None:
    assert told(feed(watching(rule(below=50.0)), [None] * 100)) == []
    assert told(feed(watching(rule(above=-1.0)), [None] * 100)) == []


def test_absent_values_neither_start_nor_end_anything() -> None:
    changes = told(feed(watching(rule(for_seconds=5.0)), [101, None, None, None, None, None, None, 101]))
    assert changes == [(FIRING, 8.0)]
    assert told(feed(watching(rule()), [101, 50, None, None, 95])) == [(FIRING, 1.0)]


def test_a_firing_alert_without_values_ends_after_five_minutes_and_says_so() -> None:
    changes = list(feed(watching(rule()), [101] + [None] * 400))
    assert told(changes) == [(FIRING, 1.0), (RESOLVED, 302.0)]
    assert "no values" in changes[1].text


def test_a_division_by_zero_is_absent() -> None:
    evaluator = watching(rule("mem.used / limit.memory", above=0.9))
    assert evaluator.see_jobs([(FIRST_JOB, sample(1.0, mem__used=95, limit__memory=0))], NOON) == []


def test_a_gap_restarts_the_time() -> None:
    evaluator = watching(rule(for_seconds=10.0))
    assert told(feed(evaluator, [101] * 8)) == []
    assert told(feed(evaluator, [101] * 12, start=100.0)) == [(FIRING, 110.0)]


def test_a_rate_over_a_gap_is_absent() -> None:
    """While a machine was suspended its jobs used no CPU: their usual rate is not known."""
    evaluator = watching(rule("cpu.percent", below=50.0))
    seconds = [*range(1, 10), *range(1000, 1010)]
    used = iter(range(len(seconds)))
    changes = [
        change
        for at in seconds
        for change in evaluator.see_jobs(
            [(FIRST_JOB, sample(float(at), cpu__user=float(next(used)), cpu__system=0.0))], NOON + at
        )
    ]
    assert changes == []


def test_an_event_of_a_suspended_machine_restarts_the_time() -> None:
    evaluator = watching(rule(for_seconds=10.0))
    assert told(feed(evaluator, [101] * 8)) == []
    assert evaluator.see_event(FIRST_JOB, "suspended", {"seconds": 9.0}, NOON + 9) == []
    assert told(feed(evaluator, [101] * 12, start=18.0)) == [(FIRING, 28.0)]


def test_a_clock_that_is_set_changes_nothing() -> None:
    evaluator = watching(rule(for_seconds=10.0), rule(name="long", for_seconds=300.0))
    changes = []
    for number in range(60):
        elapsed = number + 1.0
        wall = NOON + elapsed + (86400 if number > 5 else 0) - (172800 if number > 8 else 0)
        changes += [
            (change.rule.name, change.state, elapsed)
            for change in evaluator.see_jobs([(FIRST_JOB, sample(elapsed, mem__used=101))], wall)
        ]
    assert changes == [("much", FIRING, 11.0)]


def test_a_quiet_job_stays_in_its_state_without_samples() -> None:
    evaluator = watching(rule(for_seconds=30.0))
    assert told(feed(evaluator, [101] * 5, interval=10.0)) == [(PENDING, 21.0), (FIRING, 31.0)]
    assert evaluator.see_jobs([], NOON + 5000) == []
    assert evaluator.slow(NOON + 5000) == []
    assert told(feed(evaluator, [101], start=5000.0)) == []


def test_jobs_sampled_in_turns_have_no_gaps() -> None:
    """An idle job with an interval of 10 s is sampled each 100 s."""
    evaluator = watching(rule(for_seconds=600.0))
    assert told(feed(evaluator, [101] * 5, start=10.0, interval=10.0)) == []
    changes = told(feed(evaluator, [101] * 8, start=150.0, interval=100.0))
    assert changes[-1] == (FIRING, 650.0)


def test_two_samples_of_one_job_in_a_batch_are_both_judged() -> None:
    evaluator = watching(rule())
    batch = [(FIRST_JOB, sample(1.0, mem__used=101)), (FIRST_JOB, sample(2.0, mem__used=50))]
    assert told(evaluator.see_jobs(batch, NOON)) == [(FIRING, 0.0)]
    assert told(feed(evaluator, [50], start=3.0)) == [(RESOLVED, 3.0)]


def test_pending_is_reported_after_a_good_part_of_its_time() -> None:
    changes = told(feed(watching(rule(for_seconds=60.0)), [101] * 70))
    assert changes == [(PENDING, 31.0), (FIRING, 61.0)]
    assert told(feed(watching(rule(for_seconds=10.0)), [101] * 10)) == []


def test_a_reported_pending_alert_that_does_not_fire_is_taken_back() -> None:
    changes = list(feed(watching(rule(for_seconds=60.0)), [101] * 40 + [50]))
    assert told(changes) == [(PENDING, 31.0), (RESOLVED, 41.0)]
    assert changes[1].detail["never_fired"] is True
    assert list(feed(watching(rule(for_seconds=60.0)), [101] * 20 + [50])) == []


def flapping_values(seconds: int, bad: int, good: int) -> list[float]:
    return ([101.0] * bad + [50.0] * good) * (seconds // (bad + good))


def test_flapping_is_named_and_damped() -> None:
    changes = list(feed(watching(rule()), [*flapping_values(HOUR, 5, 15), *[50.0] * 200]))
    states = [(change.state, change.is_flapping) for change in changes]
    assert states == [
        *[(FIRING, False), (RESOLVED, False)] * 2,
        (FIRING, True),
        (RESOLVED, True),
    ]
    assert "flapping" in changes[4].text


def test_a_flapping_alert_has_to_be_calm_for_longer_each_time() -> None:
    """It is good for 70 s each time: that is enough once, then 120 s are wanted."""
    changes = told(feed(watching(rule()), flapping_values(HOUR, 5, 15)[:60] + flapping_values(HOUR, 5, 70)))
    assert [state for state, _ in changes].count(FIRING) == 4


def test_firing_again_after_an_hour_is_no_flapping() -> None:
    changes = list(feed(watching(rule()), flapping_values(3 * HOUR, 5, HOUR - 5)))
    assert [change.is_flapping for change in changes] == [False] * 6


def test_a_rule_with_a_long_time_flaps_too() -> None:
    changes = list(feed(watching(rule(for_seconds=300.0)), flapping_values(3 * HOUR, 310, 310), interval=1.0))
    fired = [change.is_flapping for change in changes if change.state is FIRING]
    assert fired == [False, False, True]
