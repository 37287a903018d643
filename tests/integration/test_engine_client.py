"""The client of container engines against real ones: every call of it, with Docker and with Podman."""

import signal
import socket
import threading
from collections.abc import Iterator

import pytest

from engines import IMAGE, RealEngine
from jobtop.core.errors import EngineError, NoSuchContainer
from jobtop.core.measure.collectors.docker.client import STDERR, STDOUT, Engine, Frames
from jobtop.core.measure.collectors.docker.model import ContainerEvent, Endpoint
from support import long_test, wait_for

HOST = {"network_mode": "none"}
# Says what it was sent, and ends with the exit code that it was sent last.
ECHO = "while read line; do echo got $line; echo err $line >&2; [ $line != 7 ] || exit 7; done"


@pytest.fixture(params=["docker", "podman"])
def real(request: pytest.FixtureRequest) -> RealEngine:
    found: RealEngine = request.getfixturevalue(f"{request.param}_engine")
    return found


@pytest.fixture
def client(real: RealEngine) -> Iterator[Engine]:
    with Engine(Endpoint(real.kind, real.url, "test")) as engine:
        yield engine


def received(attached: socket.socket) -> dict[int, bytes]:
    """All output until the engine closes the connection."""
    frames, found = Frames(), {STDOUT: b"", STDERR: b""}
    while data := attached.recv(1 << 16):
        for stream, piece in frames.take(data):
            found[stream] += piece
    return found


def test_an_engine_says_what_it_is_and_which_images_it_has(real: RealEngine, client: Engine) -> None:
    info = client.info()
    assert info.product.lower() == real.kind
    assert (info.cgroup_driver, info.is_rootless) == ("cgroupfs", False)
    image = client.image(IMAGE)
    assert image is not None
    assert image.command == ("/bin/sh",)
    assert image.id in {each.id for each in client.images()}
    assert client.image("absent:1") is None
    with pytest.raises(NoSuchContainer):
        client.inspect("no-such-container")


@long_test  # Podman tries it again for seconds
def test_a_pull_without_a_registry_is_an_error(client: Engine) -> None:
    with pytest.raises(EngineError):
        list(client.pull("localhost:1/absent:1"))


def test_a_container_from_its_creation_to_its_removal(real: RealEngine, client: Engine) -> None:
    happened: list[ContainerEvent] = []
    stream = client.events()
    listener = threading.Thread(target=lambda: happened.extend(stream), daemon=True)
    listener.start()
    with Engine(Endpoint(real.kind, real.url, "test")) as engine:
        created = engine.create(IMAGE, ["sh", "-c", ECHO], HOST, stdin_open=True, labels={"case": "client"})
        try:
            with engine.attach(created, with_input=True) as attached:
                engine.start(created)
                attached.sendall(b"1\n7\n")
                assert engine.wait(created) == 7
                assert received(attached) == {STDOUT: b"got 1\ngot 7\n", STDERR: b"err 1\nerr 7\n"}
            kept = {STDOUT: b"", STDERR: b""}
            for number, piece in engine.logs(created):
                kept[number] += piece
            assert kept == {STDOUT: b"got 1\ngot 7\n", STDERR: b"err 1\nerr 7\n"}
            ended = engine.inspect(created)
            assert (ended.state, ended.exit_code, ended.is_oom_killed) == ("exited", 7, False)
            assert ended.started_at is not None
            assert ended.finished_at is not None
            if real.kind == "docker":
                assert ended.finished_at >= ended.started_at
            else:  # Podman notes the start after the first process may have ended
                assert ended.finished_at >= ended.started_at - 0.5
            assert created in {row.id for row in engine.containers(every=True, label="case=client")}
            assert created not in {row.id for row in engine.containers()}
        finally:
            engine.remove(created, force=True)
        engine.remove(created)  # is gone
    wanted = {"create", "start", "die"}
    wait_for(lambda: wanted <= {event.action for event in happened if event.container_id == created})
    stream.close()
    listener.join(5)
    assert not listener.is_alive()


def test_a_running_container_is_paused_signalled_and_stopped(real: RealEngine, client: Engine) -> None:
    limits = {"mem_limit": 64 << 20, "nano_cpus": 500_000_000, "pids_limit": 20}
    script = "trap 'echo one' USR1; trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    with real.container("sh", "-c", script, host={"network_mode": "none", **limits}) as container:
        wait_for(lambda: b"ready" in b"".join(piece for _, piece in client.logs(container)))
        running = client.inspect(container)
        assert running.pid is not None
        assert (running.limits.memory_bytes, running.limits.cpus, running.limits.pids) == (64 << 20, 0.5, 20)
        assert client.stats(container)["pids_stats"]["current"] >= 1
        client.pause(container)
        assert client.inspect(container).state == "paused"
        client.unpause(container)
        client.kill(container, signal.SIGUSR1)
        wait_for(lambda: b"one" in b"".join(piece for _, piece in client.logs(container)))
        client.restart(container, 1)
        again = wait_for(lambda: found if (found := client.inspect(container)).is_alive else None)
        assert again.pid != running.pid
        wait_for(lambda: b"".join(piece for _, piece in client.logs(container)).count(b"ready") == 2)
        client.stop(container, 5)
        assert client.inspect(container).exit_code == 9
