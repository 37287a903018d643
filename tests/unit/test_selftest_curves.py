"""The curve of a load and the samples of it: what is right passes, what is wrong by more than it may be does not."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Monitor, Sample, Usage
from jobtop.core.record import replace
from jobtop.core.selftest import curves
from jobtop.core.selftest.curves import CurveCheck, judge_curve, limits_at
from jobtop.core.selftest.judge import CheckResult, Reference, Verdict
from records import made_job

START = 1_700_000_000.5
# One core for 5 s, and nothing for 5 s: half a core in the mean.
TRUTH = Reference(1, 5.0, curve=((START, 0.0), (START + 5, 5.0), (START + 10, 5.0)))
JOB = made_job(
    start_time=START,
    duration_seconds=10.0,
    usage=Usage(cpu_total_seconds=5.0, cpu_percent_peak=100.0),
    monitor=Monitor(interval_seconds=1.0),
    metrics={"cpu.percent": {"min": 0.0, "mean": 50.0, "peak": 100.0}},
    sources={"cpu": "rusage"},
)


def sample(elapsed: float, cpu: float | None) -> Sample:
    values = {"cpu.user": cpu, "cpu.system": 0.0}
    return Sample(elapsed, tuple(values.get(key) for key in JOB_COLUMNS))


def used(elapsed: float) -> float:
    return min(elapsed, 5.0)


def taken(wrong: Callable[[float], float] = used) -> list[Sample]:
    return [sample(float(second), wrong(float(second))) for second in range(11)]


def verdict(check: CurveCheck, job: Job = JOB, samples: Sequence[Sample] | None = None) -> Verdict:
    (result,) = judge_curve([check], job, TRUTH, taken() if samples is None else samples)
    return result.verdict


@pytest.mark.parametrize(
    "check",
    [curves.curve_matches, curves.sum_matches, curves.stays_within_cores, curves.mean_matches, curves.peak_matches],
)
def test_what_is_right_passes(check: CurveCheck) -> None:
    assert verdict(check) is Verdict.PASS


@pytest.mark.parametrize(("error", "expected"), [(0.049, "pass"), (-0.049, "pass"), (0.051, "fail"), (-0.051, "fail")])
def test_one_sample_that_is_one_percent_of_all_away_is_noticed(error: float, expected: str) -> None:
    samples = taken(lambda second: used(second) + (error if second == 3 else 0.0))
    (result,) = judge_curve([curves.curve_matches], JOB, TRUTH, samples)
    assert (result.verdict, result.expected) == (expected, 3.0)
    assert result.error == pytest.approx(error)
    assert result.error_ratio == pytest.approx(error / 5)


def test_a_curve_that_is_late_is_noticed() -> None:
    late = [sample(second + 0.1, used(second)) for second in range(11)]
    assert verdict(curves.curve_matches, samples=late) is Verdict.FAIL


@pytest.mark.parametrize(("total", "expected"), [(5.049, "pass"), (4.951, "pass"), (5.051, "fail"), (4.949, "fail")])
def test_rates_that_do_not_add_up_are_noticed(total: float, expected: str) -> None:
    assert verdict(curves.sum_matches, samples=taken(lambda second: used(second) * total / 5)) == expected


def test_more_than_the_cores_can_give_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "CORES", 1)
    leap = taken(lambda second: used(second) + (0.01 if second == 4 else 0.0))
    assert verdict(curves.stays_within_cores) is Verdict.PASS
    assert verdict(curves.stays_within_cores, samples=leap) is Verdict.FAIL


@pytest.mark.parametrize(
    ("measured", "expected"), [(50.9, "pass"), (49.1, "pass"), (51.1, "fail"), (48.9, "fail"), (None, "fail")]
)
def test_a_mean_that_is_two_percent_off_is_noticed(measured: float | None, expected: str) -> None:
    assert verdict(curves.mean_matches, replace(JOB, metrics={"cpu.percent": {"mean": measured}})) == expected


@pytest.mark.parametrize(
    ("measured", "expected"), [(101.9, "pass"), (98.1, "pass"), (102.1, "fail"), (97.9, "fail"), (None, "fail")]
)
def test_a_peak_that_is_two_percent_off_is_noticed(measured: float | None, expected: str) -> None:
    assert verdict(curves.peak_matches, replace(JOB, usage=Usage(cpu_percent_peak=measured))) == expected


def test_what_a_load_did_not_get_is_not_expected() -> None:
    samples = [sample(0.0, 0.0), sample(3.0, 3.0), sample(7.0, 5.0), sample(10.0, 5.0)]
    slow = replace(TRUTH, curve=(*((START + 7 * at / 5000, at / 1000) for at in range(5001)), (START + 10, 5.0)))
    (result,) = judge_curve([curves.peak_matches], JOB, slow, samples)
    assert result.expected == pytest.approx(100 * 5 / 7, rel=0.001)
    assert result.verdict is Verdict.FAIL


def test_samples_close_together_make_no_peak() -> None:
    samples = [sample(0.0, 0.0), sample(1.0, 0.5), sample(1.01, 0.51), sample(2.0, 1.0)]
    steps = replace(TRUTH, curve=((START, 0.0), (START + 1, 0.5), (START + 1.01, 0.51), (START + 2, 1.0)))
    result = judge_curve([curves.peak_matches], JOB, steps, samples)[0]
    assert result.expected == pytest.approx(50.0)


def peaking(percent: float) -> Job:
    return replace(JOB, usage=Usage(cpu_percent_peak=percent))


@pytest.mark.parametrize("broken", [{"curve": ()}, {"curve": ((START, 0.0),)}])
def test_a_load_without_a_curve_proves_nothing(broken: dict[str, Any]) -> None:
    found = judge_curve([curves.curve_matches, curves.mean_matches], JOB, replace(TRUTH, **broken), taken())
    assert_fails(found, "does not report")


def test_a_job_that_was_not_sampled_between_its_ends_fails() -> None:
    found = judge_curve([curves.curve_matches, curves.mean_matches], JOB, TRUTH, [taken()[0], taken()[-1]])
    assert_fails(found, "of 2 samples none is between")


def assert_fails(found: list[CheckResult], why: str) -> None:
    (result,) = found
    assert result.verdict is Verdict.FAIL
    assert why in str(result.reason)


def test_a_case_without_curves_has_no_findings_of_them() -> None:
    assert judge_curve([], JOB, TRUTH, []) == []


@pytest.mark.parametrize(
    ("moment", "least", "most"),
    [
        *((-1.0, 0.0, 0.0), (0.0, 0.0, 0.0), (1.0, 0.0, 1.0), (1.5, 0.5, 1.0), (2.0, 1.0, 1.0), (3.5, 1.0, 1.0)),
        *((4.0, 3.0, 3.0), (9.0, 3.0, 3.0)),
    ],
)
def test_between_two_points_a_load_used_at_most_one_core(moment: float, least: float, most: float) -> None:
    assert limits_at([(0.0, 0.0), (2.0, 1.0), (4.0, 1.0), (4.0, 3.0)], moment) == pytest.approx((least, most))


@pytest.mark.parametrize(("measured", "expected"), [(1.5, "pass"), (1.99, "pass"), (2.1, "fail"), (1.4, "fail")])
def test_a_load_may_have_waited_at_any_moment_between_two_points(measured: float, expected: str) -> None:
    """It used half a second in the second from 1.5 to 2.5: a sample at 2.0 shows any part of it."""
    waited = ((START, 0.0), (START + 1.5, 1.5), (START + 2.5, 2.0), (START + 5.5, 5.0), (START + 10, 5.0))
    samples = [sample(0.0, 0.0), sample(2.0, measured), sample(10.0, 5.0)]
    (result,) = judge_curve([curves.curve_matches], JOB, replace(TRUTH, curve=waited), samples)
    assert result.verdict == expected
