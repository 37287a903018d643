"""`jobtop containers`: which containers are meant, what is printed, asked and refused; engines answer from memory."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.shell_completion import CompletionItem

from fake_engine import FakeEngine, container_id, container_row, fake_engine
from jobtop.cli.main import main
from jobtop.cli.verbs.containers.choices import complete_container, complete_engine, complete_project
from jobtop.core.measure.collectors.docker import endpoints

COMPOSE = {"com.docker.compose.project": "shop"}
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[FakeEngine]:
    rows = [
        container_row("shop-web-1", 0xA1, Labels=COMPOSE),
        container_row("shop-db-1", 0xA2, Labels=COMPOSE, State="paused"),
        container_row("old", 0xA3, State="exited", Status="Exited (3) 2 hours ago"),
        container_row("both", 0xA4),
    ]
    with fake_engine(tmp_path / "d.sock", rows) as engine:
        yield engine


@pytest.fixture
def podman(tmp_path: Path) -> Iterator[FakeEngine]:
    with fake_engine(tmp_path / "p.sock", [container_row("both", 0xB1), container_row("solo", 0xB2)]) as engine:
        yield engine


@pytest.fixture
def machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without sockets of its own engines."""
    monkeypatch.setattr(endpoints, "_socket_places", lambda *_: (("docker", "/nowhere/docker.sock"),))


@pytest.fixture
def call(
    machine: None,
    docker: FakeEngine,
    podman: FakeEngine,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Call:
    """Run `jobtop containers …` with both engines; its exit code and what it printed."""
    monkeypatch.setenv("DOCKER_HOST", docker.url)
    monkeypatch.setenv("CONTAINER_HOST", podman.url)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["jobtop", "containers", *arguments])
        code = main()
        return code, *capfd.readouterr()

    return run


@pytest.mark.parametrize("verb", ["stop", "restart", "pause", "resume"])
def test_a_verb_acts_on_the_containers_of_both_engines(
    call: Call, docker: FakeEngine, podman: FakeEngine, verb: str
) -> None:
    code, out, err = call(verb, "shop-web-1", "solo", "--yes")
    assert (code, err) == (0, "")
    assert "docker/shop-web-1" in out
    assert "podman/solo" in out
    path = "unpause" if verb == "resume" else verb
    assert any(asked.startswith(f"POST /containers/{container_id(0xA1)}/{path}") for asked in docker.asked)
    assert any(asked.startswith(f"POST /containers/{container_id(0xB2)}/{path}") for asked in podman.asked)


def test_without_a_terminal_and_yes_nothing_is_done(call: Call, docker: FakeEngine) -> None:
    code, _, err = call("stop", "shop-web-1")
    assert code == 2
    assert "shop-web-1" in err
    assert "--yes" in err
    assert not [asked for asked in docker.asked if asked.startswith("POST")]


def test_the_grace_period_is_that_of_the_container_unless_given(call: Call, docker: FakeEngine) -> None:
    docker.details[container_id(0xA1)] = {"Config": {"StopTimeout": 42}}
    call("stop", "shop-web-1", "-y")
    call("stop", "shop-web-1", "-y", "--grace", "3s")
    assert [asked.rpartition("?")[2] for asked in docker.asked if "/stop" in asked] == ["t=42", "t=3"]


def test_one_that_an_engine_refuses_does_not_stop_the_others(call: Call, docker: FakeEngine) -> None:
    docker.refusals["pause"] = "Container is not running\x1b[2J"
    code, out, err = call("pause", "old", "solo", "-y")
    assert code == 125
    assert out == "paused podman/solo\n"
    assert "old was not paused" in err
    assert "\x1b" not in err


def test_a_whole_project_is_meant_by_its_name(call: Call, docker: FakeEngine) -> None:
    code, out, _ = call("restart", "--project", "shop", "-y")
    assert code == 0
    assert out.split() == ["restarted", "docker/shop-web-1", "restarted", "docker/shop-db-1"]
    code, _, err = call("restart", "--project", "shpo", "-y")
    assert (code, "shop" in err) == (2, True)


def test_a_list_of_a_project_that_does_not_exist_names_those_that_do(call: Call, docker: FakeEngine) -> None:
    docker.rows.append(container_row("blog-1", 0xA5, State="exited", Labels={"com.docker.compose.project": "blog"}))
    for style in ((), ("--json",)):
        code, out, err = call("list", "--project", "nosuch", *style)
        assert (code, out) == (2, "")
        assert "nosuch" in err
        assert "there are blog, shop" in err
    code, out, err = call("list", "--project", "blog")  # all of it has ended
    assert (code, err) == (0, "")
    assert "--all" in out
    docker.rows.clear()
    code, out, err = call("list", "--engine", "docker")
    assert (code, err) == (0, "")


def test_names_that_mean_nothing_or_two_are_refused_in_one_line(call: Call) -> None:
    for arguments, word in [
        (("logs", "both"), "podman/both"),
        (("inspect", "sollo"), 'did you mean "solo"'),
        (("logs", "docker/solo"), "no container"),
        (("logs",), "no container given"),
        (("stop", "solo", "--engine", "podmann", "-y"), 'did you mean "podman"'),
    ]:
        code, out, err = call(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert word in err


def test_logs_go_to_both_streams_with_control_characters_shown(call: Call, podman: FakeEngine) -> None:
    podman.logs[container_id(0xB2)] = [(1, b"one\x07\n"), (2, b"\x1b[31mtwo\x1b[0m\x1b[2J\n"), (1, b"end")]
    assert call("logs", "solo") == (0, "one\\x07\nend\n", "two\n")
    assert call("logs", "solo", "--raw")[1] == "one\x07\nend\n"


def test_logs_are_searched_by_an_expression_that_could_take_for_ever(call: Call, podman: FakeEngine) -> None:
    text = b"a" * 3000
    podman.logs[container_id(0xB2)] = [(1, text + b"!\n"), (1, b"INFO fine\n"), (1, b"\x1b[1mERR\x1b[0mOR 7\n")]
    begun = time.monotonic()
    assert call("logs", "solo", "--grep", "(a+)+$")[1:] == ("", "jobtop: none of 3 lines matches --grep\n")
    assert time.monotonic() - begun < 5.0
    assert call("logs", "solo", "--grep", r"ERROR \d")[1] == "ERROR 7\n"
    assert call("logs", "solo", "--grep", "INFO")[1] == "INFO fine\n"
    assert call("logs", "solo", "--grep", "(")[0] == 2


def test_the_logs_of_several_are_in_the_order_of_time_with_names(
    call: Call, docker: FakeEngine, podman: FakeEngine
) -> None:
    moment = "2026-11-18T04:00:0{}.000000000Z ".format
    docker.logs[container_id(0xA1)] = [(1, f"{moment(1)}first\n".encode()), (1, f"{moment(3)}third\n".encode())]
    podman.logs[container_id(0xB2)] = [(1, f"{moment(2)}second\n".encode()), (1, f"{moment(4)}fourth\n".encode())]
    _, out, _ = call("logs", "solo", "shop-web-1")
    assert out.splitlines() == [
        "shop-web-1 | first",
        "solo       | second",
        "shop-web-1 | third",
        "solo       | fourth",
    ]
    lines = [json.loads(line) for line in call("logs", "solo", "--json")[1].splitlines()]
    assert [(line["engine"], line["timestamp"], line["text"]) for line in lines] == [
        ("podman", "2026-11-18T04:00:02.000000Z", "second"),
        ("podman", "2026-11-18T04:00:04.000000Z", "fourth"),
    ]
    code, out, _ = call("logs", "-f", "solo", "shop-web-1")
    assert (code, sorted(line.split()[-1] for line in out.splitlines())) == (0, ["first", "fourth", "second", "third"])


def test_inspect_shows_facts_and_hides_secrets(call: Call, docker: FakeEngine) -> None:
    docker.details[container_id(0xA1)] = {
        "Config": {"Env": ["API_TOKEN=hunter2", "MODE=fast\x1b[2J"], "Cmd": ["serve", "--password", "hunter2"]},
        "HostConfig": {"Memory": 1 << 29, "NanoCpus": 1_500_000_000, "PidsLimit": 100},
        "Path": "serve",
        "Args": ["--password", "hunter2"],
        "Mounts": [{"Type": "bind", "Source": "/data", "Destination": "/srv", "RW": False}],
        "NetworkSettings": {
            "Networks": {"shop_net": {"IPAddress": "10.0.0.2"}},
            "Ports": {"80/tcp": [{"HostIp": "::", "HostPort": "8080"}], "81/tcp": None},
        },
    }
    code, out, _ = call("inspect", "shop-web-1")
    assert code == 0
    for fact in (
        *("memory 512.0 MiB, 1.5 CPUs, 100 pids", "/data at /srv (bind, read-only)", "shop_net 10.0.0.2"),
        *("[::]:8080 to 80/tcp", "API_TOKEN=***", "MODE=fast", "serve --password"),
    ):
        assert fact in out
    assert "\x1b" not in out
    raw = call("inspect", "shop-web-1", "--json")[1]
    assert "hunter2" not in out + raw
    assert json.loads(raw)["Config"]["Cmd"] == ["serve", "--password", "***"]
    assert [each["Name"] for each in json.loads(call("inspect", "solo", "old", "--json")[1])] == ["/solo", "/old"]


def test_names_of_containers_engines_and_projects_are_completed(call: Call) -> None:
    def words(complete: Callable[..., list[CompletionItem[str]]], incomplete: str) -> list[str]:
        return [item.value for item in complete(None, None, incomplete)]

    assert words(complete_container, "s") == ["shop-web-1", "shop-db-1", "solo"]
    assert words(complete_container, "docker/b") == ["docker/both"]
    assert words(complete_container, "") == ["shop-web-1", "shop-db-1", "old", "docker/both", "podman/both", "solo"]
    assert words(complete_engine, "p") == ["podman"]
    assert words(complete_project, "") == ["shop"]


@pytest.mark.parametrize(
    "arguments", [(), ("logs", "x"), ("stop", "x", "-y"), ("inspect", "x"), ("--all", "--follow", "--json")]
)
def test_without_an_engine_one_line_says_what_was_tried(
    machine: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr(sys, "argv", ["jobtop", "containers", *arguments])
    assert main() == 125
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "/nowhere/docker.sock" in err
    assert "systemctl start docker" in err


@pytest.mark.parametrize("arguments", [(), ("logs", "x")])
def test_an_engine_that_hangs_costs_three_seconds_and_one_line(
    machine: None,
    docker: FakeEngine,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
) -> None:
    docker.hang()
    monkeypatch.setenv("DOCKER_HOST", docker.url)
    monkeypatch.setattr(sys, "argv", ["jobtop", "containers", *arguments])
    begun = time.monotonic()
    assert main() == 125
    assert time.monotonic() - begun < 3.0
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert docker.url in err
    assert "does not answer" in err


def test_an_engine_without_containers_says_so_and_succeeds(
    call: Call, docker: FakeEngine, podman: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker.rows, podman.rows = [], []
    code, out, err = call()
    assert (code, err) == (0, "")
    assert "docker, podman" in out
    assert call("--json")[:2] == (0, "[]\n")
    assert "web" in call("web")[1]
    monkeypatch.setenv("CONTAINER_HOST", "unix:///nowhere/podman.sock")
    code, out, err = call("--all")
    assert code == 0
    assert "docker" in out
    assert "unset CONTAINER_HOST" in err


def test_a_container_that_has_ended_is_not_called_stopped(call: Call, docker: FakeEngine) -> None:
    code, out, err = call("stop", "old", "shop-web-1", "-y")
    assert (code, out) == (0, "stopped docker/shop-web-1\n")
    assert "old does not run" in err
    assert not any(container_id(0xA3) in asked and "/stop" in asked for asked in docker.asked)
