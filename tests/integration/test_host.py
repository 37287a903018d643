"""The collector on the machine the tests run on: what is done to it shows, and two ways of asking agree."""

import os
import time
from pathlib import Path

from jobtop.core.measure.collectors.host.portable import PortableHostCollector
from jobtop.core.measure.collectors.host.reading import HostCollector, HostFrame, host_frame
from jobtop.core.metrics import BY_KEY, Kind
from support import require, wait_for

MIB = 1 << 20


def busy_frame(collector: HostCollector, seconds: float) -> HostFrame:
    """A frame over this much CPU time of our own, in one thread."""
    before, start = collector.collect(), time.thread_time()
    while time.thread_time() - start < seconds:
        pass
    return host_frame(before, collector.collect())


def test_a_sample_of_this_machine_is_sane(tmp_path: Path) -> None:
    collector = HostCollector(disk_path=str(tmp_path))
    sample = collector.collect()
    values = {key: value for key, value in sample.values.items() if value is not None}
    assert len(sample.cores) == os.cpu_count()
    assert values["mem.total"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < values["mem.used"] < values["mem.total"]
    assert 0 < values["disk.used"] <= values["disk.total"]
    assert 0 <= values["load.1"] < 10_000
    assert sample.values.keys() - values.keys() == collector.missing.keys()
    assert 0 < values.get("temp", 40) < 150
    uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert sample.uptime_seconds is not None
    assert abs(sample.uptime_seconds - uptime) < 5
    collector.close()


def test_counters_of_this_machine_never_fall() -> None:
    collector = HostCollector()
    counters = [key for key in collector.collect().values if BY_KEY[key].kind is Kind.COUNTER and key != "cpu.iowait"]
    before = collector.collect()
    for _ in range(200):
        after = collector.collect()
        assert [key for key in counters if (after.values[key] or 0) < (before.values[key] or 0)] == []
        before = after
    collector.close()


def test_a_cpu_load_shows_on_this_machine() -> None:
    collector = HostCollector()
    frame = busy_frame(collector, 0.5)
    percent = frame.values["cpu.percent"]
    # What others take, and what the hypervisor takes, stretches the half second but is busy or stolen time.
    assert percent is not None
    assert percent / 100 * frame.seconds > 0.4
    assert percent <= 100 * len(frame.cores)
    assert all(0 <= (load.percent or 0) <= 100 for load in frame.cores.values())
    collector.close()


def test_a_write_to_a_disk_shows_on_this_machine(tmp_path: Path) -> None:
    collector = HostCollector(disk_path=str(tmp_path))
    device = os.stat(tmp_path).st_dev
    name = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    before = collector.collect()
    if not name.exists() or before.values["disk.write_bytes"] is None:
        require("disk", f"{tmp_path} is not on a disk")
    with (tmp_path / "load").open("wb") as file:
        file.write(os.urandom(16 * MIB))
        file.flush()
        os.fsync(file.fileno())

    def written() -> bool:
        after = collector.collect().values["disk.write_bytes"]
        return (after or 0) - (before.values["disk.write_bytes"] or 0) >= 16 * MIB

    wait_for(written)
    collector.close()


def test_psutil_and_the_files_agree_on_this_machine() -> None:
    collector, portable = HostCollector(), PortableHostCollector()
    first, between, second = collector.collect(), portable.collect(), collector.collect()
    for core, times in between.cores.items():
        assert first.cores[core].busy - 0.02 <= times.busy <= second.cores[core].busy + 0.02
    assert {"lo"} <= first.interfaces.keys() & between.interfaces.keys() & second.interfaces.keys()
    for name in first.interfaces.keys() & between.interfaces.keys() & second.interfaces.keys():
        counters, seen = second.interfaces[name], between.interfaces[name]["net.rx_bytes"]
        assert (first.interfaces[name]["net.rx_bytes"] or 0) <= (seen or 0) <= (counters["net.rx_bytes"] or 0)
    for name, counters in second.disks.items():
        seen = between.disks[name]["disk.write_bytes"]
        assert (first.disks[name]["disk.write_bytes"] or 0) <= (seen or 0) <= (counters["disk.write_bytes"] or 0)
    collector.close()


def test_a_closed_collector_leaves_no_descriptor_behind() -> None:
    before = set(os.listdir("/proc/self/fd"))
    collector = HostCollector()
    collector.collect()
    held = set(os.listdir("/proc/self/fd")) - before
    assert held
    collector.close()
    assert not held & set(os.listdir("/proc/self/fd"))
