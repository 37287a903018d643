"""Sources of numbers: what they read is in the batch; one that fails, hangs or is missing costs its own numbers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure import sources
from jobtop.core.measure.collecting import Collecting
from jobtop.core.measure.collectors.gpu import nvidia_driver
from jobtop.core.measure.collectors.host.reading import HostCollector
from jobtop.core.measure.collectors.host.source import HostSource
from jobtop.core.measure.device import Device
from jobtop.core.measure.sampler import Batch, Sampler
from jobtop.core.measure.source import Readings
from jobtop.core.measure.source_runs import (
    LONGEST_END_SECONDS,
    MOST_CORES,
    SLOWEST,
    STALE_INTERVALS,
    SlowRun,
    SourceStatus,
)
from jobtop.core.measure.sources import Options
from jobtop.core.measure.target import Target
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Identity
from processes import FakeProc, below
from support import wait_for
from trees import DATA

if TYPE_CHECKING:
    from jobtop.core.measure.source import Jobs
    from jobtop.core.measure.watch import Watch

SHIM = 50
GPU = Device("gpu", "0")
QUICK = 0.02  # seconds between the calls of a slow source


class FakeSource:
    """Reads what the test says, or does what it says instead."""

    def __init__(self, name: str, interval_seconds: float | None = None, reason: str | None = None) -> None:
        self.name, self.interval_seconds, self.reason = name, interval_seconds, reason
        self.answer: Callable[[Jobs], Readings] = lambda _: Readings()
        self.calls = 0
        self.forgotten: list[str] = []
        self.closed = 0
        self.threads: set[int] = set()

    def available(self) -> str | None:
        return self.reason

    def collect(self, jobs: Jobs) -> Readings:
        self.calls += 1
        self.threads.add(threading.get_ident())
        return self.answer(jobs)

    def forget(self, key: str) -> None:
        self.forgotten.append(key)
        self.threads.add(threading.get_ident())

    def close(self) -> None:
        self.closed += 1


def fail(_: Jobs) -> Readings:
    raise RuntimeError("odd driver")


def utilised(percent: float) -> Callable[[Jobs], Readings]:
    """Readings of every job, of a device, of the host, and one that a job gave a name."""

    def answer(jobs: Jobs) -> Readings:
        return Readings(
            jobs={key: {"gpu.util": percent} for key in jobs},
            host={"temp": 40 + percent},
            devices=[(GPU, {"gpu.util": percent, "gpu.temp": None})],
            named={(key, "loss"): 0.5 for key in jobs},
        )

    return answer


def opened(source: FakeSource, _: Options) -> FakeSource:
    return source


class Machine:
    """A job of one process, sampled once a second of a clock that the test moves."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fake = FakeProc(root / "proc")
        self.fake.put(1, 0)
        self.fake.put(SHIM, 1)
        self.fake.put(51, SHIM, cpu=1.0)
        self.now, self.monkeypatch = 1000.0, monkeypatch
        self.sampler: Sampler | None = None

    def register(self, *made: FakeSource, host: bool = False) -> None:
        listed = sources.HOST_SOURCES if host else sources.JOB_SOURCES
        for source in made:
            self.monkeypatch.setitem(listed, source.name, partial(opened, source))

    def start(self, without: frozenset[str] = frozenset()) -> Sampler:
        options = Options(proc=str(self.fake.root))
        self.sampler = Sampler(lambda _: None, 100.0, without, options=options, monotonic=lambda: self.now)
        self.sampler.table.clock = self.fake.clock
        self.sampler.watch("job", below(SHIM, time.clock_gettime(BOOTTIME) - 7), interval=1.0)
        return self.sampler

    def tick(self) -> Batch:
        assert self.sampler is not None
        self.now += 1.0
        self.fake.clocks[51] += 1000
        return self.sampler.tick()

    def value(self, key: str) -> float | None:
        """What the next sample of the job has."""
        [(_, sample)] = self.tick().samples
        return sample.values[JOB_COLUMNS.index(key)]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    before = set(threading.enumerate())
    made = Machine(tmp_path, monkeypatch)
    yield made
    if made.sampler is not None:
        made.sampler.stop()
    wait_for(lambda: set(threading.enumerate()) <= before)


def test_what_a_source_reads_of_a_job_a_device_and_a_name_is_in_the_batch(machine: Machine) -> None:
    source = FakeSource("gpus")
    source.answer = utilised(25.0)
    machine.register(source)
    sampler = machine.start()
    sampler.record_host(True)
    batch = machine.tick()
    [(key, sample)] = batch.samples
    assert (key, sample.values[JOB_COLUMNS.index("gpu.util")]) == ("job", 25.0)
    assert sample.values[JOB_COLUMNS.index("proc.count")] == 1
    [(device, boottime, values)] = [row for row in batch.devices if row[0] == GPU]
    assert (device, values) == (GPU, {"gpu.util": 25.0, "gpu.temp": None})
    assert boottime == pytest.approx(time.clock_gettime(BOOTTIME), abs=5)
    [(job, name, elapsed, value)] = batch.named
    assert (job, name, value) == ("job", "loss", 0.5)
    assert 7 <= elapsed < 12


def test_devices_are_read_by_the_one_process_that_records_the_host(machine: Machine) -> None:
    source = FakeSource("gpus")
    source.answer = utilised(25.0)
    machine.register(source)
    sampler = machine.start()
    assert machine.tick().devices == []
    sampler.record_host(True)
    assert GPU in [device for device, _, _ in machine.tick().devices]
    sampler.record_host(False)
    assert machine.tick().devices == []


def test_a_value_of_the_host_from_another_source_is_in_the_sample_of_the_host(machine: Machine) -> None:
    source, host = FakeSource("sensors"), HostSource(HostCollector(str(DATA / "host/manycore/proc")))
    source.answer = utilised(2.0)
    machine.monkeypatch.setitem(sources.HOST_SOURCES, "host", lambda _: host)
    machine.register(source, host=True)
    machine.start().record_host(True)
    machine.tick()
    machine.tick()
    read = machine.tick().host
    assert read is not None
    assert read[2].values["temp"] == 42.0
    assert read[2].values["mem.total"] is not None


def test_the_host_source_reads_its_cores_disks_and_interfaces(machine: Machine) -> None:
    host = HostSource(HostCollector(str(DATA / "host/manycore/proc"), "/no/such/place"))
    machine.monkeypatch.setitem(sources.HOST_SOURCES, "host", lambda _: host)
    machine.start().record_host(True)
    machine.tick()
    batch = machine.tick()
    kinds = {device.kind for device, _, _ in batch.devices}
    assert kinds == {"core", "disk", "interface"}
    assert batch.host is not None
    sample = batch.host[2]
    assert len(batch.devices) == len(sample.cores) + len(sample.disks) + len(sample.interfaces)


def test_a_source_that_fails_costs_its_own_numbers_and_is_noted_once(machine: Machine) -> None:
    good, bad = FakeSource("good"), FakeSource("bad")
    good.answer, bad.answer = utilised(25.0), fail
    machine.register(bad, good)
    sampler = machine.start()
    assert [machine.value("gpu.util") for _ in range(3)] == [25.0] * 3
    assert machine.value("proc.count") == 1
    assert sampler.problem == "bad: RuntimeError: odd driver"
    assert SourceStatus("bad", None, "RuntimeError: odd driver") in sampler.source_statuses()
    assert SourceStatus("good", None, None) in sampler.source_statuses()


def test_values_of_a_source_that_begins_to_fail_are_absent_until_it_works_again(machine: Machine) -> None:
    source = FakeSource("gpus")
    source.answer = utilised(25.0)
    machine.register(source)
    machine.start()
    assert machine.value("gpu.util") == 25.0
    source.answer = fail
    assert machine.value("gpu.util") is None
    source.answer = utilised(30.0)
    assert machine.value("gpu.util") == 30.0


def test_without_the_processes_the_other_sources_go_on(machine: Machine) -> None:
    source = FakeSource("gpus")
    source.answer = utilised(25.0)
    machine.register(source)
    sampler = machine.start()
    assert machine.value("proc.count") == 1
    machine.monkeypatch.setattr(sampler.table, "sweep", fail)
    assert (machine.value("proc.count"), machine.value("gpu.util")) == (None, 25.0)
    assert sampler.problem == "processes: RuntimeError: odd driver"


def test_a_source_that_cannot_be_used_here_is_not_called_and_is_no_problem(machine: Machine) -> None:
    source = FakeSource("gpus", reason="no driver")
    machine.register(source)
    sampler = machine.start()
    machine.tick()
    assert source.calls == 0
    assert sampler.problem is None
    assert SourceStatus("gpus", "no driver", None) in sampler.source_statuses()


def test_a_source_that_cannot_be_opened_is_not_available(machine: Machine) -> None:
    def refuse(_: Options) -> FakeSource:
        raise ImportError("no library")

    machine.monkeypatch.setitem(sources.JOB_SOURCES, "gpus", refuse)
    sampler = machine.start()
    assert machine.value("proc.count") == 1
    assert SourceStatus("gpus", "ImportError: no library", None) in sampler.source_statuses()


def test_a_source_that_is_not_wanted_is_not_opened(machine: Machine) -> None:
    source = FakeSource("gpus")
    machine.register(source)
    sampler = machine.start(frozenset({"gpus"}))
    machine.tick()
    assert (source.calls, source.closed) == (0, 0)
    assert "gpus" not in [status.name for status in sampler.source_statuses()]


def test_what_is_no_number_of_a_job_is_left_out(machine: Machine) -> None:
    source = FakeSource("odd")
    source.answer = lambda _: Readings(
        jobs={"job": {"gpu.util": None, "no.such": 1, "gpu.mem_used": 7}, "unknown": {"gpu.util": 1}},  # type: ignore[dict-item]
        named={("unknown", "loss"): 1.0},
    )
    machine.register(source)
    machine.start()
    [(_, sample)] = (batch := machine.tick()).samples
    assert [sample.values[JOB_COLUMNS.index(key)] for key in ("gpu.util", "gpu.mem_used")] == [None, 7]
    assert batch.named == []


def test_a_slow_source_is_called_by_its_own_thread_and_a_tick_takes_what_is_new(machine: Machine) -> None:
    source = FakeSource("slow", QUICK)
    source.answer = utilised(25.0)
    machine.register(source)
    sampler = machine.start()
    sampler.record_host(True)
    wait_for(lambda: machine.value("gpu.util") == 25.0)
    assert threading.get_ident() not in source.threads
    assert sampler.problem is None


def test_readings_of_a_slow_source_are_handed_over_once(machine: Machine) -> None:
    source = FakeSource("slow", 3600.0)
    source.answer = utilised(25.0)
    machine.register(source)
    sampler = machine.start()
    sampler.record_host(True)
    wait_for(lambda: machine.value("gpu.util") == 25.0)
    batch = machine.tick()
    assert GPU not in [device for device, _, _ in batch.devices]
    assert batch.named == []
    assert machine.value("gpu.util") == 25.0, "a gauge holds until the next reading"


def test_a_slow_source_that_hangs_is_stale_and_the_others_go_on(machine: Machine) -> None:
    source, let_go = FakeSource("slow", QUICK), threading.Event()
    source.answer = utilised(25.0)
    machine.register(source)
    sampler = machine.start()
    wait_for(lambda: machine.value("gpu.util") == 25.0)

    answered: list[bool] = []

    def hang(_: Jobs) -> Readings:
        answered.append(let_go.wait(60.0))
        return utilised(30.0)({"job": below(SHIM)})

    source.answer = hang
    wait_for(lambda: machine.value("gpu.util") is None)
    assert machine.value("proc.count") == 1
    assert "no readings" in str(sampler.problem)
    machine.tick()
    assert answered == [], "a tick waits for no source"
    let_go.set()
    wait_for(lambda: machine.value("gpu.util") == 30.0)


def test_sampling_ends_though_a_slow_source_hangs_which_is_closed_when_it_answers(machine: Machine) -> None:
    source, hanging, let_go = FakeSource("slow", QUICK), threading.Event(), threading.Event()

    def hang(_: Jobs) -> Readings:
        hanging.set()
        let_go.wait(30.0)
        return Readings()

    source.answer = hang
    machine.register(source)
    sampler = machine.start()
    assert hanging.wait(10.0)
    sampler.stop()
    assert source.closed == 0, "it has not answered yet"
    let_go.set()
    wait_for(lambda: source.closed == 1)


def test_a_slow_source_that_waits_ends_at_once_and_is_closed_once(machine: Machine) -> None:
    source = FakeSource("slow", 3600.0)
    machine.register(source)
    sampler = machine.start()
    wait_for(lambda: source.calls)
    began = time.monotonic()
    sampler.stop()
    assert time.monotonic() - began < 1.0
    wait_for(lambda: source.closed == 1)


def test_a_slow_source_that_fails_is_tried_again(machine: Machine) -> None:
    source = FakeSource("slow", QUICK)
    source.answer = fail
    machine.register(source)
    sampler = machine.start()
    wait_for(lambda: sampler.problem)
    source.answer = utilised(25.0)
    wait_for(lambda: machine.value("gpu.util") == 25.0)
    assert sampler.problem == "slow: RuntimeError: odd driver"


def test_a_slow_source_that_cannot_be_used_here_has_no_thread(machine: Machine) -> None:
    source = FakeSource("slow", QUICK, "no driver")
    machine.register(source)
    sampler = machine.start()
    wait_for(lambda: SourceStatus("slow", "no driver", None) in sampler.source_statuses())
    wait_for(lambda: "jobtop-slow" not in [thread.name for thread in threading.enumerate()])
    assert source.calls == 0
    assert sampler.problem is None


def test_jobs_that_end_are_forgotten_by_the_thread_that_reads_them(machine: Machine) -> None:
    fast, slow = FakeSource("fast"), FakeSource("slow", QUICK)
    machine.register(fast, slow)
    sampler = machine.start()
    machine.tick()
    sampler.forget("job")
    assert fast.forgotten == ["job"]
    wait_for(lambda: slow.forgotten == ["job"])
    assert threading.get_ident() not in slow.threads


def test_the_cpu_time_of_a_slow_source_is_part_of_the_cost_of_sampling(machine: Machine) -> None:
    source = FakeSource("slow", QUICK)

    def work(_: Jobs) -> Readings:
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass
        return Readings()

    source.answer = work
    machine.register(source)
    sampler = machine.start()
    wait_for(lambda: source.calls > 2)
    before = sampler.cpu_seconds
    machine.tick()
    assert sampler.cpu_seconds - before > 0.05


def test_readings_stay_for_some_intervals_and_longer_where_reading_takes_longer() -> None:
    now = 100.0
    source = FakeSource("slow", 10.0)

    def takes_long(_: Jobs) -> Readings:
        nonlocal now
        now += 20.0
        return Readings()

    source.answer = takes_long
    run = SlowRun(source, lambda: now)
    run._collect(now)
    assert run.poll({}) is not None
    now += STALE_INTERVALS * 20.0
    run.poll({})
    assert not run.is_lost
    now += 0.1
    run.poll({})
    assert run.is_lost
    run.close()


def test_the_sources_that_cannot_be_used_here_are_listed_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {name: sources.JOB_SOURCES[name] for name in ("processes", "cgroups")}
    monkeypatch.setattr(sources, "JOB_SOURCES", {**listed, "gpus": lambda _: FakeSource("gpus", reason="no driver")})
    monkeypatch.setattr(sources, "HOST_SOURCES", {"host": sources.HOST_SOURCES["host"]})
    assert sources.unavailable_sources()["gpus"] == "no driver"
    assert sources.unavailable_sources().keys() == {"gpus"}
    assert "cgroups" not in sources.unavailable_sources(Options(proc="/no/such/place"))


def test_the_source_of_nvidia_is_opened_only_where_a_driver_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "JOB_SOURCES", {"nvidia": sources.nvidia})
    monkeypatch.setattr(nvidia_driver, "DEVICES", ())
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    options = Options(proc=str(tmp_path))
    assert "driver" in sources.unavailable_sources(options)["nvidia"]
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    assert "nvidia" not in sources.unavailable_sources(options)
    for name in ("gpu", "nvidia"):
        source = sources.nvidia(Options(proc=str(tmp_path), without=frozenset({name})))
        assert "switched off" in str(source.available())


def test_a_source_that_hangs_is_waited_for_a_moment_and_one_that_answers_meanwhile_is_closed() -> None:
    let_go = threading.Event()
    hanging, slow = FakeSource("hanging", QUICK), FakeSource("slow", QUICK)
    ends = {hanging.name: let_go, slow.name: threading.Event()}

    def wait(source: FakeSource, _: Jobs) -> Readings:
        ends[source.name].wait(30.0)
        return Readings()

    for source in (hanging, slow):
        source.answer = partial(wait, source)
        run = SlowRun(source)
        run.set_jobs({})
        wait_for(lambda source=source: source.calls)  # type: ignore[misc]
        if source is slow:
            threading.Timer(LONGEST_END_SECONDS / 3, ends[slow.name].set).start()
        began = time.monotonic()
        run.close()
        seconds = time.monotonic() - began
        if source is hanging:
            assert LONGEST_END_SECONDS * 0.9 <= seconds < LONGEST_END_SECONDS + 1.0
            assert source.closed == 0
    wait_for(lambda: slow.closed == 1)
    let_go.set()
    wait_for(lambda: hanging.closed == 1)


def test_events_of_readings_that_no_tick_took_are_not_lost() -> None:
    source = FakeSource("slow", 1.0)
    run = SlowRun(source, lambda: 100.0)
    for number in range(3):
        source.answer = lambda _, number=number: Readings(events=[("job", f"event {number}", {})])  # type: ignore[misc]
        run._collect(100.0)
    news = run.poll({})
    assert news is not None
    assert [kind for _, kind, _ in news.readings.events] == ["event 0", "event 1", "event 2"]
    assert run.poll({}) is None
    run.close()


def test_a_slow_source_that_costs_much_is_called_less_often() -> None:
    source, now = FakeSource("slow", 1.0), 100.0

    def work(_: Jobs) -> Readings:
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
        return Readings()

    source.answer = work
    run = SlowRun(source, lambda: now)
    run._collect(now)
    assert run._pause_seconds == 1.0, "the first call opens things"
    run._collect(now)
    assert 0.02 / MOST_CORES <= run._pause_seconds <= SLOWEST
    source.answer = lambda _: Readings()
    run._collect(now)
    assert run._pause_seconds == 1.0
    run.close()


def test_trouble_of_a_slow_source_is_in_the_records_of_the_jobs_that_it_read(machine: Machine) -> None:
    source = FakeSource("slow", QUICK)
    source.answer = fail
    machine.register(source)
    sampler = machine.start()
    wait_for(lambda: sampler.problem)
    watch = sampler.watches["job"]
    assert sampler.problem_of(watch) is None
    source.answer = utilised(25.0)
    wait_for(lambda: machine.value("gpu.util") == 25.0)
    assert sampler.problem_of(watch) == "slow: RuntimeError: odd driver"


@pytest.mark.parametrize(("engine", "count"), [(None, 1), ("tcp://far:2375", 0)])
def test_the_end_of_a_job_on_another_machine_is_not_read_here(
    monkeypatch: pytest.MonkeyPatch, engine: str | None, count: int
) -> None:
    """The process that waits for it here has no network traffic of the job, for example."""
    target = Target(Identity("", SHIM, None), 0.0, engine=engine)
    watch = SimpleNamespace(target=target, key="far")
    collecting = Collecting(Options(), cast("dict[str, Watch]", {"far": watch}))
    run = SimpleNamespace(name="network", conclude=lambda _: Readings())
    monkeypatch.setattr(collecting, "_job_runs", [run])
    assert len(collecting.conclude("far")) == count
