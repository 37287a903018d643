"""The sampler's grid, its budget, and that it forgets ended jobs."""

import os
import threading
import time
from pathlib import Path

import pytest

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors.members import Tree
from jobtop.core.measure.sampler import DETAILS_SHARE, LARGEST_STRETCH, Batch, Sampler
from jobtop.core.measure.sources import Options
from jobtop.core.measure.watch import FEWEST_QUIET, QUIET_AFTER, QUIET_TICKS, Watch
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Identity
from jobtop.core.run.limits import Guard
from processes import MIB, FakeProc, below
from support import wait_for

SHIM = 50


class Clock:
    """A clock that stands until it is told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    proc = FakeProc(tmp_path / "proc")
    proc.put(1, 0)
    proc.put(SHIM, 1)
    proc.put(51, SHIM, cpu=1.0)
    return proc


def sampler_of(fake: FakeProc, clock: Clock, budget: float = 100.0) -> Sampler:
    made = Sampler(lambda _: None, budget, options=Options(proc=str(fake.root)), monotonic=clock)
    made.table.clock = fake.clock
    return made


def boottime() -> float:
    return time.clock_gettime(BOOTTIME)


def test_the_first_sample_is_at_once_and_the_others_on_the_grid(fake: FakeProc) -> None:
    clock = Clock()
    sampler = sampler_of(fake, clock)
    clock.now += 0.3
    sampler.watch("1", below(SHIM, boottime()), interval=1.0)
    taken = []
    for _ in range(40):
        if sampler.tick():
            taken.append(round(clock.now, 3))
        clock.now += 0.1
    assert taken == [1000.3, 1001.0, 1002.0, 1003.0, 1004.0]


def test_a_job_that_comes_after_all_have_ended_is_not_sampled_twice_at_once(fake: FakeProc) -> None:
    clock = Clock()
    sampler = sampler_of(fake, clock)
    sampler.watch("1", below(SHIM, boottime()), interval=1.0)
    assert sampler.tick()
    sampler.forget("1")
    clock.now += 60.4
    sampler.watch("2", below(SHIM, boottime()), interval=1.0)
    assert len(sampler.tick().samples) == 1
    clock.now += 0.003
    assert not sampler.tick()
    assert sampler.next_due() == 1061.0


def test_ticks_that_were_missed_are_not_made_up_for(fake: FakeProc) -> None:
    clock = Clock()
    sampler = sampler_of(fake, clock)
    sampler.watch("1", below(SHIM, boottime()), interval=1.0)
    sampler.tick()
    clock.now += 3600.25
    assert len(sampler.tick().samples) == 1
    assert not sampler.tick()
    clock.now += 0.75
    assert len(sampler.tick().samples) == 1


@pytest.mark.parametrize(("late_seconds", "next_due"), [(0.05, 1000.2), (0.0795, 1000.2), (0.0995, 1000.3)])
def test_no_sample_follows_a_late_one_at_once(fake: FakeProc, late_seconds: float, next_due: float) -> None:
    clock = Clock()
    sampler = sampler_of(fake, clock)
    sampler.watch("1", below(SHIM, boottime()), interval=0.1)
    sampler.tick()
    clock.now += 0.1 + late_seconds
    assert len(sampler.tick().samples) == 1
    assert sampler.next_due() == pytest.approx(next_due)


@pytest.mark.parametrize(("age", "seconds"), [(0, 1), (3599, 1), (3600, 5), (14399, 5), (14400, 10), (1e9, 10)])
def test_an_older_job_is_sampled_less_often(age: float, seconds: float) -> None:
    assert Watch("1", below(SHIM), Tree(SHIM), None).interval_at(age) == seconds


def test_an_interval_that_was_asked_for_holds_at_any_age() -> None:
    assert Watch("1", below(SHIM), Tree(SHIM), 0.5).interval_at(1e6) == 0.5


def test_jobs_of_different_intervals_are_sampled_each_at_its_own(fake: FakeProc) -> None:
    clock = Clock()
    sampler = sampler_of(fake, clock)
    fake.put(60, 1)
    sampler.watch("1", below(SHIM, boottime()), interval=1.0)
    sampler.watch("2", below(60, boottime()), interval=5.0)
    counts = {"1": 0, "2": 0}
    for _ in range(10):
        for key, _ in sampler.tick().samples:
            counts[key] += 1
        clock.now += 1.0
    assert counts == {"1": 10, "2": 2}


def test_over_budget_expensive_files_thin_out_then_the_interval_stretches_and_both_come_back(fake: FakeProc) -> None:
    clock = Clock()
    sampler = sampler_of(fake, clock, budget=1e-9)
    sampler.watch("1", below(SHIM, boottime()), interval=1.0)
    sampler.tick()
    assert sampler.details_share == DETAILS_SHARE  # the first pass meets every process of the machine
    assert not sampler.thinned
    clock.now += 1
    sampler.tick()
    assert sampler.thinned
    assert sampler.details_share < DETAILS_SHARE
    assert sampler.stretch == 1.0
    clock.now += 1
    sampler.tick()
    assert sampler.stretch == 2.0
    clock.now += 1.5
    sampler.tick()
    for _ in range(20):
        clock.now += 1000
        sampler.tick()
    assert sampler.stretch == LARGEST_STRETCH
    sampler.budget = 100.0
    for _ in range(20):
        clock.now += 1000
        sampler.tick()
    assert (sampler.stretch, sampler.details_share) == (1.0, DETAILS_SHARE)


def test_an_interval_that_was_asked_for_has_its_own_budget(fake: FakeProc) -> None:
    clock = Clock()
    sampler = sampler_of(fake, clock, budget=1e-9)
    sampler.asked_budget = 100.0

    def later_stretch() -> float:
        for _ in range(20):
            clock.now += 1000
            sampler.tick()
        return sampler.stretch

    sampler.watch("asked", below(SHIM, boottime()), interval=0.1)
    sampler.watch("other", below(SHIM, boottime()))
    assert later_stretch() == 1.0
    sampler.forget("asked")
    assert later_stretch() == LARGEST_STRETCH
    sampler.watch("asked", below(SHIM, boottime()), interval=0.1)
    assert later_stretch() == 1.0


def test_what_sampling_costs_is_counted(fake: FakeProc) -> None:
    clock = Clock()
    sampler = sampler_of(fake, clock)
    sampler.watch("1", below(SHIM, boottime()), interval=1.0)
    costs = []
    for _ in range(3):
        sampler.tick()
        costs.append(sampler.cpu_seconds)
        clock.now += 1
    assert 0 < costs[0] < costs[1] < costs[2] < 1


def test_a_sample_has_the_columns_of_a_job_and_its_counters_never_fall(fake: FakeProc) -> None:
    clock = Clock()
    sampler = sampler_of(fake, clock)
    sampler.watch("1", below(SHIM, boottime() - 7), interval=1.0)
    [(_, first)] = sampler.tick().samples
    assert 7 <= first.elapsed < 8
    assert len(first.values) == len(JOB_COLUMNS)
    fake.end(51)  # and the shim has not got its times yet
    clock.now += 1
    [(_, second)] = sampler.tick().samples
    place = JOB_COLUMNS.index("cpu.user")
    assert (first.values[place], second.values[place]) == (1.0, 1.0)


def test_forgetting_tells_what_was_last_seen_and_closes_every_descriptor(fake: FakeProc) -> None:
    before = len(os.listdir("/proc/self/fd"))
    sampler = sampler_of(fake, Clock())
    sampler.watch("1", below(SHIM, boottime() - 7), interval=1.0)
    sampler.tick()
    assert len(os.listdir("/proc/self/fd")) > before
    watch = sampler.forget("1")
    assert watch is not None
    assert watch.row[JOB_COLUMNS.index("cpu.user")] == 1.0
    assert len(os.listdir("/proc/self/fd")) == before
    assert sampler.forget("1") is None


def test_the_thread_samples_a_new_job_at_once_and_stops_within_a_tick() -> None:
    kept: list[Batch] = []
    before = len(os.listdir("/proc/self/fd"))
    sampler = Sampler(kept.append)
    sampler.start()
    sampler.watch("1", below(os.getpid(), boottime()), interval=3600.0)
    wait_for(lambda: kept, 2.0)
    began = time.monotonic()
    sampler.stop()
    assert time.monotonic() - began < 1.0
    assert len(kept) == 1
    assert len(os.listdir("/proc/self/fd")) == before
    assert "jobtop-sampler" not in [thread.name for thread in threading.enumerate()]


def test_a_sink_that_fails_ends_nothing_and_is_told_of() -> None:
    calls = []

    def fail(batch: Batch) -> None:
        calls.append(batch)
        raise OSError("disk full")

    sampler = Sampler(fail)
    sampler.watch("1", below(os.getpid(), boottime()), interval=0.02)
    sampler.start()
    wait_for(lambda: len(calls) > 2)
    sampler.stop()
    assert sampler.problem == "OSError: disk full"


def test_a_guarded_job_is_looked_at_between_samples_and_stopped_when_it_is_over(fake: FakeProc) -> None:
    clock, told = Clock(), list[int]()

    def tell(identity: Identity, _: int) -> bool:
        told.append(identity.pid)
        return True

    sampler = sampler_of(fake, clock, budget=0.0)
    guard = Guard(Identity("b", SHIM, 100), 200 * MIB, str(fake.root), tell)
    sampler.watch("1", below(SHIM, boottime()), interval=10.0, guard=guard)
    looks, used = [clock.now], 0
    while not told and len(looks) < 1000:
        used = 10 + round(200 * (clock.now - looks[0]))
        fake.put(51, SHIM, cpu=clock.now, rss=used * MIB)
        batch = sampler.tick()
        next_due = sampler.next_due()
        assert next_due is not None
        clock.now = next_due
        looks.append(clock.now)
    assert told == [SHIM]
    assert 200 < used < 215
    assert len(looks) < 40
    assert [kind for _, _, kind, _ in batch.events] == ["limit_reached"]
    assert len(batch.samples) == 1, "the curve ends with what it was stopped for"
    assert clock.now >= 1010.0, "and then only on the grid"


def cgroup_of(folder: Path, *, cpu: float, anon: int = 0, members: str = "") -> str:
    folder.mkdir(exist_ok=True)
    (folder / "cpu.stat").write_text(f"usage_usec {cpu * 1e6:.0f}\nuser_usec {cpu * 1e6:.0f}\nsystem_usec 0\n")
    (folder / "memory.stat").write_text(f"anon {anon}\nfile 0\nshmem 0\n")
    (folder / "cgroup.procs").write_text(members)
    return str(folder)


def test_cpu_time_of_a_process_that_left_the_job_s_cgroup_counts_and_the_curve_never_falls(
    fake: FakeProc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The ticks of a test follow each other at once.
    monkeypatch.setattr("jobtop.core.measure.collectors.jobs.CORES", 1_000_000)
    clock = Clock()
    sampler = sampler_of(fake, clock)
    folder = tmp_path / "own"
    sampler.watch("1", below(SHIM, boottime() - 100, [cgroup_of(folder, cpu=0.5, members="51\n")]), interval=1.0)
    seconds = []
    for in_cgroup, of_process in ((1.0, 1.0), (1.1, 3.0), (1.1, 4.0), (9.0, 4.1)):
        cgroup_of(folder, cpu=in_cgroup)
        fake.put(51, SHIM, cpu=of_process, user=of_process)
        (_, sample), *_ = sampler.tick().samples
        seconds.append(sum(sample.values[JOB_COLUMNS.index(key)] or 0 for key in ("cpu.user", "cpu.system")))
        clock.now += 1.0
    assert seconds == pytest.approx([1.0, 3.0, 4.0, 9.0])


def test_memory_of_a_process_that_left_the_job_s_cgroup_counts_once(fake: FakeProc, tmp_path: Path) -> None:
    clock = Clock()
    sampler = sampler_of(fake, clock)
    fake.put(52, 51, cpu=1.0, rss=300 * MIB)
    inner = tmp_path / "own" / "inner"
    folder = cgroup_of(tmp_path / "own", cpu=5.0, anon=100 * MIB, members="51\n")
    cgroup_of(inner, cpu=0.0, members="52\n")
    sampler.watch("1", below(SHIM, boottime() - 100, [folder]), interval=1.0)

    def used() -> float | None:
        clock.now += 1.0
        for pid in (51, 52):
            fake.clocks[pid] += 1
        (_, sample), *_ = sampler.tick().samples
        return sample.values[JOB_COLUMNS.index("mem.used")]

    assert used() == 100 * MIB  # all of them are in it, or below
    (inner / "cgroup.procs").write_text("")
    fake.put(52, 51, cpu=2.0, rss=310 * MIB)
    wait_for(lambda: used() == 311 * MIB)
    cgroup_of(tmp_path / "own", cpu=5.0, anon=400 * MIB, members="51\n")
    assert used() == 400 * MIB


def test_a_process_that_works_outside_the_job_s_cgroup_is_looked_for_at_once(fake: FakeProc, tmp_path: Path) -> None:
    clock = Clock()
    sampler = sampler_of(fake, clock)
    folder = cgroup_of(tmp_path / "own", cpu=1.0, anon=MIB, members="51\n")
    sampler.watch("1", below(SHIM, boottime() - 100, [folder]), interval=1.0)
    sampler.tick()
    cgroup_of(tmp_path / "own", cpu=1.0, anon=MIB)
    used = []
    for cpu in (2.0, 3.0):
        clock.now += 1.0
        fake.put(51, SHIM, cpu=cpu, rss=300 * MIB)
        (_, sample), *_ = sampler.tick().samples
        used.append(sample.values[JOB_COLUMNS.index("mem.used")])
    assert used == [MIB, 300 * MIB]


def many_idle_jobs(fake: FakeProc, clock: Clock, count: int, interval: float | None = None) -> Sampler:
    """A sampler of jobs that do nothing, each with a shim 100 + n and a process 1000 + n."""
    sampler = sampler_of(fake, clock)
    for number in range(count):
        fake.put(100 + number, 1)
        fake.put(1000 + number, 100 + number, cpu=1.0)
        sampler.watch(str(number), below(100 + number, boottime() - 60), interval)
    return sampler


def ticks(sampler: Sampler, clock: Clock, count: int) -> list[list[str]]:
    """The keys of the jobs with a sample, of each tick."""
    sampled = []
    for _ in range(count):
        sampled.append([key for key, _ in sampler.tick().samples])
        clock.now += 1.0
    return sampled


def test_of_many_idle_jobs_each_is_sampled_in_its_turn(fake: FakeProc) -> None:
    clock = Clock()
    sampler = many_idle_jobs(fake, clock, 40)
    first = ticks(sampler, clock, 3 * QUIET_AFTER)
    assert len(first[0]) == 40
    later = ticks(sampler, clock, QUIET_TICKS)
    assert [len(keys) for keys in later] == [4] * QUIET_TICKS
    assert sorted(key for keys in later for key in keys) == sorted(map(str, range(40)))


@pytest.mark.parametrize(("count", "interval"), [(FEWEST_QUIET - 1, None), (40, 1.0)])
def test_few_idle_jobs_or_a_chosen_interval_are_sampled_in_every_tick(
    fake: FakeProc, count: int, interval: float | None
) -> None:
    clock = Clock()
    sampler = many_idle_jobs(fake, clock, count, interval)
    assert {len(keys) for keys in ticks(sampler, clock, 3 * QUIET_TICKS)} == {count}


def test_an_idle_job_that_runs_again_gets_a_sample_of_the_tick_before(fake: FakeProc) -> None:
    clock = Clock()
    sampler = many_idle_jobs(fake, clock, 40)
    batches = []
    for _ in range(3 * QUIET_AFTER):
        batches.append(sampler.tick())
        clock.now += 1.0
    before = sampler.watches["7"].row
    in_the_last = {key for key, _ in batches[-1].samples}
    fake.put(1007, 107, cpu=1.001)
    woken = [sample for key, sample in sampler.tick().samples if key == "7"]
    assert [sample.values for sample in woken][:-1] == ([] if "7" in in_the_last else [before])
    place = JOB_COLUMNS.index("cpu.user")
    assert (woken[-1].values[place] or 0) + (woken[-1].values[place + 1] or 0) == pytest.approx(1.001)
    clock.now += 1.0
    assert "7" in [key for key, _ in sampler.tick().samples], "it is sampled in every tick again"


def test_an_idle_job_that_is_forgotten_has_a_sample_of_the_last_tick(fake: FakeProc) -> None:
    clock = Clock()
    sampler = many_idle_jobs(fake, clock, 40)
    handed: list[Batch] = []
    sampler.sink = handed.append
    last: dict[str, float] = {}
    for _ in range(3 * QUIET_AFTER):
        last |= {key: sample.elapsed for key, sample in sampler.tick().samples}
        clock.now += 1.0
    seldom = next(key for key in last if last[key] < max(last.values()) - 1e-3)
    watch = sampler.forget(seldom)
    assert watch is not None
    ((key, sample),) = handed[-1].samples
    assert (key, sample.values) == (seldom, watch.row)
    assert last[seldom] < sample.elapsed == watch.elapsed


def test_the_cost_of_slow_sources_is_counted_and_makes_no_samples_rarer(
    fake: FakeProc, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    sampler = sampler_of(fake, clock, budget=0.5)
    monkeypatch.setattr(sampler.collecting, "take_cost", lambda: 10.0)
    sampler.watch("1", below(SHIM, boottime()), interval=1.0)
    for _ in range(5):
        sampler.tick()
        clock.now += 1.0
    assert sampler.cpu_seconds >= 50.0
    assert (sampler.stretch, sampler.details_share) == (1.0, DETAILS_SHARE)
