"""Compares what a load reports that it used over time with its samples. Pure.

A load records its own curve, because no machine gives it a core at all times. A sample is expected to show what the
load had used at that time.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from jobtop.core.measure.derive import is_too_short, percents
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Sample
from jobtop.core.selftest.judge import (
    CheckResult,
    Reference,
    Verdict,
    compare,
    cpu_tolerance,
    load_not_as_built,
    to_verdict,
)

PERCENT_RATIO = 0.02
CORES = os.cpu_count() or 1
USER, SYSTEM = JOB_COLUMNS.index("cpu.user"), JOB_COLUMNS.index("cpu.system")

CurveCheck = Callable[[Job, Reference, Sequence[Sample]], CheckResult]
Point = tuple[float, float]  # seconds since the start of the job, CPU seconds used by then


def judge_curve(
    checks: Sequence[CurveCheck], job: Job, reference: Reference, samples: Sequence[Sample]
) -> list[CheckResult]:
    """Return the result of each check; a single failure if there is nothing to compare."""
    if not checks:
        return []
    if len(reference.curve) < 2:
        return [load_not_as_built("curve", "it does not report what it used over time")]
    if len(samples) <= 2:
        why = f"of {len(samples)} samples none is between the start and the end"
        return [CheckResult("curve", Verdict.FAIL, "samples", None, reason=why)]
    return [check(job, reference, samples) for check in checks]


def curve_matches(job: Job, reference: Reference, samples: Sequence[Sample]) -> CheckResult:
    """Check that the CPU time of every sample is within 1 % of the total, or 20 ms, of what the load had used."""
    expected_points, tolerance = expected_curve(job, reference), cpu_tolerance(reference)
    compared = [
        (measured, nearest(measured, *limits_at(expected_points, moment)))
        for moment, measured in measured_curve(samples)
    ]
    worst, expected = max(((measured - value, value) for measured, value in compared), key=lambda error: abs(error[0]))
    ratio, source = worst / reference.cpu_seconds, job.sources.get("cpu")
    good = to_verdict(abs(worst) <= tolerance)
    return CheckResult("curve", good, expected, expected + worst, "seconds", "=", worst, ratio, tolerance, source)


def sum_matches(job: Job, reference: Reference, samples: Sequence[Sample]) -> CheckResult:
    """Check that the rates of all samples, times their intervals, add up to what the load used within 1 %."""
    times = [sample.elapsed for sample in samples]
    steps = [after - before for before, after in pairwise(times)]
    used = sum(rate / 100 * seconds for rate, seconds in zip(rates(samples), steps, strict=True) if rate is not None)
    return compare("sum", "seconds", reference.cpu_seconds, used, cpu_tolerance(reference), job.sources.get("cpu"))


def stays_within_cores(job: Job, _: Reference, samples: Sequence[Sample]) -> CheckResult:
    """Check that no sample has a rate above all cores."""
    greatest = max((rate for rate in rates(samples) if rate is not None), default=None)
    good = to_verdict(greatest is not None and greatest <= 100 * CORES)
    return CheckResult("any sample", good, 100 * CORES, greatest, "percent", "≤", source=job.sources.get("cpu"))


def mean_matches(job: Job, reference: Reference, _: Sequence[Sample]) -> CheckResult:
    """Check the mean CPU usage within 2 %."""
    expected = 100 * reference.cpu_seconds / expected_curve(job, reference)[-1][0]
    measured = job.metrics.get("cpu.percent", {}).get("mean")
    return compare("mean", "percent", expected, measured, PERCENT_RATIO * expected, job.sources.get("cpu"))


def peak_matches(job: Job, reference: Reference, samples: Sequence[Sample]) -> CheckResult:
    """Check that the peak is within 2 % of the load's largest rate between the same samples."""
    expected_points, moments = expected_curve(job, reference), [sample.elapsed for sample in samples]
    least, most = greatest_rate(expected_points, moments)
    measured = job.usage.cpu_percent_peak
    expected = nearest(least if measured is None else measured, least, most)
    return compare("peak", "percent", expected, measured, PERCENT_RATIO * expected, job.sources.get("cpu"))


def greatest_rate(expected_points: Sequence[Point], moments: Sequence[float]) -> tuple[float, float]:
    """Return the limits of the largest rate, in percent of a core, between samples far enough apart for a rate."""
    limits = []
    for before, after in pairwise(moments):
        seconds = after - before
        if seconds > 0 and not is_too_short(before, seconds):
            (least_before, most_before), (least, most) = (limits_at(expected_points, at) for at in (before, after))
            limits.append((100 * (least - most_before) / seconds, 100 * (most - least_before) / seconds))
    return max((least for least, _ in limits), default=0.0), max((most for _, most in limits), default=0.0)


def nearest(value: float, least: float, most: float) -> float:
    """Return the value itself if it is within the limits, else the nearer limit."""
    return min(max(value, least), most)


def expected_curve(job: Job, reference: Reference) -> list[Point]:
    """Return the load's own curve in seconds since the job's start, beginning at 0."""
    begin = job.start_time or 0.0
    return [(0.0, 0.0), *((moment - begin, used) for moment, used in reference.curve)]


def limits_at(points: Sequence[Point], moment: float) -> Point:
    """Return the least and the most that the load can have used at a time, from the points before and after it.

    A load that other programs interrupt has used its time between two points at any moment, at one core at most.
    """
    place = bisect_right(points, moment, key=lambda point: point[0])
    if place == len(points):
        return points[-1][1], points[-1][1]
    (begin, before), (end, after) = points[max(0, place - 1)], points[place]
    if moment < begin:
        return before, before
    first, second = max(before, after - (end - moment)), min(after, before + (moment - begin))
    return min(first, second), max(first, second)


def measured_curve(samples: Sequence[Sample]) -> Iterator[Point]:
    for sample in samples:
        user, system = sample.values[USER], sample.values[SYSTEM]
        if user is not None and system is not None:
            yield sample.elapsed, user + system


def rates(samples: Sequence[Sample]) -> list[float | None]:
    """Return the CPU percent between each sample and the previous one."""
    columns = [[sample.values[place] for sample in samples] for place in (USER, SYSTEM)]
    return percents([sample.elapsed for sample in samples], columns)[1:]
