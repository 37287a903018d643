"""Minimum, time-weighted mean and peak of every metric of a job, updated with each sample."""

from __future__ import annotations

from itertools import pairwise
from operator import add, mul, sub, truediv

from jobtop.core.measure.derive import SHORTEST_SECONDS, is_too_short
from jobtop.core.metrics import BY_KEY, DERIVED, JOB_COLUMNS, Kind, Scope
from jobtop.core.record import record
from jobtop.core.series.endpoints import FIRST_SAMPLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobtop.core.model import Sample

    Column = Sequence[float | int | None]

BATCH = 60  # samples are added up many at a time, column by column, where C does the loops
GAUGES = tuple(place for place, key in enumerate(JOB_COLUMNS) if BY_KEY[key].kind is Kind.GAUGE)
COUNTERS = tuple(place for place, key in enumerate(JOB_COLUMNS) if BY_KEY[key].kind is Kind.COUNTER)
# No record of a shim has the totals of these.
TOTALED = {key: JOB_COLUMNS.index(key) for key in ("energy.gpu", "energy.cpu", "net.rx_bytes", "net.tx_bytes")}
PERCENTS = {key: tuple(JOB_COLUMNS.index(part) for part in parts) for key, parts in DERIVED[Scope.JOB].items()}


@record
class Spread:
    """Minimum, mean and peak of a metric over the life of a job; of a counter, those of its rate."""

    least: float
    mean: float
    greatest: float


class Extremes:
    """One metric so far."""

    __slots__ = ("greatest", "integral", "least", "seconds")

    def __init__(self) -> None:
        self.least, self.greatest = float("inf"), -float("inf")
        self.integral = self.seconds = 0.0

    def see(self, values: Sequence[float]) -> None:
        self.least, self.greatest = min(self.least, *values), max(self.greatest, *values)


class Tally:
    """Adds samples up; an extreme of a rate is one of those that every curve of the job shows."""

    __slots__ = (
        "_counted",
        "_extremes",
        "_first",
        "_latest",
        "_rows",
        "_totals",
        "gap",
        "gap_seconds",
        "last",
        "samples",
    )

    def __init__(self) -> None:
        self.samples = 1  # the start
        self.last = FIRST_SAMPLE
        self.gap_seconds = 0.0  # the longest time between two samples, and these
        self.gap = FIRST_SAMPLE, FIRST_SAMPLE
        self._rows = [FIRST_SAMPLE]
        self._first: dict[str, tuple[float, float]] = {}
        self._latest: dict[str, tuple[float, float]] = {}
        self._extremes: dict[str, Extremes] = {}
        self._totals: dict[str, float] = {}  # of the counters of TOTALED …
        self._counted: dict[str, float] = {}  # … and their last values

    def add(self, sample: Sample) -> None:
        """Add samples in order of time; of a time without new readings only the first and the last are needed."""
        self.samples += 1
        before, self.last = self.last, sample
        seconds = sample.elapsed - before.elapsed
        if seconds > self.gap_seconds and sample.values is not before.values:  # of an idle job nothing is missing
            self.gap_seconds, self.gap = seconds, (before, sample)
        if sample.values is before.values and seconds >= SHORTEST_SECONDS:
            return
        if self._rows[-1] is not before:
            self._rows.append(before)
        self._rows.append(sample)
        if len(self._rows) > BATCH:
            self._add_up()

    def count(self, sample: Sample) -> None:
        """Add a sample to the totals alone."""
        self._add_up()
        self._add_totals([[value] for value in sample.values])

    def total(self, key: str) -> float | None:
        """How much a counter that starts at 0 has counted; one that was started again goes on from where it was."""
        self._add_up()
        return self._totals.get(key)

    def spreads(self) -> dict[str, Spread]:
        """All metrics of which anything is known."""
        self._add_up()
        for key, (since, value) in self._first.items():
            until, end = self._latest[key]
            if until > since:
                self._extremes[key].integral, self._extremes[key].seconds = end - value, until - since
        return {key: self._spread(key) for key in (*PERCENTS, *JOB_COLUMNS) if key in self._extremes}

    def _spread(self, key: str) -> Spread:
        """A counter that is read rarely may have grown in a time too short for a rate: the mean bounds both."""
        seen = self._extremes[key]
        mean = seen.integral / seen.seconds if seen.seconds > 0 else seen.least
        return Spread(min(seen.least, mean), mean, max(seen.greatest, mean))

    def _add_up(self) -> None:
        rows = self._rows
        if rows[-1] is not self.last:
            rows.append(self.last)
        if len(rows) > 1:
            moments = [row.elapsed for row in rows]
            columns = list(zip(*(row.values for row in rows), strict=True))
            self._add_gauges(moments, columns)
            self._add_rates(moments, columns)
            self._add_totals(columns)
        self._rows = rows[-1:]

    def _add_gauges(self, moments: Sequence[float], columns: Sequence[Column]) -> None:
        """Between two samples a gauge is assumed to change linearly."""
        steps = list(map(sub, moments[1:], moments))
        for place in GAUGES:
            column = columns[place]
            known = [value for value in column if value is not None]
            if not known:
                continue
            seen = self._extremes.setdefault(JOB_COLUMNS[place], Extremes())
            seen.see(known)
            if len(known) == len(column):
                seen.integral += sum(map(mul, map(add, known[1:], known), steps)) / 2
                seen.seconds += sum(steps)
                continue
            for before, after, seconds in zip(column, column[1:], steps, strict=False):
                if before is not None and after is not None:
                    seen.integral += (before + after) * seconds / 2
                    seen.seconds += seconds

    def _add_totals(self, columns: Sequence[Column]) -> None:
        """Whoever samples a job after another starts these counters again."""
        for key, place in TOTALED.items():
            for value in columns[place]:
                if value is not None:
                    before = self._counted.get(key, 0)
                    self._totals[key] = self._totals.get(key, 0) + (value - before if value >= before else value)
                    self._counted[key] = value

    def _add_rates(self, moments: Sequence[float], columns: Sequence[Column]) -> None:
        steps = [
            None if is_too_short(before, seconds := after - before) else seconds for before, after in pairwise(moments)
        ]
        for key, column in _counters(columns):
            rates = _rates(column, steps)
            if rates:
                if key not in self._first:
                    place = next(place for place, value in enumerate(column) if value is not None)
                    self._first[key] = moments[place], column[place] or 0
                self._extremes.setdefault(key, Extremes()).see(rates)
            if key in self._first:  # the last sample may lack values, as it does when the cgroup is gone
                pairs = zip(reversed(moments), reversed(column), strict=True)
                last = next(((moment, value) for moment, value in pairs if value is not None), None)
                self._latest[key] = last or self._latest[key]


def _counters(columns: Sequence[Column]) -> Iterator[tuple[str, Column]]:
    """The column of every counter with values; CPU time in percent of a core."""
    for place in COUNTERS:
        if any(value is not None for value in columns[place]):
            yield JOB_COLUMNS[place], columns[place]
    for key, places in PERCENTS.items():
        parts = zip(*(columns[place] for place in places), strict=True)
        yield key, [None if None in part else 100 * sum(filter(None, part)) for part in parts]


def _rates(column: Column, steps: Sequence[float | None]) -> list[float]:
    """Between samples that are far enough apart."""
    try:
        return list(map(truediv, map(sub, column[1:], column), steps))
    except (TypeError, ZeroDivisionError):  # one is absent
        pairs = zip(column, column[1:], steps, strict=False)
        return [
            (after - before) / seconds
            for before, after, seconds in pairs
            if not (before is None or after is None) and seconds
        ]
