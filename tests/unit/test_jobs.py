"""Insert, change, find, select and delete jobs with their events and log marks."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobtop.core.analysis.cost import Prices, cost_of
from jobtop.core.errors import AmbiguousJob, BadValue, StoreError, UnknownJob
from jobtop.core.model import Identity, Job, Limits, Monitor, Queued, Status, StopRequest, Usage
from jobtop.core.paths import StatePaths
from jobtop.core.record import fields, replace
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Event, Jobs, Query, event
from jobtop.store.ordering import SORT_KEYS, sort_key
from records import HERE, HOSTILE_TEXTS, NO_PROCESS, made_job, running_job, this_process

FULL = {
    "external_id": "slurm-17",
    "parent_id": "00000000-0000-4000-8000-000000000000",
    "tool": "pytorch",
    "script": "train.py",
    "params": {"lr": 0.1, "deep": True, "layers": 3, "note": "x"},
    "tags": {"team": "vision"},
    "note": "a word",
    "pid": 4711,
    "status": Status.FAILED,
    "reason": "exit code 3",
    "flags": ("left_running", "oom_killed"),
    "exit_code": 3,
    "signal": 9,
    "error": "none",
    "limits": Limits(4.5, 8 << 30, 7200.0, 2, 60.0, True),
    "usage": Usage(**{name: number for number, name in enumerate(fields(Usage))}),
    "sources": {"cpu": "rusage"},
    "incomplete": ("cpu: why",),
    "monitor": Monitor(1.0, 0.5, 4096),
    "grace_seconds": 2.5,
    "shim": Identity("boot", 12, 34),
    "recorder": Identity("boot", 56, None),
    "stop_request": StopRequest("jobtop stop", 1_700_000_001.0),
    "settled": False,
}


def test_a_job_comes_back_as_it_went_in(jobs: Jobs) -> None:
    job = made_job(**FULL)
    kept = jobs.insert(job)
    assert kept == replace(job, seq=1)
    assert jobs.find(job.id) == kept


def test_what_is_absent_comes_back_absent(jobs: Jobs) -> None:
    job = running_job(recorder=None, submitted_at=None, start_time=None)
    assert replace(jobs.find(jobs.insert(job).id), seq=None) == job


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_any_text_is_kept_exactly(jobs: Jobs, text: str) -> None:
    texts = {"name": text, "note": text, "tool": text, "script": text, "cwd": text, "external_id": text, "reason": text}
    job = made_job(command=(text, "x"), tags={text: text}, params={text: text}, error=text, user=text, **texts)
    kept = jobs.insert(job, event("submitted", word=text))
    assert jobs.find(job.id) == replace(job, seq=1)
    assert jobs.find(text).id == job.id
    assert jobs.events(kept)[0].detail == {"word": text}
    assert [found.id for found in jobs.select(Query(tag=f"{text.partition('=')[0]}"))] == (
        [job.id] if "=" not in text else []
    )
    assert [found.id for found in jobs.select(Query(tool=text))] == [job.id]


def test_a_number_is_never_given_twice(jobs: Jobs) -> None:
    first, second = jobs.insert(made_job()), jobs.insert(made_job())
    jobs.delete(second)
    assert (first.seq, second.seq, jobs.insert(made_job()).seq) == (1, 2, 3)


def test_the_same_id_is_not_taken_twice(jobs: Jobs) -> None:
    job = jobs.insert(made_job())
    with pytest.raises(StoreError, match="UNIQUE"):
        jobs.insert(replace(job, seq=None))
    assert len(jobs.select(Query())) == 1


def test_changes_by_many_at_once_are_all_kept(jobs: Jobs, tmp_path: Path) -> None:
    job = jobs.insert(made_job())

    def flagged(flag: str) -> Callable[[Job], tuple[Job, tuple[Event, ...]]]:
        return lambda row: (replace(row, flags=(*row.flags, flag)), (event(flag),))

    def add(number: int) -> None:
        database = open_to_write(StatePaths(tmp_path / "state", HERE))
        for turn in range(5):
            Jobs(database).change(job.id, flagged(f"{number}.{turn}"))
        database.close()

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    expected = {f"{number}.{turn}" for number in range(4) for turn in range(5)}
    assert set(jobs.find(job.id).flags) == expected
    assert {happened.kind for happened in jobs.events(job)} == expected


def test_a_change_that_fails_changes_nothing(jobs: Jobs) -> None:
    job = jobs.insert(made_job())

    def fail(row: Job) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        jobs.change(job.id, fail)
    assert jobs.find(job.id) == job


def test_a_job_that_was_removed_cannot_be_changed(jobs: Jobs) -> None:
    job = jobs.insert(made_job())
    jobs.delete(job)
    with pytest.raises(UnknownJob, match="any more"):
        jobs.change(job.id, lambda row: (row, ()))


ID = "abcd1234-0000-4000-8000-000000000000"


@pytest.mark.parametrize("reference", [ID, ID[:4], ID[:8], ID[:9], ID[:-1], ID.upper(), "slurm-17", "é|π"])
def test_a_job_is_found_by_its_id_a_prefix_of_it_or_its_external_id(jobs: Jobs, reference: str) -> None:
    jobs.insert(made_job(id=ID, external_id="é|π" if reference == "é|π" else "slurm-17"))
    jobs.insert(made_job(id=ID.replace("abcd", "abce")))
    assert jobs.find(reference).id == ID


@pytest.mark.parametrize(
    "reference",
    [
        "ab",
        "abc",
        "",
        "abc%",
        "abc_",
        "abc*",
        "____",
        "%%%%",
        "bcd1",
        "abcd1234-1",
        "slurm",
        "abcdg",
        "\udcff\udcfe\udcfd\udcfc",
    ],
)
def test_an_unknown_reference_is_named_with_a_remedy(jobs: Jobs, reference: str) -> None:
    jobs.insert(made_job(id=ID, external_id="slurm-17"))
    with pytest.raises(UnknownJob, match="jobtop history"):
        jobs.find(reference)


def test_an_ambiguous_prefix_lists_the_jobs_it_fits(jobs: Jobs) -> None:
    for number in range(3):
        jobs.insert(made_job(id=f"abcd1{number}34-0000-4000-8000-000000000000", name=f"na\nme {number}"))
    with pytest.raises(AmbiguousJob, match="abcd") as caught:
        jobs.find("ABCD1")
    message = str(caught.value)
    assert all(f"abcd1{number}34" in message and f"na\\nme {number}" in message for number in range(3))
    assert jobs.find("abcd11").name == "na\nme 1"


def test_a_long_list_of_candidates_is_cut(jobs: Jobs) -> None:
    for number in range(12):
        jobs.insert(made_job(id=f"abcd{number:04}-0000-4000-8000-000000000000"))
    with pytest.raises(AmbiguousJob, match="…") as caught:
        jobs.find("abcd")
    assert str(caught.value).count("(train)") == 8


def test_an_external_id_of_two_jobs_is_ambiguous(jobs: Jobs) -> None:
    jobs.insert(made_job(external_id="task"))
    jobs.insert(made_job(external_id="task"))
    with pytest.raises(AmbiguousJob, match="task"):
        jobs.find("task")


@pytest.fixture
def varied(jobs: Jobs) -> Jobs:
    """Four jobs, numbered in the order they came, each different in everything one can ask for."""
    rows: list[dict[str, Any]] = [
        {"name": "train-a", "tool": "torch", "tags": {"team": "x", "gpu": "1"}, "start_time": 400.0},
        {"name": "Train-b", "tool": "jax", "tags": {"team": "y"}, "start_time": 300.0, "status": Status.FAILED},
        {"name": "eval[1]", "tool": "torch", "tags": {"a=b": "c=d"}, "start_time": 200.0, "status": Status.TIMEOUT},
        {"name": "zeta", "tool": None, "start_time": None, "submitted_at": 100.0, "status": Status.QUEUED},
    ]
    for row in rows:
        jobs.insert(made_job(**row))
    return jobs


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(), [4, 3, 2, 1]),
        (Query(reverse=True), [1, 2, 3, 4]),
        (Query(limit=2), [4, 3]),
        (Query(limit=None), [4, 3, 2, 1]),
        (Query(tool="torch"), [3, 1]),
        (Query(tool="TORCH"), []),
        (Query(statuses=("failed",)), [2]),
        (Query(statuses=("failed", "timeout")), [3, 2]),
        (Query(name_glob="train*"), [1]),
        (Query(name_glob="?rain-?"), [2, 1]),
        (Query(name_glob="eval[[]1]"), [3]),
        (Query(name_glob="train"), []),
        (Query(tag="team"), [2, 1]),
        (Query(tag="team=x"), [1]),
        (Query(tag="gpu=1"), [1]),
        (Query(tag="team="), []),
        (Query(since=250.0), [2, 1]),
        (Query(since=50.0), [4, 3, 2, 1]),
        (Query(tool="torch", statuses=("success",), tag="team=x", name_glob="*", since=1.0), [1]),
        (Query(sort="start"), [1, 2, 3, 4]),
        (Query(sort="start", reverse=True), [3, 2, 1, 4]),
        (Query(sort="name", reverse=True), [3, 1, 2, 4]),
    ],
    ids=str,
)
def test_a_query_selects_and_orders(varied: Jobs, query: Query, expected: list[int]) -> None:
    assert [job.seq for job in varied.select(query)] == expected


PRICES = Prices(kwh=0.3, cpu_hour=0.1)
VALUES: dict[str, Callable[[Job], Any]] = {
    "begun": lambda job: job.start_time or job.submitted_at,
    "seq": lambda job: job.seq,
    "start": lambda job: job.start_time,
    "end": lambda job: job.end_time,
    "duration": lambda job: job.duration_seconds,
    "cpu": lambda job: job.usage.cpu_total_seconds,
    "efficiency": lambda job: job.usage.cpu_efficiency,
    "memory": lambda job: job.usage.memory_peak_bytes,
    "read": lambda job: job.usage.io_read_bytes,
    "write": lambda job: job.usage.io_write_bytes,
    "io": lambda job: (job.usage.io_read_bytes or 0) + (job.usage.io_write_bytes or 0) or None,
    "name": lambda job: job.name.lower(),
    "tool": lambda job: None if job.tool is None else job.tool.lower(),
    "host": lambda job: job.host,
    "user": lambda job: job.user,
    "status": lambda job: job.status,
    "exit": lambda job: job.exit_code,
    "energy": lambda job: cost_of(job, PRICES).joules,
    "cost": lambda job: cost_of(job, PRICES).money,
}


@pytest.mark.parametrize("key", SORT_KEYS)
def test_every_sort_key_puts_the_largest_first_and_the_absent_last(jobs: Jobs, key: str) -> None:
    for number, spin in ((5, 2), (9, 7), (7, 9), (8, 1)):
        usage = Usage(
            cpu_total_seconds=1.0 * spin,
            cpu_efficiency=0.1 * number,
            memory_peak_bytes=10 * spin,
            io_read_bytes=20 * number,
            io_write_bytes=30 * spin,
            energy_cpu_joules=50.0 * number,
        )
        times = {"start_time": 10.0 * number, "end_time": 20.0 * spin, "duration_seconds": 3.0 * spin}
        status = Status.FAILED if spin > 5 else Status.SUCCESS
        words = {"name": f"{'Nn'[spin % 2]}{number}", "tool": f"{'Tt'[number % 2]}{spin}", "host": f"h{number}"}
        jobs.insert(made_job(usage=usage, exit_code=spin, status=status, user=f"u{spin}", **words, **times))
    jobs.insert(running_job(name="", start_time=None, status=Status.CANCELLED))
    value = VALUES[key]
    found = [value(job) for job in jobs.select(Query(sort=key, prices=PRICES))]
    backwards = [value(job) for job in jobs.select(Query(sort=key, reverse=True, prices=PRICES))]
    present = [item for item in found if item is not None]
    assert len(set(map(str, present))) > 1
    assert present == sorted(present, reverse=True)
    assert [item for item in backwards if item is not None] == sorted(present)
    for order in (found, backwards):
        absent = [item is None for item in order]
        assert absent == sorted(absent)


def test_a_wrong_sort_key_is_named_with_the_nearest() -> None:
    assert [sort_key(key) for key in SORT_KEYS] == list(SORT_KEYS)
    with pytest.raises(BadValue, match=r'"memroy".*"memory"') as wrong:
        sort_key("memroy")
    assert ", ".join(SORT_KEYS).replace("begun", "newest") in str(wrong.value)
    assert sort_key("newest") == "begun"


def test_events_come_in_the_order_they_happened(jobs: Jobs) -> None:
    job = jobs.insert(made_job(), Event(1.0, "submitted", {}), Event(1.0, "started", {"pid": 3}))
    jobs.change(job.id, lambda row: (row, (Event(0.5, "late", {"why": None}),)))
    assert jobs.events(job) == [
        Event(1.0, "submitted", {}),
        Event(1.0, "started", {"pid": 3}),
        Event(0.5, "late", {"why": None}),
    ]


def test_log_marks_are_stored_once_and_in_order(jobs: Jobs) -> None:
    job, other = jobs.insert(made_job()), jobs.insert(made_job())
    jobs.add_log_marks(job, [(2.0, 30, None), (1.0, 10, 5)])
    jobs.add_log_marks(job, [(1.0, 99, 99), (3.0, 40, 7)])
    jobs.add_log_marks(other, [(1.0, 1, 1)])
    assert jobs.log_marks(job) == [(1.0, 10, 5), (2.0, 30, None), (3.0, 40, 7)]


def test_deleting_a_job_deletes_its_events_and_log_marks(jobs: Jobs) -> None:
    job, other = jobs.insert(made_job(), event("a")), jobs.insert(made_job(), event("b"))
    for each in (job, other):
        jobs.add_log_marks(each, [(1.0, 1, 1)])
    jobs.delete(job)
    assert (jobs.events(job), jobs.log_marks(job)) == ([], [])
    assert (len(jobs.events(other)), len(jobs.log_marks(other))) == (1, 1)
    assert jobs.select(Query()) == [other]


def test_only_the_open_jobs_of_a_host_are_unsettled(jobs: Jobs) -> None:
    mine = jobs.insert(running_job())
    jobs.insert(running_job(host="elsewhere"))
    jobs.insert(made_job())
    assert [job.id for job in jobs.unsettled(HERE)] == [mine.id]


def test_a_shell_completes_to_the_newest_ids(jobs: Jobs) -> None:
    for number in range(3):
        jobs.insert(made_job(id=f"abc{number}0000-0000-4000-8000-000000000000", name=f"n{number}"))
    assert [name for _, name in jobs.ids_with_prefix("abc")] == ["n2", "n1", "n0"]
    assert [name for _, name in jobs.ids_with_prefix("abc1")] == ["n1"]
    assert len(jobs.ids_with_prefix("")) == 3
    assert jobs.ids_with_prefix("x") == jobs.ids_with_prefix("\udcff") == []


def test_a_follower_gets_each_change_once(jobs: Jobs) -> None:
    first, second = jobs.insert(made_job()), jobs.insert(made_job())
    shown, touch = jobs.changed_since(0)
    assert [job.id for job in shown] == [first.id, second.id]
    assert jobs.changed_since(touch) == ([], touch)
    changed = jobs.change(first.id, lambda row: (replace(row, note="x"), ()))
    jobs.change(second.id, lambda row: (row, ()))
    shown, touch = jobs.changed_since(touch)
    assert shown == [changed]
    assert jobs.changed_since(touch)[0] == []


def test_a_follower_sees_a_job_that_is_added_after_the_newest_was_deleted(jobs: Jobs) -> None:
    first = jobs.insert(made_job())
    touch = jobs.changed_since(0)[1]
    jobs.delete(first)
    second = jobs.insert(made_job())
    assert [job.id for job in jobs.changed_since(touch)[0]] == [second.id]


def test_queued_jobs_and_live_jobs_of_this_recorder_are_not_unsettled(jobs: Jobs) -> None:
    mine, other, waiting = this_process(), Identity("another boot", NO_PROCESS, 1), Status.QUEUED
    begun = [jobs.insert(running_job(recorder=recorder)) for recorder in (mine, other, None)]
    jobs.insert(running_job(status=waiting, queue=Queued(), recorder=None))
    begun.append(jobs.insert(running_job(status=waiting, queue=Queued(), recorder=other)))
    begun.append(jobs.insert(made_job(status=Status.LOST, recorder=mine, settled=False)))
    assert jobs.unsettled(HERE) == begun
    assert jobs.unsettled(HERE, not_recorded_by=mine) == begun[1:], (
        "the last one has ended: it is not recorded any more"
    )
