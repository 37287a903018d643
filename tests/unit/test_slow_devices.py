"""Space of disks, NUMA nodes, sensors and batteries: right on captured machines, absent where a file says nothing."""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from captured_hosts import GIB, below_machine, slow_reader, space_of

from jobtop.core.measure.collectors.host.batteries import read_batteries
from jobtop.core.measure.collectors.host.files import Counters
from jobtop.core.measure.collectors.host.numa import read_nodes
from jobtop.core.measure.collectors.host.portable import PortableSlowReader
from jobtop.core.measure.collectors.host.reading import HostCollector
from jobtop.core.measure.collectors.host.sensors import Sensors
from jobtop.core.measure.collectors.host.slow_source import INTERVAL_SECONDS, LinuxReader, SlowHostSource, open_reader
from jobtop.core.measure.collectors.host.source import HostSource
from jobtop.core.measure.collectors.host.space import DiskSpace
from jobtop.core.measure.device import Device
from jobtop.core.measure.sources import Options, slow_devices
from jobtop.core.metrics import Scope

KIB = 1024


@pytest.fixture
def many(tmp_path: Path) -> Path:
    below_machine("manycore", tmp_path)
    return tmp_path


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_file_system_counts_once_for_each_disk_that_it_lies_on_as_a_whole(many: Path) -> None:
    space = slow_reader(many).space()
    assert space["dm-0"] == (30 * GIB, 100 * GIB)
    assert space["sda"] == ((30 + 1) * GIB, (100 + 2) * GIB)
    assert space["nvme0n1"] == (7 * GIB, 70 * GIB)


def test_a_file_system_on_two_disks_counts_for_the_device_that_joins_them(many: Path) -> None:
    space = slow_reader(many).space()
    assert space["md127"] == (500 * GIB, 1000 * GIB)
    assert space["sda"][1] < 1000 * GIB
    assert space["nvme0n1"][1] < 1000 * GIB


def test_only_local_block_devices_are_asked_and_each_once(many: Path) -> None:
    asked: list[str] = []

    def read(place: str) -> tuple[int | None, int | None, str | None]:
        asked.append(place)
        return space_of(place)

    DiskSpace(str(many / "proc"), str(many / "sys"), read).collect()
    assert sorted(asked) == ["/", "/boot", "/data", "/scratch", "/snap/core/1"]


@pytest.mark.parametrize(
    ("line", "hidden"),
    [
        ("40 32 0:60 / /data rw - nfs4 server:/d rw", "/data"),  # on top of it
        ("40 22 0:60 / /dat rw - nfs4 server:/d rw", None),  # beside it
    ],
)
def test_a_mount_that_a_network_mount_covers_is_not_asked(many: Path, line: str, hidden: str | None) -> None:
    mounts = many / "proc/self/mountinfo"
    mounts.write_text(mounts.read_text() + line + "\n")
    assert ("md127" in slow_reader(many).space()) == (hidden is None)


def test_a_mount_below_a_directory_that_was_covered_later_is_not_asked(many: Path) -> None:
    mounts = many / "proc/self/mountinfo"
    text = mounts.read_text().replace(" /data ", " /net/data ")
    mounts.write_text(text + "40 22 0:60 / /net rw - nfs4 server:/net rw\n")
    assert "md127" not in slow_reader(many).space()


def test_a_file_system_that_cannot_be_asked_leaves_its_disk_absent(many: Path) -> None:
    def read(place: str) -> tuple[int | None, int | None, str | None]:
        return (None, None, "Permission denied") if place in ("/", "/srv/a b") else space_of(place)

    space = DiskSpace(str(many / "proc"), str(many / "sys"), read).collect()
    assert "dm-0" not in space
    assert "sda" not in space
    assert space["nvme0n1"] == (7 * GIB, 70 * GIB)


def test_a_part_of_a_file_system_serves_if_the_whole_may_not_be_entered(many: Path) -> None:
    def read(place: str) -> tuple[int | None, int | None, str | None]:
        if place == "/":
            return None, None, "Permission denied"
        return space_of("/" if place == "/srv/a b" else place)

    assert DiskSpace(str(many / "proc"), str(many / "sys"), read).collect()["dm-0"] == (30 * GIB, 100 * GIB)


def test_a_new_mount_is_seen(many: Path) -> None:
    reader = slow_reader(many)
    mounts = many / "proc/self/mountinfo"
    text = mounts.read_text()
    mounts.write_text("\n".join(line for line in text.splitlines() if " /boot " not in line))
    assert reader.space()["sda"] == (30 * GIB, 100 * GIB)
    mounts.write_text(text)
    assert reader.space()["sda"] == (31 * GIB, 102 * GIB)


def test_a_sample_of_a_disk_has_its_space_until_that_is_too_old(many: Path) -> None:
    now = [0.0]
    slow = SlowHostSource(lambda: slow_reader(many), lambda: now[0])
    host = HostSource(HostCollector(str(many / "proc"), str(many / "sys"), str(many)), slow.space)

    def space_of_sda() -> tuple[object, ...]:
        values = dict(host.collect({}).devices)[Device("disk", "sda")]
        assert values["disk.read_bytes"] is not None
        return values["disk.used"], values["disk.total"]

    assert space_of_sda() == (None, None)
    slow.collect({})
    assert space_of_sda() == (31 * GIB, 102 * GIB)
    now[0] = 3 * INTERVAL_SECONDS + 1
    assert space_of_sda() == (None, None)
    host.close()


def test_nodes_have_memory_and_misses(many: Path) -> None:
    nodes = read_nodes(str(many / "sys"))
    assert list(nodes) == ["0", "1"]
    assert nodes["0"]["mem.total"] == 132_000_000 * KIB
    assert nodes["0"]["mem.cached"] == 46_000_000 * KIB
    assert nodes["0"]["mem.used"] == (132_000_000 - 40_000_000 - 46_000_000 - 2_000_000) * KIB
    assert (nodes["0"]["numa.misses"], nodes["1"]["numa.misses"]) == (1234, 0)


def test_sensors_have_readable_names_and_gpus_and_sleeping_disks_are_not_read(many: Path) -> None:
    assert Sensors(str(many / "sys")).collect() == {
        "nvme temp1": {"temp": 91.0},
        "coretemp Package id 0": {"temp": 63.0},
        "coretemp temp2": {"temp": 61.0},
        "nct6775 temp1": {"temp": 74.0},
        "nct6775 fan1": {"fan.speed": 1180},
        "nct6775 CPU fan": {"fan.speed": 0},
        "acpitz": {"temp": 80.0},
    }


def test_sensors_with_the_same_name_are_told_apart(many: Path) -> None:
    sys = many / "sys"
    (sys / "class/hwmon/hwmon1/device").symlink_to("../../../devices/platform/coretemp.0")
    (sys / "class/hwmon/hwmon9").mkdir()
    (sys / "class/hwmon/hwmon9/device").symlink_to("../../../devices/platform/coretemp.1")
    for number in (0, 1):
        (sys / f"devices/platform/coretemp.{number}").mkdir(parents=True)
    for file in ("name", "temp1_label", "temp1_input"):
        shutil.copy(sys / "class/hwmon/hwmon1" / file, sys / "class/hwmon/hwmon9" / file)
    put(sys / "class/hwmon/hwmon9/temp2_label", "Package id 0\n")
    put(sys / "class/hwmon/hwmon9/temp2_input", "50000\n")
    put(sys / "class/thermal/thermal_zone7/type", "acpitz\n")
    put(sys / "class/thermal/thermal_zone7/temp", "20000\n")
    found = Sensors(str(sys)).collect()
    assert found["coretemp.0 Package id 0"] == {"temp": 63.0}
    assert found["coretemp.1 Package id 0 temp1"] == {"temp": 63.0}
    assert found["coretemp.1 Package id 0 temp2"] == {"temp": 50.0}
    assert found["acpitz zone 0"] == {"temp": 80.0}
    assert found["acpitz zone 7"] == {"temp": 20.0}


def test_a_suspended_device_is_not_read(many: Path) -> None:
    sensors = Sensors(str(many / "sys"))
    assert "nvme temp1" in sensors.collect()
    put(many / "sys/class/hwmon/hwmon0/device/power/runtime_status", "suspended\n")
    assert "nvme temp1" not in sensors.collect()


def test_a_zone_that_is_a_chip_too_is_read_once(many: Path) -> None:
    put(many / "sys/class/thermal/thermal_zone0/hwmon8/name", "acpitz\n")
    assert "acpitz" not in Sensors(str(many / "sys")).collect()


def test_a_battery_supplies_power_or_takes_it(many: Path) -> None:
    found = read_batteries(str(many / "sys"))
    assert found["BAT0"] == {"battery.charge": 81, "battery.power": 12.5}
    assert found["BAT1"] == {"battery.charge": 75.0, "battery.power": pytest.approx(-18.0)}
    assert list(found) == ["BAT0", "BAT1"]


@pytest.mark.parametrize(
    ("status", "power"), [("Full", None), ("Not charging", None), ("", None), ("Discharging", 12.5)]
)
def test_power_of_which_the_direction_is_not_known_is_absent(many: Path, status: str, power: float | None) -> None:
    put(many / "sys/class/power_supply/BAT0/status", f"{status}\n")
    assert read_batteries(str(many / "sys"))["BAT0"]["battery.power"] == power


def every_file(below: Path) -> Iterator[Path]:
    yield below / "proc/self/mountinfo"
    for directory in ("sys/class/hwmon", "sys/class/thermal", "sys/class/power_supply", "sys/devices/system/node"):
        # Without the file `scope` a battery is one of the machine.
        yield from (path for path in sorted((below / directory).rglob("*")) if path.is_file() and path.name != "scope")


@pytest.mark.parametrize("damage", ["missing", "empty", "torn", "denied", "a directory"])
def test_a_file_that_says_nothing_costs_its_own_number_and_is_no_zero(many: Path, damage: str) -> None:
    def known(devices: Mapping[Scope, dict[str, Counters]]) -> set[tuple[Scope, str, str]]:
        return {
            (kind, name, key)
            for kind, by_name in devices.items()
            for name, values in by_name.items()
            for key, value in values.items()
            if value is not None
        }

    whole = slow_reader(many).devices()
    for file in every_file(many):
        text = file.read_text()
        if damage == "torn" and file.name in ("name", "type", "fan2_label"):
            continue  # any text is a name
        file.unlink()
        if damage == "torn":
            file.write_text(text[: len(text) // 3] + "\x00\x1b")
        elif damage == "empty":
            file.write_text("")
        elif damage == "denied":
            file.symlink_to("/proc/self/mem")  # opens, and cannot be read; permissions do not bind root
        elif damage == "a directory":
            file.mkdir()
        reader = slow_reader(many)
        read, space = reader.devices(), reader.space()
        assert len(known(read)) <= len(known(whole)), file
        zeros = [name for by_name in read.values() for name, values in by_name.items() if 0 in values.values()]
        assert set(zeros) <= {"1", "nct6775 CPU fan", "nct6775 fan2"}, file
        assert all(total for _, total in space.values())
        shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
        file.write_text(text)
    assert slow_reader(many).devices() == whole


def test_a_machine_without_anything_has_no_source(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    source = SlowHostSource(lambda: LinuxReader(str(tmp_path / "proc"), str(tmp_path / "sys")))
    assert source.available() is not None
    assert source.collect({}).devices == []
    assert source.space() == {}


def test_the_source_has_its_own_pace_and_follows_the_switch_of_the_host() -> None:
    assert slow_devices(Options()).interval_seconds == INTERVAL_SECONDS
    assert slow_devices(Options(without=frozenset({"host"}))).available() is not None


def test_the_reader_fits_the_system(tmp_path: Path) -> None:
    assert isinstance(open_reader(str(tmp_path)), PortableSlowReader)
    assert isinstance(open_reader(), LinuxReader if os.path.exists("/proc/stat") else PortableSlowReader)
    values = PortableSlowReader().devices()
    assert all(by_name is not None for by_name in values.values())
