"""A machine is sampled as its files say: real devices count once, and what is not told is absent with a reason."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from captured_hosts import below_machine

from jobtop.core.measure.collectors.host.files import CoreTimes, parse_stat
from jobtop.core.measure.collectors.host.hardware import Thermometer, physical_disks, physical_interfaces
from jobtop.core.measure.collectors.host.portable import PortableHostCollector
from jobtop.core.measure.collectors.host.reading import (
    SAMPLED_KEYS,
    CpuLoad,
    HostCollector,
    HostSample,
    core_load,
    host_frame,
    open_host,
    rates,
)
from jobtop.core.measure.collectors.open_file import KeptFile

KIB = 1024
OPENED: list[HostCollector] = []


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Machine:
    """A captured machine below a directory, and a collector that reads it."""

    def __init__(self, name: str, below: Path) -> None:
        self.proc, self.sys, self.clock = below / "proc", below / "sys", Clock()
        self._captured = below_machine(name, below)
        self.collector = HostCollector(str(self.proc), str(self.sys), str(below), self.clock)
        OPENED.append(self.collector)

    def pass_time(self, seconds: float) -> None:
        """Let the clock go on, and put what was captured later into the same files."""
        self.clock.now += seconds
        later = self._captured / "proc-later"
        for file in later.rglob("*"):
            if file.is_file():
                (self.proc / file.relative_to(later)).write_text(file.read_text())


def machine(name: str, below: Path) -> Machine:
    return Machine(name, below / name)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Collectors are closed after the test that made them."""
    yield
    while OPENED:
        OPENED.pop().close()


def test_a_sample_has_every_key_of_the_catalogue(tmp_path: Path) -> None:
    many = machine("manycore", tmp_path)
    assert many.collector.available() is None
    sample = many.collector.collect()
    assert tuple(sample.values) == SAMPLED_KEYS
    assert many.collector.missing == {}
    assert sample.uptime_seconds == 86400.25
    assert [sample.values[f"load.{minutes}"] for minutes in (1, 5, 15)] == [12.5, 8.25, 4.0]
    many.collector.close()


def test_memory_that_cannot_be_given_back_is_used(tmp_path: Path) -> None:
    values = machine("manycore", tmp_path).collector.collect().values
    assert values["mem.total"] == 264_000_000 * KIB
    assert values["mem.available"] == 200_000_000 * KIB
    assert values["mem.used"] == 64_000_000 * KIB
    assert values["mem.cached"] == (90_000_000 + 1_000_000 - 4_000_000) * KIB
    assert (values["swap.total"], values["swap.used"]) == (8_000_000 * KIB, 1_000_000 * KIB)


def test_disks_are_summed_without_what_lies_on_them(tmp_path: Path) -> None:
    sample = machine("manycore", tmp_path).collector.collect()
    assert sorted(sample.disks) == ["dm-0", "md127", "nvme0n1", "sda"]
    assert sample.values["disk.read_bytes"] == (2000 + 10000) * 512
    assert sample.values["disk.write_bytes"] == (4000 + 20000) * 512
    assert sample.values["disk.busy"] == 13.0


def test_interfaces_are_summed_without_what_lies_on_them(tmp_path: Path) -> None:
    sample = machine("manycore", tmp_path).collector.collect()
    assert sorted(sample.interfaces) == ["bond0", "docker0", "eth0", "eth1", "lo", "veth1a2b3c4"]
    assert sample.values["net.rx_bytes"] == 1_100_000_000
    assert sample.values["net.tx_bytes"] == 2_100_000_000
    assert (sample.values["net.errors"], sample.values["net.drops"]) == (4, 6)


def test_the_temperature_is_the_hottest_sane_one_of_the_cpu(tmp_path: Path) -> None:
    assert machine("manycore", tmp_path).collector.collect().values["temp"] == 63.0
    assert machine("old-kernel", tmp_path).collector.collect().values["temp"] == 41.0
    assert machine("odd-names", tmp_path).collector.collect().values["temp"] == 38.5


def test_a_frame_has_the_load_of_each_core(tmp_path: Path) -> None:
    many = machine("manycore", tmp_path)
    before = many.collector.collect()
    many.pass_time(10)
    frame = host_frame(before, many.collector.collect())
    assert len(frame.cores) == 64
    assert loads(frame.cores[0]) == pytest.approx((100, 0, 0))
    assert loads(frame.cores[1]) == pytest.approx((0, 60, 0))
    assert loads(frame.cores[2]) == pytest.approx((25, 0, 25))
    assert loads(frame.cpu) == pytest.approx((125, 60, 25))
    assert frame.values["cpu.percent"] == pytest.approx(125)
    assert frame.values["cpu.iowait"] == pytest.approx(0.6)
    assert frame.values["cpu.steal"] == pytest.approx(0.25)


def loads(load: CpuLoad) -> tuple[float | None, ...]:
    return (load.percent, load.iowait_percent, load.steal_percent)


def test_iowait_that_the_kernel_took_back_was_idle_time(tmp_path: Path) -> None:
    many = machine("manycore", tmp_path)
    before = many.collector.collect()
    many.pass_time(10)
    after = many.collector.collect()
    assert (after.cores[3].iowait or 0) < (before.cores[3].iowait or 0)
    assert loads(host_frame(before, after).cores[3]) == pytest.approx((0, 0, 0))


def test_a_frame_has_rates_of_counters_and_gauges_as_they_are(tmp_path: Path) -> None:
    many = machine("manycore", tmp_path)
    before = many.collector.collect()
    many.pass_time(10)
    frame = host_frame(before, many.collector.collect())
    assert frame.seconds == 10
    assert frame.values["mem.used"] == 64_000_000 * KIB
    assert frame.values["disk.read_bytes"] == pytest.approx(200 * 512)
    assert frame.values["disk.write_bytes"] == pytest.approx((2048 + 20000) * 512)
    assert frame.values["net.rx_bytes"] == pytest.approx(125_000)
    assert frame.values["net.tx_bytes"] == pytest.approx(1500)
    assert frame.values["net.drops"] == pytest.approx(1)
    assert frame.values["cpu.pressure"] == pytest.approx(0.5)
    assert frame.values["io.pressure"] == pytest.approx(0.25)
    assert frame.full["io.pressure"] == pytest.approx(0.0625)
    assert frame.full["cpu.pressure"] is None
    assert frame.interfaces["bond0"]["net.rx_bytes"] == pytest.approx(125_000)
    assert frame.disks["sda"]["disk.busy"] == pytest.approx(0.1)
    assert frame.disks["dm-0"]["disk.write_bytes"] == pytest.approx(2000 * 512)


def test_one_disk_is_never_busy_for_longer_than_there_was_time(tmp_path: Path) -> None:
    many = machine("manycore", tmp_path)
    before = many.collector.collect()
    many.pass_time(10)
    frame = host_frame(before, many.collector.collect())
    assert frame.disks["nvme0n1"]["disk.busy"] == 1.0
    assert frame.values["disk.busy"] == pytest.approx(1.101)


def sample_of(seconds: float, **parts: object) -> HostSample:
    return HostSample(seconds, **{"values": {}, **parts})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (CoreTimes(10, 10, 1, 1), CoreTimes(9, 12, 1, 1)),
        (CoreTimes(10, 10, 1, 1), CoreTimes(12, 9, 1, 1)),
        (CoreTimes(10, 10, 1, 1), CoreTimes(10, 10, 1, 1)),
    ],
    ids=["busy fell", "idle fell", "stood still"],
)
def test_a_core_whose_counters_fell_or_stood_still_is_absent(before: CoreTimes, after: CoreTimes) -> None:
    assert core_load(before, after) == CpuLoad()
    frame = host_frame(sample_of(1, cores={0: before}), sample_of(2, cores={0: after}))
    assert frame.values["cpu.percent"] is None


def test_a_core_that_was_switched_on_or_off_leaves_the_others() -> None:
    before = sample_of(1, cores={0: CoreTimes(1, 1), 1: CoreTimes(50, 50)})
    after = sample_of(2, cores={0: CoreTimes(1.5, 1.5), 2: CoreTimes(70, 70)})
    frame = host_frame(before, after)
    assert list(frame.cores) == [0]
    assert frame.values["cpu.percent"] == pytest.approx(50)
    assert frame.values["cpu.steal"] is None


def test_counters_that_fell_are_absent_and_gauges_may_fall() -> None:
    before = {"disk.read_bytes": 100.0, "disk.write_bytes": None, "mem.used": 9.0}
    after = {"disk.read_bytes": 99.0, "disk.write_bytes": 5.0, "disk.busy": 1.0, "mem.used": 3.0, "temp": None}
    expected = {"disk.read_bytes": None, "disk.write_bytes": None, "disk.busy": None, "mem.used": 3.0, "temp": None}
    assert rates(before, after, 1.0) == expected


def test_no_rate_is_made_of_no_time() -> None:
    assert rates({"net.rx_bytes": 1}, {"net.rx_bytes": 2}, 0.0) == {"net.rx_bytes": None}
    assert rates({"net.rx_bytes": 1}, {"net.rx_bytes": 2}, -1.0) == {"net.rx_bytes": None}


def test_a_device_that_came_or_went_has_no_rate() -> None:
    counted = {"net.rx_bytes": 5.0}
    frame = host_frame(sample_of(1, interfaces={"usb0": counted}), sample_of(2, interfaces={"usb1": counted}))
    assert frame.interfaces == {}


def test_an_old_kernel_is_sampled_with_what_it_has(tmp_path: Path) -> None:
    old = machine("old-kernel", tmp_path)
    sample = old.collector.collect()
    missing = old.collector.missing
    absent = {"cpu.steal", "mem.available", "mem.used", "cpu.pressure", "mem.pressure", "io.pressure"}
    assert missing.keys() == absent == {key for key, value in sample.values.items() if value is None}
    assert missing["mem.available"] == f"{old.proc}/meminfo: does not tell"
    assert missing["cpu.pressure"].startswith(f"{old.proc}/pressure/cpu: No such file or directory")
    assert sample.cores[1] == CoreTimes(2.05, 8.2, 0.2, None)
    assert sample.values["net.rx_bytes"] == 123456789
    assert sample.values["disk.write_bytes"] == 1600 * 512


def test_a_container_counts_what_leads_out_of_it(tmp_path: Path) -> None:
    container = machine("container", tmp_path)
    sample = container.collector.collect()
    assert sample.values["net.rx_bytes"] == 1000
    assert sorted(sample.disks) == ["dm-0", "dm-10", "nvme0n1", "sda"]
    assert sample.values["disk.read_bytes"] == 2100 * 512
    assert sample.values["mem.total"] == 4 << 30
    assert sample.values["mem.cached"] == 0
    assert "class/hwmon" in container.collector.missing["temp"]


def test_odd_names_and_torn_lines_do_no_harm(tmp_path: Path) -> None:
    odd = machine("odd-names", tmp_path)
    sample = odd.collector.collect()
    assert sorted(sample.cores) == [0, 12]
    assert sorted(sample.interfaces) == sorted(["wlp2s0", "eth0", "enP1s1", "eth0:1", "日本", "br-lan"])
    assert sample.values["net.rx_bytes"] == 1100
    assert sorted(sample.disks) == ["cciss/c0d0", "mmcblk0", "mmcblk0boot0", "nvme0c0n1", "nvme0c1n1", "nvme0n1"]
    assert sample.values["disk.read_bytes"] == (1000 + 10 + 1 + 400 + 600) * 512
    assert sample.uptime_seconds is None
    assert {"load.1", "mem.total", "mem.cached", "swap.used"} <= odd.collector.missing.keys()
    assert sample.values["swap.total"] == 100 * KIB


def test_a_machine_without_anything_is_absent_not_zero(tmp_path: Path) -> None:
    collector = HostCollector(str(tmp_path / "proc"), str(tmp_path / "sys"), str(tmp_path / "gone"))
    sample = collector.collect()
    assert set(sample.values.values()) == {None}
    assert collector.missing.keys() == {"cpu.percent", *SAMPLED_KEYS}
    assert collector.missing["disk.used"] == f"{tmp_path}/gone: No such file or directory"
    assert collector.available() == f"{tmp_path}/proc/stat: No such file or directory"
    assert host_frame(sample, collector.collect()).values["cpu.percent"] is None


def test_a_file_that_vanishes_is_absent_and_is_found_again(tmp_path: Path) -> None:
    many = machine("manycore", tmp_path)
    assert many.collector.collect().values["load.1"] == 12.5
    many.collector.close()
    (many.proc / "loadavg").rename(many.proc / "away")
    assert many.collector.collect().values["load.1"] is None
    assert many.collector.missing == {
        f"load.{minutes}": f"{many.proc}/loadavg: No such file or directory" for minutes in (1, 5, 15)
    }
    (many.proc / "away").rename(many.proc / "loadavg")
    assert many.collector.collect().values["load.1"] == 12.5
    assert many.collector.missing == {}


def test_a_new_disk_counts_as_soon_as_it_is_there(tmp_path: Path) -> None:
    many = machine("manycore", tmp_path)
    many.collector.collect()
    (many.sys / "devices/pci0000:00/usb1/block/sdz").mkdir(parents=True)
    (many.sys / "block/sdz").symlink_to("../devices/pci0000:00/usb1/block/sdz")
    with (many.proc / "diskstats").open("a") as stats:
        stats.write("   8     100 sdz 1 0 1000000 1 1 0 0 1 0 1 1\n")
    assert many.collector.collect().values["disk.read_bytes"] == (2000 + 10000 + 1000000) * 512


def test_space_and_temperature_are_read_at_their_own_pace(tmp_path: Path) -> None:
    many = machine("manycore", tmp_path)
    many.collector.collect()
    (many.sys / "class/hwmon/hwmon1/temp1_input").write_text("70000\n")
    many.clock.now += 9
    assert many.collector.collect().values["temp"] == 63.0
    many.clock.now += 1
    assert many.collector.collect().values["temp"] == 70.0


def test_a_sensor_that_went_away_is_looked_for_elsewhere(tmp_path: Path) -> None:
    many = machine("manycore", tmp_path)
    thermometer = Thermometer(str(many.sys))
    assert thermometer.read() == 63.0
    shutil.rmtree(many.sys / "class/hwmon/hwmon1")
    assert thermometer.read() == 80.0
    shutil.rmtree(many.sys / "class")
    assert thermometer.read() is None
    assert thermometer.problem is not None
    (many.sys / "class/thermal/thermal_zone3").mkdir(parents=True)
    (many.sys / "class/thermal/thermal_zone3/type").write_text("cpu-thermal\n")
    (many.sys / "class/thermal/thermal_zone3/temp").write_text("51500\n")
    assert thermometer.read() == 51.5
    assert thermometer.problem is None


def test_without_sysfs_names_tell_what_is_real(tmp_path: Path) -> None:
    nowhere = str(tmp_path)
    disks, physical = physical_disks(["vda", "vda1", "mmcblk0", "mmcblk0p2", "md1", "md10", "zram0", "sdaa"], nowhere)
    assert disks == {"vda", "mmcblk0", "md1", "md10", "sdaa"}
    assert physical == {"vda", "mmcblk0", "sdaa"}
    names = ["lo", "eth0", "ens3", "veth01", "br-0a", "br0", "docker0", "tun0", "wlan0"]
    assert physical_interfaces(names, nowhere) == {"eth0", "ens3", "wlan0"}


def test_a_long_file_is_read_to_its_end_however_little_comes_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"cpu{core} 1 0 0 1\n" for core in range(500))
    (tmp_path / "stat").write_text(text)
    whole = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: whole(fd, min(size, 1000), offset))
    file = KeptFile(str(tmp_path / "stat"))
    assert len(parse_stat(file.read())) == len(parse_stat(file.read())) == 500
    file.close()


def test_the_collector_fits_the_system(tmp_path: Path) -> None:
    many = machine("manycore", tmp_path)
    assert isinstance(open_host("/", str(many.proc), str(many.sys)), HostCollector)
    assert isinstance(open_host("/", str(tmp_path / "none")), PortableHostCollector)


def test_psutil_serves_where_there_is_no_proc(tmp_path: Path) -> None:
    collector = PortableHostCollector(str(tmp_path))
    assert collector.available() is None
    sample = collector.collect()
    assert tuple(sample.values) == SAMPLED_KEYS
    assert len(sample.cores) == os.cpu_count()
    assert {"temp", "cpu.pressure", "mem.cached"} <= collector.missing.keys()
    assert sample.values["mem.total"]
    assert host_frame(sample, sample).values["cpu.percent"] is None
    gone = PortableHostCollector(str(tmp_path / "gone"))
    assert gone.collect().values["disk.used"] is None
    assert "No such file" in gone.missing["disk.used"]
    collector.close()


def test_a_core_that_never_rests_is_busy_for_exactly_all_of_the_time() -> None:
    began = CoreTimes(0.0, 0.0, 0.0, 0.0)
    for ticks in range(1, 1000):
        seconds = ticks * 0.01
        assert core_load(began, CoreTimes(seconds, 0.0, 0.0, 0.0)) == CpuLoad(100.0, 0.0, 0.0)
        assert core_load(began, CoreTimes(0.0, seconds, seconds, 0.0)) == CpuLoad(0.0, 100.0, 0.0)
