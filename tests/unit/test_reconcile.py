"""The store brought up to what shims left, on directories made by hand."""

import json
import os
import threading
import time
from pathlib import Path

import pytest

from jobtop.core.model import Identity, Job, Queued, Status, StopRequest
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.lifecycle.kinds.registry import kind_of
from jobtop.lifecycle.reconcile import current, paused_or_running, reconcile, with_shim
from jobtop.lifecycle.spec_files import sweep_specs
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs, Query
from jobtop.store.samples.series import SeriesStore
from records import NO_PROCESS, leave_ended, leave_started, made_job, numbered_id, running_job, this_process
from sampled import steady

US = this_process()
GONE = (NO_PROCESS, 5)
LATE = (("2", "first", 100.0), ("3", "third", 300.0), ("1", "second", 200.0))


def reconciled(jobs: Jobs, paths: StatePaths, job: Job) -> Job:
    reconcile(jobs, paths)
    return jobs.find(job.id)


def kinds(jobs: Jobs, job: Job) -> list[str]:
    return [happened.kind for happened in jobs.events(job)]


def test_a_job_whose_recorder_died_is_finished_from_what_its_shim_left(jobs: Jobs, paths: StatePaths) -> None:
    job = jobs.insert(running_job())
    leave_started(paths.job(job.id), US.boot, GONE)
    leave_ended(paths.job(job.id))
    (paths.job(job.id) / "marks").write_text("1.000 10 20\n2.000 30 40\n")
    done = reconciled(jobs, paths, job)
    assert (done.status, done.exit_code, done.reason) == (Status.FAILED, 3, "exit code 3")
    assert (done.duration_seconds, done.usage.cpu_total_seconds) == (7.0, 1.75)
    assert done.settled
    assert jobs.log_marks(done) == [(1.0, 10, 20), (2.0, 30, 40)]
    assert kinds(jobs, done) == ["exited"]
    assert reconciled(jobs, paths, job) == done
    assert kinds(jobs, done) == ["exited"]


def test_a_row_that_was_never_told_the_start_gets_the_pid_with_the_end(jobs: Jobs, paths: StatePaths) -> None:
    job = jobs.insert(running_job(recorder=None))
    leave_started(paths.job(job.id), US.boot, GONE)
    leave_ended(paths.job(job.id))
    done = kind_of(job).record_end(jobs, paths, with_shim(paths, job))
    assert (done.status, done.pid, done.shim is None) == (Status.FAILED, NO_PROCESS, False)


def test_a_job_whose_recorder_lives_is_left_to_it(jobs: Jobs, paths: StatePaths) -> None:
    job = jobs.insert(running_job(recorder=US))
    leave_started(paths.job(job.id), US.boot, GONE)
    leave_ended(paths.job(job.id))
    assert reconciled(jobs, paths, job) == job


def test_a_recorder_whose_pid_was_given_to_another_is_dead(jobs: Jobs, paths: StatePaths) -> None:
    assert US.start is not None
    job = jobs.insert(running_job(recorder=Identity(US.boot, US.pid, US.start + 1)))
    leave_started(paths.job(job.id), US.boot, GONE)
    leave_ended(paths.job(job.id))
    assert reconciled(jobs, paths, job).status is Status.FAILED


def test_a_job_whose_shim_lives_still_runs(jobs: Jobs, paths: StatePaths) -> None:
    job = jobs.insert(running_job(recorder=None))
    leave_started(paths.job(job.id), US.boot, (US.pid, US.start))
    running = reconciled(jobs, paths, job)
    assert (running.status, running.pid, running.shim) == (Status.RUNNING, NO_PROCESS, US)
    assert not running.settled


@pytest.mark.parametrize(
    ("boot", "shim"),
    [(US.boot, GONE), (US.boot, (US.pid, (US.start or 0) + 1)), ("another boot", (US.pid, US.start))],
    ids=["gone", "its pid is another's", "before the last boot"],
)
def test_a_job_whose_shim_vanished_without_a_word_is_lost(
    jobs: Jobs, paths: StatePaths, boot: str, shim: tuple[int, int | None]
) -> None:
    job = jobs.insert(running_job())
    leave_started(paths.job(job.id), boot, shim)
    lost = reconciled(jobs, paths, job)
    assert (lost.status, lost.exit_code, lost.settled) == (Status.LOST, None, True)
    assert lost.reason is not None
    assert "supervisor died" in lost.reason
    assert (f"pid {NO_PROCESS}" in lost.reason) == (boot == US.boot), "after a reboot its pid means nothing"
    assert lost.start_time == 1_700_000_000.5
    reconcile(jobs, paths)
    assert kinds(jobs, lost) == ["lost"]


@pytest.mark.parametrize("queue", [None, Queued()], ids=["run", "submitted"])
def test_a_job_that_has_started_and_whose_files_were_deleted_is_lost(
    jobs: Jobs, paths: StatePaths, queue: Queued | None
) -> None:
    shim = Identity(US.boot, *GONE)
    job = jobs.insert(running_job(shim=shim, queue=queue, submitted_at=time.time() - 20))
    lost = reconciled(jobs, paths, job)
    assert (lost.status, lost.exit_code, lost.start_time) == (Status.LOST, None, job.start_time)
    assert "deleted" in (lost.reason or "")
    reconcile(jobs, paths)
    assert kinds(jobs, lost) == ["lost"]


def test_what_its_cgroup_counted_is_kept_of_a_lost_job(
    jobs: Jobs, paths: StatePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobtop.core.measure.collectors.cgroup.mounted", tuple)
    job = jobs.insert(running_job())
    cgroup = tmp_path / f"jobtop-{job.id}"
    cgroup.mkdir()
    (cgroup / "cpu.stat").write_text("usage_usec 3000000\nuser_usec 2000000\nsystem_usec 1000000\n")
    (cgroup / "memory.events").write_text("oom_kill 1\n")
    leave_started(paths.job(job.id), "another boot", GONE, (str(cgroup),))
    lost = reconciled(jobs, paths, job)
    assert lost.status is Status.LOST
    assert (lost.usage.cpu_total_seconds, lost.usage.oom_kills) == (3.0, 1)
    assert lost.sources == {"cpu": "cgroup"}
    assert lost.incomplete


def test_a_job_that_never_started_is_an_error_after_ten_seconds(jobs: Jobs, paths: StatePaths) -> None:
    young = jobs.insert(running_job(submitted_at=time.time() - 2, start_time=None))
    old = jobs.insert(running_job(submitted_at=time.time() - 20, start_time=None))
    assert reconciled(jobs, paths, young) == young
    error = jobs.find(old.id)
    assert (error.status, error.settled) == (Status.ERROR, True)
    assert error.error == error.reason
    assert kinds(jobs, error) == ["error"]


def test_a_job_that_left_descendants_is_completed_when_they_end(jobs: Jobs, paths: StatePaths) -> None:
    job = jobs.insert(running_job(shim=US))
    leave_started(paths.job(job.id), US.boot, (US.pid, US.start))
    leave_ended(paths.job(job.id), final=0, left=2, status=0)
    left = reconciled(jobs, paths, job)
    assert (left.status, left.flags, left.settled) == (Status.SUCCESS, ("left_running",), False)
    assert left.incomplete
    assert reconciled(jobs, paths, job) == left
    leave_ended(paths.job(job.id), utime=9.75, status=0, last="1700000060.5 160.0")
    done = reconciled(jobs, paths, job)
    assert (done.status, done.usage.cpu_total_seconds, done.settled) == (Status.SUCCESS, 10.0, True)
    assert (done.duration_seconds, done.end_time) == (left.duration_seconds, left.end_time)
    assert not done.incomplete
    assert kinds(jobs, done) == ["exited", "left_running", "descendants_ended"]


def test_descendants_whose_shim_was_killed_are_not_waited_for(jobs: Jobs, paths: StatePaths) -> None:
    job = jobs.insert(running_job())
    leave_started(paths.job(job.id), "another boot", GONE)
    leave_ended(paths.job(job.id), final=0, left=2, status=0)
    done = reconciled(jobs, paths, job)
    assert (done.status, done.settled) == (Status.SUCCESS, True)
    assert any("left running" in why for why in done.incomplete)


def test_stopping_what_a_job_left_does_not_change_how_it_ended(jobs: Jobs, paths: StatePaths) -> None:
    job = jobs.insert(running_job(shim=US))
    leave_started(paths.job(job.id), US.boot, (US.pid, US.start))
    leave_ended(paths.job(job.id), final=0, left=1, status=0)
    ended = reconciled(jobs, paths, job)
    asked = StopRequest("jobtop stop", 1_700_000_050.0)
    jobs.change(job.id, lambda row: (replace(row, stop_request=asked), ()))
    leave_ended(paths.job(job.id), status=0, stop="signal", last="1700000060.5 160.0")
    done = reconciled(jobs, paths, job)
    assert (done.status, done.reason, done.exit_code) == (ended.status, ended.reason, 0)
    assert done.settled


def test_who_asked_for_the_end_is_in_the_reason(jobs: Jobs, paths: StatePaths) -> None:
    job = jobs.insert(running_job(stop_request=StopRequest("jobtop stop", 1_700_000_005.0)))
    leave_ended(paths.job(job.id), status=15, stop="signal")
    done = reconciled(jobs, paths, job)
    assert (done.status, done.signal) == (Status.CANCELLED, 15)
    assert done.reason == "stopped by jobtop stop: killed by SIGTERM"


@pytest.mark.parametrize("text", ["", "version 1\n", "version 1\nboot x\nshim 1", "version 1\nshim x y\n", "\0" * 300])
@pytest.mark.parametrize("name", ["started", "ended"])
def test_a_broken_file_of_one_job_stops_nothing(jobs: Jobs, paths: StatePaths, name: str, text: str) -> None:
    broken, fine = jobs.insert(running_job()), jobs.insert(running_job())
    leave_started(paths.job(broken.id), "another boot", GONE)
    (paths.job(broken.id) / name).write_text(text)
    leave_ended(paths.job(fine.id))
    assert reconciled(jobs, paths, fine).status is Status.FAILED
    assert jobs.find(broken.id).status in (Status.LOST, Status.ERROR)


def test_a_broken_file_of_marks_does_not_hide_the_end(jobs: Jobs, paths: StatePaths) -> None:
    job = jobs.insert(running_job())
    leave_ended(paths.job(job.id))
    (paths.job(job.id) / "marks").write_text("1.0 10 20\nx y z\n2.0\n3.0 1")
    assert reconciled(jobs, paths, job).status is Status.FAILED


def test_a_job_as_it_stands_is_finished_only_if_no_other_process_will(jobs: Jobs, paths: StatePaths) -> None:
    watched, alone = jobs.insert(running_job(recorder=US)), jobs.insert(running_job())
    for job in (watched, alone):
        leave_ended(paths.job(job.id))
    assert current(jobs, paths, watched) == watched
    done = current(jobs, paths, alone)
    assert (done.status, done.settled) == (Status.FAILED, True)
    assert current(jobs, paths, alone) == done


def test_jobs_of_another_host_are_left_alone(jobs: Jobs, paths: StatePaths) -> None:
    job = jobs.insert(running_job(host="elsewhere"))
    assert reconciled(jobs, paths, job) == job


def set_beside(paths: StatePaths, job: Job) -> Path:
    paths.unrecorded.mkdir(parents=True, exist_ok=True)
    file = paths.unrecorded / f"{job.id}.json"
    file.write_text(json.dumps(job.to_json()))
    return file


def test_a_job_kept_beside_the_store_is_taken_in_once(jobs: Jobs, paths: StatePaths) -> None:
    job = made_job(name="caf\udce9\n", tags={"a": "b"})
    file = set_beside(paths, job)
    found = reconciled(jobs, paths, job)
    assert found == replace(job, seq=1)
    assert not file.exists()
    assert kinds(jobs, found) == ["recorded_late"]
    set_beside(paths, job)
    reconcile(jobs, paths)
    assert not file.exists()
    assert len(jobs.select(Query())) == 1


def test_jobs_kept_beside_the_store_are_taken_in_in_the_order_they_came(jobs: Jobs, paths: StatePaths) -> None:
    late = [made_job(id=numbered_id(int(digit)), name=name, submitted_at=at) for digit, name, at in LATE]
    for job in late:
        set_beside(paths, job)
    reconcile(jobs, paths)
    assert [job.name for job in jobs.select(Query(reverse=True))] == ["first", "second", "third"]


def test_many_who_take_in_the_same_late_records_take_each_in_once(jobs: Jobs, paths: StatePaths) -> None:
    for number in range(20):
        set_beside(paths, made_job(name=f"late {number}"))
    start, failures = threading.Barrier(4), []

    def take_in() -> None:
        database = open_to_write(paths)
        start.wait()
        try:
            reconcile(Jobs(database), paths)
        except Exception as error:  # noqa: BLE001 - a thread's failure is the test's
            failures.append(error)
        finally:
            database.close()

    threads = [threading.Thread(target=take_in) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert sorted(job.name for job in jobs.select(Query(limit=None))) == sorted(
        f"late {number}" for number in range(20)
    )


def test_an_end_kept_beside_the_store_counts_for_a_job_that_is_in_it(jobs: Jobs, paths: StatePaths) -> None:
    job = jobs.insert(running_job())
    leave_started(paths.job(job.id), "another boot", GONE)
    file = set_beside(paths, replace(job, status=Status.FAILED, exit_code=3, settled=True))
    done = reconciled(jobs, paths, job)
    assert (done.status, done.exit_code, done.settled) == (Status.FAILED, 3, True)
    assert not file.exists()


def test_a_running_job_kept_beside_the_store_is_taken_in_and_followed_up(jobs: Jobs, paths: StatePaths) -> None:
    job = running_job(recorder=None)
    leave_started(paths.job(job.id), US.boot, (US.pid, US.start))
    set_beside(paths, job)
    assert reconciled(jobs, paths, job).status is Status.RUNNING
    leave_ended(paths.job(job.id))
    assert reconciled(jobs, paths, job).exit_code == 3


def test_a_job_kept_beside_the_store_while_its_descendants_ran_is_completed(jobs: Jobs, paths: StatePaths) -> None:
    job = made_job(flags=("left_running",), settled=False)
    leave_started(paths.job(job.id), US.boot, (US.pid, US.start))
    leave_ended(paths.job(job.id), final=0, left=1, status=0)
    set_beside(paths, job)
    assert not reconciled(jobs, paths, job).settled
    leave_ended(paths.job(job.id), status=0, utime=9.75)
    done = reconciled(jobs, paths, job)
    assert (done.settled, done.usage.cpu_total_seconds) == (True, 10.0)


def test_a_file_beside_the_store_that_cannot_be_read_is_kept_and_stops_nothing(jobs: Jobs, paths: StatePaths) -> None:
    job = made_job()
    set_beside(paths, job)
    (paths.unrecorded / "torn.json").write_text('{"id": "')
    (paths.unrecorded / "other.json").write_text('{"id": "x", "status": "melted"}')
    elsewhere = set_beside(paths, made_job(host="elsewhere"))
    assert reconciled(jobs, paths, job).id == job.id
    assert sorted(os.listdir(paths.unrecorded)) == sorted(["torn.json", "other.json", elsewhere.name])


def test_what_is_needed_to_run_old_jobs_again_is_dropped_once_a_day(paths: StatePaths) -> None:
    paths.specs.mkdir(parents=True)
    old, older, young = (paths.spec(numbered_id(number)) for number in range(3))

    def leave(file: Path, days: float) -> None:
        file.write_text("{}")
        os.utime(file, times=(time.time() - days * 86400,) * 2)

    leave(old, 31)
    leave(young, 29)
    sweep_specs(paths, 30)
    assert (old.exists(), young.exists()) == (False, True)
    leave(older, 40)
    sweep_specs(paths, 30)
    assert older.exists()
    os.utime(paths.specs / ".swept", times=(time.time() - 90000,) * 2)
    sweep_specs(paths, 30)
    assert not older.exists()


def test_where_there_are_no_specs_there_is_nothing_to_drop(paths: StatePaths) -> None:
    sweep_specs(paths, 30)
    assert not paths.root.exists()


@pytest.mark.parametrize(
    ("before", "paused", "after"),
    [
        (Status.RUNNING, True, Status.PAUSED),
        (Status.PAUSED, False, Status.RUNNING),
        (Status.RUNNING, False, Status.RUNNING),
        (Status.PAUSED, True, Status.PAUSED),
        (Status.SUCCESS, True, Status.SUCCESS),
        (Status.FAILED, False, Status.FAILED),
    ],
)
def test_only_a_living_job_stands_still_or_goes_on(before: Status, paused: bool, after: Status) -> None:
    job, events = paused_or_running(made_job(status=before), paused)
    assert job.status is after
    assert len(events) == (before is not after)


def test_the_duration_of_a_lost_job_ends_when_it_was_last_seen(jobs: Jobs, paths: StatePaths) -> None:
    seen, heard, unseen = (jobs.insert(running_job(start_time=1000.0)) for _ in range(3))
    assert seen.seq is not None
    SeriesStore(jobs.database).append([(seen.seq, sample) for sample in steady(5)])
    with jobs.database.writing() as connection:
        connection.execute("UPDATE jobs SET heartbeat = ? WHERE id = ?", (1_700_000_010.0, heard.id))
        connection.execute("UPDATE jobs SET heartbeat = ? WHERE id = ?", (1_700_000_001.0, seen.id))
    for job in (seen, heard, unseen):
        leave_started(paths.job(job.id), US.boot, GONE)
    found = [reconciled(jobs, paths, job) for job in (seen, heard, unseen)]
    assert {job.status for job in found} == {Status.LOST}
    assert [job.duration_seconds for job in found] == [pytest.approx(steady(5)[-1].elapsed), 9.5, None]
    assert [job.end_time for job in found] == [None] * 3
