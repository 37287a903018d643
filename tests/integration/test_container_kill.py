"""`kill -9` of each part of jobtop while a container runs: it ends by itself, and exit code and output are kept."""

import os
import signal
from collections.abc import Iterator
from functools import partial

import pytest

from container_jobs import IN_IMAGE, check_whole, cleared, engine, gated, pid_of
from engines import RealEngine
from running import ended, nothing_is_left, running, show, the_log
from support import Jobtop, wait_for

__all__ = ["engine", "nothing_is_left"]

KILLED = [("shim",), ("runner",), ("shim", "runner"), ("agent",), ("agent", "shim", "runner")]


@pytest.fixture
def contained(jobtop: Jobtop, engine: RealEngine) -> Iterator[Jobtop]:
    with cleared(jobtop, engine) as found:
        yield found


def test_a_container_outlives_the_kill_of_run(contained: Jobtop) -> None:
    with running(contained, "--quiet", *gated(contained.home)) as run:
        run.reads(b"out 1")
        run.send(signal.SIGKILL)
        run.end()
        assert show(contained, "the-job")["status"] == "running"
        (contained.home / "gate/open").touch()
        check_whole(contained, "the-job")


@pytest.mark.parametrize("parts", KILLED, ids=" and ".join)
def test_a_container_outlives_the_kill_of(contained: Jobtop, parts: tuple[str, ...]) -> None:
    started = contained("run", "--detach", "--external-id", "gated", *gated(contained.home))
    assert started.returncode == 0, started.stderr
    wait_for(lambda: "err 1" in the_log(contained, "gated", "stderr"), 30)
    pids = [wait_for(partial(pid_of, contained, part), 10) for part in parts]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert show(contained, "gated")["status"] == "running"
    (contained.home / "gate/open").touch()
    check_whole(contained, "gated")


def test_a_job_without_runner_can_be_stopped(contained: Jobtop) -> None:
    script = "trap 'echo asked; exit 8' TERM; echo ready; while :; do sleep 0.05; done"
    contained("run", "--detach", "--external-id", "orphan", *IN_IMAGE, "--", "sh", "-c", script)
    wait_for(lambda: "ready" in the_log(contained, "orphan"), 30)
    for pid in [pid_of(contained, part) for part in ("shim", "runner")]:
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    stopped = contained("stop", "orphan")
    assert stopped.returncode == 0, stopped.stderr
    job = ended(contained, "orphan")
    assert (job["status"], job["exit_code"]) == ("cancelled", 8)
    assert the_log(contained, "orphan") == "ready\nasked\n"
