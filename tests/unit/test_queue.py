"""Jobs that wait in the store: how they come, are claimed, held, cancelled, tried again; and the order of the queue."""

import json
import os
from typing import Any

import pytest

from jobtop.core.errors import StoreUnavailable, UnknownJob, UsageError
from jobtop.core.model import Identity, Job, JobSpec, Limits, Queued, Status
from jobtop.core.record import replace
from jobtop.core.run.scheduling import Capacity, Running, Waiting
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.queue_plan import COUNTED_REFRESHES, Lineup
from jobtop.lifecycle.reconcile import reconcile
from jobtop.lifecycle.start import kept_spec
from records import NO_PROCESS, leave_started, made_job, running_job, this_process

DEAD = Identity("another boot", NO_PROCESS, 1)
HOST = Capacity(2.0)
NOW = 1_700_000_000.0


def submitted(queue: Queue, queued: Queued | None = None, **values: Any) -> Job:
    """A job that waits."""
    job = running_job(**{"status": Status.RUNNING, "start_time": None, "recorder": None} | values)
    spec = JobSpec(job.id, ("python", "train.py"), "/home/ada", {"JOBTOP_JOB_ID": job.id, "SECRET": "s"})
    return queue.submit(job, spec, queued or Queued())


def ended(queue: Queue, job: Job, status: Status = Status.FAILED) -> Job:
    """The job once it has run."""
    over = {"status": status, "start_time": NOW, "settled": True, "recorder": None}
    return queue.jobs.change(job.id, lambda row: (replace(row, **over), ()))


def kinds(queue: Queue, job: Job) -> list[str]:
    return [event.kind for event in queue.jobs.events(job)]


# Coming and being claimed.


def test_a_submitted_job_waits_and_can_be_run_by_any_agent_later(queue: Queue) -> None:
    job = submitted(queue, Queued(priority=3, after=("x",), retries=2))
    assert queue.jobs.find(job.id) == job
    assert (job.status, job.recorder, job.settled) == (Status.QUEUED, None, False)
    assert job.queue == Queued(priority=3, after=("x",), retries=2)
    assert kinds(queue, job) == ["submitted"]
    spec = kept_spec(queue.paths, job.id)
    assert spec is not None
    assert spec.env["SECRET"] == "s"
    assert os.stat(queue.paths.spec(job.id)).st_mode & 0o777 == 0o600


def test_of_a_job_that_cannot_be_kept_nothing_stays(queue: Queue) -> None:
    job = submitted(queue)
    with pytest.raises(StoreUnavailable):
        submitted(queue, id=job.id)  # ids are unique
    again = made_job()
    os.rmdir(queue.paths.jobs)
    queue.paths.jobs.write_text("in the way")
    with pytest.raises(StoreUnavailable, match="directory"):
        submitted(queue, id=again.id)
    with pytest.raises(UnknownJob):
        queue.jobs.find(again.id)


def test_reconciling_leaves_jobs_that_wait_alone(queue: Queue) -> None:
    job = submitted(queue)
    claimed = submitted(queue, recorder=None)
    queue.claim(claimed.id, DEAD)
    reconcile(queue.jobs, queue.paths)
    assert queue.jobs.find(job.id) == job
    assert queue.jobs.find(claimed.id).status is Status.QUEUED


def test_a_job_is_claimed_once(queue: Queue) -> None:
    job, me = submitted(queue), this_process()
    claimed = queue.claim(job.id, me, ("nvidia:1",))
    assert claimed is not None
    assert claimed == queue.jobs.find(job.id)
    assert (claimed.recorder, claimed.status) == (me, Status.QUEUED)
    assert claimed.queue == Queued(gpus=("nvidia:1",))
    assert queue.claim(job.id, me) is None
    assert queue.claim("gone", me) is None


def test_what_a_dead_agent_had_claimed_can_be_claimed_again(queue: Queue) -> None:
    job = submitted(queue)
    assert queue.claim(job.id, DEAD) is not None
    assert queue.claim(job.id, this_process()) is not None


def test_what_a_dead_agent_had_started_is_not_claimed(queue: Queue) -> None:
    job = submitted(queue)
    queue.claim(job.id, DEAD)
    leave_started(queue.paths.job(job.id), "another boot", (NO_PROCESS, 1))
    assert queue.claim(job.id, this_process()) is None
    assert queue.cancel(job.id, "no") is None
    assert not queue.hold(job.id, True)


def test_a_claim_that_led_to_nothing_is_given_back(queue: Queue) -> None:
    job = submitted(queue)
    queue.claim(job.id, this_process(), ("nvidia:0",))
    queue.release(job.id, DEAD)
    assert queue.jobs.find(job.id).recorder == this_process()
    queue.release(job.id, this_process())
    queue.release("gone", this_process())
    assert queue.jobs.find(job.id) == job


# Before it begins.


def test_a_waiting_job_is_cancelled_with_the_reason(queue: Queue) -> None:
    job = submitted(queue)
    done = queue.cancel(job.id, "cancelled before it started by jobtop stop", "jobtop stop")
    assert done is not None
    assert (done.status, done.settled, done.start_time) == (Status.CANCELLED, True, None)
    assert done.reason == "cancelled before it started by jobtop stop"
    assert done.stop_request is not None
    assert kinds(queue, job) == ["submitted", "exited"]
    assert queue.claim(job.id, this_process()) is None


def test_a_job_that_is_being_started_is_not_cancelled(queue: Queue) -> None:
    job = submitted(queue)
    queue.claim(job.id, this_process())
    assert queue.cancel(job.id, "no") is None
    assert queue.jobs.find(job.id).status is Status.QUEUED


def test_a_shim_that_is_late_cannot_begin_a_cancelled_job(queue: Queue) -> None:
    job = submitted(queue)
    queue.claim(job.id, DEAD)
    assert queue.cancel(job.id, "no") is not None
    with pytest.raises(FileExistsError):
        os.open(queue.paths.job(job.id) / "started", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    reconcile(queue.jobs, queue.paths)
    assert queue.jobs.find(job.id).status is Status.CANCELLED


def test_a_held_job_is_passed_over_until_it_is_released(queue: Queue) -> None:
    job = submitted(queue)
    assert queue.hold(job.id, True)
    assert queue.hold(job.id, True), "twice is once"
    assert queue.claim(job.id, this_process()) is None
    assert queue.hold(job.id, False)
    assert queue.claim(job.id, this_process()) is not None
    assert not queue.hold(job.id, True)
    assert kinds(queue, job) == ["submitted", "paused", "resumed"]


def test_a_held_job_is_no_less_an_agents_that_was_killed(queue: Queue) -> None:
    job = submitted(queue)
    queue.claim(job.id, DEAD)
    assert queue.hold(job.id, True)
    leave_started(queue.paths.job(job.id), "another boot", (NO_PROCESS, 1))
    assert not queue.hold(job.id, False), "its shim was late, and began it"


# Another attempt.


def test_a_failed_job_is_tried_again_as_a_new_one(queue: Queue) -> None:
    first = submitted(queue, Queued(priority=2, retries=2, after=("x",), group="g"), external_id="task", note="n")
    first = ended(queue, first)
    second = queue.retry(first, NOW)
    assert second.queue == Queued(priority=2, retries=1, group="g", attempt=2, retry_of=first.id, not_before=NOW + 1.0)
    assert (second.status, second.name, second.note, second.external_id) == (Status.QUEUED, first.name, "n", "task")
    assert (second.exit_code, second.start_time, second.submitted_at) == (None, None, NOW)
    superseded = queue.jobs.find(first.id).queue
    assert superseded is not None
    assert superseded.retried_by == second.id
    spec = kept_spec(queue.paths, second.id)
    assert spec is not None
    assert (spec.id, spec.env["JOBTOP_JOB_ID"], spec.env["SECRET"]) == (second.id, second.id, "s")
    third = queue.retry(ended(queue, second), NOW)
    assert third.queue is not None
    assert (third.queue.retries, third.queue.attempt, third.queue.not_before) == (0, 3, NOW + 2.0)
    assert [queue.last_attempt(queue.jobs.find(job.id)) for job in (first, second, third)] == [third] * 3
    assert queue.attempts(first.id) == [first.id, second.id, third.id]


def test_a_job_is_tried_again_once_whoever_else_tries(queue: Queue) -> None:
    job = ended(queue, submitted(queue, Queued(retries=5)))
    second = queue.retry(job, NOW)
    specs = sorted(os.listdir(queue.paths.specs))
    with pytest.raises(UsageError, match=f"was already retried as {second.id[:8]}"):
        queue.retry(job, NOW)
    assert sorted(os.listdir(queue.paths.specs)) == specs


def test_only_what_has_attempts_left_is_tried_again_by_itself(queue: Queue) -> None:
    for status, retries in ((Status.FAILED, 0), (Status.CANCELLED, 1), (Status.SUCCESS, 1)):
        job = ended(queue, submitted(queue, Queued(retries=retries)), status)
        with pytest.raises(UsageError, match="no attempt left"):
            queue.retry(job, NOW)
        assert queue.retry(job, NOW, by_hand=True).status is Status.QUEUED
    with pytest.raises(UsageError, match=r"has not ended \(queued\)"):
        queue.retry(submitted(queue), NOW, by_hand=True)


def test_by_hand_a_job_has_all_its_attempts_again_and_need_not_wait(queue: Queue) -> None:
    job = ended(queue, submitted(queue, Queued(retries=0, attempt=4, not_before=1.0)))
    assert queue.retry(job, NOW, by_hand=True).queue == Queued(retries=3, retry_of=job.id)


def test_a_job_that_never_began_still_waits_for_others(queue: Queue) -> None:
    job = queue.cancel(submitted(queue, Queued(after=("x",))).id, "no")
    assert job is not None
    again = queue.retry(job, NOW, by_hand=True).queue
    assert again is not None
    assert again.after == ("x",)


def test_a_job_run_in_the_foreground_is_queued_without_its_terminal(queue: Queue) -> None:
    job = queue.jobs.insert(made_job())
    os.makedirs(queue.paths.specs)
    shape = JobSpec(job.id, ("true",), "/", {}, pty=True).to_json()
    queue.paths.spec(job.id).write_text(json.dumps(shape))
    spec = kept_spec(queue.paths, queue.retry(job, NOW, by_hand=True).id)
    assert spec is not None
    assert (spec.detached, spec.pty) == (True, False)


def test_a_job_whose_command_is_gone_cannot_be_tried_again(queue: Queue) -> None:
    job = ended(queue, submitted(queue, Queued(retries=1)))
    queue.paths.spec(job.id).unlink()
    with pytest.raises(UsageError, match="spec_days"):
        queue.retry(job, NOW)
    lineup = Lineup(queue)
    lineup.refresh()
    assert lineup.retry_failed(NOW) == []
    given_up = queue.jobs.find(job.id)
    assert given_up.queue == Queued(retries=0)
    assert kinds(queue, job)[-1] == "not_retried"


# Outcomes and groups.


def test_the_outcome_of_a_job_is_that_of_its_last_attempt(queue: Queue) -> None:
    failed = ended(queue, submitted(queue, Queued(retries=0)))
    waiting = submitted(queue)
    to_retry = ended(queue, submitted(queue, Queued(retries=1)))
    retried = ended(queue, submitted(queue, Queued(retries=1)))
    ended(queue, queue.retry(retried, NOW), Status.SUCCESS)
    assert queue.outcomes([failed.id, waiting.id, to_retry.id, retried.id, "gone"]) == {
        failed.id: Status.FAILED,
        waiting.id: Status.QUEUED,
        to_retry.id: Status.QUEUED,
        retried.id: Status.SUCCESS,
        "gone": None,
    }


def test_the_outcomes_of_many_jobs_are_told(queue: Queue) -> None:
    job = submitted(queue)
    ids = [f"{number}" for number in range(1200)]
    assert queue.outcomes([*ids, job.id]) == dict.fromkeys(ids) | {job.id: Status.QUEUED}


def test_a_group_has_slots_until_they_are_taken_from_it(queue: Queue) -> None:
    queue.set_slots("b", 2)
    queue.set_slots("a", 8)
    queue.set_slots("b", 3)
    assert queue.groups() == {"a": 8, "b": 3}
    queue.set_slots("a", None)
    assert queue.groups() == {"b": 3}


# The line.


def test_the_line_is_who_waits_and_who_takes_room(queue: Queue) -> None:
    limits = Limits(cpus=2.0, memory_bytes=5, runtime_seconds=60.0)
    waits = submitted(queue, Queued(priority=1, group="g", not_before=9.0), limits=limits)
    held = submitted(queue)
    queue.hold(held.id, True)
    claimed = submitted(queue)
    queue.claim(claimed.id, this_process(), ("amd:0",))
    orphan = submitted(queue)
    queue.claim(orphan.id, DEAD)
    runs = queue.jobs.insert(running_job(limits=limits, start_time=100.0, parent_id="p"))
    queue.jobs.insert(made_job())
    queue.jobs.insert(running_job(host="elsewhere"))
    lineup = Lineup(queue)
    assert lineup.refresh()
    assert lineup.waiting[waits.id] == Waiting(waits.id, (-1, waits.seq or 0), "g", 2.0, 5, None, 60.0, not_before=9.0)
    assert lineup.waiting[held.id].is_paused
    assert lineup.waiting.keys() == {waits.id, held.id, orphan.id}
    assert lineup.running == {
        claimed.id: Running(claimed.id, given=("amd:0",)),
        runs.id: Running(runs.id, None, 2.0, 5, ends_at=160.0, parent_id="p"),
    }


def test_a_running_job_that_was_deleted_is_missed_soon_although_none_waits(queue: Queue) -> None:
    gone, stays = (queue.jobs.insert(running_job(recorder=this_process())) for _ in range(2))
    lineup = Lineup(queue)
    lineup.refresh()
    assert lineup.running.keys() == {gone.id, stays.id}
    with queue.jobs.database.writing() as connection:
        connection.execute("DELETE FROM jobs WHERE id = ?", (gone.id,))
    for _ in range(COUNTED_REFRESHES):
        lineup.refresh()
    assert lineup.running.keys() == {stays.id}


def test_the_line_follows_what_happens_in_the_store(queue: Queue) -> None:
    lineup = Lineup(queue)
    lineup.refresh()
    assert not lineup.refresh()
    job, other = submitted(queue), submitted(queue, limits=Limits(gpus=1))
    assert lineup.refresh()
    assert lineup.waiting.keys() == {job.id, other.id}
    assert lineup.needs_gpus
    queue.claim(job.id, this_process())
    queue.cancel(other.id, "no")
    lineup.refresh()
    assert (list(lineup.waiting), list(lineup.running)) == ([], [job.id])
    assert not lineup.needs_gpus
    ended(queue, job)
    queue.jobs.insert(running_job(host="elsewhere"))
    queue.set_slots("g", 1)
    lineup.refresh()
    assert (lineup.running, lineup.groups) == ({}, {"g": 1})
    assert not lineup.refresh()


def test_a_job_that_was_deleted_leaves_the_line(queue: Queue) -> None:
    lineup, job = Lineup(queue), submitted(queue)
    lineup.refresh()
    queue.jobs.delete(job)
    other = submitted(queue)
    assert lineup.refresh()
    assert list(lineup.waiting) == [other.id]


@pytest.mark.parametrize("is_first", [True, False])
def test_what_failed_without_an_agent_is_tried_again(queue: Queue, is_first: bool) -> None:
    lineup = Lineup(queue)
    if not is_first:
        lineup.refresh()
    job = ended(queue, submitted(queue, Queued(retries=1)), Status.LOST)
    ended(queue, submitted(queue, Queued(retries=1)), Status.SUCCESS)
    lineup.refresh()
    assert lineup.to_retry == {job.id}
    (again,) = lineup.retry_failed(NOW)
    lineup.refresh()
    assert (lineup.to_retry, list(lineup.waiting)) == (set(), [again.id])


def test_a_deleted_job_is_not_tried_again(queue: Queue) -> None:
    job = ended(queue, submitted(queue, Queued(retries=1)))
    lineup = Lineup(queue)
    lineup.refresh()
    queue.jobs.delete(job)
    assert lineup.retry_failed(NOW) == []


def test_the_plan_knows_what_became_of_dependencies(queue: Queue) -> None:
    first = submitted(queue, Queued(retries=1))
    good = ended(queue, submitted(queue), Status.SUCCESS)
    second = submitted(queue, Queued(after=(first.id, good.id)))
    lineup = Lineup(queue)
    lineup.refresh()
    assert lineup.plan(HOST, NOW).waits == {second.id: f"job {first.id[:8]} must succeed first"}
    ended(queue, first)
    lineup.refresh()
    assert second.id in lineup.plan(HOST, NOW).waits, "it will be tried again"
    (again,) = lineup.retry_failed(NOW)
    ended(queue, again)
    lineup.refresh()
    why = f"job {first.id[:8]}, which had to succeed first, failed"
    assert lineup.plan(HOST, NOW).cancel == {second.id: why}
    ended(queue, again, Status.SUCCESS)
    lineup.refresh()
    assert [start.id for start in lineup.plan(HOST, NOW).start] == [second.id]


def test_jobs_that_others_wait_for_are_known_with_all_attempts(queue: Queue) -> None:
    first = ended(queue, submitted(queue, Queued(retries=1)))
    again = queue.retry(first, NOW)
    last = submitted(queue, Queued(after=(first.id,)))
    assert Lineup(queue).needed() == {first.id: {last.id}, again.id: {last.id}}


def test_what_jobtop_did_not_start_reserves_nothing(queue: Queue) -> None:
    queue.jobs.insert(running_job(flags=("attached",), limits=Limits(cpus=2.0)))
    ours = queue.jobs.insert(running_job(flags=("throttled",)))
    lineup = Lineup(queue)
    lineup.refresh()
    assert lineup.running.keys() == {ours.id}
