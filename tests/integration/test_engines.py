"""The engines that tests use: real ones, shared by several users, which leave nothing behind."""

import signal
from contextlib import closing
from pathlib import Path

import pytest

from engines import (
    PYTHON_BINDS,
    CannotRunError,
    RealEngine,
    end_processes,
    is_running,
    processes_of,
    shared_engine,
    start,
    stop_stale,
)
from support import require


def remains(directory: Path) -> list[str]:
    """What is left of an engine on this machine: processes, mounts, cgroups, files."""
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(directory) in line]
    name = directory.name.rpartition("-")[2]
    cgroups = [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/jobtop-test-{name}")]
    files = [str(directory)] if directory.exists() else []
    return [*map(str, processes_of(directory)), *mounts, *cgroups, *files]


@pytest.mark.parametrize("kind", ["docker", "podman"])
def test_containers_run_with_the_python_of_the_host(kind: str, request: pytest.FixtureRequest) -> None:
    engine: RealEngine = request.getfixturevalue(f"{kind}_engine")
    command = ("/usr/bin/python3", "-c", "print(6 * 7)")
    with engine.container(*command, host={"binds": PYTHON_BINDS}) as container, closing(engine.api()) as api:
        assert api.wait(container)["StatusCode"] == 0
        assert api.logs(container) == b"42\n"


def test_the_last_user_stops_an_engine(tmp_path: Path) -> None:
    try:
        with shared_engine("docker", tmp_path) as first:
            with shared_engine("docker", tmp_path) as second:
                assert second == first
            assert first.names() == set()  # it still answers
    except CannotRunError as error:
        require("docker", str(error))
    assert not remains(first.directory)


def test_an_engine_that_a_crash_left_is_stopped_by_the_next_session() -> None:
    try:
        engine, user = start("docker")
    except CannotRunError as error:
        require("docker", str(error))
    container = engine.create("sleep", "1000")
    with closing(engine.api()) as api:
        api.start(container)
    inside = engine.inspect(container)["State"]["Pid"]
    daemon = int((engine.directory / "docker.pid").read_text())
    end_processes({daemon}, signal.SIGKILL, 10)
    stop_stale()
    assert str(inside) in remains(engine.directory)  # its directory is in use
    user.close()
    stop_stale()
    assert not remains(engine.directory)
    assert not is_running(inside)
