"""What tells runs of one name apart."""

from jobtop.core.text.telling_apart import differences, differing_words
from records import made_job


def test_parameters_that_differ_are_named_and_others_are_not() -> None:
    jobs = [made_job(name="train", params={"lr": lr, "data": "c10"}, command=("t.py",)) for lr in (0.1, 0.2)]
    assert [differences(jobs)[job.id] for job in jobs] == ["lr=0.1", "lr=0.2"]


def test_a_parameter_that_one_run_does_not_have_differs() -> None:
    jobs = [made_job(name="train", params={"lr": 1}), made_job(name="train", params={"lr": 1, "seed": 3})]
    assert differences(jobs) == {jobs[0].id: "", jobs[1].id: "seed=3"}


def test_without_parameters_the_words_of_the_command_tell_runs_apart() -> None:
    commands = [("python", "t.py", "--lr", "0.1", "out"), ("python", "t.py", "--lr", "0.2", "--fast", "out")]
    jobs = [made_job(name="t", command=command) for command in commands]
    assert [differences(jobs)[job.id] for job in jobs] == ["0.1", "0.2 --fast"]


def test_runs_that_do_not_differ_and_names_that_come_once_have_nothing() -> None:
    same = [made_job(name="a", command=("true",)), made_job(name="a", command=("true",)), made_job(name="b")]
    assert differences(same) == {}


def test_words_at_both_ends_that_all_have_are_left_out() -> None:
    assert differing_words([["a", "a"], ["a"]]) == [["a"], []]
    assert differing_words([["x", "1", "y"], ["x", "2", "y"]]) == [["1"], ["2"]]
