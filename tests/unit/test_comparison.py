"""Jobs are compared with the first: by how much, whether that is better, and what they were asked otherwise."""

import pytest

from jobtop.core.analysis.comparison import Change, ChangeVerdict, Total, differences, differing_words, totals
from jobtop.core.model import Job, Limits, Status, Usage
from records import made_job


def total(label: str, *jobs: Job) -> Total:
    return next(row for row in totals(jobs) if row.measure.label == label)


def test_less_time_is_better_and_more_is_worse() -> None:
    row = total("time", *(made_job(duration_seconds=seconds) for seconds in (100.0, 75.0, 150.0)))
    assert row.change(1) == Change(-25.0, -0.25, ChangeVerdict.BETTER)
    assert row.change(2) == Change(50.0, 0.5, ChangeVerdict.WORSE)


def test_more_efficiency_is_better() -> None:
    row = total("efficiency", *(made_job(usage=Usage(cpu_efficiency=share)) for share in (0.25, 0.5)))
    assert row.change(1) == Change(0.25, 1.0, ChangeVerdict.BETTER)


def test_less_than_a_percent_is_the_same() -> None:
    row = total("time", made_job(duration_seconds=1000.0), made_job(duration_seconds=1009.0))
    assert row.change(1).verdict is ChangeVerdict.SAME


def test_what_was_read_is_not_judged() -> None:
    row = total("read", *(made_job(usage=Usage(io_read_bytes=size)) for size in (10, 30)))
    assert row.change(1) == Change(20, 2.0, ChangeVerdict.UNJUDGED)


def test_of_nothing_there_is_no_share_but_a_difference() -> None:
    row = total("hard faults", *(made_job(usage=Usage(faults_major=count)) for count in (0, 7)))
    assert row.change(1) == Change(7, None, ChangeVerdict.WORSE)


@pytest.mark.parametrize("known", [0, 1])
def test_an_unknown_number_has_no_difference(known: int) -> None:
    usages = [Usage(), Usage()]
    usages[known] = Usage(memory_peak_bytes=5)
    row = total("memory peak", *(made_job(usage=usage) for usage in usages))
    assert row.change(1) == Change(None, None, ChangeVerdict.UNJUDGED)


def test_an_unknown_measure_is_left_out() -> None:
    assert [row.measure.label for row in totals([made_job(), made_job()])] == ["time", "exit code"]


def test_jobs_that_were_asked_the_same_do_not_differ() -> None:
    assert differences([made_job(), made_job()]) == []


def test_what_was_asked_otherwise_is_named() -> None:
    first = made_job(params={"lr": 0.1, "depth": 3}, tags={"team": "a"}, limits=Limits(memory_bytes=8 << 30))
    second = made_job(
        name="other",
        status=Status.FAILED,
        params={"lr": 0.01, "depth": 3},
        host="node-17",
        command=("python", "train.py", "--fast"),
        limits=Limits(memory_bytes=16 << 30, timeout_seconds=90.0, enforced=True),
    )
    found = {row.label: row.values for row in differences([first, second])}
    assert found == {
        "name": ("train", "other"),
        "status": ("success", "failed"),
        "command": ("… train.py", "… train.py --fast"),
        "param lr": ("0.1", "0.01"),
        "tag team": ("a", None),
        "host": (first.host, "node-17"),
        "limit memory": ("8.0 GiB", "16.0 GiB"),
        "limit timeout": (None, "1m30s"),
        "limit enforced": (None, "yes"),
    }


@pytest.mark.parametrize(
    ("commands", "shown"),
    [
        (["a --lr 0.1 b", "a --lr 0.2 b"], ("… --lr 0.1 …", "… --lr 0.2 …")),
        (["a", "b"], ("a", "b")),
        (["a x", "a x y"], ("… x", "… x y")),
        (["a a", "a"], ("a a", "a")),
        (["x a", "y a"], ("x …", "y …")),
        (["", "a"], ("…", "a")),
    ],
)
def test_of_commands_the_words_that_differ_are_shown(commands: list[str], shown: tuple[str, ...]) -> None:
    assert differing_words([command.split() for command in commands]) == shown
