"""Engines are asked at once, and a container is found by name, by id or by ENGINE/NAME."""

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_engine import FakeEngine, container_row, fake_engine
from jobtop.core.errors import AmbiguousContainer, EngineError, UnknownContainer
from jobtop.core.measure.collectors.docker.client import Engine
from jobtop.core.measure.collectors.docker.endpoints import endpoints
from jobtop.core.measure.collectors.docker.finding import (
    ask_engines,
    close_engines,
    find_container,
    find_containers,
    open_engines,
)
from jobtop.core.measure.collectors.docker.model import Endpoint
from jobtop.core.measure.collectors.docker.remedies import access_remedy, start_remedy


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[FakeEngine]:
    job = {"jobtop.job": "9d8f1302-489d-4cf7-8a53-11177d7efdb5"}
    rows = [container_row("web", 0xA1), container_row("worker", 0xA2), container_row("db", 0xB1, State="exited")]
    rows.append(container_row("jobtop-9d8f1302", 0xD1, Labels=job))
    with fake_engine(tmp_path / "d.sock", rows) as engine:
        yield engine


@pytest.fixture
def podman(tmp_path: Path) -> Iterator[FakeEngine]:
    with fake_engine(tmp_path / "p.sock", [container_row("web", 0xC1), container_row("cache", 0xA3)]) as engine:
        yield engine


@pytest.fixture
def engines(docker: FakeEngine, podman: FakeEngine) -> Iterator[list[Engine]]:
    found = [Engine(Endpoint(name, fake.url, "socket"), 2.0) for name, fake in (("docker", docker), ("podman", podman))]
    yield found
    close_engines(found)


@pytest.mark.parametrize(
    ("reference", "engine_name", "name"),
    [
        ("worker", "docker", "worker"),
        ("/worker", "docker", "worker"),
        ("db", "docker", "db"),
        ("c1", "podman", "web"),
        ("podman/web", "podman", "web"),
        ("docker/web", "docker", "web"),
        ("docker/a2", "docker", "worker"),
        ("A2", "docker", "worker"),
        ("9d8f1302", "docker", "jobtop-9d8f1302"),
        ("docker/9d8f", "docker", "jobtop-9d8f1302"),
    ],
)
def test_a_container_is_found_by_name_or_id(engines: list[Engine], reference: str, engine_name: str, name: str) -> None:
    engine, container = find_container(engines, reference)
    assert (engine.endpoint.name, container.name) == (engine_name, name)


def test_a_name_in_two_engines_is_refused_with_both(engines: list[Engine]) -> None:
    with pytest.raises(AmbiguousContainer, match=r"docker/web .*podman/web "):
        find_container(engines, "web")


def test_a_prefix_of_two_ids_is_refused_with_both(engines: list[Engine]) -> None:
    with pytest.raises(AmbiguousContainer, match=r"docker/web .*docker/worker "):
        find_container(engines, "docker/a")


def test_an_unknown_name_is_answered_with_the_nearest(engines: list[Engine]) -> None:
    with pytest.raises(UnknownContainer, match="worker"):
        find_container(engines, "wroker")
    with pytest.raises(UnknownContainer, match=r"\(jobtop containers --all"):
        find_container(engines, "q\x1b[31m")
    with pytest.raises(UnknownContainer):
        find_container(engines, "")


def test_several_are_found_with_one_question_each_once(engines: list[Engine], docker: FakeEngine) -> None:
    found = find_containers(engines, ["worker", "db", "docker/worker"])
    assert [container.name for _, container in found] == ["worker", "db"]
    assert docker.asked.count("GET /containers/json?limit=-1&all=1&size=0&trunc_cmd=0") == 1


def test_an_engine_that_hangs_does_not_hide_the_containers_of_another(
    engines: list[Engine], docker: FakeEngine
) -> None:
    docker.hang()
    for engine in engines:
        engine.timeout_seconds = 0.3
    begun = time.monotonic()
    engine, container = find_container(engines, "cache")
    assert (engine.endpoint.name, container.name) == ("podman", "cache")
    with pytest.raises(UnknownContainer, match="does not answer"):
        find_container(engines, "worker")
    assert time.monotonic() - begun < 3.0


def test_engines_that_all_fail_are_named_with_what_to_do(tmp_path: Path) -> None:
    left_over = socket.socket(socket.AF_UNIX)
    left_over.bind(str(tmp_path / "left.sock"))
    left_over.close()
    found = [
        Engine(Endpoint("docker", f"unix://{tmp_path}/left.sock", "DOCKER_HOST"), 1.0),
        Engine(Endpoint("podman", f"unix://{tmp_path}/absent.sock", "CONTAINER_HOST"), 1.0),
    ]
    with pytest.raises(EngineError) as caught:
        find_container(found, "web")
    text = str(caught.value)
    assert "left.sock" in text
    assert "absent.sock" in text
    assert "unset DOCKER_HOST" in text
    assert text.count("does not run") == 2
    assert "\n" not in text


def test_a_thread_that_never_ends_costs_only_the_time_given(engines: list[Engine], docker: FakeEngine) -> None:
    docker.hang()
    begun = time.monotonic()
    first, second = ask_engines(engines, seconds=0.5)
    assert time.monotonic() - begun < 2.0
    assert first.containers is None
    assert first.problem is not None
    assert second.containers is not None


def test_without_any_engine_the_places_and_the_remedy_are_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"DOCKER_HOST \(not set\).*podman\.sock.*start Docker"):
        open_engines({"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}, root=f"{tmp_path}/")


def test_an_unknown_engine_is_answered_with_those_there_are(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "DOCKER_HOST": "unix:///x"}
    with pytest.raises(UnknownContainer, match='did you mean "docker"'):
        open_engines(environ, "dokcer", f"{tmp_path}/")
    with pytest.raises(UnknownContainer, match="there are docker"):
        open_engines(environ, "zzz", f"{tmp_path}/")
    assert [engine.endpoint.name for engine in open_engines(environ, "docker", f"{tmp_path}/")] == ["docker"]


def test_two_engines_of_one_name_get_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "var/run").mkdir(parents=True)
    (tmp_path / "var/run/docker.sock").touch()
    found = endpoints({"HOME": str(tmp_path), "DOCKER_HOST": "tcp://box:2375"}, f"{tmp_path}/")
    assert [endpoint.name for endpoint in found] == ["docker", "docker-2"]


def test_remedies_name_the_command_that_helps(tmp_path: Path) -> None:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    root = f"{tmp_path}/"
    assert "systemctl start docker" in start_remedy(Endpoint("docker", "unix:///s", "socket"), root)
    rootless = Endpoint("podman-rootless", "unix:///s", "socket")
    assert start_remedy(rootless, root) == "systemctl --user start podman.socket"
    assert "podman system service" in start_remedy(rootless, f"{tmp_path}/other/")
    assert "docker context use default" in start_remedy(Endpoint("far", "ssh://box", "context far"), root)


def test_the_remedy_for_a_denied_socket_is_its_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import grp

    path = tmp_path / "d.sock"
    path.touch()
    path.chmod(0o660)
    group = grp.struct_group(("docker", "x", 990, ["member"]))
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)
    found = os.stat_result((0o140660, 1, 1, 1, 0, 990, 0, 0, 0, 0))
    monkeypatch.setattr(os, "stat", lambda _: found)
    endpoint = Endpoint("docker", f"unix://{path}", "socket")
    assert "usermod -aG docker someone" in access_remedy(endpoint, "someone")
    assert "log in again" in access_remedy(endpoint, "member")
