"""The loads of the self-test: how they behave on a busy machine."""

import time

import pytest

from jobtop.core.selftest import loads


@pytest.mark.parametrize(("cores", "expected"), [(1.0, 1.0), (0.25, 4.0), (0.001, loads.MOST_SLOWNESS)])
def test_slowness_is_how_much_longer_work_takes(monkeypatch: pytest.MonkeyPatch, cores: float, expected: float) -> None:
    spent = 0.0

    def process_time() -> float:
        nonlocal spent
        spent += loads.PROBE_SECONDS / 100
        return spent

    monkeypatch.setattr(time, "process_time", process_time)
    monkeypatch.setattr(time, "monotonic", lambda: spent / cores)
    assert loads.slowness() == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(("slowness", "expected"), [(1.0, 5.0), (2.5, 5.0), (5.0, 10.0), (8.0, 16.0)])
def test_a_load_stays_longer_on_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch, slowness: float, expected: float
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(loads, "slowness", lambda: slowness)
    monkeypatch.setattr(time, "sleep", slept.append)
    loads.stay_sampled(5.0)
    assert sum(slept) == pytest.approx(expected)
