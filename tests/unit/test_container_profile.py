"""What a container used while a block ran: the texts of `docker stats`, from readings while it ran."""

from __future__ import annotations

from jobtop.core.measure.collectors.docker.model import Container
from jobtop.core.measure.collectors.docker.snapshot import CGROUP, ContainerRow, Containers, EngineState
from jobtop.core.track.container_process import is_meant, problem
from jobtop.core.track.container_profile import BINARY, DECIMAL, ContainerTally, container_info, size_text

MIB, GIB = 1 << 20, 1 << 30
CONTAINER = Container("docker", "3f8a21b2c4d5e6f7", "keystone-fenicsx", "running", image="fenicsx:1")


def row(at: float, **values: float) -> ContainerRow:
    named = {key.replace("_", ".", 1): value for key, value in values.items()}
    return ContainerRow(CONTAINER, named, working_set_bytes=int(named["mem.used"]), source=CGROUP, read_at=at)


def test_a_container_has_the_texts_of_docker_stats() -> None:
    tally = ContainerTally(16 * GIB)
    tally.add(row(1.0, mem_used=GIB))
    tally.add(row(2.0, mem_used=2.5 * GIB, cpu_percent=30.0, net_rx_bytes=1.2e6, net_tx_bytes=850e3))
    tally.add(row(3.0, mem_used=GIB, cpu_percent=60.0, io_read_bytes=128e6, io_write_bytes=64e6))
    stats = tally.stats()
    assert {key: stats[key] for key in list(stats)[:5]} == {
        "cpu_percent": "45.00",
        "memory_usage": "2.5GiB / 16GiB",
        "memory_percent": "15.62",
        "net_io": "1.2MB / 850kB",
        "block_io": "128MB / 64MB",
    }
    assert (stats["cpu_max_percent"], stats["memory_max_mb"], stats["memory_limit_mb"]) == (60.0, 2560.0, None)


def test_the_limit_of_a_container_is_its_whole_memory() -> None:
    tally = ContainerTally(16 * GIB)
    tally.add(row(1.0, mem_used=128 * MIB, limit_memory=512 * MIB))
    assert tally.stats()["memory_usage"] == "128MiB / 512MiB"
    assert tally.stats()["memory_percent"] == "25.00"


def test_a_container_that_was_never_read_has_no_numbers() -> None:
    tally = ContainerTally(None)
    tally.add(ContainerRow(CONTAINER))
    assert tally.stats() == {}


def test_a_reading_counts_once_and_a_restart_continues_the_counters() -> None:
    tally = ContainerTally(None)
    for at, received in ((1.0, 5e6), (1.0, 5e6), (2.0, 1e6)):
        tally.add(row(at, mem_used=MIB, net_rx_bytes=received, net_tx_bytes=0))
    assert tally.stats()["samples_collected"] == 2
    assert tally.stats()["net_io"] == "6MB / 0B"


def test_sizes_are_written_as_docker_writes_them() -> None:
    assert [size_text(value, BINARY, 1024, 4) for value in (0, 1023, 1536 * MIB, None)] == [
        *("0B", "1023B", "1.5GiB", "--"),
    ]
    assert [size_text(value, DECIMAL, 1000, 3) for value in (656, 1234567)] == ["656B", "1.23MB"]


def test_a_container_is_meant_by_name_by_engine_and_name_or_by_id() -> None:
    known = ("keystone-fenicsx", CONTAINER.id, "docker")
    assert all(is_meant(*known, name) for name in ("keystone-fenicsx", "/keystone-fenicsx", "docker/keystone-fenicsx"))
    assert is_meant(*known, "3f8a21b2c4d5")
    assert not any(is_meant(*known, name) for name in ("keystone", "podman/keystone-fenicsx", "3f8", ""))


def test_why_nothing_is_known_names_the_engine_or_the_container() -> None:
    assert "engine" in problem(Containers(), "web")
    silent = EngineState("docker", "unix:///x", problem="docker does not answer")
    assert problem(Containers((silent,)), "web") == "docker does not answer"
    assert '"web"' in problem(Containers((EngineState("docker", "unix:///x"),)), "web")


def test_information_about_a_container_is_plain_values() -> None:
    info = container_info(CONTAINER, "docker")
    assert (info["name"], info["status"], info["image"], info["engine"]) == (
        *("keystone-fenicsx", "running", "fenicsx:1", "docker"),
    )
    assert info["limits"] == {"memory_bytes": None, "cpus": None, "pids": None}
