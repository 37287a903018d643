"""Queued jobs, whoever is killed: each runs once, in its turn, and its record is right."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from agents import Line, Load, line
from jobtop.core.model import Job
from jobtop.core.procfs import status_value
from running import nothing_is_left
from support import wait_for

__all__ = ["line", "nothing_is_left"]

MIB = 1 << 20
ENDS = ("0", "3", "137", "SIGKILL")
GROUP, SLOTS = "few", 8
LONG = [pytest.mark.soak, pytest.mark.timeout(900)]


@pytest.mark.parametrize(("jobs", "kills"), [(10, 4), pytest.param(100, 50, marks=LONG)])
def test_an_agent_killed_at_any_moment_costs_no_job_anything(home: Path, line: Line, jobs: int, kills: int) -> None:
    """And no process is there to start another."""
    dice = random.Random()
    line.queue.set_slots(GROUP, 2 if kills < 10 else SLOTS)
    loads = [Load(home.parent / f"job-{number}", 0.4, ENDS[number % 4]) for number in range(jobs)]
    rows = [line.submit(load.command, group=GROUP) for load in loads]
    line.call_agent()
    killed = 0
    while killed < kills:
        agent = line.new_agent()
        time.sleep(dice.expovariate(1 / 0.2))
        if not {"queued", "running"} & line.statuses().keys():
            break
        os.kill(agent.identity.pid, signal.SIGKILL)
        killed += 1
        wait_for(lambda: line.agent() != agent)  # noqa: B023
    assert killed > kills // 2, "the jobs were over too soon to tell anything"
    line.drained()
    for load, row in zip(loads, rows, strict=True):
        job = line.now(row)
        load.check(job)
        kinds = line.kinds(job)
        assert kinds.count("submitted") == kinds.count("exited") == 1, kinds
    assert slots_used([line.now(row) for row in rows]) <= SLOTS


@pytest.mark.parametrize("jobs", [40, pytest.param(500, marks=LONG)])
def test_jobs_that_are_submitted_at_once_run_in_their_turn(home: Path, line: Line, jobs: int) -> None:
    line.queue.set_slots(GROUP, SLOTS)
    ran = home.parent / "ran"
    rows = [
        line.submit(("sh", "-c", f"echo {number} >> {ran}; sleep 0.2"), group=GROUP, priority=number % 3)
        for number in range(jobs)
    ]
    line.call_agent()
    agent = line.new_agent()
    wait_for(lambda: line.statuses().get("success", 0) >= SLOTS, 60)
    before = status_value(agent.identity.pid, "VmRSS:") * 1024
    most = before
    while line.statuses() != {"success": jobs}:
        most = max(most, status_value(agent.identity.pid, "VmRSS:") * 1024)
        assert line.statuses().keys() <= {"queued", "running", "success"}
        time.sleep(0.01)
    assert most - before < 10 * MIB
    assert sorted(map(int, ran.read_text().split())) == list(range(jobs))
    done = [line.now(row) for row in rows]
    assert slots_used(done) <= SLOTS
    turns = sorted(done, key=lambda job: (-priority(job), job.seq or 0))
    begun = sorted(done, key=lambda job: job.start_time or 0.0)
    # Jobs that may start at the same moment start at once.
    late = [job.seq for place, job in enumerate(turns) if abs(begun.index(job) - place) >= SLOTS]
    assert not late


def priority(job: Job) -> int:
    assert job.queue is not None
    return job.queue.priority


def slots_used(jobs: list[Job]) -> int:
    """How many of them ran at one moment, at most."""
    moments = [(job.start_time or 0.0, 1) for job in jobs] + [(job.end_time or 0.0, -1) for job in jobs]
    most = now = 0
    for _, change in sorted(moments):
        now += change
        most = max(most, now)
    return most
