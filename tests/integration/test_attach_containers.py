"""Containers of real engines that jobtop did not start: followed by a label, or attached by name."""

import json
import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from container_jobs import PYTHON, engine, led_to, pid_of
from engines import PYTHON_BINDS, RealEngine
from running import ended, nothing_is_left, show
from support import Jobtop, wait_for

__all__ = ["engine", "nothing_is_left"]
pytestmark = pytest.mark.usefixtures("nothing_is_left")
# Burns CPU before and after it is let go, and says how much it was in all.
LOAD = """
import os, time
while time.process_time() < 0.4: pass
open("/gate/ready", "w").close()
while not os.path.exists("/gate/go"): time.sleep(0.02)
while time.process_time() < 0.6: pass
open("/gate/used", "w").write(str(time.process_time()))
os._exit(3)
"""
STAYS = ("sh", "-c", "trap 'exit 9' TERM; while :; do sleep 0.1; done")
START_SECONDS = 0.12  # of CPU time that the runtime uses in the cgroup before the first process is executed
SLOW_SECONDS = 20.0


@pytest.fixture
def outside(jobtop: Jobtop, engine: RealEngine) -> Jobtop:
    return led_to(jobtop, engine)


def history(jobtop: Jobtop, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(jobtop("history", *words, "--json").stdout)
    return found


def followed_jobs(jobtop: Jobtop, count: int) -> list[dict[str, Any]]:
    """The jobs of a follow, once there are so many."""
    return wait_for(lambda: jobs if len(jobs := history(jobtop, "tag:via=label")) == count else [], SLOW_SECONDS)


@contextmanager
def followed(jobtop: Jobtop, label: str) -> Iterator[None]:
    begun = jobtop("attach", "--label", label, "--tag", "via=label")
    assert (begun.returncode, begun.stderr) == (0, "")
    try:
        yield
    finally:
        assert jobtop("attach", "--label", label, "--stop").returncode == 0


def test_a_container_counts_from_its_start_and_its_engine_knows_its_exit_code(
    outside: Jobtop, engine: RealEngine, tmp_path: Path
) -> None:
    name = f"test-{uuid.uuid4().hex[:12]}"
    host = {"binds": [*PYTHON_BINDS, f"{tmp_path}:/gate"], "auto_remove": True, "mem_limit": "256m"}
    with engine.container(*PYTHON, LOAD, name=name, host=host):
        wait_for((tmp_path / "ready").exists, SLOW_SECONDS)
        done = outside("attach", "--container", name, "--tag", "a=b")
        assert (done.returncode, done.stderr) == (0, "")
        job = done.stdout.strip()
        again = outside("attach", "--container", name)
        assert (again.returncode, job[:8] in again.stderr) == (2, True)
        logs = outside("logs", job)
        assert f"jobtop containers logs {name}" in logs.stderr
        wait_for(lambda: outside("metrics", job, "--no-follow", "--format", "jsonl").stdout.count("\n") > 1)
        (tmp_path / "go").touch()
        record = ended(outside, job)
    assert (record["status"], record["exit_code"], record["name"]) == ("failed", 3, name)
    assert (record["kind"], record["flags"], record["tags"]) == ("container", ["attached"], {"a": "b"})
    assert (record["limits"]["memory_bytes"], record["limits"]["enforced"]) == (256 << 20, True)
    used, measured = float((tmp_path / "used").read_text()), record["resource_usage"]["cpu_total_seconds"]
    assert 0.4 < measured < used + START_SECONDS
    # The engine may remove the cgroup before it is read: then the record says what is missing.
    if record["sources"]["cpu"] == "cgroup":
        assert measured >= used - 0.02
    else:
        assert record["incomplete"][0].startswith("all: what it did")


def test_a_follow_goes_on_after_the_agent_was_killed(outside: Jobtop, engine: RealEngine) -> None:
    value = uuid.uuid4().hex[:12]
    label, labels = f"test={value}", {"test": value, "com.docker.compose.project": value}
    with engine.container(*STAYS, labels=labels) as first, followed(outside, label):
        (stays,) = wait_for(lambda: history(outside, f"tag:project={value}"), SLOW_SECONDS)
        agent = wait_for(lambda: pid_of(outside, "agent"))
        os.kill(agent, signal.SIGKILL)
        wait_for(lambda: (pid_of(outside, "agent") or agent) != agent, SLOW_SECONDS)
        with engine.container("sh", "-c", "exit 5", host={"auto_remove": True}, labels=labels):
            found = wait_for(
                lambda: jobs if len(jobs := history(outside, "tag:via=label")) == 2 else None, SLOW_SECONDS
            )
            assert stays["id"] in {job["id"] for job in found}
            short = next(job["id"] for job in found if job["id"] != stays["id"])
            assert ended(outside, short)["exit_code"] == 5
        assert outside("pause", stays["id"]).returncode == 0
        assert engine.inspect(first)["State"]["Status"] == "paused"
        assert outside("resume", stays["id"]).returncode == 0
        assert show(outside, stays["id"])["status"] == "running"
        (follow,) = json.loads(outside("attach", "--follows", "--json").stdout)
        assert (follow["label"], follow["running"]) == (label, 1)
        assert outside("stop", stays["id"]).returncode == 0
        record = show(outside, stays["id"])
    assert (record["status"], record["exit_code"]) == ("cancelled", 9)
    assert record["reason"] == "stopped by jobtop stop: exit code 9"
    assert len(history(outside)) == 2
