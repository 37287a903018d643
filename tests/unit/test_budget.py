"""The budget of sampling for intervals that a user asked for, and the line that says that it will not suffice."""

import pytest
from machines import Machine

from jobtop.core.measure.budget import ASKED_BUDGET, expected_load, shortage_notice
from jobtop.core.measure.engine import chosen
from jobtop.core.model import Identity, Job, Monitor
from jobtop.lifecycle.sampling_budget import shortage_beside_others
from jobtop.store.agents import register
from jobtop.store.jobs import Jobs
from records import call, running_job, this_process
from running import nothing_is_left
from support import Jobtop

__all__ = ["nothing_is_left"]
FAST = Monitor(interval_seconds=0.1)


def budgets(machine: Machine, *sets: str) -> tuple[float, float]:
    settings = chosen(machine.load(*sets), None)
    return settings.budget, settings.asked_budget


def test_five_percent_are_for_intervals_that_were_asked_for_and_a_setting_overrides(machine: Machine) -> None:
    assert budgets(machine) == (0.01, ASKED_BUDGET) == (0.01, 0.05)
    assert budgets(machine, "monitor.budget=0.01") == (0.01, 0.01)
    assert budgets(machine, "monitor.budget=20%") == (0.2, 0.2)


def test_twenty_jobs_ten_times_a_second_fit_and_a_hundred_do_not(machine: Machine) -> None:
    config = machine.load("monitor.interval=0.1")
    assert expected_load([0.1] * 20) < ASKED_BUDGET < expected_load([0.1] * 100)
    assert shortage_notice(config, [0.1] * 19) is None
    notice = shortage_notice(config, [0.1] * 99)
    assert notice is not None
    assert all(word in notice for word in ("100 jobs", "monitor.budget", "5.0 %"))


@pytest.mark.parametrize("sets", [(), ("monitor.interval=0.1", "monitor.enabled=false")])
def test_nothing_is_said_if_no_interval_was_asked_for(machine: Machine, sets: tuple[str, ...]) -> None:
    assert shortage_notice(machine.load(*sets), [0.1] * 1000) is None


def test_only_the_jobs_of_the_agent_count(machine: Machine, jobs: Jobs) -> None:
    config = machine.load("monitor.interval=0.1")

    def insert(recorder: Identity | None) -> Job:
        return jobs.insert(running_job(recorder=recorder, monitor=FAST))

    def notice() -> str | None:
        return shortage_beside_others(config, jobs, new.id)

    new = insert(None)
    register(jobs.database, this_process())
    elsewhere = Identity("boot", 1, 1)
    for _ in range(40):
        insert(elsewhere)
    assert notice() is None
    for _ in range(40):
        insert(this_process())
    assert notice() is not None
    assert shortage_beside_others(machine.load(), jobs, new.id) is None


@pytest.fixture
def crowded(jobs: Jobs) -> None:
    for _ in range(100):
        jobs.insert(running_job(recorder=None, monitor=FAST))


@pytest.mark.usefixtures("nothing_is_left")
def test_submit_says_it_in_one_line(crowded: None) -> None:
    done = call("submit", "--interval", "0.1", "--", "true")
    assert (done.returncode, len(done.stdout.split())) == (0, 1)
    assert [line for line in done.stderr.splitlines() if "monitor.budget" in line] == done.stderr.splitlines()[-1:]
    quiet = call("submit", "--", "true")
    assert "monitor.budget" not in quiet.stderr
    assert call("wait", done.stdout.strip(), quiet.stdout.strip()).returncode == 0


@pytest.mark.parametrize(("budget", "is_said"), [("0.001", True), ("0.05", False)])
def test_run_says_it_too(jobtop: Jobtop, budget: str, is_said: bool) -> None:
    done = jobtop("--set", f"monitor.budget={budget}", "run", "--quiet", "--interval", "0.1", "--", "sleep", "0.5")
    assert (done.returncode, "monitor.budget" in done.stderr) == (0, is_said)
