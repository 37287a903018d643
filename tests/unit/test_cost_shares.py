"""The CPU time of one recorder is divided among the jobs that it samples."""

import pytest

from jobtop.core.measure.cost_shares import SharedCost


class Clock:
    """CPU time that passes when the test says so."""

    def __init__(self) -> None:
        self.seconds = 5.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cost(clock: Clock) -> SharedCost:
    return SharedCost(clock)


def test_one_job_bears_what_was_used_while_it_was_there(cost: SharedCost, clock: Clock) -> None:
    clock.seconds += 1
    cost.join("a")
    clock.seconds += 2
    assert cost.leave("a") == 2
    clock.seconds += 4
    cost.join("b")
    assert cost.leave("b") == 0


def test_jobs_that_are_there_at_once_share_it(cost: SharedCost, clock: Clock) -> None:
    cost.join("a")
    clock.seconds += 1
    cost.join("b")
    clock.seconds += 3
    assert cost.leave("a") == 2.5
    clock.seconds += 1
    assert cost.leave("b") == 2.5


def test_all_that_was_used_while_jobs_ran_is_divided_among_them(cost: SharedCost, clock: Clock) -> None:
    borne = 0.0
    for number in range(20):
        cost.join(str(number))
        clock.seconds += 0.1 * number
        if number % 3 == 2:
            borne += cost.leave(str(number - 1)) or 0.0
    borne += sum(cost.leave(str(number)) or 0.0 for number in range(20))
    assert borne == pytest.approx(clock.seconds - 5.0)


def test_of_a_job_that_never_joined_nothing_is_known(cost: SharedCost) -> None:
    assert cost.leave("a") is None
    cost.join("a")
    cost.leave("a")
    assert cost.leave("a") is None
