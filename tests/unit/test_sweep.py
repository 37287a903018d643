"""Arrays and sweeps: which jobs they make, and which values are refused."""

import pytest

from jobtop.core.errors import BadValue
from jobtop.core.run.containers.order import ContainerOrder
from jobtop.core.run.request import Request
from jobtop.core.run.sweep import MOST_JOBS, array_numbers, requests_of, sweep_values

REQUEST = Request(("train", "--lr={lr}", "{index}", "{print $1}", "{other}"), "/")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("1-3", (1, 2, 3)), ("0-20:10", (0, 10, 20)), ("7", (7,)), ("1,4,7-9", (1, 4, 7, 8, 9)), ("5-5", (5,))],
)
def test_numbers_of_an_array(text: str, numbers: tuple[int, ...]) -> None:
    assert array_numbers(text) == numbers


@pytest.mark.parametrize(
    "text",
    ["", "x", "3-1", "1-3:0", "-1", "1-", "1,,2", "1,1", "1-2,2", "1.5", "٣", "1-999999999", "9" * 50, "0-10000"],
)
def test_bad_arrays_are_refused(text: str) -> None:
    with pytest.raises(BadValue):
        array_numbers(text)


def test_values_of_a_sweep() -> None:
    assert sweep_values("lr=0.1,1e-3") == ("lr", ("0.1", "1e-3"))
    assert sweep_values("seed=1..3,9") == ("seed", ("1", "2", "3", "9"))
    assert sweep_values("t=-1..1") == ("t", ("-1", "0", "1"))
    assert sweep_values("path=a=b") == ("path", ("a=b",))


@pytest.mark.parametrize(
    "text", ["", "lr", "lr=", "=1", "lr=1,,2", "index=1", "1x=2", "a b=1", "s=3..1", "s=1,1", "s=0..99999999"]
)
def test_bad_sweeps_are_refused(text: str) -> None:
    with pytest.raises(BadValue):
        sweep_values(text)


def test_each_combination_is_a_job_with_its_values() -> None:
    made = requests_of(REQUEST, (), [("lr", ("0.1", "0.2")), ("batch-size", ("8", "16"))], "a1")
    assert [request.command for request in made][1] == ("train", "--lr=0.1", "2", "{print $1}", "{other}")
    assert [request.params for request in made] == [
        {"lr": lr, "batch-size": size} for lr in (0.1, 0.2) for size in (8, 16)
    ]
    assert made[3].env == {"JOBTOP_ARRAY_INDEX": "4", "JOBTOP_PARAM_LR": "0.2", "JOBTOP_PARAM_BATCH_SIZE": "16"}
    assert {request.tags["array"] for request in made} == {"a1"}


def test_an_array_has_its_numbers_and_may_repeat_a_sweep() -> None:
    made = requests_of(REQUEST, (5, 7), [("lr", ("1", "2"))], "a1")
    assert [request.params for request in made] == [{"lr": lr, "index": index} for lr in (1, 2) for index in (5, 7)]
    assert made[1].env["JOBTOP_ARRAY_INDEX"] == "7"


def test_a_value_with_braces_is_not_filled_in_again() -> None:
    (made,) = requests_of(REQUEST, (), [("lr", ("{index}",))], "a1")
    assert made.command[1] == "--lr={index}"


def test_a_container_gets_the_values_as_variables() -> None:
    request = Request(("train",), "/", kind="container", container=ContainerOrder("image", env={"A": "{index}"}))
    (made,) = requests_of(request, (3,), [], "a1")
    assert made.container is not None
    assert (made.container.env, made.env) == ({"A": "3", "JOBTOP_ARRAY_INDEX": "3"}, {})


def test_too_many_combinations_are_refused_before_they_are_made() -> None:
    values = tuple(map(str, range(MOST_JOBS)))
    with pytest.raises(BadValue, match="100 000 000"):
        requests_of(REQUEST, (), [("a", values), ("b", values), ("c", values)], "a1")
    with pytest.raises(BadValue, match="twice"):
        requests_of(REQUEST, (), [("a", ("1",)), ("a", ("2",))], "a1")
