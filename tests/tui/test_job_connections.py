"""The pane with the connections of a job: read while it is shown; of an ended job it says what is known."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from job_pages import Made, finished
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.measure.live_connections import ConnectionLine
from jobtop.core.model import Usage
from jobtop.tui.screens.job.screen import JobScreen
from jobtop.tui.widgets.connection_table import ConnectionTable
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
