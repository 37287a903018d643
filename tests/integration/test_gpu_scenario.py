"""One script through the real bindings, engine and store: two GPUs and a split one, three jobs, and every trouble."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure import engine as engine_module
from jobtop.core.measure import source_runs
from jobtop.core.measure.collectors.gpu import nvidia_session
from jobtop.core.measure.collectors.gpu.nvidia_source import NvidiaSource
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.measure.engine import Engine, Settings
from jobtop.core.measure.target import Target
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Sample
from jobtop.core.paths import StatePaths
from jobtop.store.database import Database
from jobtop.store.events import MachineEvents
from jobtop.store.jobs import Jobs
from jobtop.store.samples.devices import DeviceRecord
from jobtop.store.samples.named import NamedRecord
from jobtop.store.samples.series import SeriesStore
from jobtop.store.samples.sink import StoreSink
from nvml import GIBIBYTE, NOT_SUPPORTED, FakeGpu, FakeInstance, FakeNvml, fake_nvml, load_in_this_process
from records import running_job
from support import wait_for

FIRST, SECOND, SPLIT = "GPU-aaaaaaaa-0000", "GPU-bbbbbbbb-0000", "GPU-dddddddd-0000"
INSTANCE = "MIG-cccccccc-0000"
KEYS = ("gpu.util", "gpu.mem_used", "energy.gpu")
INTERVAL_SECONDS, HANG_SECONDS = 0.1, 5
UNSUPPORTED = f"fail nvmlDeviceGetFanSpeed {NOT_SUPPORTED}"
PATIENCE_SECONDS = 30.0


class Scenario:
    """Three jobs of one real process each, an engine that samples them, and the library that follows the script."""

    def __init__(self, nvml: FakeNvml, engine: Engine, database: Database, stack: ExitStack) -> None:
        self.nvml, self.engine, self.database = nvml, engine, database
        self.jobs: dict[str, Job] = {}
        self.pids: dict[str, int] = {}
        self.joules = {FIRST: 1000.0, SECOND: 1000.0}
        self.expected = dict.fromkeys("ab", 0.0)
        for name in "abc":
            process = stack.enter_context(subprocess.Popen(["sleep", "300"]))
            stack.callback(process.kill)
            self.jobs[name], self.pids[name] = Jobs(database).insert(running_job(name=name)), process.pid
            now = time.clock_gettime(BOOTTIME)
            engine.watch(self.jobs[name].id, Target(identify(process.pid), now, includes_root=True))

    def samples(self, name: str) -> list[Sample]:
        seq = self.jobs[name].seq
        assert seq is not None
        return SeriesStore(self.database).newest(seq, 10_000)

    def newest(self, name: str) -> tuple[float | int | None, ...]:
        taken = self.samples(name)
        return tuple(taken[-1].values[JOB_COLUMNS.index(key)] for key in KEYS) if taken else ()

    def until(self, name: str, percent: float | None, memory: int | None, joules: float | None) -> None:
        """Wait until the newest sample has these numbers, the energy within one percent."""
        energy = None if joules is None else pytest.approx(joules, rel=0.01)
        wait_for(lambda: self.newest(name) == (percent, memory, energy), PATIENCE_SECONDS)

    def collections(self, count: int = 2) -> None:
        """Wait for collections that began after now."""
        function = "nvmlDeviceGetTotalEnergyConsumption"
        wanted = self.nvml.calls(function, FIRST) + count
        wait_for(lambda: self.nvml.calls(function, FIRST) >= wanted, PATIENCE_SECONDS)

    def use(self, uuid: str, joules: float, **shares: float) -> None:
        """Let a GPU use energy, of which each job gets a share."""
        self.joules[uuid] += joules
        self.nvml.change(uuid, joules=self.joules[uuid])
        for name, share in shares.items():
            self.expected[name] += share * joules

    def events(self, name: str) -> list[tuple[str, object]]:
        return [
            (event.kind, event.detail.get("gpu"))
            for event in Jobs(self.database).events(self.jobs[name])
            if event.kind.startswith("gpu_")
        ]


@pytest.fixture
def scenario(
    paths: StatePaths, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scenario]:
    nvml = fake_nvml(tmp_path)
    load_in_this_process(nvml)
    for name, value in nvml.env.items():
        monkeypatch.setenv(name, value)
    nvml.show(FakeGpu(FIRST), FakeGpu(SECOND), FakeGpu(SPLIT), FakeInstance(INSTANCE, SPLIT, 3), extra=(UNSUPPORTED,))
    faster: tuple[tuple[object, str, float], ...] = (
        (NvidiaSource, "interval_seconds", INTERVAL_SECONDS),
        (source_runs, "MOST_CORES", 100.0),
        (nvidia_session, "FIRST_RETRY_SECONDS", INTERVAL_SECONDS),
        (engine_module, "HOST_LEASE_SECONDS", 0.0),
    )
    for owner, attribute, seconds in faster:
        monkeypatch.setattr(owner, attribute, seconds)
    sink = StoreSink(paths, network=False, are_recorded=True)
    sink.pace_seconds = 0.0
    engine = Engine(sink, Settings(INTERVAL_SECONDS, budget=100.0))
    engine.start()
    with ExitStack() as stack:
        try:
            yield Scenario(nvml, engine, database, stack)
        finally:
            nvml.show(extra=())  # or the thread of the source hangs on
            engine.close(PATIENCE_SECONDS)


def test_jobs_have_their_own_numbers_through_every_trouble(scenario: Scenario) -> None:
    nvml, pids = scenario.nvml, scenario.pids
    nvml.change(INSTANCE, processes=((pids["c"], 5 * GIBIBYTE, 0),))
    shared_out(scenario, 60)
    scenario.until("a", 60, GIBIBYTE, 0)
    scenario.until("b", 30 + 50, 3 * GIBIBYTE, 0)
    scenario.until("c", None, 5 * GIBIBYTE, None)
    follow_script(scenario)
    moments_before = [sample.elapsed for sample in scenario.samples("a")]
    lose_a_gpu(scenario)
    hanging = hang(scenario)
    assert_ticks_are_not_delayed(moments_before, hanging)
    shared_out(scenario, 60)
    scenario.until("a", 60, GIBIBYTE, scenario.expected["a"])
    assert_devices_are_stored(scenario)
    energies = conclude(scenario)
    assert energies == {
        **{name: pytest.approx(total, rel=0.01) for name, total in scenario.expected.items()},
        "c": None,
    }


def shared_out(scenario: Scenario, percent: int) -> None:
    """Two jobs on the first GPU, the second of them on the second GPU too; wait until that was read."""
    a, b = scenario.pids["a"], scenario.pids["b"]
    scenario.nvml.change(FIRST, busy=90, processes=((a, GIBIBYTE, percent), (b, GIBIBYTE, 90 - percent)), reasons=0x04)
    scenario.nvml.change(SECOND, processes=((b, 2 * GIBIBYTE, 50),))
    scenario.collections()


def follow_script(scenario: Scenario) -> None:
    """Energy that is used at changing rates, and by changing shares."""
    for percent, first, second in ((60, 900.0, 200.0), (30, 450.0, 35.5), (89, 120.25, 1000.0)):
        shared_out(scenario, percent)
        scenario.use(FIRST, first, a=percent / 90, b=1 - percent / 90)
        scenario.use(SECOND, second, b=1.0)
        scenario.until("a", percent, GIBIBYTE, scenario.expected["a"])
        scenario.until("b", 90 - percent + 50, 3 * GIBIBYTE, scenario.expected["b"])


def lose_a_gpu(scenario: Scenario) -> None:
    """The second GPU is lost: its job has no gauges, the other one keeps its own; then it answers again."""
    scenario.nvml.change(SECOND, is_lost=True)
    scenario.until("b", None, None, scenario.expected["b"])
    scenario.until("a", 89, GIBIBYTE, scenario.expected["a"])
    scenario.use(SECOND, 5000.0)  # while it is lost: of no job
    scenario.use(FIRST, 90.0, a=89 / 90, b=1 / 90)
    scenario.until("b", None, None, scenario.expected["b"])
    scenario.nvml.change(SECOND, is_lost=False)
    scenario.until("b", 51, 3 * GIBIBYTE, scenario.expected["b"])
    scenario.use(SECOND, 300.0, b=1.0)
    scenario.until("b", 51, 3 * GIBIBYTE, scenario.expected["b"])
    assert scenario.events("b") == [
        *(("gpu_used", name) for name in ("0-aaaaaaaa", "1-bbbbbbbb")),
        ("gpu_throttled", "0-aaaaaaaa"),
        ("gpu_lost", "1-bbbbbbbb"),
        ("gpu_found", "1-bbbbbbbb"),
    ]


def hang(scenario: Scenario) -> list[float]:
    """A call hangs: numbers of GPUs become absent, and nothing else. Returns the moments of the samples meanwhile."""
    scenario.nvml.show(extra=(UNSUPPORTED, f"hang nvmlDeviceGetTemperature {HANG_SECONDS}"))
    scenario.collections(1)
    began = len(scenario.samples("a"))
    wait_for(lambda: scenario.newest("a")[:2] == (None, None), PATIENCE_SECONDS)
    scenario.use(FIRST, 180.0, a=89 / 90, b=1 / 90)
    wait_for(lambda: len(scenario.samples("a")) > began + 20, PATIENCE_SECONDS)
    moments = [sample.elapsed for sample in scenario.samples("a")[began:]]
    scenario.nvml.show(extra=(UNSUPPORTED,))
    scenario.until("a", 89, GIBIBYTE, scenario.expected["a"])
    return moments


def assert_ticks_are_not_delayed(before: list[float], during: list[float]) -> None:
    """Compare the times between samples with those before; the median, because this machine may be busy."""
    usual, hanging = ([after - sample for sample, after in pairwise(moments)] for moments in (before, during))
    assert median(hanging) < 1.25 * max(median(usual), INTERVAL_SECONDS)
    assert max(hanging) < max(1.5, 2 * max(usual))


def assert_devices_are_stored(scenario: Scenario) -> None:
    record = DeviceRecord(scenario.database)
    newest = {device.name: frame.values for device, frame in record.newest().items() if device.kind == "gpu"}
    assert newest.keys() == {"0-aaaaaaaa", "1-bbbbbbbb", "2-dddddddd", "2.3-cccccccc"}
    assert (newest["0-aaaaaaaa"]["gpu.util"], newest["0-aaaaaaaa"]["gpu.throttled"]) == (90, 1)
    assert newest["0-aaaaaaaa"]["gpu.fan"] is None
    assert newest["2.3-cccccccc"]["gpu.util"] is None
    assert newest["2.3-cccccccc"]["gpu.mem_total"] == 10 * GIBIBYTE
    assert scenario.nvml.calls("nvmlDeviceGetFanSpeed", FIRST) == 1, "a call that is not supported is made once"
    lost = next(device for device in record.devices() if device.name == "1-bbbbbbbb")
    assert [event.kind for event in MachineEvents(scenario.database).of_device(lost)] == ["gpu_lost", "gpu_found"]
    named = {name: value for name, (_, value) in NamedRecord(scenario.database).newest(scenario.jobs["b"]).items()}
    assert named["gpu.util@1-bbbbbbbb"] == 50
    assert named["gpu.mem_used@1-bbbbbbbb"] == 2 * GIBIBYTE


def conclude(scenario: Scenario) -> dict[str, float | None]:
    """The energy in the records of the jobs."""
    found: dict[str, float | None] = {}
    for name, job in scenario.jobs.items():
        observation = scenario.engine.conclude(job.id, PATIENCE_SECONDS)
        assert observation is not None
        record = observation.of(job)
        found[name] = record.usage.energy_gpu_joules
        missing = ["GPU 1 did not answer" in entry for entry in record.incomplete if entry.startswith("gpu:")]
        assert missing == ([True] if name == "b" else []), "the record of the job on the lost GPU says so"
    return found
