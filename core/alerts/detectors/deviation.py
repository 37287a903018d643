"""Compares a run with earlier runs of the same name: slower, or hungrier, than usual. Pure."""

from __future__ import annotations

from jobtop.core.alerts.detectors.slope import DEVIATION_PER_MAD, median
from jobtop.core.model import Status
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobtop.core.model import Job

FEWEST_RUNS = 5
MOST_RUNS = 20
DEFAULT_FACTOR = 1.3
USUAL_SPREADS = 3.0  # so many standard deviations above the median are unusual
FEW_RUNS_PENALTY = 25.0  # a spread from few runs is uncertain: with 5 runs twice as many deviations are needed
LEAST_SPREAD = 0.02  # of the median: identical earlier runs do not make every difference unusual
LEAST_SECONDS, LEAST_BYTES = 2.0, 16 * 2**20  # smaller differences concern no one


@record
class Usual:
    """What earlier runs used, and the value from which a run is unusual."""

    median: float
    spread: float  # a standard deviation, from the median absolute deviation
    runs: int
    unusual_from: float


@record
class Deviation:
    """A run that used clearly more than usual; `score` is the difference in standard deviations of earlier runs."""

    value: float
    usual: Usual

    @property
    def ratio(self) -> float:
        """How many times the usual value."""
        return self.value / self.usual.median

    @property
    def score(self) -> float:
        spread = max(self.usual.spread, LEAST_SPREAD * self.usual.median)
        return (self.value - self.usual.median) / spread


def measure_of(job: Job, name: str) -> float | None:
    """A figure of an ended job by its name in the JSON of a job: `duration_seconds`, or a name of `resource_usage`."""
    value: float | None = job.duration_seconds if name == "duration_seconds" else getattr(job.usage, name, None)
    return value


def usual(past: Sequence[Job], name: str, factor: float = DEFAULT_FACTOR) -> Usual | None:
    """Return what is usual, from the newest successful runs (the newest first); None if there are too few.

    A run counts as unusual at half of the way to `factor`, if that is also far outside of the spread of earlier runs.
    A run that really takes `factor` times as long is measured below that in half of the cases.
    """
    known = (measure_of(job, name) for job in past if job.status is Status.SUCCESS)
    values = [value for value in known if value is not None][:MOST_RUNS]
    middle = median(values) if len(values) >= FEWEST_RUNS else 0.0
    if middle <= 0:
        return None
    spread = DEVIATION_PER_MAD * median([abs(value - middle) for value in values])
    spreads = USUAL_SPREADS * (1 + FEW_RUNS_PENALTY / len(values) ** 2)
    least = LEAST_SECONDS if name.endswith("_seconds") else LEAST_BYTES if name.endswith("_bytes") else 0.0
    above = max(spreads * max(spread, LEAST_SPREAD * middle), (factor - 1) / 2 * middle, least)
    return Usual(middle, spread, len(values), middle + above)


def deviation(value: float | None, expected: Usual | None) -> Deviation | None:
    """Return how a value differs from what is usual, if it is unusual; a run that goes on is judged the same way."""
    if value is None or expected is None or value < expected.unusual_from:
        return None
    return Deviation(value, expected)
