"""`jobtop containers` on real engines, Docker and Podman side by side."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from engines import RealEngine
from support import Jobtop, wait_for

# Workers share the engines: each has names of its own.
MARK = f"verbs{os.getpid()}-"
TALK = 'echo one; echo "two$(printf "\\033[2J\\007")" >&2; echo three; sleep 1000'
BURN = "while true; do :; done"
LABELS = {"com.docker.compose.project": f"{MARK}shop", "com.docker.compose.service": "web"}


@pytest.fixture(scope="module")
def both(docker_engine: RealEngine, podman_engine: RealEngine) -> Iterator[dict[str, str]]:
    """The environment that leads to both engines, with three containers whose names begin with MARK."""
    host = {"mem_limit": 64 << 20, "nano_cpus": 500_000_000}
    secret = {"API_TOKEN": "hunter2"}
    with ExitStack() as stack:
        stack.enter_context(
            docker_engine.container("sh", "-c", BURN, name=f"{MARK}busy", host=host, labels=LABELS, environment=secret)
        )
        stack.enter_context(docker_engine.container("sh", "-c", TALK, name=f"{MARK}talk"))
        stack.enter_context(podman_engine.container("sh", "-c", TALK, name=f"{MARK}talk"))
        yield docker_engine.env | podman_engine.env


def test_containers_of_both_engines_are_listed_with_what_they_use(jobtop: Jobtop, both: dict[str, str]) -> None:
    def listed() -> list[dict[str, Any]]:
        """The containers of both engines; on a busy machine one may not answer within 2 s, and is left out then."""
        printed = jobtop("containers", MARK, "--json", env=both)
        return [] if "does not answer" in printed.stderr else list(json.loads(printed.stdout))

    rows = {(row["engine"], row["name"]): row for row in wait_for(listed, 30)}
    assert set(rows) == {("docker", f"{MARK}busy"), ("docker", f"{MARK}talk"), ("podman", f"{MARK}talk")}
    busy = rows["docker", f"{MARK}busy"]
    assert (busy["project"], busy["service"], busy["state"]) == (f"{MARK}shop", "web", "running")
    assert busy["limits"] == {"memory_bytes": 64 << 20, "cpus": 0.5, "pids": None}
    assert 0.0 < busy["metrics"]["cpu"]["percent"] < 90.0
    assert 0 < busy["metrics"]["mem"]["used"] < 64 << 20
    assert busy["metrics"]["proc"]["threads"] == 1
    assert "net" in busy["absent"]
    for row in rows.values():
        assert row["metrics"]["cpu"]["percent"] is not None
    page = jobtop("containers", "--project", f"{MARK}shop", env=both).stdout.splitlines()
    assert [line.split()[0] for line in page[:3]] == ["ENGINE", f"{MARK}shop", "docker"]
    assert "of 64.0 MiB" in page[2]


def test_following_prints_a_line_of_json_for_each_container_and_reading(jobtop: Jobtop, both: dict[str, str]) -> None:
    arguments = ("containers", f"{MARK}busy", "--follow", "--json", "--interval", "200ms")
    following = jobtop.start(*arguments, env=both)
    assert following.stdout is not None
    rows = [json.loads(following.stdout.readline()) for _ in range(3)]
    following.send_signal(signal.SIGINT)
    following.communicate()
    assert following.returncode == 130
    used = [row["metrics"]["cpu"]["user"] + row["metrics"]["cpu"]["system"] for row in rows]
    assert used == sorted(set(used))
    assert len({row["timestamp"] for row in rows}) == 3


def test_output_of_both_engines_is_read_in_one_order(jobtop: Jobtop, both: dict[str, str]) -> None:
    def logs() -> list[dict[str, str]] | None:
        printed = jobtop("containers", "logs", f"docker/{MARK}talk", f"podman/{MARK}talk", "--json", env=both).stdout
        lines = [json.loads(line) for line in printed.splitlines()]
        return lines if len(lines) == 6 else None

    lines = wait_for(logs)
    assert [line["timestamp"] for line in lines] == sorted(line["timestamp"] for line in lines)
    for engine in ("docker", "podman"):
        own = {(line["stream"], line["text"]) for line in lines if line["engine"] == engine}
        assert own == {("stdout", "one"), ("stderr", "two\x07"), ("stdout", "three")}
    found = jobtop("containers", "logs", f"podman/{MARK}talk", "--grep", "^t[wh]", env=both)
    assert (found.stdout, found.stderr) == ("three\n", "two\\x07\n")
    last = jobtop("containers", "logs", f"docker/{MARK}talk", "--tail", "1", env=both)
    assert len((last.stdout + last.stderr).splitlines()) == 1


def test_secrets_of_a_container_are_hidden(jobtop: Jobtop, both: dict[str, str]) -> None:
    shown = jobtop("containers", "inspect", f"{MARK}busy", env=both).stdout
    assert "API_TOKEN=***" in shown
    assert "memory 64.0 MiB, 0.5 CPUs" in shown
    assert "hunter2" not in jobtop("containers", "inspect", f"{MARK}busy", "--json", env=both).stdout


@pytest.mark.parametrize(
    ("kind", "verbs"),
    [
        ("docker", {"pause": "paused", "resume": "running", "restart": "running", "stop": "exited"}),
        ("podman", {"pause": "paused", "resume": "running", "stop": "exited"}),
    ],
)
def test_a_container_is_paused_resumed_restarted_and_stopped(
    jobtop: Jobtop, kind: str, verbs: dict[str, str], request: pytest.FixtureRequest
) -> None:
    engine: RealEngine = request.getfixturevalue(f"{kind}_engine")
    with engine.container("sleep", "1000", name=f"{MARK}acted") as container:
        for verb, state in verbs.items():
            options = ("--grace", "0s") if verb in ("restart", "stop") else ()
            done = jobtop("containers", verb, container[:12], "--yes", *options, env=engine.env)
            assert (done.returncode, done.stderr) == (0, "")
            assert engine.inspect(container)["State"]["Status"] == state


def test_a_socket_that_may_not_be_opened_is_named_with_the_remedy(unprivileged: Jobtop, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        path = unprivileged.home / "d.sock"
        server.bind(str(path))
        server.listen()
        path.chmod(0)
        denied = unprivileged("containers", env={"DOCKER_HOST": f"unix://{path}"})
    assert (denied.returncode, denied.stdout) == (125, "")
    assert "permission denied" in denied.stderr
    assert "root" in denied.stderr
    assert denied.stderr.count("\n") == 1
