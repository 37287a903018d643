"""What a load says it used over time against the samples that were taken of it: findings, pure.

A load tells its own curve, since no machine gives it a core whenever it wants one: what is expected of a sample is what
the load had used at that moment.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from jobtop.core.measure.derive import is_too_short, percents
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Sample
from jobtop.core.selftest.judge import Finding, Reference, Verdict, compare, cpu_tolerance, judged, not_built

PERCENT_RATIO = 0.02
CORES = os.cpu_count() or 1
USER, SYSTEM = JOB_COLUMNS.index("cpu.user"), JOB_COLUMNS.index("cpu.system")

CurveCheck = Callable[[Job, Reference, Sequence[Sample]], Finding]
Point = tuple[float, float]  # seconds since the start of the job, CPU seconds used by then


def judge_curve(
    checks: Sequence[CurveCheck], job: Job, reference: Reference, samples: Sequence[Sample]
) -> list[Finding]:
    """What each check finds; nothing but why, if there is nothing to compare."""
    if not checks:
        return []
    if len(reference.curve) < 2:
        return [not_built("curve", "it does not tell what it used over time")]
    if len(samples) <= 2:
        why = f"of {len(samples)} samples none is between the start and the end"
        return [Finding("curve", Verdict.FAIL, "samples", None, reason=why)]
    return [check(job, reference, samples) for check in checks]


def follows(job: Job, reference: Reference, samples: Sequence[Sample]) -> Finding:
    """At no sample is the CPU time further from what the load had used by then than 1 % of all, or 20 ms."""
    truth = true_curve(job, reference)
    errors = [(measured - value_at(truth, moment), moment) for moment, measured in measured_curve(samples)]
    worst, moment = max(errors, key=lambda error: abs(error[0]))
    expected, tolerance = value_at(truth, moment), cpu_tolerance(reference)
    ratio, source = worst / reference.cpu_seconds, job.sources.get("cpu")
    good = judged(abs(worst) <= tolerance)
    return Finding("curve", good, expected, expected + worst, "seconds", "=", worst, ratio, tolerance, source)


def adds_up(job: Job, reference: Reference, samples: Sequence[Sample]) -> Finding:
    """The rates of all samples, each for its time, are what the load has used within 1 %."""
    times = [sample.elapsed for sample in samples]
    steps = [after - before for before, after in pairwise(times)]
    used = sum(rate / 100 * seconds for rate, seconds in zip(rates(samples), steps, strict=True) if rate is not None)
    return compare("sum", "seconds", reference.cpu_seconds, used, cpu_tolerance(reference), job.sources.get("cpu"))


def within_cores(job: Job, _: Reference, samples: Sequence[Sample]) -> Finding:
    """No sample has more CPU time than the machine could give."""
    greatest = max((rate for rate in rates(samples) if rate is not None), default=None)
    good = judged(greatest is not None and greatest <= 100 * CORES)
    return Finding("any sample", good, 100 * CORES, greatest, "percent", "≤", source=job.sources.get("cpu"))


def mean(job: Job, reference: Reference, _: Sequence[Sample]) -> Finding:
    """The mean CPU use within 2 %."""
    expected = 100 * reference.cpu_seconds / true_curve(job, reference)[-1][0]
    measured = job.metrics.get("cpu.percent", {}).get("mean")
    return compare("mean", "percent", expected, measured, PERCENT_RATIO * expected, job.sources.get("cpu"))


def peak(job: Job, reference: Reference, samples: Sequence[Sample]) -> Finding:
    """The greatest CPU use within 2 % of the greatest the load had between the same samples."""
    truth, moments = true_curve(job, reference), [sample.elapsed for sample in samples]
    expected, measured = greatest_rate(truth, moments), job.usage.cpu_percent_peak
    return compare("peak", "percent", expected, measured, PERCENT_RATIO * expected, job.sources.get("cpu"))


def greatest_rate(truth: Sequence[Point], moments: Sequence[float]) -> float:
    """The greatest percent of a core between two samples that are far enough apart for a rate."""
    pairs = [pair for pair in pairwise(moments) if not is_too_short(pair[0], pair[1] - pair[0])]
    used = [(value_at(truth, after) - value_at(truth, before), after - before) for before, after in pairs]
    return max((100 * seconds / time for seconds, time in used if time > 0), default=0.0)


def true_curve(job: Job, reference: Reference) -> list[Point]:
    """What the load says of itself, in the seconds of the job, from nothing at its start."""
    begin = job.start_time or 0.0
    return [(0.0, 0.0), *((moment - begin, used) for moment, used in reference.curve)]


def value_at(points: Sequence[Point], moment: float) -> float:
    """The value at a moment, straight between two points and as the last one beyond it."""
    place = bisect_right(points, moment, key=lambda point: point[0])
    if place == len(points):
        return points[-1][1]
    (begin, before), (end, after) = points[max(0, place - 1)], points[place]
    return before if end <= begin else before + (after - before) * (moment - begin) / (end - begin)


def measured_curve(samples: Sequence[Sample]) -> Iterator[Point]:
    for sample in samples:
        user, system = sample.values[USER], sample.values[SYSTEM]
        if user is not None and system is not None:
            yield sample.elapsed, user + system


def rates(samples: Sequence[Sample]) -> list[float | None]:
    """CPU percent between each sample and the one before."""
    columns = [[sample.values[place] for sample in samples] for place in (USER, SYSTEM)]
    return percents([sample.elapsed for sample in samples], columns)[1:]
