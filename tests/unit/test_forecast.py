"""The forecast of a limit: exact on growth with noise, silent on everything that is not steady growth."""

import math
import random
from collections.abc import Callable, Iterator

import pytest

from jobtop.core.alerts.detectors.forecast import Forecast, forecast
from jobtop.core.alerts.detectors.thinned import MOST_POINTS, ThinnedWindow

GIB = 2**30
LIMIT = 8.0 * GIB
WINDOW = 900.0
WITHIN = 600.0
Curve = Callable[[int], float]


def forecasts(
    curve: Curve, seconds: int, every: int = 20, within: float = WITHIN
) -> Iterator[tuple[int, Forecast | None]]:
    window = ThinnedWindow(WINDOW)
    for second in range(seconds):
        window.add(second, curve(second))
        if second % every == 0:
            yield second, forecast(window, LIMIT, within)


def growth(seed: int, start: float = 0.0, noise: float = 0.1) -> Curve:
    """Linear growth that reaches the limit after 30 minutes; noise is a share of the current value."""
    chance = random.Random(seed)
    return lambda second: LIMIT * (start + (1 - start) * second / 1800) * chance.gauss(1, noise)


def moments_of_forecasts(curve: Curve, seconds: int = 2400) -> list[int]:
    return [second for second, found in forecasts(curve, seconds) if found is not None]


@pytest.mark.parametrize("start", [0.0, 0.25])
def test_growth_with_noise_is_predicted_within_a_fifth_after_a_third_of_the_way(start: float) -> None:
    good = silent = predictions = 0
    for seed in range(15):
        for second, found in forecasts(growth(seed, start), 1680, every=60, within=math.inf):
            if second < 600:
                continue
            predictions += 1
            silent += found is None
            good += found is not None and abs(found.eta_seconds - (1800 - second)) <= 0.2 * (1800 - second)
    assert good >= 0.95 * predictions
    assert silent <= 0.02 * predictions


def test_growth_says_its_slope_and_how_sure_it_is() -> None:
    found = dict(forecasts(growth(3, noise=0.01), 1501))[1500]
    assert found is not None
    assert found.slope == pytest.approx(LIMIT / 1800, rel=0.03)
    assert found.eta_seconds == pytest.approx(300, rel=0.05)
    assert 0.9 < found.confidence <= 1


def test_a_limit_that_is_far_away_is_not_predicted() -> None:
    moments = moments_of_forecasts(growth(5, noise=0.02), 1700)
    assert moments
    assert min(moments) >= 1800 - 1.1 * WITHIN


@pytest.mark.parametrize("period", [30, 75, 150, 225])
@pytest.mark.parametrize(("low", "height"), [(0.05, 0.9), (0.65, 0.3)])
def test_a_sawtooth_is_silent_from_its_first_tooth_on(period: int, low: float, height: float) -> None:
    for seed in range(2):
        chance = random.Random(seed)
        phase = seed * 0.37 * period

        def sawtooth(second: int, chance: random.Random = chance, phase: float = phase) -> float:
            return LIMIT * (low + height * ((second + phase) % period) / period) * chance.gauss(1, 0.01)

        assert moments_of_forecasts(sawtooth) == []


@pytest.mark.parametrize("height", [0.2, 0.8])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_step_is_silent(height: float, noise: float) -> None:
    for seed in range(4):
        chance = random.Random(seed)
        moment = chance.uniform(100, 1500)

        def step(second: int, chance: random.Random = chance, moment: float = moment) -> float:
            return LIMIT * (0.1 + height * (second > moment)) * chance.gauss(1, noise)

        assert moments_of_forecasts(step) == []


def test_noise_around_a_constant_and_falling_values_are_silent() -> None:
    chance = random.Random(1)
    for level in (0.5, 0.95):
        assert moments_of_forecasts(lambda _, level=level: LIMIT * level * chance.gauss(1, 0.1)) == []  # type: ignore[misc]
    assert moments_of_forecasts(lambda second: LIMIT * (0.95 - second / 3000) * chance.gauss(1, 0.05)) == []


@pytest.mark.parametrize("seconds", [60, 150, 300])
def test_a_cache_that_fills_up_below_the_limit_is_silent(seconds: float) -> None:
    chance = random.Random(1)
    filling = moments_of_forecasts(
        lambda second: LIMIT * 0.8 * (1 - math.exp(-second / seconds)) * chance.gauss(1, 0.01)
    )
    assert filling == []


def test_growth_that_has_ended_is_silent_two_minutes_later() -> None:
    chance = random.Random(2)
    moments = moments_of_forecasts(
        lambda second: LIMIT * (0.1 + 0.8 * min(second, 1000) / 1000) * chance.gauss(1, 0.02)
    )
    assert moments
    assert max(moments) <= 1130


def test_growth_after_a_long_rest_is_found_within_three_minutes() -> None:
    chance = random.Random(4)
    speed = 18 * 2**20

    def curve(second: int) -> float:
        return (GIB + max(0, second - 1200) * speed) * chance.gauss(1, 0.005)

    second, found = next((second, found) for second, found in forecasts(curve, 1500) if found is not None)
    assert 1200 < second <= 1380
    assert found.eta_seconds == pytest.approx((LIMIT - GIB) / speed - (second - 1200), rel=0.2)


def test_growth_with_small_teeth_is_predicted() -> None:
    chance = random.Random(4)

    def curve(second: int) -> float:
        return LIMIT * (0.2 + 0.7 * second / 1800 + 0.05 * (second % 60) / 60) * chance.gauss(1, 0.01)

    found = dict(forecasts(curve, 1501))[1500]
    assert found is not None
    assert found.eta_seconds == pytest.approx(1800 / 0.7 * 0.775 - 1500, rel=0.2)


def test_a_window_keeps_a_bounded_number_of_points_and_the_mean_of_all_values() -> None:
    window = ThinnedWindow(600)
    for second in range(5000):
        window.add(second, second % 10)
    times, means = window.points()
    assert len(times) <= MOST_POINTS + 1
    assert times[0] >= 4999 - 600
    assert set(means[:-1]) == {4.5}


def test_a_window_forgets_values_before_a_long_gap_and_starts_anew_when_the_clock_is_set_back() -> None:
    window = ThinnedWindow(600)
    for second in range(600):
        window.add(second, 1.0)
    window.add(10_000.0, 5.0)
    window.add(10_011.0, 5.0)
    assert list(window.points()[1]) == [5.0]
    window.add(50.0, 2.0)
    window.add(61.0, 2.0)
    assert list(window.minima()[1]) == [2.0]
