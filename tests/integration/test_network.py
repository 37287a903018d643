"""What a job receives and sends is what it moved, also by connections that closed at its end; unknown is never 0."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors.network.source import NetworkSource
from jobtop.core.measure.sources import JOB_SOURCES, Options, open_runs
from jobtop.core.measure.target import Target
from jobtop.core.model import Identity
from jobtop.core.procfs import boot_id, start_ticks
from support import Jobtop, wait_for
from transfers import MIB, SHORT, far_end, run, run_in_namespace, sending

__all__ = ["far_end"]

SIZE = 20 * MIB
FAST = 400 * MIB


@pytest.fixture(params=["as this user", "unprivileged"])
def anyone(request: pytest.FixtureRequest) -> Jobtop:
    jobtop: Jobtop = request.getfixturevalue("jobtop" if request.param == "as this user" else "unprivileged")
    return jobtop


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_bytes_of_a_connection_that_closes_with_the_job_are_all_counted(anyone: Jobtop, address: str) -> None:
    record = run(anyone, *sending(SIZE, FAST, address))
    used = record["resource_usage"]
    assert used["net_tx_bytes"] == pytest.approx(SIZE, rel=0.001)
    assert used["net_rx_bytes"] == pytest.approx(SIZE, rel=0.001)
    assert record["sources"]["network"] == "tcp sockets (sock_diag)"
    assert not [entry for entry in record["incomplete"] if entry.startswith("network") and "this host" not in entry]


def test_a_job_in_a_namespace_of_its_own_has_the_counters_of_that(jobtop: Jobtop, far_end: str) -> None:
    record = run_in_namespace(jobtop, far_end, SIZE, FAST)
    used = record["resource_usage"]
    assert used["net_tx_bytes"] == pytest.approx(SIZE, rel=0.02)
    assert 0 < used["net_rx_bytes"] < SIZE / 50
    assert record["sources"]["network"] == "namespace"
    assert not [entry for entry in record["incomplete"] if entry.startswith("network")]


@contextmanager
def child(program: str) -> Iterator[tuple[NetworkSource, dict[str, Target], Callable[[], None]]]:
    """A source, a job that is this program, and a function that lets the program take its next step."""
    source = NetworkSource(Options())
    assert source.available() is None
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        stdin, stdout = process.stdin, process.stdout

        def step() -> None:
            stdin.write("\n")
            stdin.flush()
            stdout.readline()

        root = Identity(boot_id(), process.pid, start_ticks(process.pid))
        try:
            yield source, {"job": Target(root, time.clock_gettime(BOOTTIME), includes_root=True)}, step
        finally:
            source.close()
            process.kill()


STEPS = """if True:
    import socket

    def step():
        print(flush=True)
        input()

    input()
"""


def test_datagrams_make_a_job_incomplete_and_give_no_bytes() -> None:
    program = """
    one, other = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    one.bind(("127.0.0.1", 0))
    other.sendto(b"x", one.getsockname())
    step()
    """
    with child(STEPS + program) as (source, jobs, step):
        step()
        readings = source.collect(jobs)
        assert readings.jobs == {}
        assert readings.remarks["job"].sources == {}
        assert "UDP" in readings.remarks["job"].incomplete[0]


def test_a_connection_that_nobody_saw_leaves_a_job_without_bytes_and_the_next_one_says_what_may_be_missing() -> None:
    program = """
    def exchange(size):
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
            with server.accept()[0] as other:
                one.sendall(bytes(size))
                other.recv(size, socket.MSG_WAITALL)
                if size == 1000:
                    step()

    exchange(5000)
    step()
    exchange(1000)
    step()
    exchange(5000)
    step()
    """
    with child(STEPS + program) as (source, jobs, step):
        step()
        assert source.collect(jobs).jobs == {}
        step()
        assert source.collect(jobs).jobs["job"]["net.tx_bytes"] == 1000
        step()
        step()

        def remarks() -> tuple[str, ...]:
            last = source.conclude("job", jobs)
            assert last is not None
            assert last.jobs["job"]["net.tx_bytes"] == 1000
            return last.remarks["job"].incomplete

        assert "sent are missing" in wait_for(remarks)[0], "the kernel tells of closed sockets a little later"


def test_a_source_that_is_switched_off_is_not_opened() -> None:
    assert "network" not in [run.name for run in open_runs(JOB_SOURCES, Options(without=frozenset({"network"})))]
    [run] = [run for run in open_runs(JOB_SOURCES, Options(without=frozenset({"net"}))) if run.name == "network"]
    assert run.unavailable is not None


@pytest.mark.parametrize("program", [SHORT, "pass"])
def test_bytes_of_a_short_connection_are_exact_or_absent_and_never_0(jobtop: Jobtop, program: str) -> None:
    used = run(jobtop, "-c", program)["resource_usage"]
    assert used["net_tx_bytes"] in (None, 1000), "on a slow machine it may be seen"
