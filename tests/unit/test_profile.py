"""The profile of a block: the machine is read through its collectors, and summed up in the shape of Keystone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from captured_hosts import below_machine
from drm import plant

from jobtop.core.measure.collectors.host.reading import HostCollector
from jobtop.core.measure.sources import Options
from jobtop.core.track.gpu_profile import vendor_of
from jobtop.core.track.profile import ProfileReader, ProfileTally
from nvml import GIBIBYTE, FakeGpu, FakeNvml, fake_nvml, load_in_this_process
from support import wait_for

FIRST, SECOND = "GPU-aaaaaaaa-0000", "GPU-bbbbbbbb-0000"
MIB = 1 << 20
# The keys of `detailed_profile` in Keystone's guide, and what its text names beyond that.
SHAPE = {
    "duration_seconds": None,
    "samples_collected": None,
    "sampling_interval_seconds": None,
    "cpu": {"mean_percent", "max_percent", "min_percent"},
    "memory": {"mean_used_mb", "max_used_mb", "min_used_mb"},
    "process_cpu": {"mean_percent", "max_percent"},
    "process_memory": {"mean_mb", "max_mb", "min_mb"},
    "io_stats": {"read_mb", "write_mb", "read_count", "write_count", "total_io_mb"},
    "gpu_stats": set(),
    "network": {"received_mb", "sent_mb", "packets_received", "packets_sent", "total_mb"},
    "container_stats": set(),
}


def shape(profile: dict[str, Any]) -> dict[str, set[str] | None]:
    return {key: set(value) if isinstance(value, dict) else None for key, value in profile.items()}


class Machine:
    """A captured machine of two moments, and a reader of it."""

    def __init__(self, below: Path, name: str = "manycore", without: str = "gpu") -> None:
        self.proc, self._captured = below / "proc", below_machine(name, below)
        self.sys = below / "sys"
        options = Options(proc=str(self.proc), sys=str(self.sys), without=frozenset(without.split()))
        self.reader = ProfileReader(options=options)

    def pass_time(self) -> None:
        later = self._captured / "proc-later"
        for file in later.rglob("*"):
            if file.is_file():
                (self.proc / file.relative_to(later)).write_text(file.read_text())


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.reader.close()


def test_the_first_reading_has_gauges_and_no_rates(machine: Machine) -> None:
    reading = machine.reader.read()
    assert reading["host"]["mem.total"] > reading["host"]["mem.used"] > 0
    assert "cpu.percent" not in reading["host"]
    assert "net.rx_bytes" not in reading["host"]
    assert reading["host_counters"]["net.rx_bytes"] > 0
    assert "cores" not in reading
    assert "gpus" not in reading


def test_the_second_reading_has_every_core_and_rates_since_the_first(machine: Machine) -> None:
    machine.reader.read()
    machine.pass_time()
    reading = machine.reader.read()
    assert len(reading["cores"]) > 1
    assert reading["host"]["cpu.percent"] == pytest.approx(sum(reading["cores"]))
    assert 0 <= reading["host"]["cpu.iowait"] <= 100 * len(reading["cores"])
    assert reading["host"]["net.rx_bytes"] >= 0
    assert json.loads(json.dumps(reading)) == reading


def test_a_host_that_cannot_be_read_costs_only_its_own_numbers(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HostCollector, "collect", lambda _: 1 / 0)
    assert machine.reader.read() == {}


def test_a_host_that_is_left_out_is_not_read(tmp_path: Path) -> None:
    reader = Machine(tmp_path, without="gpu host").reader
    assert reader.read() == {}
    reader.close()


def test_the_summary_of_a_captured_machine_has_the_keys_of_keystone(machine: Machine) -> None:
    tally = ProfileTally()
    tally.add(machine.reader.read() | {"job": {"mem.used": 3 * MIB}})
    machine.pass_time()
    second = machine.reader.read()
    tally.add(second | {"job": {"mem.used": 5 * MIB, "cpu.percent": 180.0, "io.read_bytes": 2 * MIB}})
    summary = tally.summary(1.25, 0.5)
    assert shape(summary) == SHAPE
    assert (summary["duration_seconds"], summary["samples_collected"]) == (1.25, 2)
    assert summary["sampling_interval_seconds"] == 0.5
    # 100 % is the whole machine there, and one core in a reading.
    whole = second["host"]["cpu.percent"] / len(second["cores"])
    assert summary["cpu"]["mean_percent"] == summary["cpu"]["max_percent"] == pytest.approx(whole, abs=0.001)
    assert summary["memory"]["min_used_mb"] > 0
    assert summary["process_cpu"] == {"mean_percent": 180.0, "max_percent": 180.0}
    assert summary["process_memory"] == {"mean_mb": 4.0, "max_mb": 5.0, "min_mb": 3.0}
    assert (summary["io_stats"]["read_mb"], summary["io_stats"]["write_mb"]) == (2.0, None)
    assert summary["io_stats"]["total_io_mb"] is None
    assert summary["gpu_stats"] == summary["container_stats"] == {}
    grown = second["host_counters"]["net.rx_bytes"] - 1_100_000_000  # eth0 and eth1 of the first moment
    assert summary["network"]["received_mb"] == pytest.approx(grown / MIB, abs=1e-6)


def test_a_block_without_a_reading_has_the_same_keys_and_no_numbers() -> None:
    summary = ProfileTally().summary(0.01, 0.5)
    assert shape(summary) == SHAPE
    assert summary["samples_collected"] == 0
    parts = [part for part in summary.values() if isinstance(part, dict)]
    assert {value for part in parts for value in part.values()} == {None}


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = fake_nvml(tmp_path_factory.mktemp("nvml"))
    load_in_this_process(made)
    return made.directory


def test_two_nvidia_gpus_are_summed_up_and_listed(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = FakeNvml(tmp_path)
    (tmp_path / "libnvidia-ml.so.1").symlink_to(library / "libnvidia-ml.so.1")
    for name, value in nvml.env.items():
        monkeypatch.setenv(name, value)
    nvml.show(FakeGpu(FIRST, busy=80, used=4 * GIBIBYTE, total=8 * GIBIBYTE, celsius=60, watts=100.0))
    nvml.show(FakeGpu(SECOND, busy=40, used=2 * GIBIBYTE, total=8 * GIBIBYTE, celsius=72, watts=50.0))
    options = Options(proc=str(tmp_path / "proc"), sys=str(tmp_path / "sys"), without=frozenset({"host", "drm"}))
    reader = ProfileReader(options=options)
    try:
        wait_for(lambda: "gpus" in reader.read())
        reading = reader.read()
    finally:
        reader.close()
    assert [(gpu["vendor"], gpu["name"], gpu["gpu.util"]) for gpu in reading["gpus"]] == [
        ("nvidia", "0-aaaaaaaa", 80),
        ("nvidia", "1-bbbbbbbb", 40),
    ]
    tally = ProfileTally()
    tally.add(reading)
    found = tally.summary(1.0, 0.5)["gpu_stats"]
    assert set(found) == {"nvidia"}
    gpus = found["nvidia"].pop("gpus")
    assert found["nvidia"] == {
        "gpu_utilization_percent": 60.0,
        "memory_utilization_percent": 37.5,
        "memory_used_mb": 6144.0,
        "memory_total_mb": 16384.0,
        "temperature_celsius": 72.0,
    }
    assert [(gpu["gpu_utilization_percent"], gpu["memory_used_mb"], gpu["power_watts"]) for gpu in gpus] == [
        (80.0, 4096.0, 100.0),
        (40.0, 2048.0, 50.0),
    ]
    assert gpus[0]["product"] == "NVIDIA Test 0"


def test_an_intel_gpu_has_its_own_keys(tmp_path: Path) -> None:
    sys = plant(tmp_path / "sys", "intel-i915")
    options = Options(proc=str(tmp_path / "proc"), sys=str(sys), without=frozenset({"host", "nvidia"}))
    reader = ProfileReader(options=options)
    try:
        wait_for(lambda: "gpus" in reader.read())
        [gpu] = reader.read()["gpus"]
    finally:
        reader.close()
    assert gpu["vendor"] == "intel"
    tally = ProfileTally()
    for percent in (30.0, 60.0):
        tally.add({"gpus": [gpu | {"gpu.util": percent}]})
    intel = tally.summary(1.0, 0.5)["gpu_stats"]["intel"]
    assert (intel["render_busy_percent"], intel["available"], len(intel["gpus"])) == (45.0, True, 1)
    assert intel["gpus"][0]["max_gpu_utilization_percent"] == 60.0


def test_a_part_of_a_gpu_is_listed_and_not_counted_twice() -> None:
    whole = {"vendor": "nvidia", "name": "0-aaaaaaaa", "gpu.mem_used": 3 * MIB, "gpu.mem_total": 8 * MIB}
    part = {"vendor": "nvidia", "name": "0.1-cccccccc", "gpu.mem_used": 2 * MIB, "gpu.mem_total": 4 * MIB}
    tally = ProfileTally()
    tally.add({"gpus": [whole, part]})
    nvidia = tally.summary(1.0, 0.5)["gpu_stats"]["nvidia"]
    assert (nvidia["memory_used_mb"], nvidia["memory_total_mb"], len(nvidia["gpus"])) == (3.0, 8.0, 2)


@pytest.mark.parametrize(
    ("name", "vendor"),
    [("0-aaaaaaaa", "nvidia"), ("1.3-bb", "nvidia"), ("intel0-00:02.0", "intel"), ("amd1-03:00.0", "amd")],
)
def test_the_name_of_a_gpu_tells_its_vendor(name: str, vendor: str) -> None:
    assert vendor_of(name) == vendor
