"""NVIDIA's GPUs through the real nvidia-ml-py and a library without hardware: devices, and the shares of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from faulty import flat

from jobtop.core.measure.collectors.docker.gpu_numbers import ContainerGpus, ContainerOwners
from jobtop.core.measure.collectors.gpu import nvidia
from jobtop.core.measure.collectors.gpu.nvidia import Nvml
from jobtop.core.measure.collectors.gpu.nvidia_driver import cards, driver_problem
from jobtop.core.measure.collectors.gpu.nvidia_session import FIRST_RETRY_SECONDS, LIST_SECONDS, NvidiaSession
from jobtop.core.measure.collectors.gpu.nvidia_source import SELDOM, NvidiaSource
from jobtop.core.measure.collectors.machine_pids import MachinePids
from jobtop.core.measure.collectors.pid_owners import PidOwners
from jobtop.core.measure.device import Device
from jobtop.core.measure.live.newest_gpus import FRESH_SECONDS, NewestGpus
from jobtop.core.measure.source import Readings
from jobtop.core.measure.source_runs import FastRun, SlowRun
from jobtop.core.measure.sources import Options
from nvml import (
    DRIVER_NOT_LOADED,
    GIBIBYTE,
    NOT_SUPPORTED,
    UNKNOWN,
    FakeGpu,
    FakeInstance,
    FakeNvml,
    fake_nvml,
    load_in_this_process,
)
from processes import FakeProc, below
from support import wait_for

FIRST, SECOND = "GPU-aaaaaaaa-0000", "GPU-bbbbbbbb-0000"
INSTANCE = "MIG-cccccccc-0000"
JOBS = {"a": below(10), "b": below(20), "c": below(30)}


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = fake_nvml(tmp_path_factory.mktemp("nvml"))
    load_in_this_process(made)
    return made.directory


class Machine:
    """Two GPUs, and three jobs: a has the processes 11 and 12, b has 21, c has 31; 99 is of no job."""

    def __init__(self, nvml: FakeNvml, root: Path) -> None:
        self.nvml, self.now = nvml, 1000.0
        self.proc = FakeProc(root / "proc")
        for pid, parent in ((1, 0), (10, 1), (20, 1), (30, 1), (11, 10), (12, 11), (21, 20), (31, 30), (99, 1)):
            self.proc.put(pid, parent)
        nvml.show(FakeGpu(FIRST), FakeGpu(SECOND))
        self.sys = root / "sys"
        session = NvidiaSession(Nvml(), str(self.sys), lambda: self.now)
        self.session, self.source = session, NvidiaSource(session, PidOwners(str(self.proc.root)))

    def collect(self, seconds: float = 1.0) -> Readings:
        self.now += seconds
        return self.source.collect(JOBS)

    def device(self, name: str) -> dict[str, float | None] | None:
        return {device.name: dict(values) for device, values in self.collect().devices}.get(name)


@pytest.fixture
def machine(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    nvml = FakeNvml(tmp_path)
    for name, value in nvml.env.items():
        monkeypatch.setenv(name, value)
    made = Machine(nvml, tmp_path)
    yield made
    made.source.close()


def test_a_gpu_has_every_number_that_nvml_knows(machine: Machine) -> None:
    machine.nvml.change(FIRST, busy=87, used=3 * GIBIBYTE, celsius=71, watts=250.5, ecc=2, reasons=0x40, fan=55)
    machine.nvml.change(FIRST, joules=1234.5, processes=((11, GIBIBYTE, 50), (99, None, 0)))
    machine.nvml.change(FIRST, reserved=GIBIBYTE, encoder=12, decoder=34, pcie=(2500, 700))
    assert machine.device("0-aaaaaaaa") == {
        "gpu.util": 87,
        "gpu.mem_used": 2 * GIBIBYTE,
        "gpu.mem_total": 80 * GIBIBYTE,
        "gpu.mem_free": 77 * GIBIBYTE,
        "gpu.encoder": 12,
        "gpu.decoder": 34,
        "gpu.pcie_rx": 2_500_000,
        "gpu.pcie_tx": 700_000,
        "gpu.temp": 71,
        "gpu.power": 250.5,
        "gpu.power_limit": 400.0,
        "gpu.clock_sm": 1_410_000_000,
        "gpu.clock_mem": 1_593_000_000,
        "gpu.fan": 55,
        "gpu.ecc_errors": 2,
        "gpu.throttled": 1,
        "gpu.processes": 2,
        "energy.gpu": 1234.5,
    }
    assert machine.device("1-bbbbbbbb") is not None
    assert machine.collect().products[Device("gpu", "1-bbbbbbbb")] == "NVIDIA Test 1"


def test_an_older_driver_counts_its_own_memory_as_used(machine: Machine) -> None:
    machine.nvml.show(extra=(f"fail nvmlDeviceGetMemoryInfo_v2 {NOT_SUPPORTED}",))
    machine.nvml.change(FIRST, used=3 * GIBIBYTE, reserved=GIBIBYTE)
    for _ in range(2):
        values = machine.device("0-aaaaaaaa") or {}
        assert (values["gpu.mem_used"], values["gpu.mem_free"]) == (3 * GIBIBYTE, 77 * GIBIBYTE)
    assert machine.nvml.calls("nvmlDeviceGetMemoryInfo_v2", FIRST) == 1


def test_traffic_over_pcie_is_read_seldom_and_not_again_from_a_gpu_that_takes_long(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.nvml.change(FIRST, pcie=(5, 6))
    for _ in range(SELDOM):
        assert (machine.device("0-aaaaaaaa") or {})["gpu.pcie_rx"] == 5000
    assert machine.nvml.calls("nvmlDeviceGetPcieThroughput", FIRST) == 2
    monkeypatch.setattr(nvidia, "SLOW_CALL_SECONDS", 0.0)
    assert (machine.device("0-aaaaaaaa") or {})["gpu.pcie_rx"] == 5000
    for _ in range(2 * SELDOM):
        values = machine.device("0-aaaaaaaa") or {}
    assert (values["gpu.pcie_rx"], values["gpu.pcie_tx"]) == (None, None)
    assert machine.nvml.calls("nvmlDeviceGetPcieThroughput", FIRST) == 3


def test_clocks_that_are_low_because_nothing_runs_are_not_throttled(machine: Machine) -> None:
    machine.nvml.change(FIRST, reasons=0x1)
    assert (machine.device("0-aaaaaaaa") or {})["gpu.throttled"] == 0


def test_three_jobs_on_two_gpus_have_their_own_numbers(machine: Machine) -> None:
    machine.nvml.change(FIRST, processes=((11, GIBIBYTE, 40), (21, 2 * GIBIBYTE, 20), (99, GIBIBYTE, 20)))
    machine.nvml.change(SECOND, processes=((12, 3 * GIBIBYTE, 50), (11, GIBIBYTE, 0), (31, 5 * GIBIBYTE, 0)))
    machine.collect()
    machine.nvml.change(FIRST, joules=1800.0)
    machine.nvml.change(SECOND, joules=1300.0)
    assert machine.collect().jobs == {
        "a": {"gpu.util": 90.0, "gpu.mem_used": 5 * GIBIBYTE, "energy.gpu": pytest.approx(400 + 300)},
        "b": {"gpu.util": 20.0, "gpu.mem_used": 2 * GIBIBYTE, "energy.gpu": pytest.approx(200)},
        "c": {"gpu.util": 0.0, "gpu.mem_used": 5 * GIBIBYTE, "energy.gpu": 0.0},
    }


def test_processes_on_gpus_are_those_of_containers_by_their_cgroups(machine: Machine) -> None:
    first, second = "1" * 64, "2" * 64
    for pid, path in ((11, f"docker/{first}"), (21, f"docker-{second}.scope"), (99, "user.slice")):
        (machine.proc.root / str(pid) / "cgroup").write_text(f"0::/{path}\n")
    machine.nvml.show(
        FakeGpu(FIRST, processes=((11, GIBIBYTE, 40), (99, GIBIBYTE, 10))),
        FakeGpu(SECOND, processes=((11, 2 * GIBIBYTE, 5), (21, None, 50))),
    )
    proc = str(machine.proc.root)
    source = NvidiaSource(machine.session, ContainerOwners(proc, MachinePids(proc)))
    run = SlowRun(source)
    gpus = ContainerGpus(Options(), [run])
    found = wait_for(lambda: gpus.read({first: below(11), second: below(21)}))
    gpus.close()
    assert found[first].values["gpu.mem_used"] == 3 * GIBIBYTE
    assert found[first].values["gpu.util"] == 45
    assert [(use.percent, use.memory_bytes) for use in found[first].gpus] == [(40, GIBIBYTE), (5, 2 * GIBIBYTE)]
    assert "gpu.mem_used" not in found[second].values
    assert [use.memory_bytes for use in found[second].gpus] == [None]


def test_the_energy_of_jobs_is_that_of_the_script_within_one_percent(machine: Machine) -> None:
    joules, expected = {FIRST: 1000.0, SECOND: 1000.0}, {"a": 0.0, "b": 0.0}
    machine.nvml.change(FIRST, processes=((11, 1, 30), (21, 1, 60)))
    machine.nvml.change(SECOND, processes=((12, 1, 80), (99, 1, 20)))
    machine.collect()
    for second in range(60):
        used = {FIRST: 250.0 + second, SECOND: 90.0 + 3 * second}
        for uuid, more in used.items():
            joules[uuid] += more
            machine.nvml.change(uuid, joules=joules[uuid])
        expected["a"] += used[FIRST] / 3 + used[SECOND] * 0.8
        expected["b"] += used[FIRST] * 2 / 3
        found = machine.collect().jobs
    for key, total in expected.items():
        assert found[key]["energy.gpu"] == pytest.approx(total, rel=0.01)


def test_a_job_that_no_gpu_knows_has_no_numbers_and_one_that_left_has_zeros(machine: Machine) -> None:
    assert machine.collect().jobs == {}
    machine.nvml.change(FIRST, processes=((11, GIBIBYTE, 40),))
    machine.collect()
    machine.nvml.change(FIRST, processes=())
    assert machine.collect().jobs == {"a": {"gpu.util": 0.0, "gpu.mem_used": 0, "energy.gpu": 0.0}}
    machine.source.forget("a")
    assert machine.collect().jobs == {}


def test_a_process_without_samples_did_not_run(machine: Machine) -> None:
    machine.nvml.change(FIRST, processes=((11, GIBIBYTE, 0),))
    machine.collect()
    machine.nvml.change(FIRST, joules=2000.0)
    assert machine.collect().jobs == {"a": {"gpu.util": 0.0, "gpu.mem_used": GIBIBYTE, "energy.gpu": 0.0}}


def test_memory_that_the_driver_does_not_tell_is_absent(machine: Machine) -> None:
    machine.nvml.change(FIRST, processes=((11, None, 40), (12, GIBIBYTE, 0)))
    assert machine.collect().jobs == {"a": {"gpu.util": 40.0, "energy.gpu": 0.0}}


def test_an_inner_job_counts_for_the_outer_one_too(machine: Machine) -> None:
    machine.proc.put(30, 12)
    machine.nvml.change(FIRST, processes=((31, GIBIBYTE, 40),))
    assert {key: values["gpu.util"] for key, values in machine.collect().jobs.items()} == {"a": 40.0, "c": 40.0}


def test_an_exited_process_still_counts_for_its_job_and_its_pid_for_no_other(machine: Machine) -> None:
    machine.nvml.change(FIRST, processes=((21, GIBIBYTE, 40),))
    machine.collect()
    machine.proc.end(21)
    assert machine.collect().jobs["b"]["gpu.util"] == 40.0
    machine.proc.put(21, 1, start=500)
    assert machine.collect().jobs["b"]["gpu.util"] == 0.0


def test_a_root_with_another_start_time_is_another_process(machine: Machine, tmp_path: Path) -> None:
    owners, target = PidOwners(str(machine.proc.root)), below(10)
    object.__setattr__(target.root, "start", 7)
    assert owners.find([11], {"a": target}) == {11: frozenset()}


def test_a_mig_instance_is_a_device_and_its_jobs_have_memory_only(machine: Machine) -> None:
    machine.nvml.show(FakeInstance(INSTANCE, SECOND, 3, 2 * GIBIBYTE, processes=((21, GIBIBYTE, 0),)))
    machine.nvml.change(SECOND, processes=((21, GIBIBYTE, 0),))
    found = machine.collect()
    devices = {device.name: values for device, values in found.devices}
    assert devices["1.3-cccccccc"] == {
        "gpu.mem_used": 2 * GIBIBYTE,
        "gpu.mem_total": 10 * GIBIBYTE,
        "gpu.mem_free": 8 * GIBIBYTE,
        "gpu.processes": 1,
    }
    assert devices["1-bbbbbbbb"]["gpu.power"] == 60.0
    assert found.jobs == {"b": {"gpu.mem_used": GIBIBYTE}}
    assert machine.nvml.calls("nvmlDeviceGetPowerUsage", INSTANCE) == 0


def test_mig_instances_that_come_and_go_are_noticed(machine: Machine) -> None:
    machine.collect()
    machine.nvml.show(FakeInstance(INSTANCE, FIRST, 0))
    machine.collect(LIST_SECONDS)
    assert machine.device("0.0-cccccccc") is not None
    del machine.nvml.gpus[INSTANCE]
    machine.nvml.show()
    machine.collect(LIST_SECONDS)
    assert machine.device("0.0-cccccccc") is None


def test_a_call_that_a_gpu_does_not_support_is_made_once_and_costs_its_number_only(machine: Machine) -> None:
    machine.nvml.show(extra=(f"fail nvmlDeviceGetPowerUsage {NOT_SUPPORTED}",))
    for _ in range(3):
        values = machine.device("0-aaaaaaaa")
        assert values is not None
        assert (values["gpu.power"], values["gpu.temp"]) == (None, 40)
    assert machine.nvml.calls("nvmlDeviceGetPowerUsage", FIRST) == 1


def test_a_call_that_failed_for_once_is_made_again(machine: Machine) -> None:
    machine.nvml.show(extra=(f"fail nvmlDeviceGetPowerUsage {UNKNOWN}",))
    assert (machine.device("0-aaaaaaaa") or {})["gpu.power"] is None
    machine.nvml.show(extra=())
    assert (machine.device("0-aaaaaaaa") or {})["gpu.power"] == 60.0


def test_any_call_that_fails_costs_numbers_and_makes_no_wrong_one(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml, jobs = machine.nvml, ((11, GIBIBYTE, 40), (21, 2 * GIBIBYTE, 30))
    instance = FakeInstance(INSTANCE, SECOND, 3, processes=((31, GIBIBYTE, 0),))
    nvml.show(FakeGpu(FIRST, 70, processes=jobs), FakeGpu(SECOND), instance)
    true = flat(machine.collect())
    functions = {line.split()[0] for line in (tmp_path / "nvml-calls").read_text().splitlines()} - {"nvmlShutdown"}
    assert len(functions) > 20
    monkeypatch.delenv("NVML_CALLS")
    # A card that does not tell whether it is split is whole, and its driver lists no process on it.
    true_if_whole = true | {("gpu", "1-bbbbbbbb", "gpu.processes"): 0}
    wrong: list[str] = []
    for function, code in ((function, code) for function in functions for code in (NOT_SUPPORTED, UNKNOWN)):
        nvml.show(extra=(f"fail {function} {code}",))
        source = NvidiaSource(
            NvidiaSession(Nvml(), str(machine.sys), lambda: 1000.0), PidOwners(str(machine.proc.root))
        )
        run = FastRun(source)  # the border of a source
        news = run.poll(JOBS)
        found = {} if news is None else flat(news.readings)
        expected = true_if_whole if function == "nvmlDeviceGetMigMode" else true
        wrong += [f"{function} {code}: {pair}" for pair in found.items() - expected.items()]
        wrong += [f"{function} {code}: {run.problem}"] if news is None and "NVML" not in str(run.problem) else []
        source.close()
    assert not wrong, "\n".join(sorted(wrong))


def test_without_utilisation_of_processes_a_job_has_memory_only(machine: Machine) -> None:
    machine.nvml.show(extra=(f"fail nvmlDeviceGetProcessUtilization {NOT_SUPPORTED}",))
    machine.nvml.change(FIRST, processes=((11, GIBIBYTE, 40),))
    assert machine.collect().jobs == {"a": {"gpu.mem_used": GIBIBYTE}}


def test_a_lost_gpu_costs_its_own_numbers_and_comes_back(machine: Machine) -> None:
    machine.nvml.change(FIRST, processes=((11, GIBIBYTE, 40),))
    machine.nvml.change(SECOND, processes=((21, GIBIBYTE, 30),))
    machine.collect()
    machine.nvml.change(SECOND, is_lost=True)
    for seconds in (1.0, 1.0, FIRST_RETRY_SECONDS, 1.0):
        found = machine.collect(seconds)
        assert [device.name for device, _ in found.devices] == ["0-aaaaaaaa"]
        assert found.jobs["a"]["gpu.util"] == 40.0
        assert "gpu.util" not in found.jobs["b"]
        assert "gpu.mem_used" not in found.jobs["b"]
    assert "lost" in str(machine.session.reason)
    assert machine.nvml.calls("nvmlDeviceGetMemoryInfo_v2", SECOND) == 2, "it is asked again only after NVML was opened"
    machine.nvml.change(SECOND, is_lost=False)
    assert machine.collect(3 * FIRST_RETRY_SECONDS).jobs["b"]["gpu.util"] == 30.0
    assert machine.session.reason is None


def test_a_lost_gpu_is_an_event_of_the_gpu_and_of_the_jobs_on_it(machine: Machine) -> None:
    machine.nvml.change(SECOND, processes=((21, GIBIBYTE, 30),))
    device = Device("gpu", "1-bbbbbbbb")
    assert machine.collect().events == [("b", "gpu_used", {"gpu": device.name, "product": "NVIDIA Test 1"})]
    machine.nvml.change(SECOND, is_lost=True)
    assert machine.collect().events == [
        (device, "gpu_lost", {"reason": "GPU is lost"}),
        ("b", "gpu_lost", {"gpu": device.name, "reason": "GPU is lost"}),
    ]
    assert [machine.collect(seconds).events for seconds in (1.0, FIRST_RETRY_SECONDS, 1.0)] == [[], [], []]
    machine.nvml.change(SECOND, is_lost=False)
    assert machine.collect(3 * FIRST_RETRY_SECONDS).events == [
        (device, "gpu_found", {}),
        ("b", "gpu_found", {"gpu": device.name}),
    ]
    assert machine.collect().events == []


def test_a_driver_that_does_not_list_its_gpus_any_more_has_lost_them(machine: Machine) -> None:
    machine.collect()
    machine.nvml.show(extra=(f"fail nvmlDeviceGetCount_v2 {UNKNOWN}",))
    found = machine.collect(LIST_SECONDS)
    assert [(owner, kind) for owner, kind, _ in found.events] == [
        (Device("gpu", name), "gpu_lost") for name in ("0-aaaaaaaa", "1-bbbbbbbb")
    ]
    machine.nvml.show(extra=())
    assert {kind for _, kind, _ in machine.collect(FIRST_RETRY_SECONDS).events} == {"gpu_found"}


def test_a_card_that_falls_asleep_and_a_mig_instance_that_is_deleted_are_not_lost(machine: Machine) -> None:
    machine.nvml.show(FakeInstance(INSTANCE, FIRST, 0))
    machine.collect()
    del machine.nvml.gpus[INSTANCE]
    machine.nvml.show()
    pci(machine.sys, "0000:02:00.0", "suspended")
    assert machine.collect(LIST_SECONDS).events == []
    pci(machine.sys, "0000:02:00.0", "active")
    assert machine.collect().events == []


def test_a_gpu_that_is_slowed_down_is_an_event_with_the_reasons(machine: Machine) -> None:
    machine.nvml.change(FIRST, reasons=0x04 | 0x48, processes=((11, GIBIBYTE, 30),))
    reasons = ["power cap", "thermal"]
    assert machine.collect().events == [
        ("a", "gpu_used", {"gpu": "0-aaaaaaaa", "product": "NVIDIA Test 0"}),
        (Device("gpu", "0-aaaaaaaa"), "gpu_throttled", {"reasons": reasons}),
        ("a", "gpu_throttled", {"gpu": "0-aaaaaaaa", "reasons": reasons}),
    ]
    assert machine.collect().events == []


@pytest.mark.parametrize(
    ("bits", "reasons"),
    [
        (0x01, ()),
        (0x08, ("hardware slowdown",)),
        (0x88, ("power brake",)),
        (0x20, ("thermal",)),
        (0x04, ("power cap",)),
    ],
)
def test_why_a_gpu_is_slowed_down(machine: Machine, bits: int, reasons: tuple[str, ...]) -> None:
    machine.nvml.change(FIRST, reasons=bits)
    [gpu, _] = machine.session.gpus()
    assert gpu.slowdowns() == reasons


def test_what_a_job_uses_of_each_gpu_is_kept_apart(machine: Machine) -> None:
    machine.nvml.change(FIRST, processes=((11, GIBIBYTE, 40), (21, None, 20)))
    machine.nvml.change(SECOND, processes=((12, 3 * GIBIBYTE, 50),))
    assert machine.collect().named == {
        ("a", "gpu.util@0-aaaaaaaa"): 40.0,
        ("a", "gpu.mem_used@0-aaaaaaaa"): GIBIBYTE,
        ("a", "gpu.util@1-bbbbbbbb"): 50.0,
        ("a", "gpu.mem_used@1-bbbbbbbb"): 3 * GIBIBYTE,
        ("b", "gpu.util@0-aaaaaaaa"): 20.0,
    }
    machine.nvml.change(SECOND, processes=())
    named = machine.collect().named
    assert (named["a", "gpu.util@1-bbbbbbbb"], named["a", "gpu.mem_used@1-bbbbbbbb"]) == (0.0, 0)


def test_the_energy_of_a_time_in_which_a_gpu_was_lost_belongs_to_no_job(machine: Machine) -> None:
    machine.nvml.change(FIRST, processes=((11, GIBIBYTE, 40),))
    machine.collect()
    machine.nvml.change(FIRST, is_lost=True)
    machine.collect()
    machine.nvml.change(FIRST, is_lost=False, joules=5000.0)
    assert machine.collect(FIRST_RETRY_SECONDS).jobs["a"]["energy.gpu"] == 0.0
    machine.nvml.change(FIRST, joules=5010.0)
    assert machine.collect().jobs["a"]["energy.gpu"] == pytest.approx(10.0)


def test_a_driver_that_is_loaded_again_is_survived(machine: Machine) -> None:
    machine.nvml.change(FIRST, processes=((11, GIBIBYTE, 40),))
    machine.collect()
    machine.nvml.show(extra=("loaded 2",))
    machine.nvml.change(FIRST, joules=1.0)
    found = machine.collect()
    assert found.devices == []
    assert set(found.jobs["a"]) == {"energy.gpu"}
    assert len(machine.collect(FIRST_RETRY_SECONDS).devices) == 2
    machine.nvml.change(FIRST, joules=3.0)
    assert machine.collect().jobs["a"] == {"gpu.util": 40.0, "gpu.mem_used": GIBIBYTE, "energy.gpu": pytest.approx(2.0)}


def test_a_driver_that_does_not_answer_is_asked_ever_less_often(machine: Machine) -> None:
    machine.nvml.show(extra=(f"fail nvmlInit {DRIVER_NOT_LOADED}",))
    for _ in range(100):
        assert machine.collect().devices == []
    assert machine.nvml.calls("nvmlInit") <= 6
    assert machine.session.reason == "Driver Not Loaded"


def pci(sys: Path, address: str, status: str, vendor: str = "0x10de") -> None:
    directory = sys / "bus/pci/devices" / address
    (directory / "power").mkdir(parents=True, exist_ok=True)
    for name, text in (("vendor", vendor), ("class", "0x030200"), ("power/runtime_status", status)):
        (directory / name).write_text(f"{text}\n")


def test_a_card_that_sleeps_is_not_woken(machine: Machine) -> None:
    for address in ("0000:01:00.0", "0000:02:00.0"):
        pci(machine.sys, address, "suspended")
    assert machine.collect().devices == []
    assert machine.nvml.calls("nvmlInit") == 0
    pci(machine.sys, "0000:01:00.0", "active")
    for seconds in (1.0, 1.0, LIST_SECONDS, LIST_SECONDS):
        assert [device.name for device, _ in machine.collect(seconds).devices] == ["0-aaaaaaaa"]
    assert machine.nvml.calls_of(SECOND) == 0
    assert machine.nvml.calls("nvmlDeviceGetHandleByIndex_v2") == 0, "it wakes the card"


def test_a_card_that_wakes_up_is_read_and_one_that_falls_asleep_is_left_alone(machine: Machine) -> None:
    pci(machine.sys, "0000:01:00.0", "active")
    pci(machine.sys, "0000:02:00.0", "suspended")
    machine.collect()
    pci(machine.sys, "0000:02:00.0", "active")
    machine.nvml.change(SECOND, processes=((21, GIBIBYTE, 30),))
    found = machine.collect()
    assert [device.name for device, _ in found.devices] == ["0-aaaaaaaa", "1-bbbbbbbb"]
    assert found.jobs["b"]["gpu.util"] == 30
    pci(machine.sys, "0000:02:00.0", "suspended")
    called = machine.nvml.calls_of(SECOND)
    for seconds in (1.0, LIST_SECONDS, LIST_SECONDS):
        found = machine.collect(seconds)
        assert [device.name for device, _ in found.devices] == ["0-aaaaaaaa"]
        assert "gpu.util" not in found.jobs["b"], "it is not known what it does"
    assert machine.nvml.calls_of(SECOND) == called


def test_a_card_of_another_driver_is_no_problem(machine: Machine) -> None:
    pci(machine.sys, "0000:01:00.0", "active")
    pci(machine.sys, "0000:02:00.0", "suspended")
    pci(machine.sys, "0000:09:00.0", "active")
    assert [device.name for device, _ in machine.collect().devices] == ["0-aaaaaaaa"]
    assert machine.session.reason is None


def test_cards_of_other_vendors_and_other_devices_of_nvidia_are_no_cards_of_nvidia(tmp_path: Path) -> None:
    assert cards(str(tmp_path)) == {}
    pci(tmp_path, "0000:01:00.0", "active")
    pci(tmp_path, "0000:02:00.0", "active", vendor="0x1002")
    pci(tmp_path, "0000:03:00.0", "active")
    (tmp_path / "bus/pci/devices/0000:03:00.0/class").write_text("0x040300\n")
    assert cards(str(tmp_path)) == {"0000:01:00.0": False}


def test_without_a_driver_nothing_is_opened(tmp_path: Path) -> None:
    assert "driver" in str(driver_problem(str(tmp_path), {}))
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    assert driver_problem(str(tmp_path), {}) is None


def test_the_newest_gauges_of_each_gpu_are_kept_until_it_is_silent() -> None:
    newest = NewestGpus()
    newest.see([(Device("gpu", "0-a"), 10.0, {"gpu.util": 5, "energy.gpu": 9.0}), (Device("disk", "sda"), 10.0, {})])
    newest.see([(Device("gpu", "1-b"), 14.0, {"gpu.util": 7})])
    assert newest.at(14.0) == {"0-a": {"gpu.util": 5}, "1-b": {"gpu.util": 7}}
    assert newest.at(10.1 + FRESH_SECONDS) == {"1-b": {"gpu.util": 7}}
