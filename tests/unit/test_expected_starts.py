"""When queued jobs are expected to start, from how long jobs took before."""

from pathlib import Path

from jobtop.core.model import Queued, Status
from jobtop.core.paths import StatePaths
from jobtop.core.run.expected_starts import expected_starts
from jobtop.core.run.scheduling import Capacity, Running, Waiting
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.queue_listing import Medians, read_state
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.queue_rows import recent_durations, set_slots
from records import HERE, HOSTILE_TEXTS, kept_jobs, live_job, made_job, queued_job

ONE = Capacity(1.0)
NOW = 1000.0


def starts(
    waiting: list[Waiting],
    running: list[Running],
    seconds: dict[str, float],
    ends: dict[str, float],
    outcomes: dict[str, Status | None] | None = None,
) -> dict[str, float]:
    return expected_starts(waiting, running, ONE, {}, outcomes or {}, seconds, ends, NOW)


def test_jobs_start_one_after_the_other_as_the_ones_before_end() -> None:
    waiting = [Waiting("a", (0, 1)), Waiting("b", (0, 2)), Waiting("c", (-1, 3))]
    found = starts(waiting, [Running("r")], {"a": 10.0, "b": 10.0, "c": 5.0}, {"r": NOW + 30.0})
    assert found == {"c": NOW + 30.0, "a": NOW + 35.0, "b": NOW + 45.0}


def test_without_a_past_nothing_is_expected() -> None:
    assert starts([Waiting("a", (0, 1))], [Running("r")], {"a": 10.0}, {}) == {}
    found = starts([Waiting("a", (0, 1)), Waiting("b", (0, 2))], [Running("r")], {}, {"r": NOW + 30.0})
    assert found == {"a": NOW + 30.0}, "it is not known how long a takes"


def test_a_job_waits_for_its_dependency_and_its_time() -> None:
    waiting = [Waiting("a", (0, 1), not_before=NOW + 100.0), Waiting("b", (0, 2), after=("a",))]
    found = starts(waiting, [], {"a": 10.0}, {}, {"a": Status.QUEUED})
    assert found == {"a": NOW + 100.0, "b": NOW + 110.0}


def test_only_successful_jobs_of_the_same_name_and_host_are_the_past(tmp_path: Path) -> None:
    names = ["train", *HOSTILE_TEXTS.values()]
    kept_jobs(tmp_path, *(made_job(name=name, duration_seconds=7.0) for name in names))
    kept_jobs(tmp_path, made_job(duration_seconds=9.0, status=Status.FAILED, exit_code=1))
    kept_jobs(tmp_path, made_job(duration_seconds=9.0, host="elsewhere"), made_job(name="Train", duration_seconds=9.0))
    database = open_to_write(StatePaths(tmp_path, HERE))
    try:
        assert recent_durations(database, HERE, [*names, "new"]) == {name: [7.0] for name in names} | {"new": []}
    finally:
        database.close()


def test_the_queue_is_listed_with_groups_and_what_is_given_out(tmp_path: Path) -> None:
    paths = StatePaths(tmp_path, HERE)
    running = live_job(name="etl", queue=Queued(group="nightly"))
    kept_jobs(tmp_path, running, queued_job(name="first", queue=Queued(priority=2, group="nightly")))
    kept_jobs(tmp_path, queued_job(name="second"), queued_job(name="third"))
    database = open_to_write(paths)
    try:
        set_slots(database, "nightly", 1)
        state = read_state(Jobs(database), paths, lambda: ONE, Medians(), NOW)
        assert [(entry.place, entry.job.name) for entry in state.entries] == [(1, "first"), (2, "second"), (3, "third")]
        assert "nightly" in state.entries[0].why
        assert [entry.starts_at for entry in state.entries] == [None] * 3, "no agent runs to start them"
        (group,) = state.groups
        assert (group.name, group.slots, group.running, group.waiting) == ("nightly", 1, 1, 1)
        assert state.cpus is not None
        assert (state.cpus.used, state.cpus.total) == (0.0, 1.0), "a job in a group with slots takes no CPU"
        assert state.gpus is None
        queue, third = Queue(Jobs(database), paths), state.entries[2].job.id
        assert queue.change_priority(third, 5)
        assert not queue.change_priority(running.id, 5), "it does not wait"
        state = read_state(Jobs(database), paths, lambda: ONE, Medians(), NOW)
        assert [entry.job.name for entry in state.entries] == ["third", "first", "second"]
    finally:
        database.close()
