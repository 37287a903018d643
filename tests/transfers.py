"""Programs that move a known number of bytes over the network, and jobs of tests that run them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from support import Jobtop, require

MIB = 1024 * 1024
# Whether the recorder of this job listens for closed sockets, which it does once it has seen a connection of the job.
SEEN = """if True:
    import os, socket, sys, threading, time

    def parent(pid):
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1]

    def is_seen():
        rows = [row.split() for row in open("/proc/net/netlink")]
        recorder = parent(os.getppid())
        return any(row[1] == "4" and row[2] == recorder and int(row[3], 16) for row in rows[1:])

    def wait_until_seen():
        deadline = time.monotonic() + 20
        while not is_seen() and time.monotonic() < deadline:
            time.sleep(0.005)
"""
SENDING = (
    SEEN
    + """
    size, rate, address = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    server = socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    client = socket.create_connection(server.getsockname()[:2])
    served, _ = server.accept()

    def receive():
        while served.recv(1 << 18):
            pass
        served.close()

    receiver = threading.Thread(target=receive)
    receiver.start()
    wait_until_seen()
    began, sent, block = time.monotonic(), 0, bytes(65536)
    while sent < size:
        part = block[: size - sent]
        client.sendall(part)
        sent += len(part)
        time.sleep(max(0.0, began + sent / rate - time.monotonic()))
    client.close()
    receiver.join()
"""
)
SHORT = """if True:
    import socket, time
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        served, _ = server.accept()
        client.sendall(bytes(1000))
        time.sleep(0.05)
"""


def sending(size: int, bytes_per_second: float, address: str = "127.0.0.1") -> tuple[str, ...]:
    """The arguments of a Python that sends so many bytes to itself once it is seen, and ends at once."""
    return "-c", SENDING, str(size), str(bytes_per_second), address


# A job in a network namespace of its own, with a link to a second namespace, which has a name.
IN_NAMESPACE = """
set -e
ip link add inside type veth peer name outside netns "$1"
ip address add 10.213.7.1/24 dev inside
ip link set inside up
ip link set lo up
ip -n "$1" address add 10.213.7.2/24 dev outside
ip -n "$1" link set outside up
exec "$2" -c "$3" "$4" "$5"
"""
SEND_OUT = """if True:
    import os, socket, sys, time
    size, rate = int(sys.argv[1]), float(sys.argv[2])
    with socket.create_server(("127.0.0.1", 0)) as local, socket.create_connection(local.getsockname()) as own:
        served, _ = local.accept()
        own.sendall(bytes(100000))
        served.recv(100000, socket.MSG_WAITALL)  # over the loopback of the namespace: not counted

    def is_read():
        parent = os.getppid()
        recorder = open(f"/proc/{parent}/stat").read().rpartition(")")[2].split()[1]
        links = [os.readlink(f"/proc/{recorder}/fd/{fd}") for fd in os.listdir(f"/proc/{recorder}/fd")]
        return any(link.endswith("/net/dev") for link in links)

    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if is_read():
                break
        except OSError:  # a file was closed meanwhile
            pass
        time.sleep(0.005)
    with socket.create_connection(("10.213.7.2", 4711), timeout=20) as client:
        began, sent, block = time.monotonic(), 0, bytes(65536)
        while sent < size:
            part = block[: size - sent]
            client.sendall(part)
            sent += len(part)
            time.sleep(max(0.0, began + sent / rate - time.monotonic()))
        client.shutdown(socket.SHUT_WR)
        client.recv(1)
"""
SINK = """if True:
    import socket
    with socket.create_server(("0.0.0.0", 4711)) as server:
        print("ready", flush=True)
        served, _ = server.accept()
        while served.recv(1 << 18):
            pass
        served.close()
"""


def run(jobtop: Jobtop, *args: str) -> dict[str, Any]:
    """The record of a job, after it has ended."""
    path = jobtop.home / "record.json"
    done = jobtop("run", "--no-ui", "--record", str(path), "--", jobtop.python, *args)
    assert done.returncode == 0, done.stderr
    record: dict[str, Any] = json.loads(path.read_text())
    return record


@pytest.fixture
def far_end(root: None) -> Iterator[str]:
    """The name of a network namespace in which a program receives what a job sends."""
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        require("namespaces", "ip (iproute2) or unshare (util-linux) is not installed")
    name = f"jobtop-{os.getpid()}"
    if (made := subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)).returncode:
        require("namespaces", f"no network namespace can be made: {made.stderr.strip()}")
    command = ["ip", "netns", "exec", name, sys.executable, "-c", SINK]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as sink:
        assert sink.stdout
        sink.stdout.readline()
        try:
            yield name
        finally:
            sink.kill()
            subprocess.run(["ip", "netns", "delete", name], check=True)


def run_in_namespace(jobtop: Jobtop, far_end: str, size: int, rate: float) -> dict[str, Any]:
    path = jobtop.home / "record.json"
    command = ("unshare", "-n", "sh", "-c", IN_NAMESPACE, "sh", far_end, jobtop.python, SEND_OUT, str(size), str(rate))
    done = jobtop("run", "--no-ui", "--record", str(path), "--", *command)
    assert done.returncode == 0, done.stderr
    record: dict[str, Any] = json.loads(path.read_text())
    return record
