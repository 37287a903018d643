"""Turns of jobs, and sources that read idle jobs in turns."""

from pathlib import Path

from jobtop.core.measure.collectors.cgroup_source import IDLE_REREAD_SAMPLES, CgroupSource
from jobtop.core.measure.collectors.process_source import ProcessSource
from jobtop.core.measure.collectors.turns import Turns
from jobtop.core.record import replace
from processes import FakeProc, below

SHIM = 50


def test_a_key_has_its_turn_once_after_so_many_calls() -> None:
    turns = Turns()
    turns.set("a", 2)
    turns.set("b", 0)
    assert [turns.next_call() for _ in range(3)] == [["b"], ["a"], []]


def test_a_later_turn_replaces_an_earlier_one_and_a_forgotten_key_has_none() -> None:
    turns = Turns()
    turns.set("a", 1)
    turns.set("a", 3)
    turns.set("b", 2)
    turns.forget("b")
    assert [turns.next_call() for _ in range(4)] == [[], [], ["a"], []]


def test_the_cgroup_of_an_idle_job_is_read_in_its_turn_and_that_of_an_active_one_at_once(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    fake.put(1, 0)
    fake.put(SHIM, 1)
    fake.put(100, SHIM, cpu=1.0)
    usage = tmp_path / "memory.current"
    usage.write_text("1000\n")
    processes = ProcessSource(fake.table())
    source = CgroupSource(processes)
    jobs = {"job": replace(below(SHIM), cgroups=(str(tmp_path),))}

    def told(calls: int) -> list[float]:
        answers = []
        for _ in range(calls):
            processes.collect(jobs)
            answers += [values["mem.cgroup"] for values in source.collect(jobs).jobs.values()]
        return answers

    assert told(1) == [1000]
    while told(1):  # until its processes stand still
        pass
    usage.write_text("500\n")
    assert told(IDLE_REREAD_SAMPLES) == [500]
    assert told(3 * IDLE_REREAD_SAMPLES) == [], "it has not changed"
    usage.write_text("700\n")
    fake.put(100, SHIM, cpu=2.0)
    assert told(1) == [700]
    source.forget("job")
    processes.close()
