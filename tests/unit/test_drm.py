"""GPUs of AMD, Intel and others on captured trees of /sys: what each device has, and what happens when files fail."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from drm import DrmMachine, as_user, plant

from jobtop.core.measure.collectors.gpu.amd import LONGEST_STEP_SECONDS, PowerIntegral
from jobtop.core.measure.collectors.gpu.drm_cards import find_cards
from jobtop.core.measure.collectors.gpu.drm_source import LIST_SECONDS
from jobtop.core.measure.device import Device
from jobtop.core.measure.source_runs import SlowRun, UnopenedSource
from jobtop.core.measure.sources import Options, drm, open_one
from support import wait_for

OTHER_FILES = {"gpu.temp", "gpu.fan"}  # they have a second file to be read from
MIB, GIB = 1024**2, 1024**3
Machines = Callable[..., DrmMachine]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    monkeypatch.setenv("PATH", str(tmp_path))  # no intel_gpu_top
    made: list[DrmMachine] = []

    def make(*trees: str, without: str = "") -> DrmMachine:
        made.append(DrmMachine(tmp_path, *trees, without=without))
        return made[-1]

    yield make
    for each in made:
        each.close()


def names(machine: DrmMachine) -> list[str]:
    return [device.name for device, _ in machine.collect().devices]


def test_a_card_of_amd_has_every_number_that_its_driver_tells(machine: Machines) -> None:
    assert machine("amd-dgpu").device() == {
        "gpu.util": 37,
        "gpu.mem_used": 3 * GIB,
        "gpu.mem_total": 17163091968,
        "gpu.mem_free": 17163091968 - 3 * GIB,
        "gpu.temp": 54.0,
        "gpu.power": 120.0,
        "gpu.power_limit": 255.0,
        "gpu.clock_sm": 2_105_000_000,
        "gpu.clock_mem": 1_000_000_000,
        "gpu.fan": 20.0,
        "gpu.ecc_errors": 3,
        "gpu.throttled": None,
        "gpu.processes": 0,
        "energy.gpu": 0.0,
    }


def test_the_energy_of_amd_is_its_power_integrated(machine: Machines) -> None:
    amd = machine("amd-dgpu")
    amd.collect()
    amd.write("power1_average", 240_000_000)
    assert amd.device(2.0)["energy.gpu"] == pytest.approx(360.0)
    amd.file("power1_average").unlink()
    without_power = amd.device()
    assert (without_power["energy.gpu"], without_power["gpu.power"]) == (None, None)


def test_no_energy_is_made_up_for_a_time_without_readings() -> None:
    energy = PowerIntegral()
    assert energy.add(0.0, None) is None
    assert energy.add(1.0, 10.0) == 0.0
    assert energy.add(2.0, None) is None
    assert energy.add(3.0, 10.0) == 20.0  # a failed reading between two near ones loses nothing
    assert energy.add(3.0 + LONGEST_STEP_SECONDS + 1, 10.0) == 20.0
    assert energy.add(4.0 + LONGEST_STEP_SECONDS + 1, 10.0) == 30.0


def test_an_apu_uses_memory_of_the_machine(machine: Machines) -> None:
    values = machine("amd-apu").device()
    assert (values["gpu.mem_used"], values["gpu.mem_total"]) == (1280 * MIB, 8704 * MIB)
    assert values["gpu.mem_free"] is None
    assert (values["gpu.power"], values["gpu.power_limit"], values["gpu.clock_mem"]) == (5.137, None, None)


def test_without_the_edge_the_junction_is_the_temperature(machine: Machines) -> None:
    amd = machine("amd-dgpu")
    amd.write("temp1_label", "other")
    assert amd.device()["gpu.temp"] == 61.0
    amd.write("temp2_label", "other")
    assert amd.device()["gpu.temp"] == 54.0


def test_a_card_that_sleeps_is_shown_and_not_read(machine: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    amd = machine("amd-asleep")
    real = os.open

    def recorded(path: str, *rest: int) -> int:
        opened.append(path)
        return real(path, *rest)

    monkeypatch.setattr(os, "open", recorded)
    [(device, values)] = amd.collect().devices
    assert (device.name, set(values.values())) == ("amd0-03:00.0", {None})
    assert {os.path.basename(path) for path in opened} <= {"vendor", "runtime_status", "refcnt"}, (
        "nor any other file that wakes it"
    )
    amd.write("power/runtime_status", "active")
    assert amd.device()["gpu.util"] == 37


def test_an_intel_gpu_is_busy_when_it_is_not_idle(machine: Machines) -> None:
    intel = machine("intel-i915")
    first = intel.device()
    assert (first["gpu.util"], first["gpu.clock_sm"], first["energy.gpu"]) == (None, 1_300_000_000, None)
    intel.write("gt0/rc6_residency_ms", 1_000_000 + 1500)
    intel.write("gt1/rc6_residency_ms", 2_000_000 + 2000)
    assert intel.device(2.0)["gpu.util"] == pytest.approx(25.0)
    intel.write("gt0/rc6_residency_ms", 5)  # the driver was loaded again
    intel.write("gt1/rc6_residency_ms", 5)
    assert intel.device()["gpu.util"] is None
    assert intel.device()["gpu.util"] == 100.0


def test_an_intel_gpu_that_may_not_idle_has_no_utilisation(machine: Machines) -> None:
    intel = machine("intel-i915")
    for part in ("gt0", "gt1"):
        intel.write(f"{part}/rc6_enable", 0)
    intel.collect()
    assert intel.device()["gpu.util"] is None


def test_older_kernels_have_the_counter_elsewhere(machine: Machines) -> None:
    intel = machine("intel-i915")
    for path in intel.every_file():
        if "/gt/" in str(path):
            path.unlink()
    for part in ("gt0", "gt1"):
        intel.file("gt_act_freq_mhz").parent.joinpath("gt", part).rmdir()
    intel.collect()
    intel.write("power/rc6_residency_ms", 1_000_000 + 400)
    values = intel.device()
    assert [values["gpu.util"], values["gpu.clock_sm"]] == pytest.approx([60.0, 1_300_000_000])


def test_a_card_of_intel_counts_its_energy(machine: Machines) -> None:
    intel = machine("intel-i915-card")
    assert intel.device()["gpu.power"] is None
    intel.write("hwmon2/energy1_input", 900_000_000 + 150_000_000)
    values = intel.device(2.0)
    assert (values["energy.gpu"], values["gpu.power"], values["gpu.power_limit"]) == (1050.0, 75.0, 190.0)


def test_xe_has_its_own_files(machine: Machines) -> None:
    intel = machine("intel-xe")
    intel.collect()
    intel.write("gt0/gtidle/idle_residency_ms", 400_000 + 300)
    intel.write("gt1/gtidle/idle_residency_ms", 700_000 + 1000)
    intel.write("energy1_input", 5_000_000_000 + 60_000_000)
    values = intel.device()
    assert values["gpu.util"] == pytest.approx(70.0)
    assert [values["energy.gpu"], values["gpu.power"]] == pytest.approx([5060.0, 60.0])
    assert (values["gpu.temp"], values["gpu.clock_sm"]) == (47.0, 2_400_000_000)
    intel.file("energy1_input").unlink()
    assert intel.device()["energy.gpu"] is None  # and not that of another counter


def test_intel_tells_why_it_is_slowed_down(machine: Machines) -> None:
    intel = machine("intel-xe")
    readings = intel.collect()
    [(_, values)] = readings.devices
    assert values["gpu.throttled"] == 1
    assert [(kind, detail["reasons"]) for _, kind, detail in readings.events] == [("gpu_throttled", ["power cap"])]
    intel.write("throttle/reason_thermal", 1)
    intel.write("throttle/reason_pwrbrk", 1)
    [event] = intel.collect().events
    assert event[2]["reasons"] == ["power brake", "power cap", "thermal"]
    intel.write("gt0/freq0/throttle/status", 0)
    assert intel.device()["gpu.throttled"] == 0
    intel.file("gt1/freq0/throttle/status").unlink()
    assert intel.device()["gpu.throttled"] is None


def test_i915_tells_whether_it_is_slowed_down(machine: Machines) -> None:
    intel = machine("intel-i915-card")
    assert intel.device()["gpu.throttled"] == 0
    intel.write("throttle_reason_status", 1)
    intel.write("throttle_reason_prochot", 1)
    [event] = intel.collect().events
    assert event[2]["reasons"] == ["thermal"]


def test_where_the_card_has_no_counter_its_package_has_one(machine: Machines) -> None:
    intel = machine("intel-xe")
    intel.file("energy1_input").unlink()
    assert intel.device()["energy.gpu"] == 4000.0


def test_a_card_that_only_draws_is_no_gpu(machine: Machines, tmp_path: Path) -> None:
    assert names(machine("server-bmc", "virtual", "panfrost")) == ["panfrost0-fde60000.gpu"]
    assert [card.kind for card in find_cards(str(tmp_path / "sys"))] == ["panfrost"]


def test_names_stay_when_a_card_is_lost_and_found_again(machine: Machines) -> None:
    both = machine("intel-i915", "amd-dgpu")
    assert names(both) == ["intel0-00:02.0", "amd0-03:00.0"]
    link = both.sys / "class/drm/card0"
    target = os.readlink(link)
    link.unlink()
    readings = both.collect(LIST_SECONDS)
    assert [device.name for device, _ in readings.devices] == ["amd0-03:00.0"]
    assert [(owner, kind) for owner, kind, _ in readings.events] == [(Device("gpu", "intel0-00:02.0"), "gpu_lost")]
    assert both.collect().events == []
    link.symlink_to(target)
    readings = both.collect(LIST_SECONDS)
    assert [device.name for device, _ in readings.devices] == ["intel0-00:02.0", "amd0-03:00.0"]
    assert [kind for _, kind, _ in readings.events] == ["gpu_found"]


@pytest.mark.parametrize(("without", "left"), [("amd", ["intel0-00:02.0"]), ("intel", ["amd0-03:00.0"])])
def test_one_vendor_can_be_left_out(machine: Machines, without: str, left: list[str]) -> None:
    assert names(machine("intel-i915", "amd-dgpu", without=without)) == left


@pytest.mark.parametrize("tree", ["amd-dgpu", "amd-apu", "intel-i915", "intel-i915-card", "intel-xe"])
@pytest.mark.parametrize("harm", ["missing", "empty", "torn", "directory"])
def test_a_file_that_cannot_be_read_costs_its_own_number_only(machine: Machines, tree: str, harm: str) -> None:
    whole = machine(tree)
    whole.collect()
    expected = whole.device()
    assert any(value for value in expected.values())
    for path in whole.every_file():
        if path.name in ("vendor", "runtime_status", "class", "device", "gpu_id", "properties"):
            continue
        before = path.read_text()
        path.unlink()
        if harm == "directory":  # to open it works, to read it fails
            path.mkdir()
        elif harm != "missing":
            path.write_text("" if harm == "empty" else "12\x00?")
        values = whole.device()
        differing = {key for key, value in expected.items() if values[key] != value and key != "energy.gpu"}
        assert all(values[key] is None or (key in OTHER_FILES and values[key]) for key in differing), (path, values)
        path.rmdir() if harm == "directory" else path.unlink(missing_ok=True)
        path.write_text(before)


def test_nothing_readable_is_absent_with_reasons(machine: Machines) -> None:
    amd = machine("amd-dgpu")
    amd.collect()
    for path in amd.every_file():
        if path.name != "runtime_status":
            path.unlink()
    values = amd.device()
    assert {key for key, value in values.items() if value is not None} <= {
        "gpu.processes",
        "energy.gpu",
        "gpu.ecc_errors",
        "gpu.power_limit",
    }
    [reader] = amd.source._cards.readers(amd.now)
    assert "No such file" in reader.files.reasons[f"{reader.card.device}/gpu_busy_percent"]


def test_what_may_not_be_read_is_absent_with_the_reason_to_a_user() -> None:
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        amd = DrmMachine(Path(directory), "amd-dgpu")
        for path in (amd.file("gpu_busy_percent"), amd.file("power1_average"), amd.file("mem_info_vram_used")):
            path.chmod(0)
        with as_user():
            values = amd.device()
        amd.close()
    absent = {key for key, value in values.items() if value is None}
    assert absent - {"gpu.throttled"} == {"gpu.util", "gpu.power", "gpu.mem_used", "gpu.mem_free", "energy.gpu"}


@pytest.mark.parametrize("code", [errno.EBUSY, errno.EPERM, errno.ENODEV])
def test_a_driver_that_refuses_to_answer_is_a_reason(
    machine: Machines, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    amd = machine("amd-dgpu")
    amd.collect()
    [reader] = amd.source._cards.readers(amd.now)

    def refuse(descriptor: int, count: int) -> bytes:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "read", refuse)
        values = reader.read(amd.now)
    assert values["gpu.util"] is None
    assert values["gpu.temp"] is None
    assert reader.files.reasons[f"{reader.card.device}/gpu_busy_percent"] == os.strerror(code)
    assert amd.device()["gpu.util"] == 37
    assert f"{reader.card.device}/gpu_busy_percent" not in reader.files.reasons


def test_a_card_that_hangs_delays_nobody(machine: Machines) -> None:
    amd = machine("amd-dgpu")
    hanging = amd.file("gpu_busy_percent")
    hanging.unlink()
    os.mkfifo(hanging)
    run = SlowRun(amd.source)
    run.set_jobs({})
    # Opening the other end without waiting works as soon as the source waits for it.
    end = wait_for(lambda: opened_to_write(hanging))
    began = time.monotonic()
    assert run.poll({}) is None
    run.close()
    assert time.monotonic() - began < 5.0
    os.write(end, b"12\n")
    os.close(end)
    wait_for(lambda: (run._thread is not None and not run._thread.is_alive()) or None)


def opened_to_write(fifo: Path) -> int | None:
    try:
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # ENXIO: no reader yet
        return None


@pytest.mark.parametrize(("tree", "names"), [(None, []), ("server-bmc", []), ("virtual", ["drm_cards", "sysfs"])])
def test_where_there_is_no_card_nothing_is_imported(tmp_path: Path, tree: str | None, names: list[str]) -> None:
    if tree is not None:
        plant(tmp_path, tree)
    program = (
        "import sys; from jobtop.core.measure.sources import Options, drm\n"
        "drm(Options(sys=sys.argv[1])); print(sorted(name for name in sys.modules if '.gpu.' in name))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([f"jobtop.core.measure.collectors.gpu.{name}" for name in names])
    assert isinstance(open_one("drm", drm, Options(sys=str(tmp_path))), UnopenedSource)


def test_a_card_is_read_by_the_thread_of_its_source(tmp_path: Path) -> None:
    plant(tmp_path, "amd-dgpu")
    source = open_one("drm", drm, Options(sys=str(tmp_path)))
    assert (source.name, source.interval_seconds, source.available()) == ("drm", 1.0, None)
    [(device, values)] = source.collect({}).devices
    assert (device.name, values["gpu.util"]) == ("amd0-03:00.0", 37)
    source.close()
    for name in ("gpu", "drm", "amd"):
        assert isinstance(drm(Options(sys=str(tmp_path), without=frozenset({name}))), UnopenedSource)
