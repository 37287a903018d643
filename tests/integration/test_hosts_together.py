"""Several hosts share one state directory: each writes its own store, and reads those of all."""

import json
import shutil
import sqlite3
import subprocess
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from records import assert_one_line
from running import Run, running
from support import Jobtop, require, wait_for

NAMED = 'hostname "$0" && exec "$@"'
NETWORK = {"JOBTOP_STORE_NETWORK": "yes"}
CHANGES = slice(24, 28)  # of the header of a database without a WAL: a number that grows with every commit


def machine(jobtop: Jobtop, name: str, **env: str) -> Jobtop:
    """The same jobtop and the same directory on a machine of another name."""
    return Jobtop(jobtop.python, jobtop.home, {**jobtop.env, **env}, ("unshare", "--uts", "sh", "-c", NAMED, name))


@pytest.fixture
def machines(jobtop: Jobtop, root: None) -> list[Jobtop]:
    """Two machines with home directories on one network file system."""
    if shutil.which("unshare") is None or shutil.which("hostname") is None:
        require("namespaces", "unshare (util-linux) or hostname is not installed")
    return [machine(jobtop, name, **NETWORK) for name in ("alpha", "beta")]


def history(jobtop: Jobtop, *args: str) -> list[dict[str, Any]]:
    listed = jobtop("history", "--all", "--json", *args)
    assert (listed.returncode, listed.stderr) == (0, "")
    found: list[dict[str, Any]] = json.loads(listed.stdout)
    return found


def test_two_hosts_share_a_directory_and_see_the_jobs_of_both(machines: list[Jobtop]) -> None:
    alpha, beta = machines
    with running(alpha, "--", "sleep", "600", reference="a") as first, running(beta, "--", "sleep", "600") as second:
        for run in (first, second):
            run.until(lambda run=run: has_begun(run))  # type: ignore[misc]
        for own in machines:
            assert [job["status"] for job in history(own)] == ["running"]
            both = history(own, "--store", str(own.state))
            assert {(job["host"], job["status"], job["stale"]) for job in both} == {
                ("alpha", "running", False),
                ("beta", "running", False),
            }
        refused = beta("stop", "a", "--store", str(beta.state))
        assert refused.returncode == 2
        assert_one_line(refused.stderr, "alpha")
        first.process.terminate()
        assert first.end() == 128 + 15
        assert beta("wait", "a", "--store", str(beta.state)).returncode == 1
        assert beta("stop", "the-job").returncode == 0
        second.end()
    assert [job["status"] for job in history(alpha, "--store", str(alpha.state))] == ["cancelled", "cancelled"]
    assert sorted(path.name for path in alpha.state.glob("*.db*")) == ["alpha.db", "beta.db"]
    for name in ("alpha", "beta"):
        with closing(sqlite3.connect(alpha.state / f"{name}.db")) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert {row[0] for row in connection.execute("SELECT host FROM jobs")} == {name}


def has_begun(run: Run) -> bool:
    """Whether the job is monitored by now."""
    found = [job for job in history(run.jobtop) if job["external_id"] == run.reference]
    return bool(found) and found[0]["last_heard"] is not None


def test_jobs_of_a_host_that_went_down_are_stale_on_other_hosts(machines: list[Jobtop]) -> None:
    alpha, beta = machines
    assert alpha("run", "--quiet", "--", "true").returncode == 0
    with closing(sqlite3.connect(alpha.state / "alpha.db")) as connection, connection:
        gone = "recorder_boot = 'x', shim_boot = 'x', settled = 0, end_time = NULL, duration_seconds = NULL"
        connection.execute(f"UPDATE jobs SET status = 'running', {gone}, heartbeat = ?", (time.time() - 3600,))
    before = (alpha.state / "alpha.db").read_bytes()
    assert [(job["status"], job["stale"]) for job in history(beta, "--store", str(beta.state))] == [("running", True)]
    (job_id,) = (job["id"] for job in history(beta, "--store", str(beta.state)))
    command = beta.command("metrics", job_id, "--store", str(beta.state))
    with subprocess.Popen(command, env=beta.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as follower:
        with pytest.raises(subprocess.TimeoutExpired):  # it goes on, and does not take the job for lost
            follower.wait(0.6)
        follower.kill()
    assert (alpha.state / "alpha.db").read_bytes() == before


def test_a_store_on_the_network_is_written_every_ten_seconds_with_a_rollback_journal(jobtop: Jobtop) -> None:
    shared = replace(jobtop, env={**jobtop.env, **NETWORK})
    with running(shared, "--interval", "0.1s", "--", "sleep", "600") as run:
        run.until(lambda: has_begun(run))
        (store,) = shared.state.glob("*.db")
        seen = counted_changes(store, 2.0)
        assert len(seen) <= 2, "what has just begun may be told once more, but not every second"
        assert not list(shared.state.glob("*-wal"))
        run.process.terminate()
        run.end()
    shown = json.loads(shared("show", "the-job", "--json").stdout)
    assert shown["resource_usage"]["samples"] > 10


def counted_changes(store: Path, seconds: float) -> set[bytes]:
    """The states that a store was in for so long."""
    seen, end = set(), time.monotonic() + seconds

    def is_over() -> bool:
        seen.add(store.read_bytes()[CHANGES])
        return time.monotonic() > end

    wait_for(is_over, seconds + 5)
    return seen


def test_a_reader_waits_for_the_writer_of_a_store_on_the_network(jobtop: Jobtop) -> None:
    shared = replace(jobtop, env={**jobtop.env, **NETWORK})
    assert shared("run", "--quiet", "--", "true").returncode == 0
    (store,) = shared.state.glob("*.db")
    with closing(sqlite3.connect(store, isolation_level=None, check_same_thread=False)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        release = threading.Timer(0.8, lambda: writer.execute("COMMIT"))
        release.start()
        began = time.monotonic()
        found = history(shared)
        assert time.monotonic() - began > 0.4
        release.join()
    assert [job["status"] for job in found] == ["success"]
