"""The doctor asks container engines at their sockets, and says what helps where none answers."""

import grp  # noqa: F401 - nobody may not read the directory of a private Python
import json
import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobtop.core.doctor import containers
from jobtop.core.doctor.checks import Finding, MachineFiles, State
from jobtop.core.doctor.containers import container_findings
from jobtop.lifecycle.doctor import verdict

DOCKER = b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps({"Version": "28.1.1", "Components": [{"Name": "Engine"}]}).encode()
PODMAN = DOCKER.replace(b"28.1.1", b"5.2.0").replace(b"Engine", b"Podman Engine")
NOBODY = 65534


@pytest.fixture
def machine() -> Iterator[MachineFiles]:
    """A machine below a directory with a short path: the path of a socket has at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="jt") as root:
        os.chmod(root, 0o755)
        for place in ("var/run", "run/user/1000/podman", "run/podman"):
            Path(root, place).mkdir(parents=True)
        yield MachineFiles(root, 1000, "ada", "linux", (1000,))


@contextmanager
def served(path: str, answer: bytes) -> Iterator[None]:
    """Answer the first connection to a socket."""

    def serve() -> None:
        connection = listening.accept()[0]
        with connection:
            assert connection.recv(1 << 16).startswith(b"GET /version HTTP/1.0")
            connection.sendall(answer)

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        listening.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            thread.join(5)


def found(machine: MachineFiles, *installed: str, **environ: str) -> list[Finding]:
    return container_findings(machine, environ, lambda name: f"/bin/{name}" if name in installed else None)


def test_an_engine_that_answers_works(machine: MachineFiles) -> None:
    with served(machine.path("var/run/docker.sock"), DOCKER):
        (finding,) = found(machine)
    assert finding.state is State.WORKS
    assert "Docker 28.1.1" in finding.meaning


def test_podman_has_a_row_of_its_own_where_there_is_one(machine: MachineFiles) -> None:
    with served(machine.path("run/user/1000/podman/podman.sock"), PODMAN):
        docker, podman = found(machine, "podman")
    assert docker.state is State.ABSENT
    assert (podman.name, podman.state) == ("Podman", State.WORKS)
    assert "Podman 5.2.0" in podman.meaning


def test_docker_host_is_respected(machine: MachineFiles) -> None:
    place = machine.path("elsewhere.sock")
    with served(place, PODMAN):
        (finding,) = found(machine, DOCKER_HOST=f"unix://{place}")
    assert finding.state is State.WORKS
    assert "Podman 5.2.0" in finding.meaning
    (gone,) = found(machine, DOCKER_HOST=f"unix://{machine.path('nothing')}")
    assert gone.state is State.FAILS
    assert "DOCKER_HOST" in str(gone.remedy)
    for other in ("ssh://box", "box"):
        assert "not checked" in found(machine, DOCKER_HOST=other)[0].meaning


def test_container_host_is_respected(machine: MachineFiles) -> None:
    place = machine.path("elsewhere.sock")
    with served(place, PODMAN):
        docker, podman = found(machine, "podman", CONTAINER_HOST=f"unix://{place}")
    assert (docker.name, podman.name, podman.state) == ("Docker", "Podman", State.WORKS)
    assert "CONTAINER_HOST" in podman.meaning
    gone = found(machine, CONTAINER_HOST=f"unix://{machine.path('nothing')}")[1]
    assert (gone.state, "unset CONTAINER_HOST" in str(gone.remedy)) == (State.FAILS, True)


def test_a_server_at_a_port_is_asked(machine: MachineFiles) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host = f"tcp://127.0.0.1:{listening.getsockname()[1]}"

        def serve() -> None:
            with listening.accept()[0] as connection:
                connection.recv(1 << 16)
                connection.sendall(DOCKER)

        thread = threading.Thread(target=serve)
        thread.start()
        (finding,) = found(machine, DOCKER_HOST=host)
        thread.join(5)
    assert "Docker 28.1.1" in finding.meaning


@pytest.mark.parametrize(
    ("installed", "words", "remedy"),
    [
        ((), "not installed", None),
        (("docker",), "no server", "DOCKER_HOST"),
        (("docker", "dockerd"), "not running", "as root: dockerd"),
    ],
)
def test_an_engine_that_is_not_there_is_absent(
    installed: tuple[str, ...], words: str, remedy: str | None, machine: MachineFiles
) -> None:
    (finding,) = found(machine, *installed)
    assert finding.state is State.ABSENT
    assert words in finding.meaning
    assert (finding.remedy is None) if remedy is None else remedy in str(finding.remedy)
    assert verdict([finding]) == "Everything works."


def test_a_socket_that_was_left_behind_is_an_engine_that_does_not_run(machine: MachineFiles) -> None:
    Path(machine.path("run/systemd/system")).mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(machine.path("var/run/docker.sock"))
    (finding,) = found(machine, "dockerd")
    assert (finding.state, finding.remedy) == (State.ABSENT, "as root: systemctl start docker")
    assert found(machine, "podman")[1].remedy == "podman system service --time=0"


def test_a_socket_of_another_group_has_the_group_as_remedy(machine: MachineFiles) -> None:
    path = machine.path("var/run/docker.sock")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        if os.geteuid() == 0:
            os.chown(path, 0, 1)
        os.chmod(path, 0o060)
        (finding,) = as_nobody(lambda: found(machine))
    assert finding.state is State.FAILS
    assert "permission denied" in finding.meaning
    assert str(finding.remedy).startswith("as root: usermod -aG ") or os.geteuid()
    assert verdict([finding]) != "Everything works."


def as_nobody(action: Callable[[], list[Finding]]) -> list[Finding]:
    """Call a function without the rights of root."""
    if os.geteuid():
        return action()
    os.seteuid(NOBODY)
    try:
        return action()
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.0 404 Not Found\r\n\r\n", b"hello", b"HTTP/1.0 200 OK\r\n\r\n[1]"])
def test_something_else_at_the_socket_is_named(answer: bytes, machine: MachineFiles) -> None:
    with served(machine.path("var/run/docker.sock"), answer):
        (finding,) = found(machine)
    assert finding.state is State.FAILS
    assert "container engine" in finding.meaning


def test_an_engine_that_does_not_answer_is_not_waited_for(
    machine: MachineFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "ANSWER_SECONDS", 0.05)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(machine.path("var/run/docker.sock"))
        listening.listen()
        (finding,) = found(machine)
    assert finding.state is State.FAILS
    assert "no answer" in finding.meaning


def test_gpus_reach_containers_by_the_toolkit_or_by_cdi(machine: MachineFiles) -> None:
    place = machine.path("var/run/docker.sock")
    assert [finding.name for finding in found(machine, "dockerd")] == ["Docker"]
    Path(machine.root, "proc/driver/nvidia").mkdir(parents=True)
    assert [finding.name for finding in found(machine, "dockerd")] == ["Docker"]  # no engine answers
    with served(place, DOCKER):
        _, missing = found(machine)
    assert (missing.name, missing.state) == ("GPUs in containers", State.ABSENT)
    assert "nvidia-ctk" in (missing.remedy or "")
    os.remove(place)
    with served(place, DOCKER):
        assert found(machine, "nvidia-container-runtime")[1].state is State.WORKS
    os.remove(place)
    Path(machine.root, "etc/cdi").mkdir(parents=True)
    Path(machine.root, "etc/cdi/nvidia.yaml").touch()
    with served(place, DOCKER):
        assert "CDI" in found(machine)[1].meaning


def test_inside_a_container_the_socket_has_to_be_mounted(machine: MachineFiles) -> None:
    Path(machine.root, ".dockerenv").touch()
    (docker,) = found(machine)
    assert "inside a container" in docker.meaning
    assert "-v /var/run/docker.sock" in (docker.remedy or "")


def test_inside_a_container_a_socket_that_is_there_keeps_its_own_remedy(machine: MachineFiles) -> None:
    Path(machine.root, ".dockerenv").touch()
    (docker,) = found(machine, DOCKER_HOST="unix:///nonexistent.sock")
    assert "DOCKER_HOST" in docker.meaning
    assert "-v" not in (docker.remedy or "")
