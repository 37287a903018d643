"""What containers use: answers of the stats API, cgroup files of both versions, networks, rates and histories."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from jobtop.core.measure.collectors.docker.cgroup_numbers import CgroupNumbers, storage_values
from jobtop.core.measure.collectors.docker.cgroup_paths import cgroup_mounts, container_cgroups, container_id_in
from jobtop.core.measure.collectors.docker.model import Container, ContainerLimits
from jobtop.core.measure.collectors.docker.snapshot import HISTORY, ContainerRow
from jobtop.core.measure.collectors.docker.stats_api import usage_in
from jobtop.core.measure.collectors.docker.usage import Usage, UsageTrack, limit_values
from support import ROOT

DATA = ROOT / "tests/data/docker"
ID = "3a6e644cb3d9e943d623453afbc9fb3e08bb6f7338d3d2640c241e02853ead59"
OTHER = "b" * 64
V2_MOUNT = "30 23 0:26 / {root} rw - cgroup2 cgroup2 rw"
V1_MOUNTS = "\n".join(
    f"{30 + number} 23 0:{30 + number} / {{root}}/{name} rw - cgroup cgroup rw,{name}"
    for number, name in enumerate(("memory", "cpu,cpuacct", "pids", "blkio", "devices"))
)
NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 999 9 0 0 0 0 0 0 999 9 0 0 0 0 0 0
  eth0: 1000 10 1 2 0 0 0 0 500 5 0 1 0 0 0 0
  eth1: 24 1 0 0 0 0 0 0 12 1 0 0 0 0 0 0
"""
V1_MEMORY = """cache 1
total_cache 40960
total_rss 110592
total_shmem 8192
total_swap 4096
total_pgfault 300
total_pgmajfault 20
total_inactive_file 4096
"""


def answer(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text())


def usage(name: str, **changes: Any) -> Usage:
    found = usage_in(answer(name) | changes)
    assert found is not None
    return found


def container(pid: int | None = 50, network: str | None = "bridge", container_id: str = ID) -> Container:
    return Container("docker", container_id, "box", "running", pid=pid, network_mode=network)


def machine(tmp_path: Path, mounts: str, cgroup: str, pid: int = 50) -> str:
    """A /proc with one process in a container, whose cgroups are mounted below `cgroup`."""
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self/mountinfo").write_text(mounts.format(root=tmp_path / "cgroup") + "\n")
    (proc / f"{pid}/net").mkdir(parents=True)
    (proc / f"{pid}/cgroup").write_text(cgroup)
    (proc / f"{pid}/net/dev").write_text(NET_DEV)
    return str(proc)


def write(directory: Path, **files: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name.replace("__", ".")).write_text(text)
    return directory


def test_the_stats_of_version_1_have_memory_without_cache_from_the_lists_of_pages() -> None:
    found = usage("stats-cgroupv1-with-networks")
    assert found.values["cpu.user"] + found.values["cpu.system"] == pytest.approx(0.138726999)
    assert found.values["mem.used"] == 110592
    assert (found.working_set_bytes, found.memory_peak_bytes) == (831488, 4079616)
    assert (found.values["net.rx_bytes"], found.values["net.tx_packets"]) == (8678, 173)
    assert found.values["proc.threads"] == 2
    assert "io.read_bytes" not in found.values
    assert "block I/O" in found.absent["io"]


def test_the_stats_of_version_2_have_throttling_and_no_peak() -> None:
    found = usage("stats-cgroupv2")
    assert found.values["cpu.throttled"] == 9.1
    assert (found.values["mem.used"], found.values["mem.cgroup"]) == (57344, 229376)
    assert found.memory_peak_bytes is None
    assert {"io", "net", "gpu"} == found.absent.keys()


def test_the_stats_of_an_exited_container_are_unknown_and_not_zero() -> None:
    assert usage_in(answer("stats-exited")) is None


def test_block_io_counts_reads_and_writes_and_not_their_sums() -> None:
    found = usage("stats-cgroupv1", blkio_stats=answer("blkio-v1"))
    assert (found.values["io.read_bytes"], found.values["io.write_bytes"]) == (139264, 8392704)
    assert "io" not in found.absent


@pytest.mark.parametrize("key", ["memory_stats", "pids_stats", "blkio_stats", "networks", "precpu_stats"])
@pytest.mark.parametrize("value", [None, [], "x", {"usage": -1, "current": "many", "eth0": 7, "stats": []}])
def test_a_part_of_the_stats_that_is_missing_or_wrong_costs_its_own_values(key: str, value: Any) -> None:
    found = usage("stats-cgroupv1-with-networks", **{key: value})
    assert found.values["cpu.user"] > 0
    assert all(number >= 0 for number in found.values.values())


@pytest.mark.parametrize("value", [None, [], 7, "x", {}, {"cpu_stats": {}}, {"read": 3, "cpu_stats": {"cpu_usage": 1}}])
def test_stats_without_a_time_or_cpu_time_are_unknown(value: Any) -> None:
    assert usage_in(value) is None


@pytest.mark.parametrize(
    ("path", "directory"),
    [
        (f"/docker/{ID}", f"docker/{ID}"),
        (f"/system.slice/docker-{ID}.scope", f"system.slice/docker-{ID}.scope"),
        (f"/user.slice/libpod-{ID}.scope/container", f"user.slice/libpod-{ID}.scope"),
        (f"/docker/{ID}/init.scope", f"docker/{ID}"),
        (f"/docker/{OTHER}/docker/{ID}", f"docker/{OTHER}/docker/{ID}"),
    ],
)
def test_the_cgroup_of_a_container_ends_at_its_id(path: str, directory: str, tmp_path: Path) -> None:
    proc = machine(tmp_path, V2_MOUNT, f"0::{path}\n")
    place = write(tmp_path / "cgroup" / directory)
    assert container_cgroups(50, ID, proc) == (str(place),)


@pytest.mark.parametrize("text", ["0::/\n", f"0::/docker/{OTHER}\n", f"0::/../{ID}\n", "", "garbage\n"])
def test_a_process_of_another_machine_or_container_has_no_cgroup_of_this_one(text: str, tmp_path: Path) -> None:
    write(tmp_path / "cgroup" / ID)
    assert container_cgroups(50, ID, machine(tmp_path, V2_MOUNT, text)) == ()


def test_of_nested_containers_the_innermost_owns_a_process() -> None:
    assert container_id_in(f"0::/docker/{OTHER}/docker/{ID}\n", [ID, OTHER]) == ID
    assert container_id_in("0::/user.slice\n", [ID, OTHER]) is None


def test_a_container_of_version_2_is_read_from_its_files(tmp_path: Path) -> None:
    proc = machine(tmp_path, V2_MOUNT, f"0::/docker/{ID}\n")
    place = write(
        tmp_path / "cgroup/docker" / ID,
        cpu__stat="usage_usec 3000000\nuser_usec 2000000\nsystem_usec 1000000\nthrottled_usec 500000\n",
        memory__stat="anon 1000\nfile 500\nshmem 24\ninactive_file 100\npgfault 30\npgmajfault 10\n",
        memory__current="2000\n",
        memory__peak="9000\n",
        memory__events="oom 1\noom_kill 2\n",
        pids__current="7\n",
        io__stat="8:0 rbytes=4096 wbytes=100 rios=1 wios=1 dbytes=0 dios=0\n8:16 rbytes=4 wbytes=0\n",
    )
    numbers = CgroupNumbers(container(), [str(place)], proc)
    found = numbers.read()
    numbers.close()
    assert found is not None
    wanted = {"cpu.user": 2.0, "cpu.system": 1.0, "cpu.throttled": 0.5, "mem.used": 1024, "mem.oom_kills": 2}
    assert found.values.items() >= (wanted | {"proc.threads": 7, "io.read_bytes": 4100, "mem.faults_minor": 20}).items()
    assert (found.values["net.rx_bytes"], found.values["net.errors"], found.values["net.drops"]) == (1024, 1, 3)
    assert (found.working_set_bytes, found.memory_peak_bytes) == (1900, 9000)


def test_a_container_of_version_1_is_read_from_all_its_hierarchies(tmp_path: Path) -> None:
    lines = f"4:memory:/docker/{ID}\n3:cpu,cpuacct:/docker/{ID}\n2:pids:/docker/{ID}\n1:blkio:/docker/{ID}\n"
    proc = machine(tmp_path, V1_MOUNTS, f"{lines}5:devices:/docker/{ID}\n")
    root = tmp_path / "cgroup"
    write(root / f"memory/docker/{ID}", memory__stat=V1_MEMORY, memory__usage_in_bytes="200000\n")
    write(root / f"memory/docker/{ID}", memory__max_usage_in_bytes="300000\n")
    cpu = write(
        root / f"cpu,cpuacct/docker/{ID}", cpu__stat="nr_periods 1\nnr_throttled 1\nthrottled_time 2000000000\n"
    )
    write(cpu, cpuacct__usage="5000000000\n", cpuacct__usage_user="3000000000\n", cpu__cfs_quota_us="100\n")
    write(root / f"pids/docker/{ID}", pids__current="3\n")
    write(root / f"blkio/docker/{ID}", blkio__throttle__io_service_bytes="8:0 Read 0\n8:0 Write 0\nTotal 0\n")
    directories = container_cgroups(50, ID, proc, cgroup_mounts(proc))
    assert len(directories) == 4
    numbers = CgroupNumbers(container(network="host"), directories, proc)
    found = numbers.read()
    numbers.close()
    assert found is not None
    wanted = {"cpu.user": 3.0, "cpu.system": 2.0, "cpu.throttled": 2.0, "mem.used": 118784, "mem.swap": 4096}
    assert found.values.items() >= (wanted | {"proc.threads": 3, "mem.faults_major": 20}).items()
    assert (found.working_set_bytes, found.memory_peak_bytes) == (195904, 300000)
    assert {"io", "net", "gpu"} == found.absent.keys()
    assert "host" in found.absent["net"]


def test_a_cgroup_that_is_gone_gives_nothing(tmp_path: Path) -> None:
    proc = machine(tmp_path, V2_MOUNT, f"0::/docker/{ID}\n")
    place = write(tmp_path / "cgroup/docker" / ID, cpu__stat="usage_usec 3\nuser_usec 2\nsystem_usec 1\n")
    numbers = CgroupNumbers(container(), [str(place)], proc)
    assert numbers.read() is not None
    numbers.close()
    os.remove(place / "cpu.stat")
    assert numbers.read() is None


@pytest.mark.parametrize(("mode", "word"), [("host", "host"), ("container:abc", "another container")])
def test_the_network_of_a_host_or_of_another_container_is_not_its_own(mode: str, word: str, tmp_path: Path) -> None:
    proc = machine(tmp_path, V2_MOUNT, f"0::/docker/{ID}\n")
    place = write(tmp_path / "cgroup/docker" / ID, cpu__stat="usage_usec 3\nuser_usec 2\nsystem_usec 1\n")
    numbers = CgroupNumbers(container(network=mode), [str(place)], proc)
    found = numbers.read()
    numbers.close()
    assert found is not None
    assert "net.rx_bytes" not in found.values
    assert word in found.absent["net"]


def test_without_any_block_io_version_2_says_zero_and_version_1_nothing() -> None:
    assert storage_values({"io.stat": ""}) == {"io.read_bytes": 0, "io.write_bytes": 0}
    assert storage_values({"blkio.throttle.io_service_bytes": "8:0 Read 0\nTotal 0\n"}) == {}


def counted(moment: float, cpu: float, received: int = 0, used: int = 100) -> Usage:
    return Usage({"cpu.user": cpu, "cpu.system": 0.0, "net.rx_bytes": received, "mem.used": used}, moment)


def test_percent_and_rates_come_from_two_readings_and_a_restart_begins_again() -> None:
    track = UsageTrack()
    track.add(counted(10.0, 1.0, 1000))
    assert track.cpu_percent is None
    track.add(counted(12.0, 4.0, 5000))
    assert [track.cpu_percent, track.rates["net.rx_bytes"]] == [150.0, 2000.0]
    track.add(counted(12.01, 4.0, 5000))
    assert track.cpu_percent == 150.0
    track.add(counted(13.0, 0.5, 0))
    assert track.cpu_percent is None
    assert "net.rx_bytes" not in track.rates


def test_a_counter_that_the_kernel_divides_anew_does_not_make_the_sum_unknown() -> None:
    track = UsageTrack()
    track.add(Usage({"cpu.user": 1.0, "cpu.system": 0.5}, 0.0))
    track.add(Usage({"cpu.user": 0.9, "cpu.system": 1.1}, 1.0))
    assert track.cpu_percent == pytest.approx(50.0)


def test_histories_are_short_and_have_gaps() -> None:
    track = UsageTrack()
    for number in range(3 * HISTORY):
        track.add(counted(float(number), number * 0.1, used=number))
    track.miss()
    assert len(track.history.cpu_percent) == len(track.history.memory_bytes) == HISTORY
    assert (track.history.memory_bytes[-1], track.history.memory_bytes[-2]) == (None, 3 * HISTORY - 1)
    assert track.history.cpu_percent[-2] == pytest.approx(10.0)


def test_a_row_says_why_a_value_is_absent() -> None:
    row = ContainerRow(
        container(), {"cpu.percent": 0.0}, why_absent="all", absent={"net": "no network", "mem.swap": "x"}
    )
    assert [row.reason(key) for key in ("cpu.percent", "net.rx_bytes", "mem.swap", "io.read_bytes")] == [
        *(None, "no network", "x", "all"),
    ]
    assert row.job_id is None


def test_limits_are_values_only_where_there_are_any() -> None:
    assert limit_values(ContainerLimits(64, 0.5)) == {"limit.memory": 64, "limit.cpus": 0.5}
