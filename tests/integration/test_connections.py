"""`jobtop connections` shows every socket of a running job with what it carried, and the totals of an ended one."""

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jobtop.cli.verbs.connections import resolved
from jobtop.core.measure.live.connections import ConnectionReader
from jobtop.core.measure.target import Target
from jobtop.core.model import Identity
from running import running
from support import Jobtop

SOCKETS = """if True:
    import socket, sys
    server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    client = socket.create_connection(server.getsockname()[:2])
    served, _ = server.accept()
    client.sendall(bytes(5000))
    served.recv(5000, socket.MSG_WAITALL)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(sys.argv[1])
    unix.listen()
    print("ready", flush=True)
    input()
"""


@pytest.fixture(params=["as this user", "unprivileged"])
def anyone(request: pytest.FixtureRequest) -> Jobtop:
    jobtop: Jobtop = request.getfixturevalue("jobtop" if request.param == "as this user" else "unprivileged")
    return jobtop


def test_sockets_of_a_running_job_are_shown_and_totals_of_an_ended_one(anyone: Jobtop) -> None:
    path = "so[b]cket\x1b"
    with running(anyone, "--", anyone.python, "-c", SOCKETS, path, stdin=subprocess.PIPE) as run:
        run.reads(b"ready")
        shown = json.loads(anyone("connections", run.reference, "--json", "--interval", "0.1s").stdout)
        rows: list[dict[str, Any]] = shown["connections"]
        tcp = [row for row in rows if row["protocol"] == "tcp"]
        assert sorted(row["state"] for row in tcp) == ["established", "established", "listening"]
        assert {(row["received_bytes"], row["sent_bytes"]) for row in tcp} == {(5000, 0), (0, 5000), (None, None)}
        assert all(row["local"].startswith("[::1]:") for row in tcp)
        [udp] = [row for row in rows if row["protocol"] == "udp"]
        assert (udp["received_bytes"], udp["sent_bytes"], udp["remote"]) == (None, None, None)
        assert path in [row["local"] for row in rows if row["protocol"] == "unix"]
        text = anyone("connections", run.reference, "--interval", "0.1s").stdout
        assert "\x1b" not in text
        assert "4.9 KiB" in text
        assert run.process.stdin
        run.process.stdin.write(b"\n")
        run.process.stdin.flush()
        run.process.wait(30)
        done = anyone("connections", run.reference)
        assert done.returncode == 0
        assert "only known while a job runs" in done.stdout
        assert json.loads(anyone("connections", run.reference, "--json").stdout)["connections"] is None


def test_a_job_without_processes_has_no_sockets_and_a_torn_proc_is_no_error(tmp_path: Path) -> None:
    reader = ConnectionReader(Target(Identity("", 1 << 30, None), 0.0, includes_root=True), proc=str(tmp_path))
    assert reader.read().connections == ()


def test_names_are_asked_for_only_with_resolve(monkeypatch: pytest.MonkeyPatch) -> None:
    def name(address: tuple[str, int], _: int) -> tuple[str, str]:
        if address[0] == "::1":
            return "localhost", "80"
        raise socket.gaierror

    monkeypatch.setattr(socket, "getnameinfo", name)
    assert resolved("[::1]:80") == "localhost:80"
    assert resolved("10.0.0.1:80") == "10.0.0.1:80"
    assert resolved("/run/a path") == "/run/a path"


@pytest.mark.parametrize("words", [("--interval", "1ms"), ("-f", "--json"), ("-f", "--format", "csv")])
def test_wrong_usage_is_one_line(jobtop: Jobtop, words: tuple[str, ...]) -> None:
    done = jobtop("connections", "last", *words)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
