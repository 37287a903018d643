"""Keystone's history and statistics come from the store: ended jobs, in the shape of its file."""

from __future__ import annotations

import math
from typing import Any

import pytest

from jobtop.core.analysis.statistics import statistics
from jobtop.core.model import Status, Usage
from jobtop.core.track.keystone import NAN, PROFILER, chosen_parts, summary_statistics, task_entry, with_nan
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs, Query
from jobtop.store.ordering import sort_key
from jobtop.store.task_rows import find_task, read_task_figures, read_tasks
from records import made_job

NEWEST = Query(sort=sort_key("newest"), limit=None)


@pytest.fixture
def history(jobs: Jobs) -> Database:
    """Three jobs with a tool, one without, a profile, one that runs."""
    used = Usage(cpu_user_seconds=1.5, cpu_system_seconds=0.5, cpu_total_seconds=2.0, memory_peak_bytes=3 << 20)
    rows: list[dict[str, Any]] = [
        {"external_id": "a", "tool": "fenicsx", "usage": used, "duration_seconds": 4.0, "exit_code": 0},
        {"external_id": "b", "tool": "fenicsx", "status": Status.FAILED, "duration_seconds": 6.0},
        {"external_id": "c", "tool": "lammps", "status": Status.TIMEOUT, "tags": {"log_dir": "/a=b"}},
        {"tool": None, "usage": used, "duration_seconds": 1.0},
        {"tool": PROFILER, "duration_seconds": 100.0},
        {"external_id": "d", "tool": "lammps", "status": Status.RUNNING, "end_time": None},
    ]
    rows[1] |= {"exit_code": None, "signal": 9}
    for number, row in enumerate(rows):
        jobs.insert(made_job(start_time=1_760_524_200.0 + number, script="poisson.py", **row))
    return jobs.database


def test_history_lists_ended_jobs_only_the_newest_first(history: Database) -> None:
    found = read_tasks(history, NEWEST)
    assert [task.tool for task in found] == [None, "lammps", "fenicsx", "fenicsx"]
    assert [task.task_id for task in found[1:]] == ["c", "b", "a"]
    assert len(found[0].task_id) == 36


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (Query(tool="fenicsx", sort="begun", limit=None), ["b", "a"]),
        (Query(statuses=("failed",), sort="begun", limit=None), ["b"]),
        (Query(statuses=("running",), sort="begun", limit=None), []),
        (Query(tool="fenicsx", sort="begun", limit=1), ["b"]),
        (Query(tag="log_dir=/a=b", sort="begun", limit=None), ["c"]),
        (Query(tag="log_dir=/a", sort="begun", limit=None), []),
    ],
)
def test_history_can_be_filtered(history: Database, query: Query, found: list[str]) -> None:
    assert [task.task_id for task in read_tasks(history, query)] == found


def test_an_entry_has_the_keys_and_times_of_keystones_file(history: Database) -> None:
    task = find_task(history, "a")
    assert task is not None
    entry = task_entry(task)
    assert list(entry) == [
        *("task_id", "tool", "script", "params", "start_time", "end_time", "duration_seconds", "status"),
        *("returncode", "resource_usage", "error", "has_result"),
    ]
    assert entry["start_time"] == "2025-10-15T10:30:00.000000"
    assert entry["resource_usage"] == {
        "cpu_user_seconds": 1.5,
        "cpu_system_seconds": 0.5,
        "cpu_total_seconds": 2.0,
        "memory_peak_mb": 3.0,
    }
    assert entry["returncode"] == 0
    assert entry["has_result"] is False


def test_a_number_that_is_not_known_is_nan_for_code_and_null_in_the_file(history: Database) -> None:
    task = find_task(history, "b")
    assert task is not None
    entry = task_entry(task)
    assert entry["returncode"] == -9
    assert entry["resource_usage"]["memory_peak_mb"] is None
    compared = task_entry(task, NAN)
    assert math.isnan(compared["resource_usage"]["memory_peak_mb"])
    assert not compared["resource_usage"]["memory_peak_mb"] > 4000
    assert compared["error"] is None


def test_a_none_among_the_parameters_of_a_caller_stays(jobs: Jobs) -> None:
    jobs.insert(made_job(external_id="none", params={"seed": None}))
    task = find_task(jobs.database, "none")
    assert task is not None
    assert task_entry(task, NAN)["params"] == {"seed": None}


def test_a_job_is_found_by_its_task_id_or_its_own_id(history: Database, jobs: Jobs) -> None:
    own = jobs.find("a").id
    found = find_task(history, own)
    assert found is not None
    assert found.task_id == "a"
    assert find_task(history, "d") is None
    assert find_task(history, "no such job") is None


def test_of_jobs_with_one_task_id_the_newest_is_found(jobs: Jobs) -> None:
    for status in (Status.FAILED, Status.SUCCESS):
        jobs.insert(made_job(external_id="again", status=status))
    found = find_task(jobs.database, "again")
    assert found is not None
    assert found.status == "success"


def test_statistics_count_ended_jobs_and_rates_are_percent_of_all(history: Database) -> None:
    found = statistics(read_task_figures(history, NEWEST))
    summary = with_nan(summary_statistics(found.overall, found.groups))
    assert {key: summary[key] for key in ("total_jobs", "successful", "failed", "success_rate")} == {
        "total_jobs": 4,
        "successful": 2,
        "failed": 2,
        "success_rate": 50.0,
    }
    assert summary["total_cpu_time_seconds"] == 4.0
    assert set(summary["by_tool"]) == {"fenicsx", "lammps"}
    fenicsx = summary["by_tool"]["fenicsx"]
    assert (fenicsx["count"], fenicsx["successful"], fenicsx["failed"]) == (2, 1, 1)
    assert (fenicsx["total_duration"], fenicsx["success_rate"]) == (10.0, 50.0)
    assert summary["ungrouped"]["count"] == 1


def test_statistics_of_no_jobs_have_every_key(database: Database) -> None:
    found = statistics(read_task_figures(database, NEWEST))
    summary = with_nan(summary_statistics(found.overall, found.groups))
    assert (summary["total_jobs"], summary["by_tool"], summary["total_duration_seconds"]) == (0, {}, 0.0)
    assert math.isnan(summary["success_rate"])


def test_a_damaged_row_costs_itself_alone(history: Database) -> None:
    with history.writing() as connection:
        connection.execute("UPDATE jobs SET params = 'no json' WHERE external_id = 'b'")
    assert [task.task_id for task in read_tasks(history, NEWEST)[1:]] == ["c", "a"]


def test_parts_of_a_profile_can_be_chosen() -> None:
    profile = {"duration_seconds": 1.0, "samples_collected": 2, "sampling_interval_seconds": 0.5}
    profile |= {"cpu": {}, "io_stats": {}, "gpu_stats": {}}  # type: ignore[dict-item]
    assert list(chosen_parts(profile, ["io"]))[3:] == ["io_stats"]
    assert chosen_parts(profile, None) == profile
