"""Counters of a network namespace are the job's alone, go on when an interface is made again, and never fall."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors.network.namespaces import Namespace, NamespaceTraffic
from jobtop.core.measure.collectors.pid_owners import PidOwners
from jobtop.core.measure.target import Target
from jobtop.core.model import Identity

HEAD = "Inter-|   Receive  |  Transmit\n face |bytes packets |bytes packets\n"


def net_dev(**received: int) -> str:
    """The file with these interfaces, each with as many bytes received, and twice as many sent."""
    rows = [f"{name}: {size} 1 2 3 0 0 0 0 {2 * size} 4 5 6 0 0 0 0\n" for name, size in received.items()]
    return HEAD + "".join(rows)


def read(namespace: Namespace, file: Path, text: str) -> tuple[object, object]:
    file.write_text(text)
    namespace.read(str(file))
    values = namespace.values()
    return values["net.rx_bytes"], values["net.tx_bytes"]


def test_loopback_is_left_out_and_interfaces_that_come_and_go_add_up(tmp_path: Path) -> None:
    namespace, file = Namespace(existed=False), tmp_path / "dev"
    assert read(namespace, file, net_dev(lo=1000)) == (0, 0)
    assert namespace.is_known
    assert not namespace.has_interfaces
    assert read(namespace, file, net_dev(lo=1000, eth0=10)) == (10, 20)
    assert namespace.values()["net.errors"] == 7
    assert namespace.values()["net.drops"] == 9
    assert read(namespace, file, net_dev(lo=1000)) == (10, 20)
    assert read(namespace, file, net_dev(eth0=4)) == (14, 28)
    assert read(namespace, file, net_dev(eth0=5, eth1=100)) == (115, 230)
    namespace.close()


def test_what_a_namespace_counted_before_the_job_is_not_the_job_s(tmp_path: Path) -> None:
    namespace, file = Namespace(existed=True), tmp_path / "dev"
    assert read(namespace, file, net_dev(eth0=10)) == (0, 0)
    assert read(namespace, file, net_dev(eth0=15)) == (5, 10)
    namespace.close()


@pytest.mark.parametrize("text", ["", "torn", HEAD[:20]])
def test_a_torn_file_is_unknown(text: str, tmp_path: Path) -> None:
    namespace = Namespace(existed=False)
    read(namespace, tmp_path / "dev", text)
    assert not namespace.is_known
    namespace.close()
    namespace.read(str(tmp_path / "missing"))
    assert not namespace.is_known


class FakeNamespaces:
    """Processes in a directory like /proc, each in a network namespace, which is a file."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for pid in ("1", "self"):
            self.put(pid, "host")

    def put(self, pid: str, namespace: str, parent: int = 0) -> None:
        (self.directory / namespace).touch()
        (self.directory / pid / "ns").mkdir(parents=True)
        (self.directory / pid / "net").mkdir()
        os.link(self.directory / namespace, self.directory / pid / "ns" / "net")
        fields = " ".join(["S", str(parent), *["0"] * 17, "7", *["0"] * 10])
        (self.directory / pid / "stat").write_text(f"{pid} (x) {fields}")
        (self.directory / pid / "net" / "dev").write_text(net_dev(lo=5, eth0=int(pid) if pid.isdigit() else 0))

    def traffic(self) -> NamespaceTraffic:
        return NamespaceTraffic(PidOwners(str(self.directory)), None, str(self.directory))


def test_a_namespace_with_other_processes_in_it_is_not_counted(tmp_path: Path) -> None:
    machine = FakeNamespaces(tmp_path)
    with subprocess.Popen(["sleep", "60"]) as process:
        root = str(process.pid)
        jobs = {"job": Target(Identity("", process.pid, None), time.clock_gettime(BOOTTIME), includes_root=True)}
        machine.put(root, "own")
        alone = machine.traffic()
        alone.read(jobs)
        assert alone.values("job")["net.rx_bytes"] == process.pid
        assert alone.has_interfaces("job")
        late = machine.traffic()
        late.read({"job": Target(Identity("", process.pid, None), 0.0, includes_root=True)})
        assert late.values("job")["net.rx_bytes"] == 0
        assert "counted from" in late.incomplete("job")[0]
        late.close()
        machine.put("77777777", "own", parent=process.pid)
        child = machine.traffic()
        child.read(jobs)
        assert child.values("job")
        machine.put("88888888", "own", parent=1)
        shared = machine.traffic()
        shared.read(jobs)
        assert shared.values("job") == {}
        assert "shared" in shared.incomplete("job")[0]
        for traffic in (alone, child, shared):
            traffic.close()
        process.kill()


def test_the_namespace_of_the_host_is_never_counted(tmp_path: Path) -> None:
    machine = FakeNamespaces(tmp_path)
    with subprocess.Popen(["sleep", "60"]) as process:
        machine.put(str(process.pid), "host")
        traffic = machine.traffic()
        traffic.read({"job": Target(Identity("", process.pid, None), 0.0, includes_root=True)})
        assert traffic.values("job") == {}
        assert traffic.known_jobs() == []
        process.kill()
