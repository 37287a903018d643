"""Samples of a machine that was suspended, with a changed clock and reused pids: no rate is wrong or impossible."""

import time
from itertools import pairwise
from pathlib import Path

import pytest

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors.jobs import CORES, within_cores
from jobtop.core.measure.derive import derive
from jobtop.core.measure.sampler import Sampler
from jobtop.core.measure.sources import Options
from jobtop.core.measure.watch import Watch
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Sample
from processes import FakeProc, below

SHIM, WORKER = 50, 51
HOUR = 3600.0


class Clocks:
    """The clocks of a machine; what sleeps is counted by BOOTTIME only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monotonic, self.slept, self.wall = 1000.0, 0.0, 1.7e9
        read = time.clock_gettime

        def clock_gettime(clock: int) -> float:
            return self.monotonic + self.slept if clock == BOOTTIME else read(clock)

        monkeypatch.setattr(time, "clock_gettime", clock_gettime)
        monkeypatch.setattr(time, "time", lambda: self.wall)


class Watched:
    """One job of a fake machine, sampled when the test says so."""

    def __init__(self, clocks: Clocks, fake: FakeProc) -> None:
        self.clocks, self.fake = clocks, fake
        self.sampler = Sampler(
            lambda _: None, 100.0, options=Options(proc=str(fake.root)), monotonic=lambda: clocks.monotonic
        )
        self.sampler.table.clock = fake.clock
        self.sampler.table.most_descriptors = 0  # a kept one would go on reading a file that is gone
        self.sampler.watch("job", below(SHIM, clocks.monotonic), interval=1.0)
        self.events: list[tuple[str, dict[str, object]]] = []
        self.samples: list[Sample] = []
        self.snapshots: list[float] = []
        self.tick()

    @property
    def watch(self) -> Watch:
        return self.sampler.watches["job"]

    def tick(self, seconds: float = 0.0) -> Sample:
        self.clocks.monotonic += seconds
        self.clocks.wall += seconds
        batch = self.sampler.tick()
        [(_, taken)] = batch.samples
        self.events += [(kind, detail) for _, _, kind, detail in batch.events]
        self.samples.append(taken)
        self.snapshots += [moment for _, moment, _ in batch.snapshots]
        return taken

    def percent(self) -> float | int | None:
        return derive(self.samples[-2], self.samples[-1]).values["cpu.percent"]

    def cpu(self) -> float:
        user, system = (self.samples[-1].values[JOB_COLUMNS.index(key)] for key in ("cpu.user", "cpu.system"))
        return (user or 0) + (system or 0)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


@pytest.fixture
def job(clocks: Clocks, tmp_path: Path) -> Watched:
    fake = FakeProc(tmp_path / "proc")
    fake.put(1, 0)
    fake.put(SHIM, 1)
    fake.put(WORKER, SHIM)
    return Watched(clocks, fake)


def test_an_hour_of_sleep_is_a_gap_and_no_rate_is_made_of_it(job: Watched) -> None:
    job.fake.put(WORKER, SHIM, cpu=1.0)
    before = job.tick(1.0)
    assert job.percent() == pytest.approx(100)
    job.clocks.slept += HOUR
    job.clocks.wall += HOUR
    job.fake.put(WORKER, SHIM, cpu=2.0)
    after = job.tick(1.0)
    assert after.elapsed - before.elapsed == pytest.approx(HOUR + 1)
    assert job.percent() == pytest.approx(100 / (HOUR + 1))
    assert job.events == [("suspended", {"seconds": HOUR})]
    job.fake.put(WORKER, SHIM, cpu=3.0)
    job.tick(1.0)
    assert job.percent() == pytest.approx(100)
    assert len(job.events) == 1


def test_snapshots_are_taken_at_the_start_and_then_every_ten_seconds(job: Watched) -> None:
    for second in range(1, 46):
        job.fake.put(WORKER, SHIM, cpu=second / 2)
        job.tick(1.0)
    assert job.snapshots[0] == pytest.approx(0)
    assert job.snapshots[1] <= 10, "jobs that began together are not looked at together"
    steps = [after - before for before, after in pairwise(job.snapshots[1:])]
    assert steps == pytest.approx([10.0] * len(steps), abs=1)
    assert len(steps) >= 3


def test_a_tick_after_the_last_process_exited_takes_no_snapshot(job: Watched) -> None:
    job.fake.put(WORKER, SHIM, cpu=0.5)
    last = job.tick(1.0)
    job.fake.end(WORKER)
    taken = len(job.snapshots)
    job.tick(60.0)
    assert not job.watch.tree.members
    assert len(job.snapshots) == taken
    elapsed, moment = job.watch.last_members
    assert elapsed == last.elapsed
    assert moment == pytest.approx(job.clocks.monotonic - 60.0)


def test_a_clock_that_is_set_back_changes_nothing(job: Watched) -> None:
    taken = []
    for second in range(1, 6):
        job.clocks.wall -= HOUR if second == 3 else -HOUR if second == 5 else 0
        job.fake.put(WORKER, SHIM, cpu=float(second))
        taken.append(job.tick(1.0).elapsed)
        assert job.percent() == pytest.approx(100)
    assert taken == pytest.approx([1.0, 2.0, 3.0, 4.0, 5.0])
    assert job.events == []


def test_a_pid_that_is_anothers_by_the_next_tick_makes_no_leap(job: Watched) -> None:
    job.fake.put(WORKER, SHIM, cpu=0.9)
    job.tick(1.0)
    job.fake.end(WORKER)
    job.fake.put(WORKER, SHIM, start=900, cpu=0.1)
    job.fake.put(SHIM, 1, cpu=0.01, children=(1.2, 0.0))
    job.tick(1.0)
    assert job.cpu() == pytest.approx(1.3)
    assert job.percent() == pytest.approx(40)


def test_a_pid_that_another_process_has_by_the_next_tick_adds_nothing(job: Watched) -> None:
    job.fake.put(WORKER, SHIM, cpu=0.9)
    job.tick(1.0)
    job.fake.end(WORKER)
    job.fake.put(WORKER, 1, start=900, cpu=500.0)
    job.fake.put(SHIM, 1, cpu=0.01, children=(1.0, 0.0))
    job.tick(1.0)
    assert job.cpu() == pytest.approx(1.0)
    assert job.percent() == pytest.approx(10)


def test_more_than_the_cores_can_give_comes_later(job: Watched) -> None:
    """What the kernel tells in steps of 10 ms is a little late; no sample is above all cores for that."""
    job.fake.put(WORKER, SHIM, cpu=CORES + 0.05)
    job.tick(1.0)
    assert job.percent() == pytest.approx(100 * CORES)
    job.fake.put(WORKER, SHIM, cpu=CORES + 0.06)
    job.tick(1.0)
    assert job.cpu() == pytest.approx(CORES + 0.06)
    assert job.watch.impossible_seconds == 0


def test_what_comes_later_comes_though_no_process_runs_any_more(job: Watched) -> None:
    job.fake.put(WORKER, SHIM, cpu=CORES + 0.05)
    job.tick(1.0)
    assert job.cpu() == pytest.approx(CORES)
    job.tick(1.0)
    assert job.cpu() == pytest.approx(CORES + 0.05)


def test_much_more_than_the_cores_can_give_is_remembered_as_impossible(job: Watched) -> None:
    job.fake.put(WORKER, SHIM, cpu=HOUR)
    job.tick(1.0)
    assert job.percent() == pytest.approx(100 * CORES)
    assert job.watch.impossible_seconds == pytest.approx(HOUR - CORES)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_in_no_time_nothing_is_possible(seconds: float) -> None:
    before, after = {"cpu.user": 1.0, "cpu.system": 0.0}, {"cpu.user": 2.0, "cpu.system": 1.0, "mem.rss": 7}
    held, excess = within_cores(before, after, seconds)
    assert (held, excess) == ({"cpu.user": 1.0, "cpu.system": 0.0, "mem.rss": 7}, 2.0)


def test_what_is_held_back_keeps_the_split_it_had() -> None:
    held, excess = within_cores({}, {"cpu.user": 3.0 * CORES, "cpu.system": 1.0 * CORES}, 1.0)
    assert held == {"cpu.user": pytest.approx(0.75 * CORES), "cpu.system": pytest.approx(0.25 * CORES)}
    assert excess == pytest.approx(3.0 * CORES)


def test_without_cpu_times_nothing_is_held_back() -> None:
    assert within_cores({}, {"mem.rss": 7}, 0.0) == ({"mem.rss": 7}, 0.0)
