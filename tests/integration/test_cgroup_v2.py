"""A job's own cgroup on a machine with nothing but version 2, booted once for all of these tests."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from support import ROOT, require
from uml import DBUS_DAEMON, SYSTEMD, boot
from unprivileged import Installation

MEBIBYTE = 1024 * 1024
Answers = dict[str, Any]


@pytest.fixture(scope="module")
def guest(
    root: None, uml_kernel: Path, unprivileged_installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Answers:
    """What happened there: see guest_v2.py and, of what happened once systemd ran it, guest_scope.py."""
    command, then = (
        [sys.executable, str(ROOT / "tests" / name), unprivileged_installation.python]
        for name in ("guest_v2.py", "guest_scope.py")
    )
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    shared = [unprivileged_installation.homes.parent, ROOT]
    then = then if has_systemd() else []
    printed = boot(uml_kernel, tmp_path_factory.mktemp("uml"), command, env, shared, deadline=110, then=then)
    answers: Answers = {}
    try:
        for line in printed.splitlines()[-2 if then else -1 :]:
            answers |= json.loads(line)
    except ValueError:
        pytest.fail(f"the machine answered: {printed[-3000:]}")
    return answers


def has_systemd() -> bool:
    return os.access(SYSTEMD, os.X_OK) and os.access(DBUS_DAEMON, os.X_OK)


@pytest.fixture
def with_systemd(guest: Answers) -> Answers:
    """What happened to a user with a systemd there, below the one that runs the machine."""
    if not has_systemd():
        require("systemd", f"there is no {SYSTEMD} or no {DBUS_DAEMON} (Debian: systemd, dbus)")
    return guest


def test_cpu_and_memory_come_from_the_cgroup_even_where_sigchld_is_ignored(guest: Answers) -> None:
    job = guest["unwaited"]
    assert job["returncode"] == 0, job
    assert job["sources"]["cpu"] == "cgroup+rusage"
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
    assert (job["sources"]["cpu"], job["sources"]["oom_kills"]) == ("cgroup+rusage", "cgroup")
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


def test_the_systemd_of_a_user_who_may_make_no_cgroup_has_the_limits_of_a_job_held(with_systemd: Answers) -> None:
    job = with_systemd["session"]
    assert job["returncode"] == 137, job
    assert job["reason"].startswith("killed by SIGKILL: over its memory limit of 32.0 MiB (oom_kill +")
    assert (job["sources"]["limits"], job["sources"]["cpu"]) == ("cgroup v2 (systemd scope)", "cgroup+rusage")
    assert job["resource_usage"]["memory_cgroup_peak_bytes"] <= 32 * MEBIBYTE
    name = f"jobtop-{job['id']}"
    place, above, *held = job["seen"]
    assert place.endswith(f"/user@65534.service/app.slice/{name}.scope/{name}")
    assert above.endswith(f"/{name}.scope/supervisor"), "a limit must not hit the supervisor"
    assert held == ["90000 100000", "0", "max"]


def test_a_terminal_of_the_user_s_desktop_is_left_for_a_scope_and_the_doctor_says_so(with_systemd: Answers) -> None:
    found = with_systemd["terminal"]
    assert found["state"] == "works"
    assert found["meaning"].count("cgroup v2 (systemd scope)") == 2


def test_scopes_go_with_their_last_process(with_systemd: Answers) -> None:
    assert with_systemd["left"] == []
