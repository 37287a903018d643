"""A job's own cgroup on a machine with nothing but version 2, booted once for all of these tests."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from support import ROOT
from uml import boot
from unprivileged import Installation

MEBIBYTE = 1024 * 1024
Answers = dict[str, Any]


@pytest.fixture(scope="module")
def guest(
    root: None, uml_kernel: Path, unprivileged_installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Answers:
    """What happened there: see guest_v2.py."""
    command = [sys.executable, str(ROOT / "tests/guest_v2.py"), unprivileged_installation.python]
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    shared = [unprivileged_installation.homes.parent, ROOT]
    printed = boot(uml_kernel, tmp_path_factory.mktemp("uml"), command, env, shared, deadline=110)
    try:
        answers: Answers = json.loads(printed.splitlines()[-1])
    except (ValueError, IndexError):
        pytest.fail(f"the machine answered: {printed[-3000:]}")
    return answers


def test_cpu_and_memory_come_from_the_cgroup_even_where_sigchld_is_ignored(guest: Answers) -> None:
    job = guest["unwaited"]
    assert job["returncode"] == 0, job
    assert job["sources"]["cpu"] == "cgroup"
    assert job["resource_usage"]["cpu_total_seconds"] > 0.3
    assert not any(entry.startswith("cpu:") for entry in job["incomplete"])
    assert any(entry.startswith("memory_peak:") for entry in job["incomplete"])
    assert 10 * MEBIBYTE < job["resource_usage"]["memory_cgroup_peak_bytes"] < 40 * MEBIBYTE
    assert job["left"] == []


def test_an_oom_kill_below_a_limited_parent_is_told(guest: Answers) -> None:
    job = guest["hog"]
    assert job["returncode"] == 137, job
    assert job["reason"] == "killed by SIGKILL: the kernel's OOM killer, oom_kill +1"
    assert job["flags"] == ["oom_killed"]
    assert job["resource_usage"]["memory_cgroup_peak_bytes"] <= 48 * MEBIBYTE
    assert job["left"] == []


def test_the_remedy_for_a_missing_memory_controller_is_one(guest: Answers) -> None:
    assert guest["without_memory"]["state"] == "fails"
    assert guest["unwaited"]["sources"]["oom_kills"] == "cgroup"


def test_the_remedy_for_a_container_is_one(guest: Answers) -> None:
    container = guest["container"]
    assert container["before"]["state"] == "fails", container
    assert container["remedy"] == ""
    assert container["after"]["state"] == "works"


def test_a_user_with_a_delegated_part_of_the_tree_gets_everything(guest: Answers) -> None:
    job = guest["delegated"]["small"]
    assert job["returncode"] == 0, job
    assert job["user"] != "root"
    assert job["sources"]["cpu"] == job["sources"]["oom_kills"] == "cgroup"
    assert job["resource_usage"]["memory_cgroup_peak_bytes"] > 0
    assert job["left"] == []


def test_memory_and_cpus_of_such_a_user_hold_and_the_whole_job_ends_at_the_limit(guest: Answers) -> None:
    job = guest["delegated"]["enforced"]
    assert job["returncode"] == 137, job
    # The kernel counts whom it chose once more when it ends the others.
    assert job["reason"] in [f"killed by SIGKILL: over its memory limit of 32.0 MiB (oom_kill +{n})" for n in (2, 3)]
    assert (job["limits"]["enforced"], job["sources"]["limits"]) == (True, "cgroup v2")
    assert [words for words in job["incomplete"] if not words.startswith("io_chars")] == []
    assert job["resource_usage"]["memory_cgroup_peak_bytes"] <= 32 * MEBIBYTE
    assert job["resource_usage"]["cpu_efficiency"] < 1.2, "half a CPU and the 10 ms of a tick"
    assert job["left"] == []
