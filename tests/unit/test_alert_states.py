"""The states of alerts: pending, firing, resolved; hysteresis, gaps, absent values, flapping."""

from __future__ import annotations

import random
from itertools import pairwise

from alerting import feed, rule, told, watching

from jobtop.core.alerts.model import State

FIRING, PENDING, RESOLVED = State.FIRING, State.PENDING, State.RESOLVED
SEEDS = range(100)
HOUR = 3600
LEVEL = 100.0
NOISE = 5.0  # 5 % of the level


def noisy(seed: int, mean: float, seconds: int = HOUR) -> list[float]:
    random_numbers = random.Random(seed)
    return [random_numbers.gauss(mean, NOISE) for _ in range(seconds)]


def test_a_rule_without_a_time_fires_on_the_first_sample() -> None:
    evaluator = watching(rule())
    assert told(feed(evaluator, [101])) == [(FIRING, 1.0)]


def test_a_value_at_the_level_is_not_above_it() -> None:
    assert told(feed(watching(rule()), [100.0] * 5)) == []


def test_an_alert_fires_when_its_time_has_passed_and_at_no_other_moment() -> None:
    changes = told(feed(watching(rule(for_seconds=5.0)), [50, 50, *[101] * 20]))
    assert changes == [(FIRING, 8.0)]


def test_one_good_value_restarts_the_time() -> None:
    changes = told(feed(watching(rule(for_seconds=5.0)), [101] * 5 + [99] + [101] * 6))
    assert changes == [(FIRING, 12.0)]


def test_a_firing_alert_is_resolved_after_two_good_samples_or_its_time() -> None:
    assert told(feed(watching(rule()), [101, 50, 50, 50])) == [(FIRING, 1.0), (RESOLVED, 3.0)]
    changes = told(feed(watching(rule(for_seconds=3.0)), [101] * 4 + [50] * 10))
    assert changes == [(FIRING, 4.0), (RESOLVED, 8.0)]


def test_a_value_between_the_levels_neither_fires_nor_resolves() -> None:
    assert told(feed(watching(rule()), [95] * 10)) == []
    assert told(feed(watching(rule()), [101, *[95] * 50])) == [(FIRING, 1.0)]
    assert told(feed(watching(rule(clear=96.0)), [101, 95, 95])) == [(FIRING, 1.0), (RESOLVED, 3.0)]


def test_a_rule_below_a_level_clears_above_it() -> None:
    evaluator = watching(rule(below=50.0))
    changes = told(feed(evaluator, [60, 49, 54, 54, 55, 55]))
    assert changes == [(FIRING, 2.0), (RESOLVED, 6.0)]


def test_a_level_of_zero_clears_at_zero() -> None:
    assert told(feed(watching(rule(above=0.0)), [0, 1, 0, 0])) == [(FIRING, 2.0), (RESOLVED, 4.0)]


def test_noise_at_the_level_fires_at_most_twice_an_hour() -> None:
    judged = rule(for_seconds=10.0, clear=90.0)
    for seed in SEEDS:
        values = noisy(seed, LEVEL)
        naive = sum(now > LEVEL >= before for before, now in pairwise(values))
        assert naive > 300
        assert [state for state, _ in told(feed(watching(judged), values))].count(FIRING) <= 2, seed
