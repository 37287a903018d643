"""What many jobs add up to: counts, totals and percentiles, overall and by group; what is not known is absent."""

import random
from typing import TYPE_CHECKING

import pytest

from jobtop.core.analysis.statistics import FAILED, Summary, distribution, group_json, percentile, statistics
from jobtop.core.model import ENDS, LIVE, Status

if TYPE_CHECKING:
    from jobtop.core.analysis.statistics import JobFigures

# The contract: keys only get added.
SHARED_KEYS = (
    "successful failed cancelled unknown running success_rate total_cpu_time_seconds average_duration_seconds"
    " duration_p50_seconds duration_p95_seconds cpu_time_p50_seconds cpu_time_p95_seconds memory_peak_p50_bytes"
    " memory_peak_p95_bytes memory_peak_p50_is_bound memory_peak_p95_is_bound"
    " jobs_with_duration jobs_with_cpu_time jobs_with_memory_peak"
    " cpu_percent_mean cpu_efficiency jobs_with_cpu_efficiency"
    " total_energy_joules total_energy_kwh total_co2_grams total_cost currency jobs_with_energy"
    " jobs_with_estimated_energy jobs_with_cost"
).split()


def figures(
    label: str | None = "a",
    status: Status = Status.SUCCESS,
    duration: float | None = 1.0,
    cpu: float | None = 1.0,
    memory: int | None = 1,
    is_bound: bool = False,
) -> "JobFigures":
    """A job of a second, but for what is given."""
    return label, str(status), duration, cpu, memory, is_bound


def summarise(jobs: "list[JobFigures]") -> Summary:
    return statistics(jobs).overall


@pytest.mark.parametrize(
    ("count", "percent", "expected"),
    [(1, 50, 1), (1, 95, 1), (2, 50, 1), (2, 95, 2), (3, 50, 2), (20, 95, 19), (21, 95, 20), (100, 95, 95)],
)
def test_a_percentile_is_the_value_at_the_nearest_rank(count: int, percent: int, expected: int) -> None:
    assert percentile(range(1, count + 1), percent) == expected


@pytest.mark.parametrize("percent", [1, 50, 95, 100])
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(percent: int) -> None:
    chance = random.Random(percent)
    for count in range(1, 120):
        values = sorted(chance.choice([chance.random(), 0.5]) for _ in range(count))
        found = percentile(values, percent)
        assert 100 * sum(value <= found for value in values) >= percent * count
        assert 100 * sum(value < found for value in values) < percent * count


def test_percentiles_do_not_depend_on_the_order_of_the_jobs() -> None:
    shuffled = distribution([5.0, 1.0, 4.0, 2.0, 3.0])
    assert (shuffled.total, shuffled.mean, shuffled.p50, shuffled.p95) == (15.0, 3.0, 3.0, 5.0)


def test_a_percentile_is_an_upper_bound_if_a_bound_is_as_large() -> None:
    found = summarise([figures(memory=3, is_bound=True), figures(memory=2), figures(memory=9)]).memory
    assert (found.p50, found.p95) == (3, 9)
    assert [found.is_bound(value) for value in (found.p50, found.p95, None)] == [True, False, False]
    assert not summarise([figures(memory=3, is_bound=True), figures(memory=4), figures(memory=9)]).memory.is_bound(4)


def test_an_unknown_number_counts_neither_as_zero_nor_as_a_job() -> None:
    found = summarise([figures(cpu=cpu) for cpu in (None, 4.0, None, 2.0)]).cpu
    assert (found.known, found.total, found.mean, found.p50) == (2, 6.0, 3.0, 2.0)


def test_a_number_that_is_known_of_no_job_is_absent() -> None:
    found = summarise([figures(duration=None, cpu=None, memory=None)])
    for nothing in (found.duration, found.cpu, found.memory):
        assert (nothing.known, nothing.total, nothing.mean, nothing.p50, nothing.p95) == (0, None, None, None, None)


def test_a_number_that_is_zero_is_known() -> None:
    found = summarise([figures(cpu=0.0)]).cpu
    assert (found.known, found.total, found.p95) == (1, 0.0, 0.0)


def test_totals_do_not_gather_rounding_errors() -> None:
    assert distribution([0.1] * 10).total == 1.0


@pytest.mark.parametrize("status", Status)
def test_every_status_is_counted_once(status: Status) -> None:
    found = summarise([figures(status=status)] * 3)
    assert found.jobs == 3
    assert sorted((found.successful, found.failed, found.cancelled, found.unknown, found.running)) == [0, 0, 0, 0, 3]
    assert (found.running == 3) is (status in LIVE)
    assert (found.failed == 3) is (status in FAILED)
    assert found.ended == (3 if status in ENDS else 0)


@pytest.mark.parametrize("status", sorted(LIVE))
def test_a_job_that_has_not_ended_adds_nothing_to_the_numbers(status: Status) -> None:
    found = summarise([figures(duration=2.0, cpu=3.0, memory=4), figures(status=status, duration=9.0, cpu=9.0)])
    assert (found.jobs, found.running) == (2, 1)
    assert (found.duration.total, found.cpu.total, found.memory.p95) == (2.0, 3.0, 4)
    assert found.duration.known == 1


def test_jobs_that_failed_add_to_the_numbers() -> None:
    assert summarise([figures(cpu=1.0), figures(status=Status.TIMEOUT, cpu=2.0)]).cpu.total == 3.0


def test_the_success_rate_is_of_those_that_succeeded_or_failed() -> None:
    ends = [Status.SUCCESS] * 3 + [Status.LOST, Status.CANCELLED, Status.UNKNOWN, Status.RUNNING]
    assert summarise([figures(status=status) for status in ends]).success_rate == 0.75


@pytest.mark.parametrize("status", [Status.CANCELLED, Status.UNKNOWN, Status.RUNNING])
def test_there_is_no_success_rate_where_nothing_succeeded_or_failed(status: Status) -> None:
    assert summarise([figures(status=status)]).success_rate is None
    assert summarise([]).success_rate is None


def test_a_group_holds_its_own_jobs_and_the_whole_holds_all() -> None:
    found = statistics([figures("a", cpu=1.0), figures("b", cpu=5.0), figures("a", Status.FAILED, cpu=2.0)])
    assert {label: (group.jobs, group.failed, group.cpu.total) for label, group in found.groups.items()} == {
        "a": (2, 1, 3.0),
        "b": (1, 0, 5.0),
    }
    assert (found.overall.jobs, found.overall.failed, found.overall.cpu.total) == (3, 1, 8.0)


def test_groups_are_ordered_by_cpu_time_then_by_jobs_then_by_name() -> None:
    jobs = [figures(label, cpu=cpu) for label, cpu in (("z", 1.0), ("b", 3.0), ("y", 1.0), ("two", 0.5), ("two", 0.5))]
    jobs += [figures("unknown", cpu=None), figures("none", cpu=0.0)]
    assert list(statistics(jobs).groups) == ["b", "two", "y", "z", "none", "unknown"]


def test_jobs_without_a_label_are_a_group_apart_from_one_of_any_name() -> None:
    shape = statistics([figures(None), figures(""), figures("None"), figures(None)]).to_json("tag:k", None)
    assert set(shape["by_tag:k"]) == {"", "None"}
    assert shape["ungrouped"]["count"] == 2


def test_statistics_as_json_have_every_key_of_the_contract() -> None:
    shape = statistics([figures("a")]).to_json("tool", 1_700_000_000.25)
    overall = ["total_jobs", "total_duration_seconds"]
    assert set(shape) == {"schema_version", "since", "by_tool", "ungrouped", *overall, *SHARED_KEYS}
    assert set(shape["by_tool"]["a"]) == {"count", "total_duration", *SHARED_KEYS}
    assert (shape["schema_version"], shape["since"]) == (1, "2023-11-14T22:13:20.250000Z")


def test_statistics_as_json_tell_what_was_computed() -> None:
    jobs = [figures("a", Status.SUCCESS, 10.0, 4.0, 100), figures("a", Status.FAILED, 20.0, None, 300)]
    shape = group_json(statistics(jobs).groups["a"])
    assert (shape["count"], shape["successful"], shape["failed"], shape["success_rate"]) == (2, 1, 1, 0.5)
    assert (shape["total_duration"], shape["average_duration_seconds"]) == (30.0, 15.0)
    assert (shape["duration_p50_seconds"], shape["duration_p95_seconds"]) == (10.0, 20.0)
    assert (shape["total_cpu_time_seconds"], shape["cpu_time_p50_seconds"], shape["cpu_time_p95_seconds"]) == (4, 4, 4)
    assert (shape["memory_peak_p50_bytes"], shape["memory_peak_p95_bytes"]) == (100, 300)
    assert [shape[f"jobs_with_{what}"] for what in ("duration", "cpu_time", "memory_peak")] == [2, 1, 2]


def test_no_jobs_are_counted_as_none_and_everything_else_is_null() -> None:
    shape = statistics([]).to_json("host", None)
    counts = {key for key, value in shape.items() if value == 0}
    assert counts == {"total_jobs", "successful", "failed", "cancelled", "unknown", "running"} | {
        key for key in shape if key.startswith("jobs_with_")
    }
    assert {key for key, value in shape.items() if value is None} == set(shape) - counts - {"schema_version", "by_host"}
    assert shape["by_host"] == {}
