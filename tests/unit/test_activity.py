"""Processes that have not run since the last question."""

from pathlib import Path

import pytest

from jobtop.core.measure.collectors.activity import FEW, Activity
from jobtop.core.measure.collectors.process_source import ProcessSource
from processes import FakeProc, below

SHIM = 50


@pytest.mark.parametrize("count", [2, FEW + 1])
def test_a_job_has_run_once_the_clock_of_a_process_has_moved(tmp_path: Path, count: int) -> None:
    fake = FakeProc(tmp_path / "proc")
    fake.put(1, 0)
    fake.put(SHIM, 1)
    for pid in range(100, 100 + count):
        fake.put(pid, SHIM, cpu=1.0)
    source = ProcessSource(fake.table())
    activity = Activity(source, fake.clock)
    jobs = {"job": below(SHIM)}
    assert activity.has_run("job"), "it is not known yet"
    source.collect(jobs)
    assert activity.has_run("job")
    source.collect(jobs)
    assert not activity.has_run("job")
    fake.put(101, SHIM, cpu=2.0)
    source.collect(jobs)
    assert activity.has_run("job")
    assert not activity.has_run("job")
    activity.forget("job")
    assert activity.has_run("job")
    source.close()


def test_without_a_list_of_processes_a_job_may_always_have_run() -> None:
    activity = Activity(None)
    assert activity.has_run("job")
    assert activity.has_run("job")


def test_the_processes_of_all_jobs_are_counted_without_their_shims(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    fake.put(1, 0)
    fake.put(SHIM, 1)
    fake.put(100, SHIM)
    source = ProcessSource(fake.table())
    activity, jobs = Activity(source, fake.clock), {"job": below(SHIM)}
    assert activity.processes == 0
    source.collect(jobs)
    assert activity.processes == 1
    fake.put(101, SHIM)
    source.collect(jobs)
    assert activity.processes == 2
    source.forget("job")
    assert activity.processes == 0
    source.close()
