"""Which job starts next: order, room, groups, dependencies, clocks, and that nothing starves."""

import random
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import pytest

from jobtop.core.model import Limits, Queued, Status
from jobtop.core.run.scheduling import (
    Capacity,
    Plan,
    Running,
    Waiting,
    impossible,
    plan,
    retry_seconds,
    running_from,
    waiting_from,
    will_be_retried,
)
from records import made_job

HOST = Capacity(4.0, 16 << 30, ("nvidia:0", "nvidia:1"))
NOW = 1_700_000_000.0


def waiting(*asked: Mapping[str, Any]) -> list[Waiting]:
    """Jobs named a, b, c … in the order they came."""
    return [
        Waiting(**{"id": chr(ord("a") + index), "turn": (-one.get("priority", 0), index)} | without(one, "priority"))
        for index, one in enumerate(asked)
    ]


def without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in names}


def planned(
    jobs: Iterable[Waiting],
    running: Iterable[Running] = (),
    capacity: Capacity = HOST,
    groups: Mapping[str, int] | None = None,
    outcomes: Mapping[str, Status | None] | None = None,
) -> Plan:
    return plan(jobs, running, capacity, groups or {}, outcomes or {}, NOW)


def started(made: Plan) -> str:
    return "".join(start.id for start in made.start)


def test_priority_comes_before_age() -> None:
    made = planned(waiting({}, {"priority": 5}, {"priority": -1}, {"priority": 5}, {}), capacity=Capacity(3.0))
    assert started(made) == "bda"
    assert list(made.waits) == ["e", "c"]


def test_a_job_that_declares_nothing_counts_as_one_cpu() -> None:
    made = planned(waiting({}, {}, {}), [Running("r"), Running("s")])
    assert started(made) == "ab"
    assert made.waits == {"c": "waits for 1 CPU: 0 of 4 are free"}


def test_on_less_than_one_cpu_a_job_that_declares_nothing_runs_alone() -> None:
    made = planned(waiting({}, {}), capacity=Capacity(0.5))
    assert started(made) == "a"
    assert made.waits == {"b": "waits for 0.5 CPUs: 0 of 0.5 are free"}


def test_no_cpus_take_no_room_even_where_there_is_none() -> None:
    assert started(planned(waiting({"cpus": 0.0}, {"cpus": 0.0}), [Running("r", cpus=9.0)])) == "ab"


def test_tenths_of_cpus_add_up_to_whole_ones() -> None:
    assert len(planned(waiting(*[{"cpus": 0.1}] * 12), capacity=Capacity(1.0)).start) == 10


@pytest.mark.parametrize(
    ("asked", "running", "why"),
    [
        ({"cpus": 2.0}, {"cpus": 2.5}, "waits for 2 CPUs: 1.5 of 4 are free"),
        ({"cpus": 2.0}, {"cpus": 3.0}, "waits for 2 CPUs: 1 of 4 is free"),
        (
            {"cpus": 0.0, "memory_bytes": 8 << 30},
            {"memory_bytes": 9 << 30},
            "waits for 8.0 GiB of memory: 7.0 GiB of 16.0 GiB are free",
        ),
        ({"gpus": 2}, {"gpus": 1, "given": ("nvidia:0",)}, "waits for 2 GPUs: 1 of 2 is free"),
        ({"cpus": 999.0}, {}, "it needs 999 CPUs: this host has 4"),
        ({"memory_bytes": 64 << 30}, {}, "it needs 64.0 GiB of memory: this host has 16.0 GiB"),
        ({"is_paused": True}, {}, "paused"),
    ],
)
def test_why_a_job_waits_is_said(asked: dict[str, Any], running: dict[str, Any], why: str) -> None:
    made = planned(waiting(asked), [Running("r", **{"cpus": 0.0} | running)])
    assert made.waits == {"a": why}
    assert made.start == ()


def test_a_host_without_gpus_says_so() -> None:
    assert planned(waiting({"gpus": 1}), capacity=Capacity(4.0)).waits == {"a": "it needs 1 GPU: this host has none"}


def test_memory_that_is_not_known_is_never_lacking() -> None:
    assert started(planned(waiting({"memory_bytes": 1 << 60}), capacity=Capacity(1.0))) == "a"


def test_an_impossible_job_blocks_no_other() -> None:
    made = planned(waiting({"cpus": 999.0, "priority": 9}, {"cpus": 4.0}))
    assert started(made) == "b"


def test_the_lowest_free_gpus_are_given() -> None:
    four = Capacity(9.0, None, tuple(f"nvidia:{number}" for number in range(4)))
    made = planned(waiting({"gpus": 2}, {"gpus": 1}), [Running("r", gpus=1, given=("nvidia:1",))], four)
    assert [start.gpus for start in made.start] == [("nvidia:0", "nvidia:2"), ("nvidia:3",)]


def test_a_job_that_was_given_no_gpus_is_assumed_to_use_the_first() -> None:
    (start,) = planned(waiting({"gpus": 1}), [Running("r", gpus=1)]).start
    assert start.gpus == ("nvidia:1",)


def test_a_job_inside_of_a_running_one_is_counted_by_that() -> None:
    outer, inner = Running("r", cpus=2.0), Running("s", cpus=2.0, parent_id="r")
    assert started(planned(waiting({"cpus": 2.0}), [outer, inner])) == "a"
    assert started(planned(waiting({"cpus": 2.0}), [outer, Running("s", cpus=2.0, parent_id="gone")])) == ""


# Groups.


def test_slots_decide_how_many_of_a_group_run_whatever_is_free() -> None:
    jobs = waiting(*[{"group": "g"}] * 7, {"group": "other"})
    made = planned(jobs, [Running("r", group="g")], Capacity(2.0), {"g": 6})
    assert started(made) == "abcdeh"
    assert made.waits == dict.fromkeys("fg", "group g: all 6 slots are taken")


def test_what_a_job_of_a_group_declares_counts_beside_its_slot() -> None:
    made = planned(waiting({"group": "g", "cpus": 3.0}, {"group": "g", "cpus": 3.0}), groups={"g": 8})
    assert started(made) == "a"
    assert made.waits == {"b": "waits for 3 CPUs: 1 of 4 is free"}


def test_a_group_without_slots_is_only_a_name() -> None:
    assert started(planned(waiting(*[{"group": "g"}] * 5))) == "abcd"


def test_a_group_that_is_full_keeps_nothing_from_others() -> None:
    made = planned(waiting({"group": "g", "cpus": 4.0}, {"cpus": 4.0}), [Running("r", group="g")], groups={"g": 1})
    assert started(made) == "b"
    assert made.waits == {"a": "group g: its slot is taken"}


def test_a_group_of_no_slots_stands_still() -> None:
    assert planned(waiting({"group": "g"}), groups={"g": 0}).waits == {"a": "group g: it has no slots"}


def test_the_last_slot_is_kept_for_who_lacks_room() -> None:
    jobs = waiting({"group": "g", "cpus": 4.0}, {"group": "g", "cpus": 0.0})
    made = planned(jobs, [Running("r")], groups={"g": 1})
    assert made.waits["b"] == "group g: its last free slot is reserved for job a"


# What is kept for a job that lacks room.


def test_what_a_large_job_waits_for_is_kept_for_it() -> None:
    made = planned(waiting({"cpus": 4.0}, {"cpus": 1.0}, {"cpus": 0.0}), [Running("r")])
    assert started(made) == "c"
    assert made.waits["b"] == "behind job a, for which 4 CPUs are reserved"


def test_who_does_not_touch_what_is_kept_may_pass() -> None:
    jobs = waiting({"cpus": 1.0, "memory_bytes": 12 << 30}, {"cpus": 2.0}, {"cpus": 1.0}, {"memory_bytes": 1})
    made = planned(jobs, [Running("r", memory_bytes=8 << 30)])
    assert started(made) == "b"
    assert made.waits["c"] == "behind job a, for which 1 CPU is reserved"
    assert "job a" in made.waits["d"]


@pytest.mark.parametrize(("runtime", "passes"), [(60.0, True), (100.0, True), (101.0, False), (None, False)])
def test_who_ends_before_the_large_job_can_start_may_pass(runtime: float | None, passes: bool) -> None:
    running = [Running("r", cpus=2.0, ends_at=NOW + 100), Running("s", cpus=0.5, ends_at=NOW + 50)]
    made = planned(waiting({"cpus": 3.0}, {"cpus": 1.0, "runtime_seconds": runtime}), running)
    assert started(made) == ("b" if passes else "")


def test_a_job_that_should_have_ended_is_no_promise() -> None:
    made = planned(waiting({"cpus": 4.0}, {"runtime_seconds": 1.0}), [Running("r", ends_at=NOW - 5)])
    assert started(made) == ""


def test_a_large_job_is_not_starved_by_small_ones_that_keep_coming() -> None:
    large = Waiting("large", (0, 5), cpus=4.0)
    chance = random.Random(7)
    queue, running, number, rounds = [large], dict[str, Running](), 10, 0
    while large in queue:
        rounds += 1
        queue += [Waiting(str(number + step), (0, number + step)) for step in range(3)]
        number += 3
        for start in plan(queue, running.values(), HOST, {}, {}, float(rounds)).start:
            queue = [job for job in queue if job.id != start.id]
            running[start.id] = Running(start.id, cpus=4.0 if start.id == "large" else None)
        for job_id in chance.sample(sorted(running), min(1, len(running))):
            del running[job_id]
        assert rounds < 10


def test_nothing_is_given_twice_and_everything_runs_in_the_end() -> None:
    chance = random.Random(11)

    def asked() -> dict[str, Any]:
        return {
            "priority": chance.choice((0, 0, 3)),
            "cpus": chance.choice((None, 0.0, 0.5, 1.0, 4.0)),
            "memory_bytes": chance.choice((None, 1 << 30, 16 << 30)),
            "gpus": chance.choice((None, 1, 2)),
            "group": chance.choice((None, "g")),
            "runtime_seconds": chance.choice((None, 2.0, 50.0)),
        }

    queue, running, now = waiting(*[asked() for _ in range(200)]), dict[str, Running](), 0.0
    while queue or running:
        now += 1
        made = plan(queue, running.values(), HOST, {"g": 3}, {}, now)
        jobs = {job.id: job for job in queue}
        for start in made.start:
            job = jobs[start.id]
            taken = (job.group, job.cpus, job.memory_bytes, job.gpus, start.gpus)
            running[start.id] = Running(start.id, *taken, None)
        queue = [job for job in queue if job.id not in running]
        assert running, "one job can always run"
        held = [gpu for job in running.values() for gpu in job.given]
        assert len(set(held)) == len(held) == sum(job.gpus or 0 for job in running.values())
        assert sum((job.group is None) if job.cpus is None else job.cpus for job in running.values()) <= 4
        assert sum(job.memory_bytes or 0 for job in running.values()) <= 16 << 30
        assert sum(job.group == "g" for job in running.values()) <= 3
        del running[chance.choice(sorted(running))]


# Dependencies and clocks.


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (Status.FAILED, "failed"),
        (Status.TIMEOUT, "timed out"),
        (Status.CANCELLED, "was cancelled"),
        (Status.ERROR, "could not be started"),
        (Status.LOST, "was lost"),
        (None, "is not in the history any more"),
    ],
)
def test_a_job_whose_dependency_did_not_succeed_is_cancelled(status: Status | None, words: str) -> None:
    made = planned(waiting({"after": ("y", "3f8a21b2-9", "z")}), outcomes={"y": Status.SUCCESS, "3f8a21b2-9": status})
    assert made.cancel == {"a": f"job 3f8a21b2, which had to succeed first, {words}"}
    assert made.waits == {}


def test_a_job_waits_until_all_it_depends_on_have_succeeded() -> None:
    live = {"x": Status.RUNNING, "y": Status.SUCCESS, "z": Status.PAUSED}
    made = planned(waiting({"after": ("x", "y")}, {"after": ("x", "y", "z")}, {"after": ("y",)}), outcomes=live)
    assert made.waits == {"a": "job x must succeed first", "b": "jobs x, z must succeed first"}
    assert started(made) == "c"


def test_who_waits_for_another_keeps_no_room() -> None:
    made = planned(waiting({"after": ("x",), "cpus": 4.0}, {"cpus": 4.0}), outcomes={"x": Status.QUEUED})
    assert started(made) == "b"


def test_a_moment_is_waited_for_and_told() -> None:
    today = datetime.fromtimestamp(NOW).astimezone().replace(hour=23, minute=59, second=0, microsecond=0).timestamp()
    made = planned(waiting({"not_before": today + 86400}, {"not_before": today}, {"not_before": NOW}))
    assert made.waits["b"] == "until 23:59"
    assert made.waits["a"].endswith(" 23:59")
    assert made.waits["a"].startswith("until 20")
    assert started(made) == "c"
    assert made.next_moment == today


def test_another_attempt_says_which_it_is() -> None:
    (why,) = planned(waiting({"not_before": NOW + 2.0, "attempt": 3})).waits.values()
    assert why.startswith("attempt 3 is due at ")


def test_nothing_that_waits_for_no_clock_has_a_moment() -> None:
    assert planned(waiting({"not_before": NOW - 1}, {"is_paused": True, "not_before": NOW + 9})).next_moment is None


# Records, requests, retries.


def test_a_record_is_planned_by_what_it_declares() -> None:
    limits = Limits(cpus=2.0, memory_bytes=5, gpus=1, runtime_seconds=60.0, timeout_seconds=50.0)
    queued = Queued(priority=3, group="g", after=("x",), not_before=9.0, attempt=2, gpus=("nvidia:0",))
    job = made_job(status=Status.PAUSED, limits=limits, queue=queued, seq=7, parent_id="p", start_time=100.0)
    assert waiting_from(job) == Waiting(job.id, (-3, 7), "g", 2.0, 5, 1, 50.0, ("x",), 9.0, 2, True)
    going = made_job(id=job.id, status=Status.RUNNING, limits=limits, queue=queued, parent_id="p", start_time=100.0)
    assert running_from(going) == Running(job.id, "g", 2.0, 5, 1, ("nvidia:0",), 150.0, "p")
    assert running_from(job).ends_at is None, "it is not known how long a paused job takes"


def test_a_request_beyond_the_host_is_named() -> None:
    assert impossible(Limits(cpus=999.0), HOST) == "needs 999 CPUs: this host has 4"
    assert impossible(Limits(cpus=4.0, memory_bytes=16 << 30, gpus=2), HOST) is None
    assert impossible(Limits(), Capacity(0.5)) is None


def test_attempts_are_further_and_further_apart() -> None:
    assert [retry_seconds(attempt) for attempt in (1, 2, 3, 9, 10, 10_000)] == [1, 2, 4, 256, 300, 300]


def test_only_what_failed_by_itself_is_tried_again() -> None:
    retried = {status for status in Status if will_be_retried(status, Queued(retries=1))}
    assert retried == {Status.FAILED, Status.TIMEOUT, Status.LOST}
    assert not will_be_retried(Status.FAILED, Queued(retries=0))
    assert not will_be_retried(Status.FAILED, Queued(retries=1, retried_by="x"))
    assert not will_be_retried(Status.FAILED, None)
