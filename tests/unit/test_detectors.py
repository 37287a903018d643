"""Leaks, stalls, deviations from the past and absent values."""

import math
import random
from collections.abc import Callable

import pytest

from jobtop.core.alerts.detectors.absence import AbsenceWatch
from jobtop.core.alerts.detectors.deviation import MOST_RUNS, deviation, usual
from jobtop.core.alerts.detectors.leak import Leak, find_leak
from jobtop.core.alerts.detectors.stall import StallWatch
from jobtop.core.alerts.detectors.thinned import ThinnedWindow
from jobtop.core.job_id import JobId
from jobtop.core.model import Job, Status, Usage

MIB = 2.0**20
ID = JobId("00000000-0000-4000-8000-000000000000")


def leaks(curve: Callable[[int], float], hours: float = 3) -> list[tuple[int, Leak]]:
    window = ThinnedWindow(3600)
    found = []
    for second in range(0, int(hours * 3600), 5):
        window.add(second, curve(second))
        if second % 60 == 0 and (leak := find_leak(window)) is not None:
            found.append((second, leak))
    return found


def test_growth_below_a_sawtooth_is_a_leak_once_the_window_is_full() -> None:
    for seed in range(3):
        chance = random.Random(seed)

        def curve(second: int, chance: random.Random = chance) -> float:
            return (200 + second * 0.02 + 60 * (second % 240) / 240) * MIB * chance.gauss(1, 0.01)

        found = leaks(curve)
        assert 3200 <= found[0][0] <= 4500
        assert found[-1][1].slope == pytest.approx(0.02 * MIB, rel=0.3)
        assert len(found) > 0.8 * (3 * 3600 - found[0][0]) / 60


@pytest.mark.parametrize("period", [120, 600, 2400])
def test_a_sawtooth_is_no_leak(period: int) -> None:
    chance = random.Random(1)
    assert leaks(lambda second: (100 + 900 * (second % period) / period) * MIB * chance.gauss(1, 0.02)) == []


def test_noise_a_step_and_a_cache_that_fills_are_no_leaks() -> None:
    chance = random.Random(1)
    assert leaks(lambda _: 500 * MIB * chance.gauss(1, 0.1)) == []
    assert leaks(lambda second: (100 + 400 * (second > 5000)) * MIB * chance.gauss(1, 0.02)) == []
    for tau in (600, 1800):
        filled = leaks(lambda second, tau=tau: 800 * MIB * (1 - math.exp(-second / tau)) * chance.gauss(1, 0.01))  # type: ignore[misc]
        assert filled == []


def test_growth_of_a_few_percent_is_no_leak() -> None:
    chance = random.Random(1)
    assert leaks(lambda second: (1000 + second * 0.01) * MIB * chance.gauss(1, 0.001)) == []


IDLE = {"cpu.user": 5.0, "cpu.system": 1.0, "io.read_chars": 1e6, "io.write_chars": 1e6, "output.bytes": 100.0}


def idle_watch(per_second: dict[str, float] | None = None, without: tuple[str, ...] = ()) -> StallWatch:
    """A watch that has seen 20 minutes, in which nothing happened but what is given."""
    watch = StallWatch()
    growing = per_second or {}
    for elapsed in range(0, 1201, 10):
        values = {key: IDLE.get(key, 0.0) + growing.get(key, 0.0) * elapsed for key in (*IDLE, *growing)}
        watch.see(elapsed, {key: value for key, value in values.items() if key not in without}.get)
    return watch


def test_a_job_that_does_nothing_has_stalled() -> None:
    assert idle_watch().idle_seconds == 1200


def test_hardly_any_cpu_time_is_none() -> None:
    assert idle_watch({"cpu.user": 0.001, "io.read_chars": 20.0}).idle_seconds == 1200


@pytest.mark.parametrize(
    "growing",
    [
        {"cpu.user": 0.1},
        {"io.write_chars": 5000.0},
        {"net.rx_bytes": 5000.0, "net.tx_bytes": 0.0},
        {"output.bytes": 0.1},
    ],
    ids=str,
)
def test_work_is_no_stall(growing: dict[str, float]) -> None:
    assert idle_watch(growing).idle_seconds == 0


@pytest.mark.parametrize("key", ["cpu.user", "io.read_chars"])
def test_an_absent_counter_is_no_stall(key: str) -> None:
    assert idle_watch(without=(key,)).idle_seconds == 0


def test_where_output_is_not_known_any_write_is_work() -> None:
    assert idle_watch(without=("output.bytes",)).idle_seconds == 1200
    assert idle_watch({"io.write_chars": 0.5}, without=("output.bytes",)).idle_seconds == 0


def test_a_busy_gpu_is_work() -> None:
    watch = idle_watch()
    watch.see(1210, (IDLE | {"gpu.util": 40.0}).get)
    assert watch.idle_seconds == 0


def run_of(seconds: float | None, status: Status = Status.SUCCESS, memory: int | None = None) -> Job:
    usage = Usage(memory_peak_bytes=memory)
    return Job(ID, "train", ("train",), "host", "user", "/", status, duration_seconds=seconds, usage=usage)


def is_unusual(chance: random.Random, factor: float, runs: int = 20) -> bool:
    past = [run_of(600 * chance.gauss(1, 0.05)) for _ in range(runs)]
    return deviation(600 * factor * chance.gauss(1, 0.05), usual(past, "duration_seconds")) is not None


def test_a_run_that_is_a_third_slower_is_found_and_normal_runs_are_not() -> None:
    chance = random.Random(14)
    assert sum(is_unusual(chance, 1.3) for _ in range(100)) >= 90
    assert sum(is_unusual(chance, 1.0) for _ in range(1000)) <= 5


def test_few_or_failed_runs_are_no_past() -> None:
    assert usual([run_of(600.0)] * 4, "duration_seconds") is None
    assert usual([run_of(600.0, Status.FAILED)] * 20, "duration_seconds") is None
    assert usual([run_of(None)] * 20, "duration_seconds") is None
    assert usual([run_of(600.0)] * 20, "memory_peak_bytes") is None


def test_identical_runs_do_not_make_every_difference_unusual() -> None:
    expected = usual([run_of(600.0)] * 20, "duration_seconds")
    assert deviation(612.0, expected) is None
    slower = deviation(780.0, expected)
    assert slower is not None
    assert slower.ratio == pytest.approx(1.3)


def test_a_second_more_is_not_unusual() -> None:
    expected = usual([run_of(0.5)] * 20, "duration_seconds")
    assert deviation(1.5, expected) is None
    assert deviation(3.0, expected) is not None


def test_only_the_newest_runs_count() -> None:
    expected = usual([run_of(100.0)] * MOST_RUNS + [run_of(1000.0)] * 100, "duration_seconds")
    assert expected is not None
    assert (expected.median, expected.runs) == (100.0, MOST_RUNS)


def test_more_memory_than_usual_is_found() -> None:
    expected = usual([run_of(1.0, memory=int((1000 + place) * MIB)) for place in range(10)], "memory_peak_bytes")
    assert deviation(1020 * MIB, expected) is None
    assert deviation(1400 * MIB, expected) is not None


def test_a_value_that_stops_while_its_owner_is_sampled_is_absent() -> None:
    watch = AbsenceWatch()
    for second in range(100):
        watch.see(second < 30, float(second))
    assert watch.missing_seconds == 70
    watch.see(True, 100.0)
    assert watch.missing_seconds == 0


def test_an_owner_that_is_not_sampled_has_no_absent_values_and_a_value_that_never_came_is_not_missed() -> None:
    watch, never = AbsenceWatch(), AbsenceWatch()
    for second in range(30):
        watch.see(True, float(second))
        never.see(False, float(second) * 10)
    watch.see(False, 29.0)
    assert watch.missing_seconds == 0
    assert never.missing_seconds is None
