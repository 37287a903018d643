"""The energy of the CPU on captured trees of powercap: what is added, what is not, and how jobs share it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from energy import JOULE, PoweredMachine
from jobtop.core.doctor.checks import MachineFiles, State
from jobtop.core.doctor.energy import cpu_energy
from jobtop.core.measure.collectors.energy.powercap import (
    EnergyError,
    Zone,
    find_packages,
    joules_between,
    read_problem,
)
from jobtop.core.measure.collectors.energy.rapl import MOST_FAILURES, RaplSource, open_source
from jobtop.core.measure.collectors.energy.shares import METHOD
from jobtop.core.measure.device import Device
from jobtop.core.measure.sampler import Sampler
from jobtop.core.measure.source_runs import UnopenedSource
from jobtop.core.measure.sources import Options, energy
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Usage
from jobtop.core.selftest.judge import Reference, energy_of_cpu
from records import made_job

PACKAGE_0, DRAM_0, PACKAGE_1, DRAM_1 = "intel-rapl:0", "intel-rapl:0:1", "intel-rapl:1", "intel-rapl:1:0"


@pytest.fixture
def machine(tmp_path: Path) -> PoweredMachine:
    return PoweredMachine(tmp_path)


def test_packages_and_their_memory_are_read_and_nothing_twice(machine: PoweredMachine) -> None:
    packages = find_packages(str(machine.sys))
    zones = {package.name: [os.path.basename(zone.directory) for zone in package.zones] for package in packages}
    assert zones == {"package-0": [PACKAGE_0, DRAM_0], "package-1": [PACKAGE_1, DRAM_1]}
    machine.collect()
    machine.use(z0=10, z0_0=9, z0_1=2, z1=20, z1_0=1, z1_1=5, z2=40)
    found = machine.collect()
    assert [device for device, _ in found.devices] == [Device("package", "package-0"), Device("package", "package-1")]
    assert [values["energy.cpu"] for _, values in found.devices] == pytest.approx([12, 21])
    assert found.host == {"energy.cpu": pytest.approx(33)}
    machine.close()


def test_a_counter_that_wraps_goes_on(machine: PoweredMachine) -> None:
    machine.collect()
    for _ in range(3):
        machine.use(z0=300)
        found = machine.collect()
    assert int(machine.zone(PACKAGE_0).read_text()) < 10**9 * 2, "it has wrapped"
    assert found.host["energy.cpu"] == pytest.approx(900)
    machine.close()


def test_amd_has_the_same_names(tmp_path: Path) -> None:
    machine = PoweredMachine(tmp_path, "amd")
    machine.collect()
    machine.use(z0=5, z0_0=4)
    assert machine.collect().host == {"energy.cpu": pytest.approx(5)}
    machine.close()


def test_jobs_get_the_busy_part_by_cpu_time_and_idle_energy_is_kept_apart(machine: PoweredMachine) -> None:
    assert machine.collect().jobs == {}
    machine.run(11, 1.5)
    machine.run(21, 0.5)
    machine.use(1.0, busy=2.0, z0=60, z1=40)  # four cores: half of the time is idle
    found = machine.collect()
    assert found.jobs["a"] == {"energy.cpu": pytest.approx(100 * 0.5 * 1.5 / 2.0)}
    assert found.jobs["b"] == {"energy.cpu": pytest.approx(100 * 0.5 * 0.5 / 2.0)}
    assert machine.source.shares.idle_joules == pytest.approx(50)
    assert found.remarks["a"].sources == {"energy_cpu": METHOD}
    machine.run(11, 0.5)
    machine.use(1.0, busy=4.0, z0=200)  # the other 3.5 seconds are of no job
    found = machine.collect()
    assert found.jobs == {"a": {"energy.cpu": pytest.approx(37.5 + 200 * 0.5 / 4.0)}}, "b has not run"
    assert machine.source.shares.idle_joules == pytest.approx(50)
    machine.close()


def test_a_job_that_is_read_less_often_gets_the_energy_of_its_whole_interval(machine: PoweredMachine) -> None:
    machine.collect()
    both, machine.jobs = machine.jobs, {"a": machine.jobs["a"]}
    machine.run(11, 1.0)
    machine.use(1.0, busy=2.0, z0=80)
    machine.collect()
    machine.jobs = both
    machine.run(21, 1.0)
    machine.use(1.0, busy=1.0, z0=40)
    found = machine.collect()
    assert found.jobs["b"] == {"energy.cpu": pytest.approx((80 * 0.5 + 40 * 0.25) * 1.0 / 3.0)}
    machine.close()


def test_more_cpu_time_than_the_kernel_counted_is_all_of_the_busy_time(machine: PoweredMachine) -> None:
    machine.collect()
    machine.run(11, 1.004)
    machine.use(1.0, busy=1.0, z0=40)
    assert machine.collect().jobs["a"] == {"energy.cpu": pytest.approx(10)}
    machine.run(11, 0.004)
    machine.use(0.5, busy=0.0, z0=10)
    assert "a" not in machine.collect().jobs, "its time comes with the next tick of the kernel"
    machine.use(0.5, busy=0.01, z0=10)
    assert machine.collect().jobs["a"]["energy.cpu"] > 10
    machine.close()


def test_a_counter_that_was_reset_is_not_a_wrap_and_the_record_says_so(machine: PoweredMachine) -> None:
    machine.collect()
    machine.use(1.0, busy=4.0, z1=10)
    machine.run(11, 1.0)
    machine.collect()
    machine.zone(PACKAGE_0).write_text("5\n")
    machine.zone(PACKAGE_1).write_text("5\n")
    machine.run(11, 2.0)
    machine.use(1.0, busy=2.0)
    found = machine.collect()
    assert found.host == {"energy.cpu": None}
    assert "2s of CPU time" in found.remarks["a"].incomplete[0]
    machine.run(11, 1.0)
    machine.use(1.0, busy=1.0, z0=40)
    assert machine.collect().jobs["a"] == {"energy.cpu": pytest.approx(10 * 1 / 4 + 10)}
    machine.close()


@pytest.mark.parametrize(
    ("before", "after", "seconds", "span", "joules"),
    [
        (5, 5, 1.0, None, 0.0),
        (10, 5, 1.0, None, None),
        (JOULE, 0, 1.0, 2 * 10**9, None),
        (2 * 10**9 - JOULE, JOULE, 1.0, 2 * 10**9, 2.0),
        (0, 100 * JOULE, 10.0, 2 * 10**9, None),
        (0, 100 * JOULE, 10.0, 10**11, 100.0),
    ],
    ids=["still", "fell without a range", "reset", "wrapped", "may have wrapped twice", "grew"],
)
def test_growth_is_known_or_absent(
    before: int, after: int, seconds: float, span: int | None, joules: float | None
) -> None:
    assert joules_between(before, after, seconds, Zone("", span)) == joules


@pytest.mark.parametrize("damage", ["", "12x\n", "-5\n"])
def test_a_torn_reading_is_made_up_for_by_the_next(machine: PoweredMachine, damage: str) -> None:
    machine.collect()
    machine.use(1.0, busy=1.0, z0=10, z1=5)
    whole = machine.zone(PACKAGE_1).read_text()
    machine.zone(PACKAGE_1).write_text(damage)
    assert machine.collect().host == {}
    machine.zone(PACKAGE_1).write_text(whole)
    assert machine.collect().host == {"energy.cpu": pytest.approx(15)}
    machine.close()


@pytest.mark.parametrize("stat", ["", "cpu 1 2\n", "cpu a b c d e f\n", "intr 5\n"])
def test_without_cpu_times_of_the_machine_nothing_is_divided(machine: PoweredMachine, stat: str) -> None:
    machine.collect()
    (machine.sys / "proc/stat").write_text(stat)
    assert machine.collect().jobs == {}
    machine.close()


def test_a_counter_that_vanishes_is_absent_with_its_reason(machine: PoweredMachine) -> None:
    machine.collect()
    machine.source.close()
    machine.zone(PACKAGE_1).unlink()
    for _ in range(MOST_FAILURES - 1):
        assert machine.collect().host == {}
    with pytest.raises(EnergyError, match=r"intel-rapl:1/energy_uj: No such file"):
        machine.collect()
    machine.close()


def test_a_job_that_is_forgotten_begins_anew(machine: PoweredMachine) -> None:
    machine.collect()
    machine.run(11, 1.0)
    machine.use(1.0, busy=1.0, z0=40)
    machine.collect()
    machine.source.forget("a")
    machine.use(1.0, busy=1.0, z0=40)
    assert "a" not in machine.collect().jobs
    machine.close()


def test_where_there_are_no_counters_nothing_is_imported(tmp_path: Path) -> None:
    for name in ("intel-rapl", "intel-rapl-mmio:0", "dtpm"):
        (tmp_path / "class/powercap" / name).mkdir(parents=True)
    assert isinstance(energy(Options(sys=str(tmp_path))), UnopenedSource)
    assert isinstance(energy(Options(sys=str(tmp_path / "none"))), UnopenedSource)


def test_the_source_is_opened_where_there_are_counters_and_can_be_switched_off(machine: PoweredMachine) -> None:
    options = Options(sys=str(machine.sys), proc=str(machine.proc.root))
    opened = energy(options)
    assert isinstance(opened, RaplSource)
    assert opened.available() is None
    opened.close()
    switched_off = energy(Options(sys=str(machine.sys), without=frozenset({"rapl"})))
    assert isinstance(switched_off, UnopenedSource)
    assert "monitor.without" in switched_off.available()
    assert open_source(Options(sys=str(machine.sys / "none"))).available() == "no CPU package has an energy counter"


@contextmanager
def without_privileges() -> Iterator[None]:
    """Open files as a user without privileges."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def permitted_path(path: Path) -> Iterator[None]:
    """Let other users pass through the directories above, which pytest makes for one user."""
    closed = [place for place in path.parents if place.stat().st_uid == os.geteuid() and not place.stat().st_mode & 1]
    modes = {place: place.stat().st_mode for place in closed}
    for place in closed:
        place.chmod(0o711)
    yield
    for place, mode in modes.items():
        place.chmod(mode)


def test_counters_that_only_root_may_read_are_absent_with_the_reason(machine: PoweredMachine) -> None:
    for file in (machine.sys / "class/powercap").glob("*/energy_uj"):
        file.chmod(0)
    packages = find_packages(str(machine.sys))
    with without_privileges():
        assert "energy_uj: Permission denied" in str(read_problem(packages))


def machine_files(machine: PoweredMachine) -> MachineFiles:
    """The captured machine as the doctor sees it."""
    root = machine.sys / "root"
    root.mkdir()
    (root / "sys").symlink_to(machine.sys)
    (root / "proc").symlink_to(machine.sys / "proc")
    return MachineFiles(str(root))


def test_the_doctor_reads_the_counters(machine: PoweredMachine) -> None:
    found = cpu_energy(machine_files(machine))
    assert (found.name, found.state) == ("energy (RAPL)", State.WORKS)
    assert "package-0, package-1, with their memory" in found.meaning


def test_the_doctor_names_the_command_that_permits_reading_and_its_risk(machine: PoweredMachine) -> None:
    for file in (machine.sys / "class/powercap").glob("*/energy_uj"):
        file.chmod(0)
    machine.sys.chmod(0o755)
    files = machine_files(machine)
    with permitted_path(machine.sys), without_privileges():
        found = cpu_energy(files)
    assert found.state is State.FAILS
    assert "chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj" in str(found.remedy)
    assert "CVE-2020-8694" in str(found.remedy)


@pytest.mark.parametrize(
    ("cpuinfo", "word", "has_remedy"),
    [
        ("vendor_id : GenuineIntel\nflags : fpu hypervisor\n", "virtual machine", False),
        ("vendor_id : AuthenticAMD\nflags : fpu\n", "powercap", True),
        ("CPU implementer : 0x41\n", "watts_per_core", False),
    ],
)
def test_the_doctor_says_why_there_are_no_counters(tmp_path: Path, cpuinfo: str, word: str, has_remedy: bool) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(cpuinfo)
    found = cpu_energy(MachineFiles(str(tmp_path)))
    assert found.state is State.ABSENT
    assert word in found.meaning
    assert (found.remedy is not None) == has_remedy


@pytest.mark.parametrize(("joules", "verdict"), [(40.0, "pass"), (None, "fail"), (0.0, "fail"), (1e6, "fail")])
def test_the_selftest_judges_energy_where_there_are_counters(
    machine: PoweredMachine, joules: float | None, verdict: str
) -> None:
    job = made_job(duration_seconds=2.0, usage=Usage(energy_cpu_joules=joules))
    assert energy_of_cpu(job, Reference(), str(machine.sys)).verdict == verdict
    assert energy_of_cpu(job, Reference(), str(machine.sys / "none")).verdict == "skipped"


def test_a_sampler_hands_over_the_energy_of_jobs_packages_and_the_host(machine: PoweredMachine) -> None:
    options, moment = Options(proc=str(machine.proc.root), sys=str(machine.sys)), [0.0]
    sampler = Sampler(lambda _: None, 100.0, options=options, monotonic=lambda: moment[0])
    sampler.table.clock = machine.proc.clock
    sampler.watch("a", machine.jobs["a"], interval=1.0)
    sampler.record_host(True)
    for _ in range(2):
        moment[0] += 1.0
        batch = sampler.tick()
        machine.run(11, 1.0)
        machine.use(1.0, busy=1.0, z0=40, z1=8)
    moment[0] += 1.0
    batch = sampler.tick()
    watch = sampler.forget("a")
    sampler.stop()
    [(_, sample)] = batch.samples
    joules = sample.values[JOB_COLUMNS.index("energy.cpu")]
    assert joules == pytest.approx(2 * 48 / 4, rel=0.01)
    packages = {device.name: values["energy.cpu"] for device, _, values in batch.devices if device.kind == "package"}
    assert packages == {"package-0": pytest.approx(80), "package-1": pytest.approx(16)}
    assert watch is not None
    assert watch.remarks["energy"].sources == {"energy_cpu": METHOD}
