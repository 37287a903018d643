"""What many jobs add up to: how many, how they ended, what they used, overall and by group. Pure."""

from __future__ import annotations

import math
from collections import Counter

from jobtop.core.clock import iso
from jobtop.core.model import LIVE, SCHEMA_VERSION, Status
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TypeVar

    Number = TypeVar("Number", int, float)
    # The label of its group, its status, duration and CPU time in seconds, memory peak in bytes.
    Figures = tuple[str | None, str, float | None, float | None, int | None]

FAILED = frozenset({Status.FAILED, Status.TIMEOUT, Status.ERROR, Status.LOST})


@record
class Spread:
    """How one number lies over those jobs of which it is known; nothing but the count if there are none."""

    known: int
    total: float | None = None
    p50: float | None = None
    p95: float | None = None

    @property
    def mean(self) -> float | None:
        return None if self.total is None else self.total / self.known


@record
class Summary:
    """What some jobs add up to; numbers are of the ended ones."""

    jobs: int
    successful: int
    failed: int
    cancelled: int
    unknown: int
    running: int
    duration: Spread
    cpu: Spread
    memory: Spread

    @property
    def ended(self) -> int:
        return self.jobs - self.running

    @property
    def success_rate(self) -> float | None:
        """Of those that succeeded or failed: a job that somebody cancelled did neither."""
        decided = self.successful + self.failed
        return self.successful / decided if decided else None

    def to_json(self, count_key: str, duration_key: str) -> dict[str, Any]:
        """The contract: keys only get added. Overall and groups have two keys of different names."""
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
            "jobs_with_duration": self.duration.known,
            "jobs_with_cpu_time": self.cpu.known,
            "jobs_with_memory_peak": self.memory.known,
        }


@record
class Statistics:
    """All jobs together, and by group: the one that used most CPU time first, those without a label as None."""

    overall: Summary
    groups: dict[str | None, Summary]

    def to_json(self, by: str, since: float | None) -> dict[str, Any]:
        shapes = {label: group_shape(group) for label, group in self.groups.items()}
        return {
            "schema_version": SCHEMA_VERSION,
            "since": iso(since),
            **self.overall.to_json("total_jobs", "total_duration_seconds"),
            f"by_{by}": {label: shape for label, shape in shapes.items() if label is not None},
            "ungrouped": shapes.get(None),
        }


def group_shape(group: Summary) -> dict[str, Any]:
    """A group as JSON."""
    return group.to_json("count", "total_duration")


def statistics(jobs: Iterable[Figures]) -> Statistics:
    """What the jobs add up to, together and by their labels."""
    tallies: dict[str | None, Tally] = {}
    for label, status, duration, cpu_time, memory_peak in jobs:
        tally = tallies.get(label)
        if tally is None:
            tally = tallies[label] = Tally()
        tally.add(status, duration, cpu_time, memory_peak)
    groups = {label: tally.summary() for label, tally in tallies.items()}
    ordered = sorted(groups.items(), key=lambda item: _by_cpu(*item))
    return Statistics(combined(tallies.values()).summary(), dict(ordered))


class Tally:
    """Jobs being added up: their statuses, and the numbers that are known of the ended ones."""

    __slots__ = ("cpu_times", "durations", "memory_peaks", "statuses")

    def __init__(self) -> None:
        self.statuses: list[str] = []
        self.durations: list[float] = []
        self.cpu_times: list[float] = []
        self.memory_peaks: list[int] = []

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

    def summary(self) -> Summary:
        """What was added so far; sorts the numbers in their place."""
        counts = Counter(self.statuses)
        return Summary(
            jobs=len(self.statuses),
            successful=counts[Status.SUCCESS],
            failed=sum(counts[status] for status in FAILED),
            cancelled=counts[Status.CANCELLED],
            unknown=counts[Status.UNKNOWN],
            running=sum(counts[status] for status in LIVE),
            duration=spread(self.durations),
            cpu=spread(self.cpu_times),
            memory=spread(self.memory_peaks),
        )


def combined(tallies: Iterable[Tally]) -> Tally:
    """All of them in one; what is sorted by group already is quick to sort as a whole."""
    whole = Tally()
    for tally in tallies:
        whole.statuses += tally.statuses
        whole.durations += tally.durations
        whole.cpu_times += tally.cpu_times
        whole.memory_peaks += tally.memory_peaks
    return whole


def spread(values: list[Number]) -> Spread:
    """How the values lie; sorts them in their place."""
    if not values:
        return Spread(0)
    values.sort()
    return Spread(len(values), math.fsum(values), percentile(values, 50), percentile(values, 95))


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Nearest rank: the smallest of the values that so many percent of them do not exceed, never one in between."""
    rank = -(-percent * len(ordered) // 100)
    return ordered[max(rank, 1) - 1]


def _by_cpu(label: str | None, group: Summary) -> tuple[bool, float, int, str]:
    return group.cpu.total is None, -(group.cpu.total or 0.0), -group.jobs, label or ""
