"""Statistics of many jobs: how many, how they ended, what they used, overall and by group. Pure."""

from __future__ import annotations

import math
from collections import Counter

from jobtop.core.analysis.cost import Cost, CostTotals
from jobtop.core.clock import iso
from jobtop.core.model import LIVE, SCHEMA_VERSION, Status
from jobtop.core.record import fresh, record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TypeVar

    Number = TypeVar("Number", int, float)
    # Of one job: group label, status, duration and CPU time in seconds, memory peak in bytes, whether that is a bound;
    # and, where they were asked for, its CPU efficiency and its cost.
    JobFigures = tuple[str | None, str, float | None, float | None, int | None, int, *tuple[float | Cost | None, ...]]

FAILED = frozenset({Status.FAILED, Status.TIMEOUT, Status.ERROR, Status.LOST})


@record
class Distribution:
    """How a number is distributed over the jobs for which it is known; only the count if there are none.

    `largest_bound` is the largest number that is only an upper bound.
    """

    known: int
    total: float | None = None
    p50: float | None = None
    p95: float | None = None
    largest_bound: float | None = None

    def is_bound(self, percentile: float | None) -> bool:
        """Whether a percentile is an upper bound too: bounds below it do not change it."""
        return percentile is not None and self.largest_bound is not None and self.largest_bound >= percentile

    @property
    def mean(self) -> float | None:
        return None if self.total is None else self.total / self.known


@record
class Summary:
    """The statistics of some jobs; distributions cover only ended ones."""

    jobs: int
    successful: int
    failed: int
    cancelled: int
    unknown: int
    running: int
    duration: Distribution
    cpu: Distribution
    memory: Distribution
    cost: CostTotals = fresh(default_factory=CostTotals)
    cpu_percent_mean: float | None = None  # CPU time per time of the jobs that have both; 100 is one CPU
    cpu_efficiency: float | None = None  # CPU time per time on all CPUs that the jobs had
    with_efficiency: int = 0

    @property
    def ended(self) -> int:
        return self.jobs - self.running

    @property
    def success_rate(self) -> float | None:
        """The share of jobs that succeeded, among those that succeeded or failed; cancelled jobs did neither."""
        decided = self.successful + self.failed
        return self.successful / decided if decided else None

    def to_json(self, count_key: str, duration_key: str) -> dict[str, Any]:
        """Return the statistics as JSON. Keys only get added; two of them have other names in groups than overall."""
        return {
            count_key: self.jobs,
            "successful": self.successful,
            "failed": self.failed,
            "cancelled": self.cancelled,
            "unknown": self.unknown,
            "running": self.running,
            "success_rate": self.success_rate,
            "total_cpu_time_seconds": self.cpu.total,
            duration_key: self.duration.total,
            "average_duration_seconds": self.duration.mean,
            "duration_p50_seconds": self.duration.p50,
            "duration_p95_seconds": self.duration.p95,
            "cpu_time_p50_seconds": self.cpu.p50,
            "cpu_time_p95_seconds": self.cpu.p95,
            "memory_peak_p50_bytes": self.memory.p50,
            "memory_peak_p95_bytes": self.memory.p95,
            "memory_peak_p50_is_bound": self.memory.is_bound(self.memory.p50) if self.memory.known else None,
            "memory_peak_p95_is_bound": self.memory.is_bound(self.memory.p95) if self.memory.known else None,
            "jobs_with_duration": self.duration.known,
            "jobs_with_cpu_time": self.cpu.known,
            "jobs_with_memory_peak": self.memory.known,
            "cpu_percent_mean": self.cpu_percent_mean,
            "cpu_efficiency": self.cpu_efficiency,
            "jobs_with_cpu_efficiency": self.with_efficiency,
            **self.cost.to_json(),
        }


@record
class Statistics:
    """Statistics of all jobs, and by group: the most CPU time first; jobs without a label are the group None."""

    overall: Summary
    groups: dict[str | None, Summary]

    def to_json(self, by: str, since: float | None) -> dict[str, Any]:
        groups = {label: group_json(group) for label, group in self.groups.items()}
        return {
            "schema_version": SCHEMA_VERSION,
            "since": iso(since),
            **self.overall.to_json("total_jobs", "total_duration_seconds"),
            f"by_{by}": {label: group for label, group in groups.items() if label is not None},
            "ungrouped": groups.get(None),
        }


def group_json(group: Summary) -> dict[str, Any]:
    """Return the statistics of a group as JSON."""
    return group.to_json("count", "total_duration")


def statistics(jobs: Iterable[JobFigures]) -> Statistics:
    """Return the statistics of the jobs, overall and by their labels."""
    tallies: dict[str | None, GroupTally] = {}
    for label, status, duration, cpu_time, memory_peak, is_bound, *more in jobs:
        tally = tallies.get(label)
        if tally is None:
            tally = tallies[label] = GroupTally()
        tally.add(status, duration, cpu_time, memory_peak)
        if is_bound and status not in LIVE and memory_peak is not None:
            tally.largest_bound = max(tally.largest_bound or 0, memory_peak)
        if more and status not in LIVE:
            tally.add_efficiency(cpu_time, more[0])
            if len(more) > 1 and isinstance(more[1], Cost):
                tally.cost.add(more[1])
    groups = {label: tally.summary() for label, tally in tallies.items()}
    ordered = sorted(groups.items(), key=lambda item: _group_order(*item))
    return Statistics(combine_tallies(tallies.values()).summary(), dict(ordered))


class GroupTally:
    """Collects the statuses of jobs, and the known numbers of ended ones."""

    __slots__ = (
        *("available_seconds", "busy_seconds", "cost", "cpu_of_available", "cpu_times", "durations", "elapsed_seconds"),
        *("largest_bound", "memory_peaks", "statuses", "with_efficiency"),
    )

    def __init__(self) -> None:
        self.statuses: list[str] = []
        self.durations: list[float] = []
        self.cpu_times: list[float] = []
        self.memory_peaks: list[int] = []
        self.largest_bound: int | None = None  # of memory peaks
        self.cost = CostTotals()
        self.busy_seconds = self.elapsed_seconds = 0.0  # CPU time and time of jobs that have both
        self.cpu_of_available = self.available_seconds = 0.0  # of jobs with an efficiency: of time times CPUs
        self.with_efficiency = 0

    def add(self, status: str, duration: float | None, cpu_time: float | None, memory_peak: int | None) -> None:
        self.statuses.append(status)
        if status in LIVE:
            return
        if duration is not None:
            self.durations.append(duration)
        if cpu_time is not None:
            self.cpu_times.append(cpu_time)
        if memory_peak is not None:
            self.memory_peaks.append(memory_peak)
        if duration is not None and cpu_time is not None:
            self.busy_seconds += cpu_time
            self.elapsed_seconds += duration

    def add_efficiency(self, cpu_time: float | None, efficiency: object) -> None:
        """Count a job by the time on its CPUs, which follows from its efficiency; a longer job counts more."""
        if cpu_time is None or not isinstance(efficiency, int | float) or efficiency <= 0:
            return
        self.cpu_of_available += cpu_time
        self.available_seconds += cpu_time / efficiency
        self.with_efficiency += 1

    def summary(self) -> Summary:
        """Return the statistics of the jobs added so far; sorts the lists in place."""
        counts = Counter(self.statuses)
        return Summary(
            jobs=len(self.statuses),
            successful=counts[Status.SUCCESS],
            failed=sum(counts[status] for status in FAILED),
            cancelled=counts[Status.CANCELLED],
            unknown=counts[Status.UNKNOWN],
            running=sum(counts[status] for status in LIVE),
            duration=distribution(self.durations),
            cpu=distribution(self.cpu_times),
            memory=replace(distribution(self.memory_peaks), largest_bound=self.largest_bound),
            cost=self.cost,
            cpu_percent_mean=100 * self.busy_seconds / self.elapsed_seconds if self.elapsed_seconds > 0 else None,
            cpu_efficiency=self.cpu_of_available / self.available_seconds if self.available_seconds > 0 else None,
            with_efficiency=self.with_efficiency,
        )


def combine_tallies(tallies: Iterable[GroupTally]) -> GroupTally:
    """Return one tally of all jobs; lists that are sorted by group are fast to sort again."""
    whole = GroupTally()
    for tally in tallies:
        whole.statuses += tally.statuses
        whole.durations += tally.durations
        whole.cpu_times += tally.cpu_times
        whole.memory_peaks += tally.memory_peaks
        if tally.largest_bound is not None:
            whole.largest_bound = max(whole.largest_bound or 0, tally.largest_bound)
        whole.cost.include(tally.cost)
        for name in ("busy_seconds", "elapsed_seconds", "cpu_of_available", "available_seconds", "with_efficiency"):
            setattr(whole, name, getattr(whole, name) + getattr(tally, name))
    return whole


def distribution(values: list[Number]) -> Distribution:
    """Return the distribution of the values; sorts them in place."""
    if not values:
        return Distribution(0)
    values.sort()
    return Distribution(len(values), math.fsum(values), percentile(values, 50), percentile(values, 95))


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the nearest-rank percentile: the smallest value that at least `percent` % of the values do not exceed."""
    rank = -(-percent * len(ordered) // 100)
    return ordered[max(rank, 1) - 1]


def _group_order(label: str | None, group: Summary) -> tuple[bool, float, int, str]:
    return group.cpu.total is None, -(group.cpu.total or 0.0), -group.jobs, label or ""
