"""The pane with the connections of a job: read while it is shown; of an ended job it says what is known."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.cells import cell_len

from job_pages import Made, finished
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.measure.live.connections import ConnectionLine
from jobtop.core.model import Usage
from jobtop.tui.screens.job.screen import JobScreen
from jobtop.tui.widgets.cells import Align
from jobtop.tui.widgets.tables.connections import ConnectionTable, address
from jobtop.tui.widgets.tables.files import FileTable
from records import running_job
from visiting import Visitor

HOLD = """
import socket, sys
server = socket.create_server(("::1", 0), family=socket.AF_INET6)
client = socket.create_connection(server.getsockname()[:2])
served, _ = server.accept()
client.sendall(bytes(5 << 10))
served.recv(5 << 10, socket.MSG_WAITALL)
print(flush=True)
sys.stdin.readline()
"""


@contextmanager
def holding() -> Iterator[int]:
    """A process with a connection to itself, over which it has sent 5 KiB."""
    command = [sys.executable, "-I", "-S", "-c", HOLD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate(b"\n")


def test_a_running_job_shows_its_connections_with_bytes_and_rates(tmp_path: Path) -> None:
    with holding() as pid:

        async def scene(visitor: Visitor, screen: JobScreen) -> None:
            assert not len(screen.query_one(ConnectionTable).source or ()), "they are read only while they are shown"
            await visitor.press("C")
            await visitor.shows("Connections 3 · Processes · Files", "[::1]:", "listening", "0B/s", "5.0K")
            assert not screen.query_one("#tree").display

        Made(tmp_path, running_job(pid=pid, shim=identify(pid))).open(scene, (220, 42))


def test_an_ended_job_says_what_it_received_and_sent(tmp_path: Path) -> None:
    async def scene(visitor: Visitor, _: JobScreen) -> None:
        await visitor.press("C")
        await visitor.shows("only known while a job runs")

    finished(tmp_path, usage=Usage(net_rx_bytes=5 << 20, net_tx_bytes=1 << 20)).open(scene)


def test_paths_and_addresses_are_never_markup(tmp_path: Path) -> None:
    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        lines = [ConnectionLine("unix", "/run/[/b]\x1b[31m", None, "open"), ConnectionLine("udp", "a", "[x]:1", "open")]
        await visitor.press("C")
        screen.query_one(ConnectionTable).show(lines, "")
        shown = await visitor.shows("/run/[/b]", "[x]:1")
        assert "\x1b" not in shown

    finished(tmp_path).open(scene)


def drawn(line: ConnectionLine, width: int) -> str:
    text = "".join(span.text for span in address(line).spans(width, Align.LEFT))
    assert cell_len(text) == width
    return text.rstrip()


@pytest.mark.parametrize("state", ["established", "peer closed"])
@pytest.mark.parametrize("width", range(30, 100, 3))
def test_an_address_is_never_cut_before_its_port(width: int, state: str) -> None:
    shown = drawn(ConnectionLine("tcp", "[2001:db8:85a3::8a2e:370:7334]:36250", "[2001:db8:1::1]:45323", state), width)
    remote, _, local = shown.removesuffix(f" {state}").partition(" ← ")
    assert remote.startswith("[")
    assert remote.endswith("]:45323")
    assert local == "" or local.endswith("]:36250")
    assert local or width < 42
    assert shown.endswith(state) or state == "established"


def test_the_middle_of_an_address_is_left_out_only_without_room() -> None:
    line = ConnectionLine("tcp", "127.0.0.1:36250", "[2001:db8:85a3::8a2e:370:7334]:443", "established")
    assert drawn(line, 60) == "[2001:db8:85a3::8a2e:370:7334]:443 ← 127.0.0.1:36250"
    assert drawn(line, 40) == "[2001:db…370:7334]:443 ← 127.0.0.1:36250"
    listening = ConnectionLine("tcp", "127.0.0.1:43991", None, "listening")
    assert drawn(listening, 25) == "127.0.0.1:43991 listening"
    assert drawn(listening, 15) == "…1:43991 liste…"
    assert drawn(ConnectionLine("unix", "/run/user/1000/한글/bus", None, "listening"), 24).endswith("/bus listening")


@pytest.mark.parametrize("key", ["C", "F"])
def test_a_narrow_pane_wraps_why_it_is_empty(tmp_path: Path, key: str) -> None:
    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.press(key)
        await visitor.shows("not known: it was not measured" if key == "C" else "files")
        empty = screen.query_one(ConnectionTable).empty if key == "C" else screen.query_one(FileTable).empty
        words = " ".join(" ".join(line.strip(" │").split()) for line in (await visitor.shows("")).splitlines())
        assert empty
        assert all(" ".join(text.split()) in words for text in empty.splitlines())

    finished(tmp_path).open(scene, (80, 24))
