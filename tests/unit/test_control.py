"""What may be done to a job, and what is said when nothing can be."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from jobtop.core.measure.collectors.proc import identify
from jobtop.core.model import Identity, Status
from jobtop.core.paths import StatePaths
from jobtop.core.run.process_tree import KILL_SECONDS
from jobtop.lifecycle.control import Control, is_gone, patience_seconds
from jobtop.store.database import open_to_read, open_to_write
from jobtop.store.jobs import Jobs
from records import NO_PROCESS, kept_jobs, leave_started, made_job, running_job, this_process


@pytest.fixture
def warned() -> list[str]:
    return []


@pytest.fixture
def control(paths: StatePaths, warned: list[str]) -> Iterator[Control]:
    database = open_to_write(paths)
    yield Control(Jobs(database), paths, warned.append)
    database.close()


@pytest.fixture
def shim() -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends when it is told to, as a shim does."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def test_a_job_of_another_host_is_refused_whatever_its_state(control: Control) -> None:
    there = {"ran": made_job(host="atlas"), "runs": running_job(host="atlas", shim=this_process())}
    for verb, job in there.items():
        assert control.forbids(job) == control.refusal(job) == f"job {job.id[:8]} {verb} on atlas: act on it there"


def test_a_job_that_is_over_is_refused_but_not_forbidden(control: Control) -> None:
    job = made_job(shim=Identity("another boot", os.getpid(), 1), status=Status.FAILED)
    assert control.forbids(job) is None
    assert control.refusal(job) == f"job {job.id[:8]} is not running (failed)"
    gone = running_job(shim=Identity(this_process().boot, NO_PROCESS, 1))
    assert control.refusal(gone) == f"job {gone.id[:8]} is not running (it ended just now)"
    new = running_job(shim=None)
    assert control.refusal(new) == f"job {new.id[:8]} is not running (it has not started)"


def test_a_running_job_of_ours_is_not_refused(control: Control) -> None:
    assert control.refusal(running_job(shim=this_process())) is None


def test_a_job_of_another_user_is_forbidden(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: os.stat("/proc/self").st_uid + 1)
    job = running_job(shim=this_process(), user="grace")
    assert control.forbids(job) == control.refusal(job) == f"job {job.id[:8]} belongs to grace"


def test_a_job_that_has_just_begun_is_found_with_its_shim(control: Control, paths: StatePaths) -> None:
    (job,) = kept_jobs(paths.root, running_job(shim=None))
    us = this_process()
    leave_started(paths.job(job.id), us.boot, (us.pid, us.start))
    assert control.find(job.id).shim == us


def test_who_asked_is_kept_before_a_job_is_stopped(
    control: Control, paths: StatePaths, shim: subprocess.Popen[bytes]
) -> None:
    (job,) = kept_jobs(paths.root, running_job(shim=identify(shim.pid)))
    assert not is_gone(job)
    control.stop(job, "jobtop console")
    assert shim.wait(10) == -signal.SIGTERM
    assert is_gone(job)
    kept = control.jobs.find(job.id)
    assert kept.stop_request is not None
    assert kept.stop_request.by == "jobtop console"
    assert [event.kind for event in control.jobs.events(kept)] == ["stop_requested"]


def test_a_store_that_cannot_be_told_stops_no_stop(
    paths: StatePaths, warned: list[str], shim: subprocess.Popen[bytes]
) -> None:
    (job,) = kept_jobs(paths.root, running_job(shim=identify(shim.pid)))
    database = open_to_read(paths.store)
    Control(Jobs(database), paths, warned.append).stop(job, "jobtop console")
    database.close()
    assert shim.wait(10) == -signal.SIGTERM
    assert len(warned) == 1
    assert warned[0].startswith("done, but not recorded: ")


def test_a_stop_that_comes_too_late_says_so(control: Control, paths: StatePaths, warned: list[str]) -> None:
    (job,) = kept_jobs(paths.root, running_job(shim=Identity(this_process().boot, NO_PROCESS, 1)))
    control.stop(job, "jobtop console")
    assert warned == [f"job {job.id[:8]} ended by itself just now"]


def test_a_stopped_job_has_its_grace_and_a_killed_one_has_none() -> None:
    job = running_job(grace_seconds=30.0)
    assert patience_seconds(job, by_force=False) == 30.0 + KILL_SECONDS
    assert patience_seconds(job, by_force=True) == KILL_SECONDS
