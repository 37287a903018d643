"""What jobs use of GPUs by fdinfo: pairs of captured readings of i915, xe and amdgpu, duplicates, steps back, ROCm."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from drm import DATA, DrmMachine, as_user

from jobtop.core.measure.collectors.gpu.drm_fdinfo import LONGEST_WAIT_SECONDS, DrmProcesses
from jobtop.core.measure.collectors.gpu.drm_source import LIST_SECONDS
from jobtop.core.measure.collectors.gpu.fdinfo import Client, ClientLoad, memory_in_use, parse
from jobtop.core.measure.collectors.members import Tree
from jobtop.core.measure.watch import Watch, values_by_key
from processes import below

MIB, GIB = 1024**2, 1024**3
JOBS = {"job": below(50), "other": below(70)}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., DrmMachine]]:
    """A machine with the jobs `job` (processes 60, 61) and `other` (71)."""
    monkeypatch.setenv("PATH", str(tmp_path))
    made: list[DrmMachine] = []

    def make(*trees: str) -> DrmMachine:
        machine = DrmMachine(tmp_path, *trees, jobs=JOBS.items())
        for pid, parent in ((1, 0), (50, 1), (60, 50), (61, 60), (70, 1), (71, 70), (99, 1)):
            machine.proc.put(pid, parent, start=100 + pid)
        namespace = machine.proc.root / "self/ns"
        namespace.mkdir(parents=True)
        made.append(machine)
        return machine

    yield make
    for each in made:
        each.close()


def client(name: str) -> Client:
    found = parse((DATA / "fdinfo" / f"{name}.txt").read_text())
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("driver", "percent", "own", "everything"),
    [
        ("i915", 60.0, 250 * MIB, 250 * MIB),  # both video engines: 1.2 s in a second
        ("xe", 40.0, 23992 * 1024, 23992 * 1024 + 192 * 1024),  # of four compute engines, by their own clock
        ("amdgpu", 60.0, 2 * GIB, 2 * GIB + 8 * MIB),  # an engine that it had not used before
    ],
)
def test_a_client_is_as_busy_as_its_busiest_engines(driver: str, percent: float, own: int, everything: int) -> None:
    first, second = client(f"{driver}-1"), client(f"{driver}-2")
    load = ClientLoad()
    assert load.percent(first, 10.0) is None
    assert load.percent(second, 11.0) == pytest.approx(percent)
    assert (memory_in_use(second, False), memory_in_use(second, True)) == (own, everything)


def test_a_counter_that_steps_back_is_absent_until_it_has_caught_up() -> None:
    load = ClientLoad()
    assert load.percent(client("i915-1"), 10.0) is None
    assert load.percent(client("i915-2"), 11.0) == pytest.approx(60.0)
    assert load.percent(client("i915-3-back"), 12.0) is None
    # 1.5 s of rendering in the two seconds since the highest reading.
    assert load.percent(client("i915-4"), 13.0) == pytest.approx(75.0)


def test_older_kernels_have_other_keys() -> None:
    old = client("amdgpu-old")
    load = ClientLoad()
    assert memory_in_use(old, False) == 2068 * 1024
    assert load.percent(old, 1.0) is None
    assert load.percent(old, 2.0) == 0.0  # amdgpu names an engine when it is used


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pos:\t0\nflags:\t02\n",
        "drm-driver:\ti915\n",
        "drm-client-id:\t7\n",
        "drm-driver:\ti915\ndrm-client-id:\tx7\n",
        "pdev:\t0000:03:00.0\npasid:\t1\ngfx0:\t0.00%\n",
    ],
)
def test_what_is_no_client_is_none(text: str) -> None:
    assert parse(text) is None


def test_torn_values_are_left_out() -> None:
    torn = parse("drm-driver:\txe\ndrm-client-id:\t7\ndrm-cycles-rcs:\ndrm-total-cycles-rcs:\t12\ndrm-resident-vram0\n")
    assert torn is not None
    assert (torn.engines, torn.memory_bytes, memory_in_use(torn, False)) == ({}, {}, None)
    assert ClientLoad().percent(torn, 1.0) is None
    assert parse("drm-driver:\tamdgpu\ndrm-client-id:\t7\ndrm-engine-gfx:\t12") is None  # not idle: its end is missing


def test_a_job_has_what_its_processes_use(machine: Callable[..., DrmMachine]) -> None:
    amd = machine("amd-dgpu")
    amd.write("gpu_busy_percent", 80)
    assert amd.job() == {}
    amd.open_gpu(60, 7, "amdgpu-1")
    amd.proc.put(60, 50, start=160, cpu=1.0)
    assert amd.job() == {"gpu.mem_used": 2 * GIB, "energy.gpu": 0.0}
    amd.open_gpu(60, 7, "amdgpu-2")
    readings = amd.collect()
    assert readings.jobs["job"]["gpu.util"] == pytest.approx(60.0)
    # 120 W for a second; the card was busy for 80 %, of which 60 were the job's.
    assert readings.jobs["job"]["energy.gpu"] == pytest.approx(90.0)
    assert readings.remarks["job"].sources == {"energy_gpu": "power integrated, by share of engine time"}
    assert "other" not in readings.jobs
    [(_, values)] = readings.devices
    assert values["gpu.processes"] == 1


def test_the_record_of_a_job_on_a_lost_card_says_that_a_part_is_missing(machine: Callable[..., DrmMachine]) -> None:
    amd = machine("amd-dgpu")
    amd.collect()
    amd.open_gpu(60, 7, "amdgpu-1")
    amd.proc.put(60, 50, start=160, cpu=1.0)
    assert amd.collect().remarks["job"].incomplete == ()
    for link in (amd.sys / "class/drm").iterdir():
        link.unlink()
    readings = amd.collect(LIST_SECONDS)
    assert ("job", "gpu_lost") in [(owner, kind) for owner, kind, _ in readings.events]
    assert "did not answer" in readings.remarks["job"].incomplete[0]
    assert "energy_gpu" in readings.remarks["job"].sources


def test_a_client_counts_once_though_many_descriptors_lead_to_it(machine: Callable[..., DrmMachine]) -> None:
    amd = machine("amd-dgpu")
    for step in ("1", "2"):
        for pid, descriptor in ((60, 7), (60, 8), (61, 7)):
            amd.open_gpu(pid, descriptor, f"amdgpu-{step}")
        values = amd.job()
    assert [values["gpu.util"], values["gpu.mem_used"]] == pytest.approx([60.0, 2 * GIB])


def test_several_engines_make_at_most_one_gpu(machine: Callable[..., DrmMachine]) -> None:
    amd = machine("amd-dgpu")
    for step in ("1", "2"):
        amd.open_gpu(60, 7, f"amdgpu-{step}")
        amd.open_gpu(61, 7, f"amdgpu-{step}")
        second = amd.proc.root / "61/fdinfo/7"
        second.write_text(second.read_text().replace("217", "218"))
        values = amd.job()
    assert (values["gpu.util"], values["gpu.mem_used"]) == (100, 4 * GIB)


def test_an_integrated_gpu_uses_memory_of_the_machine(machine: Callable[..., DrmMachine]) -> None:
    intel = machine("intel-i915")
    for step in ("i915-1", "i915-2"):
        intel.open_gpu(71, 4, step, "renderD129")
        values = intel.job("other")
    assert values == {"gpu.util": pytest.approx(60.0), "gpu.mem_used": 250 * MIB}  # it has no counter of energy


def test_the_energy_counter_of_a_card_is_divided(machine: Callable[..., DrmMachine]) -> None:
    xe = machine("intel-xe")
    xe.open_gpu(60, 3, "xe-1")
    xe.collect()
    xe.open_gpu(60, 3, "xe-2")
    xe.write("gt0/gtidle/idle_residency_ms", 400_000 + 200)
    xe.write("gt1/gtidle/idle_residency_ms", 700_000 + 1000)
    xe.write("energy1_input", 5_000_000_000 + 60_000_000)
    readings = xe.collect()
    assert readings.jobs["job"]["energy.gpu"] == pytest.approx(30.0)  # 40 of the 80 % that it was awake
    assert readings.remarks["job"].sources["energy_gpu"].startswith("hwmon energy counter")


def test_a_failed_reading_of_a_card_makes_the_energy_of_its_jobs_incomplete(machine: Callable[..., DrmMachine]) -> None:
    xe = machine("intel-xe")
    xe.open_gpu(60, 3, "xe-1")
    xe.collect()
    xe.open_gpu(60, 3, "xe-2")
    assert xe.collect().remarks["job"].incomplete == ()
    xe.write("power/runtime_status", "suspended")
    xe.collect()
    xe.write("power/runtime_status", "active")
    assert xe.collect().remarks["job"].incomplete == ()  # a card that sleeps uses next to nothing
    xe.file("energy1_input").write_text("50000")  # torn
    assert xe.device()["energy.gpu"] is None
    xe.write("energy1_input", 5_000_000_000)
    [why] = xe.collect().remarks["job"].incomplete
    assert why.startswith("energy_gpu: ")


def compute(machine: DrmMachine, pid: int, held: int) -> None:
    """Let a process compute through /dev/kfd."""
    directory = machine.sys / f"class/kfd/kfd/proc/{pid}"
    directory.mkdir(parents=True)
    (directory / "vram_41134").write_text(f"{held}\n")


def test_rocm_alone_on_a_card_has_the_utilisation_of_the_card(machine: Callable[..., DrmMachine]) -> None:
    amd = machine("amd-dgpu")
    compute(amd, 60, 5 * GIB)
    amd.open_gpu(60, 7, "amdgpu-old")  # no time of an engine, ever
    amd.collect()
    values = amd.job()
    assert (values["gpu.util"], values["gpu.mem_used"]) == (37, 5 * GIB)
    assert values["energy.gpu"] == pytest.approx(120.0)
    compute(amd, 71, GIB)
    compute(amd, 99, 0)  # listed by the driver, but not on this card
    values = amd.job()
    assert "gpu.util" not in values
    assert "energy.gpu" not in values
    assert values["gpu.mem_used"] == 5 * GIB
    assert amd.device()["gpu.processes"] == 2


def test_rocm_in_a_container_that_does_not_see_the_machines_pids_is_not_idle(tmp_path: Path) -> None:
    """The driver knows other pids: any process with the card open may be the one that computes."""
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").write_text("")  # not the inode of the first namespace
    amd = DrmMachine(tmp_path, "amd-dgpu", jobs=JOBS.items())
    for pid, parent in ((50, 1), (60, 50)):
        amd.proc.put(pid, parent)
    amd.open_gpu(60, 7, "amdgpu-old")
    amd.collect()
    assert amd.job()["gpu.util"] == 0.0
    compute(amd, 4711, GIB)
    values = amd.job()
    assert "gpu.util" not in values
    assert "energy.gpu" not in values
    assert values["gpu.mem_used"] == 2068 * 1024
    amd.close()


def test_a_process_that_exits_takes_its_use_with_it(machine: Callable[..., DrmMachine]) -> None:
    amd = machine("amd-dgpu")
    amd.open_gpu(61, 7, "amdgpu-1")
    amd.collect()
    (amd.proc.root / "61/fdinfo/7").unlink()
    (amd.proc.root / "61/fd/7").unlink()
    values = amd.job()
    assert (values["gpu.util"], values["gpu.mem_used"]) == (0, 0)


@pytest.mark.parametrize("text", ["", "drm-driver:\tamdgpu\ndrm-cli", "\x00"])
def test_a_torn_reading_is_absent_and_not_0(machine: Callable[..., DrmMachine], text: str) -> None:
    amd = machine("amd-dgpu")
    amd.open_gpu(60, 7, "amdgpu-1")
    amd.collect()
    (amd.proc.root / "60/fdinfo/7").write_text(text)
    assert amd.job() == {"energy.gpu": 0.0}  # what was counted so far
    amd.open_gpu(60, 7, "amdgpu-1")
    amd.collect()
    amd.open_gpu(60, 7, "amdgpu-2")
    values = amd.job()
    assert values["gpu.util"] == pytest.approx(60.0)
    assert values["energy.gpu"] == pytest.approx(120.0)


def test_of_a_driver_that_counts_no_time_there_is_no_energy(machine: Callable[..., DrmMachine]) -> None:
    amd = machine("amd-dgpu")
    amd.open_gpu(60, 7, "amdgpu-1")
    file = amd.proc.root / "60/fdinfo/7"
    file.write_text("drm-driver:\tolder\ndrm-client-id:\t1\ndrm-pdev:\t0000:03:00.0\ndrm-total-vram:\t1 MiB\n")
    amd.collect()
    assert amd.job() == {"gpu.mem_used": MIB}
    file.write_text("")
    assert amd.job() == {}
    assert amd.device()["gpu.processes"] == 1


def test_a_process_of_another_user_cannot_be_looked_into() -> None:
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        amd = DrmMachine(Path(directory), "amd-dgpu", jobs=JOBS.items())
        for pid, parent in ((50, 1), (60, 50)):
            amd.proc.put(pid, parent)
        amd.open_gpu(60, 7, "amdgpu-1")
        (amd.proc.root / "60/fd").chmod(0)
        (amd.proc.root / "60/fdinfo").chmod(0)
        amd.collect(0.0)
        with as_user():
            amd.now += 60.0
            assert DrmProcesses(str(amd.proc.root)).read({(100, 60): 1}, {}, frozenset(), amd.now) == {}
        amd.close()


def test_a_gpu_without_an_address_is_known_by_its_node(machine: Callable[..., DrmMachine]) -> None:
    arm = machine("panfrost")
    arm.open_gpu(60, 5, "i915-1", "renderD129")
    file = arm.proc.root / "60/fdinfo/5"
    file.write_text(file.read_text().replace("drm-pdev:\t0000:00:02.0\n", ""))
    arm.collect()
    readings = arm.collect()
    assert readings.jobs["job"] == {"gpu.util": 0.0, "gpu.mem_used": 250 * MIB}
    assert [device.name for device, _ in readings.devices] == ["panfrost0-fde60000.gpu"]


class Looking:
    """Counts the processes that were looked at; each costs as much as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path, seconds: float = 0.0) -> None:
        self.cpu, self.seen = 0.0, list[str]()
        self.processes = DrmProcesses(str(root), lambda: self.cpu)
        listdir = os.listdir

        def look(path: str) -> list[str]:
            self.cpu += seconds
            self.seen.append(path)
            return listdir(path)

        monkeypatch.setattr(os, "listdir", look)

    def read(self, candidates: Mapping[tuple[int, int], int | None], now: float) -> int:
        self.seen.clear()
        self.processes.read(candidates, {}, frozenset(), now)
        return len(self.seen)


def test_a_process_that_has_not_run_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    looking = Looking(monkeypatch, tmp_path)
    assert looking.read({(1, 5): 100}, 0.0) == 1
    assert looking.read({(1, 5): 100}, 2 * LONGEST_WAIT_SECONDS) == 0
    assert looking.read({(1, 5): 200}, 2 * LONGEST_WAIT_SECONDS) == 1
    assert looking.read({(1, 5): 300}, 2 * LONGEST_WAIT_SECONDS + 1) == 0
    assert looking.read({(2, 5): 300}, 2 * LONGEST_WAIT_SECONDS + 1) == 1  # another process


def test_the_search_has_a_budget_and_reaches_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    looking = Looking(monkeypatch, tmp_path, seconds=0.001)
    candidates = {(1, pid): None for pid in range(1, 11)}
    assert looking.read(candidates, 0.0) < 6
    looked = set(looking.seen)
    for _ in range(3):
        looking.read(candidates, 0.5)
        looked |= set(looking.seen)
    assert len(looked) == 10


@pytest.mark.parametrize(
    ("nvidia", "drm", "expected"),
    [
        ({"gpu.util": 90.0, "gpu.mem_used": 7}, {"gpu.util": 20.0, "gpu.mem_used": 3}, (110.0, 10)),
        ({"gpu.mem_used": 7}, {"gpu.util": 0.0, "gpu.mem_used": 3}, (None, 10)),  # a MIG instance
        ({"gpu.util": 90.0, "gpu.mem_used": 7}, {}, (90.0, 7)),
    ],
)
def test_a_job_on_gpus_of_two_vendors_has_the_sum(
    nvidia: dict[str, float], drm: dict[str, float], expected: tuple[float | None, int]
) -> None:
    watch = Watch("job", below(50), Tree(50), 1.0)
    watch.take("nvidia", nvidia)
    watch.take("drm", drm)
    values = values_by_key(watch.sample(1.0).values)
    assert (values.get("gpu.util"), values.get("gpu.mem_used")) == expected
