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
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Sample, Status, Usage

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


def job_sample(elapsed: float, **values: float) -> Sample:
    named = {key.replace("__", "."): value for key, value in values.items()}
    return Sample(elapsed, tuple(named.get(key) for key in JOB_COLUMNS))


IDLE = {"cpu__user": 5.0, "cpu__system": 1.0, "io__read_chars": 1e6, "io__write_chars": 1e6}


def idle_watch(output: int | None = 100, without: tuple[str, ...] = (), **per_second: float) -> StallWatch:
    """A watch that has seen 20 minutes, in which nothing happened but what is given."""
    watch = StallWatch()
    for elapsed in range(0, 1201, 10):
        values = {key: IDLE.get(key, 0.0) for key in (*IDLE, *per_second) if key not in without}
        values |= {key: values[key] + growth * elapsed for key, growth in per_second.items()}
        watch.see(job_sample(elapsed, **values), output)
    return watch


def test_a_job_that_does_nothing_has_stalled() -> None:
    watch = idle_watch()
    stall = watch.found(900)
    assert stall is not None
    assert stall.idle_seconds == 1200
    assert watch.found(1201) is None


def test_hardly_any_cpu_time_is_none() -> None:
    assert idle_watch(cpu__user=0.001, io__read_chars=20.0).found(900) is not None


def test_work_is_no_stall() -> None:
    assert idle_watch(cpu__user=0.1).found(10) is None
    assert idle_watch(io__write_chars=5000.0).found(10) is None
    assert idle_watch(net__rx_bytes=5000.0, net__tx_bytes=0.0).found(10) is None


@pytest.mark.parametrize("key", ["cpu__user", "io__read_chars"])
def test_an_absent_counter_is_no_stall(key: str) -> None:
    assert idle_watch(without=(key,)).found(10) is None


def test_output_is_work_also_where_only_writes_are_known() -> None:
    watch = idle_watch()
    watch.see(job_sample(1210, **IDLE), 101)
    assert watch.found(10) is None
    assert idle_watch(output=None).found(900) is not None
    assert idle_watch(output=None, io__write_chars=0.5).found(10) is None


def test_a_busy_gpu_is_work() -> None:
    watch = idle_watch()
    watch.see(job_sample(1210, **IDLE, gpu__util=40.0), 100)
    assert watch.found(10) is None


def test_a_stall_begins_anew_after_a_pause() -> None:
    watch = idle_watch()
    watch.forget()
    assert watch.found(10) is None
    watch.see(job_sample(1300, **IDLE), 100)
    watch.see(job_sample(1400, **IDLE), 100)
    assert watch.found(900) is None
    assert watch.found(100) is not None


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
    absence = watch.found(60)
    assert absence is not None
    assert absence.missing_seconds == 70
    watch.see(True, 100.0)
    assert watch.found(60) is None


def test_an_owner_that_is_not_sampled_has_no_absent_values_and_a_value_that_never_came_is_not_missed() -> None:
    watch, never = AbsenceWatch(), AbsenceWatch()
    for second in range(30):
        watch.see(True, float(second))
        never.see(False, float(second) * 10)
    assert watch.found(0.5) is None
    assert never.found(60) is None
