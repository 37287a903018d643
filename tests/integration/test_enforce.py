"""Limits that hold, and priorities: with a cgroup, without one, and as a user who may make none."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from running import nothing_is_left as nothing_is_left
from support import Jobtop, require

MEBIBYTE = 1024 * 1024
LIMIT = "over its memory limit of 200.0 MiB"
# So many MiB, so many a second.
GROW = """
import sys, time
most, rate = map(int, sys.argv[1:])
held, begun = [], time.monotonic()
while len(held) < most:
    held.append(b"x" * 1048576)
    time.sleep(max(0.0, begun + len(held) / rate - time.monotonic()))
"""
WITHOUT = ("--set", "monitor.without=cgroup")
ENFORCED = ("--memory", "200M", "--enforce")
# Niceness, class and level of I/O, CPUs; and the niceness of the shim.
SEEN = """
import ctypes, os
io = ctypes.CDLL(None).syscall(252 if os.uname().machine == "x86_64" else 31, 1, 0)
nice = [os.getpriority(os.PRIO_PROCESS, pid) for pid in (0, os.getppid())]
print(*nice, io >> 13, io & 7, len(os.sched_getaffinity(0)))
"""


def run(jobtop: Jobtop, *words: str, code: int, before: tuple[str, ...] = ()) -> dict[str, Any]:
    """The record of a job that was run to its end."""
    record = jobtop.home / "record.json"
    finished = jobtop(*before, "run", "--quiet", "--record", str(record), *words)
    assert finished.returncode == code, finished.stderr
    return {**json.loads(record.read_text()), "printed": finished.stdout.split()}


@pytest.fixture
def on_v1(root: None) -> None:
    """For tests that need memory and CPUs to be held by cgroup version 1."""
    if not Path("/sys/fs/cgroup/memory/cgroup.procs").exists() or not Path("/sys/fs/cgroup/cpu").exists():
        require("cgroup-v1", "memory and CPUs are not held by cgroup version 1 on this machine")


def test_with_a_cgroup_the_kernel_ends_a_hog_and_the_reason_names_the_limit(jobtop: Jobtop, on_v1: None) -> None:
    job = run(jobtop, *ENFORCED, "--", jobtop.python, "-S", "-c", GROW, "400", "400", code=137)
    assert job["status"] == "failed"
    assert job["reason"] == f"killed by SIGKILL: {LIMIT} (oom_kill +1)"
    assert job["flags"] == ["oom_killed"]
    assert (job["limits"]["enforced"], job["sources"]["limits"]) == (True, "cgroup v1")
    assert job["resource_usage"]["memory_cgroup_peak_bytes"] <= 200 * MEBIBYTE


def test_without_a_cgroup_a_hog_is_stopped_by_who_samples_it(jobtop: Jobtop) -> None:
    line = f"{jobtop.python} -S -c '{GROW}' 400 200; exit 3"
    job = run(jobtop, *ENFORCED, "--shell", "--", line, code=137, before=WITHOUT)
    check_stopped(job)
    assert "over its memory limit: 2" in jobtop("show", job["id"]).stdout


def test_a_user_who_may_make_no_cgroup_has_limits_that_hold(unprivileged: Jobtop) -> None:
    check_stopped(run(unprivileged, *ENFORCED, "--", unprivileged.python, "-S", "-c", GROW, "400", "200", code=137))


def check_stopped(job: dict[str, Any]) -> None:
    used = job["resource_usage"]["memory_peak_bytes"]
    assert 200 * MEBIBYTE < used < 300 * MEBIBYTE
    assert job["reason"] == f"stopped: {used / MEBIBYTE:.1f} MiB used, {LIMIT} (enforced by sampling)"
    assert (job["status"], job["flags"], job["sources"]["limits"]) == ("failed", ["over_limit"], "sampling")
    assert job["incomplete"] == []


def test_without_enforce_a_hog_is_left_alone_and_the_record_says_how_far_over_it_went(jobtop: Jobtop) -> None:
    job = run(jobtop, "--memory", "60M", "--", jobtop.python, "-S", "-c", GROW, "100", "9999", code=0)
    assert (job["limits"]["enforced"], job["reason"]) == (False, None)
    assert "limits" not in job["sources"]
    over = job["resource_usage"]["memory_peak_bytes"] - 60 * MEBIBYTE
    assert f"{over / MEBIBYTE:.1f} MiB above" in jobtop("show", job["id"]).stdout


def test_half_a_cpu_holds_with_a_cgroup(jobtop: Jobtop, on_v1: None) -> None:
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    job = run(jobtop, "--cpus", "0.5", "--enforce", "--", jobtop.python, "-S", "-c", spin, code=0)
    assert job["sources"]["limits"] == "cgroup v1"
    assert job["resource_usage"]["cpu_efficiency"] < 1.3
    assert job["duration_seconds"] > 0.4


def test_without_a_cgroup_whole_cpus_hold_by_affinity_and_others_are_said_not_to(jobtop: Jobtop) -> None:
    held = run(jobtop, "--cpus", "1", "--enforce", "--", jobtop.python, "-S", "-c", SEEN, code=0, before=WITHOUT)
    assert held["printed"][4] == "1"
    assert (held["sources"]["limits"], held["incomplete"]) == ("affinity", [])
    job = run(jobtop, "--cpus", "1.5", "--enforce", "--", "true", code=0, before=WITHOUT)
    assert job["incomplete"] == ["limits: without a cgroup only whole CPUs can be enforced, not 1.5"]


def test_priorities_are_the_job_s_and_not_its_shim_s_and_it_has_them_again(jobtop: Jobtop) -> None:
    options = ("--nice", "7", "--ionice", "best-effort:6")
    job = run(jobtop, *options, "--", jobtop.python, "-S", "-c", SEEN, code=0)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert job["printed"][:4] == ["7", str(own), "2", "6"]
    spec = json.loads((jobtop.state / "specs" / f"{job['id']}.json").read_text())
    assert (spec["nice"], spec["ionice"]) == (7, "best-effort:6")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--enforce",), "--enforce: there is nothing to enforce; give --memory SIZE"),
        (("--enforce", "--cpus", "0"), "--enforce: there is nothing to enforce"),
        (("--enforce", "--memory", "9K"), "--enforce: no process can start with so little --memory; give at least 1M"),
        (("--nice", "-5"), "--nice: -5 needs privileges: as this user 0 at least"),
        (("--nice", "20"), '--nice: "20" is not a niceness'),
        (("--ionice", "realtime:0"), "--ionice: realtime needs privileges"),
        (("--ionice", "best"), '--ionice: "best" is not idle, best-effort[:0-7] or realtime[:0-7]'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_held_or_set_is_said_before_anything_runs(
    unprivileged: Jobtop, options: tuple[str, ...], words: str
) -> None:
    finished = unprivileged("run", *options, "--", "touch", str(unprivileged.home / "ran"))
    assert finished.returncode == 2
    assert words in finished.stderr
    assert finished.stderr.count("\n") == 1
    assert not (unprivileged.home / "ran").exists()
