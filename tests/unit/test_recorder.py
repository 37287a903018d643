"""The way of a job into the store, and what happens when the store does not take it."""

import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import jobtop.lifecycle.recorder as recorder_module
import jobtop.store.database as database_module
from jobtop.core.model import Job, JobSpec, Status, StopRequest
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.core.run.facts import Facts
from jobtop.lifecycle.reconcile import reconcile
from jobtop.lifecycle.recorder import Recorder, write_private
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from records import NO_PROCESS, damage_pages, kept_jobs, leave_ended, leave_started, made_job, running_job


class Warned(list[str]):
    """What the user was told."""

    def __call__(self, text: str) -> None:
        self.append(text)


@pytest.fixture
def warned() -> Warned:
    return Warned()


@pytest.fixture
def recorder(paths: StatePaths, warned: Warned) -> Iterator[Recorder]:
    recorder = Recorder(paths, None, warned)
    yield recorder
    recorder.close()


@pytest.fixture
def job() -> Job:
    return running_job(submitted_at=time.time(), start_time=None)


def spec_of(job: Job) -> JobSpec:
    return JobSpec(id=job.id, command=("train", "--token", "s3cret"), cwd="/", env={"KEY": "v\udcff"})


def facts(directory: Path, **values: object) -> Facts:
    leave_ended(directory, **values)
    return Facts((directory / "ended").read_text())


def kept(paths: StatePaths, job: Job) -> Job:
    """The job as the next verb sees it."""
    database = open_to_write(paths)
    try:
        reconcile(Jobs(database), paths)
        return Jobs(database).find(job.id)
    finally:
        database.close()


def test_a_job_is_in_the_store_before_it_starts_and_its_spec_is_for_its_owner_alone(
    recorder: Recorder, paths: StatePaths, job: Job, warned: Warned
) -> None:
    recorder.begin(job, spec_of(job))
    assert recorder.job == replace(job, seq=1)
    spec = paths.spec(job.id)
    assert spec.stat().st_mode & 0o777 == 0o600
    shape = json.loads(spec.read_text())
    assert (shape["command"], shape["env"]) == (["train", "--token", "s3cret"], {"KEY": "v\udcff"})
    assert paths.job(job.id).stat().st_mode & 0o777 == 0o700
    assert kept(paths, job).status is Status.RUNNING
    assert warned == []


def test_a_job_goes_through_start_pause_and_end(recorder: Recorder, paths: StatePaths, job: Job) -> None:
    recorder.begin(job, spec_of(job))
    directory = paths.job(job.id)
    leave_started(directory, "boot", (NO_PROCESS, 1))
    recorder.started(Facts((directory / "started").read_text()).started())
    assert (recorder.job.pid, recorder.job.start_time) == (NO_PROCESS, 1_700_000_000.5)
    for still in (True, False):
        recorder.paused(still)
        assert recorder.job.status is (Status.PAUSED if still else Status.RUNNING)
    job = recorder.finish(facts(directory))
    assert (job.status, job.exit_code, job.usage.cpu_total_seconds) == (Status.FAILED, 3, 1.75)
    assert kept(paths, job) == job
    assert recorder.jobs is not None
    kinds = [happened.kind for happened in recorder.jobs.events(job)]
    assert kinds == ["submitted", "started", "paused", "resumed", "exited"]


def test_what_others_wrote_meanwhile_is_not_overwritten(recorder: Recorder, paths: StatePaths, job: Job) -> None:
    recorder.begin(job, spec_of(job))
    database = open_to_write(paths)
    asked = StopRequest("jobtop stop", 1_700_000_005.0)
    Jobs(database).change(job.id, lambda row: (replace(row, stop_request=asked), ()))
    database.close()
    assert recorder.job.stop_request is None
    done = recorder.finish(facts(paths.job(job.id), status=15, stop="signal"))
    assert (done.status, done.stop_request) == (Status.CANCELLED, asked)
    assert done.reason == "stopped by jobtop stop: killed by SIGTERM"


def test_a_job_whose_shim_was_killed_is_lost(recorder: Recorder, paths: StatePaths, job: Job) -> None:
    recorder.begin(job, spec_of(job))
    leave_started(paths.job(job.id), "boot", (NO_PROCESS, 1))
    assert recorder.finish(None).status is Status.LOST
    assert kept(paths, job).status is Status.LOST


def test_a_job_whose_shim_was_killed_before_it_began_is_an_error(
    recorder: Recorder, paths: StatePaths, job: Job
) -> None:
    recorder.begin(job, spec_of(job))
    assert recorder.finish(None).status is Status.ERROR
    assert kept(paths, job).settled


def test_a_job_that_was_never_in_the_store_and_lost_its_shim_is_lost(
    recorder: Recorder, paths: StatePaths, job: Job
) -> None:
    paths.store.mkdir(parents=True)
    recorder.begin(job, spec_of(job))
    assert recorder.finish(None).status is Status.LOST


def test_a_stop_by_a_signal_is_kept_with_its_name(recorder: Recorder, paths: StatePaths, job: Job) -> None:
    recorder.begin(job, spec_of(job))
    recorder.stop_requested("SIGINT")
    request = kept(paths, job).stop_request
    assert request is not None
    assert request.by == "SIGINT"


def test_a_detached_job_has_no_recorder(recorder: Recorder, paths: StatePaths, job: Job) -> None:
    recorder.begin(job, spec_of(job))
    assert kept(paths, job).recorder == job.recorder
    recorder.detached()
    assert kept(paths, job).recorder is None


def test_without_a_place_to_keep_anything_the_record_is_made_and_one_line_says_so(
    recorder: Recorder, paths: StatePaths, job: Job, warned: Warned, tmp_path: Path
) -> None:
    paths.root.write_text("a file where the state directory should be")
    recorder.begin(job, spec_of(job))
    assert (recorder.job, recorder.directory, recorder.jobs) == (job, None, None)
    leave_started(tmp_path / "elsewhere", "boot", (NO_PROCESS, 1))
    recorder.started(Facts((tmp_path / "elsewhere/started").read_text()).started())
    recorder.paused(True)
    recorder.stop_requested("SIGTERM")
    done = recorder.finish(facts(tmp_path / "elsewhere", status=15, stop="signal"))
    assert (done.status, done.reason) == (Status.CANCELLED, "stopped by SIGTERM")
    assert len(warned) == 1
    assert str(paths.root) in warned[0]


def test_when_the_spec_cannot_be_kept_nothing_is_left_behind(
    recorder: Recorder, paths: StatePaths, job: Job, warned: Warned
) -> None:
    paths.spec(job.id).mkdir(parents=True)
    recorder.begin(job, spec_of(job))
    assert recorder.directory is None
    assert not paths.job(job.id).exists()
    assert not paths.store.exists()
    assert recorder.finish(None).status is Status.LOST
    assert len(warned) == 1


def test_a_start_that_cannot_be_written_is_known_in_the_end(
    recorder: Recorder, paths: StatePaths, job: Job, warned: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0.01)
    recorder.begin(job, spec_of(job))
    assert recorder.jobs is not None
    database = recorder.jobs.database
    blocker = sqlite3.connect(paths.store, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    leave_started(paths.job(job.id), "boot", (NO_PROCESS, 1))
    recorder.started(Facts((paths.job(job.id) / "started").read_text()).started())
    blocker.close()
    database.close()
    done = recorder.finish(facts(paths.job(job.id)))
    assert (done.pid, done.exit_code) == (NO_PROCESS, 3)
    assert len(warned) == 1
    found = kept(paths, job)
    assert (found.pid, found.exit_code, found.settled) == (NO_PROCESS, 3, True)


def test_what_happens_while_another_program_holds_the_store_is_kept_in_the_end(
    recorder: Recorder, paths: StatePaths, job: Job, warned: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "START_PATIENCE_SECONDS", 0.01)
    open_to_write(paths).close()
    other = sqlite3.connect(paths.store, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    recorder.begin(job, spec_of(job))
    assert recorder.jobs is None
    directory = paths.job(job.id)
    leave_started(directory, "boot", (NO_PROCESS, 1))
    recorder.started(Facts((directory / "started").read_text()).started())
    recorder.stop_requested("SIGINT")
    other.close()
    done = recorder.finish(facts(directory))
    assert (done.pid, done.shim) == (NO_PROCESS, recorder.job.shim)
    assert done.shim is not None
    assert done.stop_request is not None
    assert kept(paths, job) == done
    assert recorder.jobs is not None
    assert [happened.kind for happened in recorder.jobs.events(done)][1:] == ["started", "stop_requested", "exited"]
    assert warned == []


def test_a_job_whose_end_could_not_be_written_is_taken_in_later(
    recorder: Recorder, paths: StatePaths, job: Job, warned: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0.01)
    recorder.begin(job, spec_of(job))
    blocker = sqlite3.connect(paths.store, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    assert recorder.jobs is not None
    database = recorder.jobs.database
    done = recorder.finish(facts(paths.job(job.id)))
    blocker.close()
    database.close()
    assert done.exit_code == 3
    assert len(warned) == 1
    assert "another program has locked it" in warned[0]
    assert kept(paths, job).exit_code == 3


def test_a_job_the_store_never_took_is_kept_beside_it_and_taken_in_later(
    recorder: Recorder, paths: StatePaths, job: Job, warned: Warned
) -> None:
    paths.store.mkdir(parents=True)
    recorder.begin(job, spec_of(job))
    done = recorder.finish(facts(paths.job(job.id)))
    (file,) = paths.unrecorded.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert "s3cret" not in file.read_text()
    assert len(warned) == 1
    assert "not in the history yet" in warned[0]
    paths.store.rmdir()
    assert kept(paths, job).to_json() == done.to_json() | {"seq": 1}


def test_a_detached_job_the_store_never_took_is_followed_up_later(
    recorder: Recorder, paths: StatePaths, job: Job, warned: Warned
) -> None:
    paths.store.mkdir(parents=True)
    recorder.begin(job, spec_of(job))
    recorder.detached()
    leave_started(paths.job(job.id), "boot", (NO_PROCESS, 1))
    leave_ended(paths.job(job.id))
    paths.store.rmdir()
    assert kept(paths, job).exit_code == 3
    assert len(warned) == 1


def test_when_not_even_the_place_beside_the_store_is_there_it_is_still_one_line(
    recorder: Recorder, paths: StatePaths, job: Job, warned: Warned
) -> None:
    paths.store.mkdir(parents=True)
    paths.unrecorded.write_text("a file")
    recorder.begin(job, spec_of(job))
    done = recorder.finish(facts(paths.job(job.id)))
    assert done.exit_code == 3
    assert len(warned) == 1


def test_damage_that_is_met_while_writing_is_set_aside_and_said_in_one_line(
    recorder: Recorder, paths: StatePaths, job: Job, warned: Warned
) -> None:
    kept_jobs(paths.root, *(made_job(note="n" * 500) for _ in range(30)))
    damaged = damage_pages(paths.store)
    recorder.begin(job, spec_of(job))
    done = recorder.finish(facts(paths.job(job.id)))
    (aside,) = paths.root.glob("*.damaged-*")
    assert aside.read_bytes() == damaged
    assert len(warned) == 1
    assert aside.name in warned[0]
    assert kept(paths, job) == done


def test_a_private_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_private(str(target), "one")
    write_private(str(target), "two")
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("two", 0o600)
    (tmp_path / "directory").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_private(str(tmp_path / "directory"), "three")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["directory", "file"]
