"""An ordinary user where much is hidden: no process of others in /proc, no pressure, no cgroup of one's own.

What there is gets counted, nothing fails for what there is not, and the doctor names it and a remedy that is one.
"""

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from running import DEADLINE, processes_of, show
from support import Jobtop, require, wait_for
from unprivileged import NO_AGENT

HIDING = "mount -t proc -o hidepid=2 proc /proc && mount -t tmpfs -o ro,size=4k tmpfs /proc/pressure"
BURNT_SECONDS = 0.4
BURN = f"import time\nwhile time.process_time() < {BURNT_SECONDS}: pass"
# Lives long enough to be sampled; the sleeper is there from its first to its last moment.
TREE = f"sleep 1.3 & \"$0\" -I -S -c '{BURN}'; wait"

pytestmark = pytest.mark.usefixtures("root")


def inside(jobtop: Jobtop, *preparations: str) -> Jobtop:
    """The same jobtop in mounts of its own, which root prepares before it becomes nobody."""
    script = " && ".join((*preparations, 'exec "$@"'))
    return replace(
        jobtop, prefix=("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *jobtop.prefix)
    )


@pytest.fixture
def restricted(unprivileged: Jobtop) -> Jobtop:
    """jobtop as nobody, with hidepid=2 and nothing in /proc/pressure."""
    if shutil.which("unshare") is None:
        require("namespaces", "unshare (util-linux) is not installed")
    options = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - proc " in line]
    found = inside(unprivileged, HIDING)
    seen = subprocess.run([*found.prefix, "ls", "/proc"], capture_output=True, text=True)
    assert options == [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - proc " in line]
    if seen.returncode != 0:
        require("namespaces", f"nothing can be mounted here: {seen.stderr}")
    assert "1" not in seen.stdout.split(), "what others run is hidden"
    return found


def answers(jobtop: Jobtop, *args: str) -> Any:
    done = jobtop(*args)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_a_job_is_recorded_and_sampled_with_what_there_is(restricted: Jobtop) -> None:
    done = restricted("run", "--quiet", "--external-id", "it", "--", "sh", "-c", TREE, restricted.python)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    record = show(restricted, "it")
    usage = record["resource_usage"]
    assert (record["status"], record["user"], record["incomplete"]) == ("success", "nobody", [])
    assert usage["cpu_total_seconds"] == pytest.approx(BURNT_SECONDS, rel=0.25)
    assert usage["processes_seen"] == 3
    assert usage["samples"] >= 3
    printed = restricted("metrics", "it", "--format", "jsonl")
    assert (printed.returncode, printed.stderr) == (0, "")
    samples = [json.loads(line) for line in printed.stdout.splitlines()]
    middle = samples[len(samples) // 2]
    assert len(samples) == usage["samples"]
    assert middle["proc"]["count"] >= 2
    assert middle["mem"]["used"] > 0
    assert middle["io"]["read_chars"] > 0
    assert {middle["cpu"]["pressure"], middle["mem"]["cgroup"]} == {None}
    assert max(sample["cpu"]["user"] + sample["cpu"]["system"] for sample in samples) <= usage["cpu_total_seconds"]
    assert processes_of(restricted) == []


def by_command(jobtop: Jobtop, job_id: str) -> dict[str, Any]:
    """What `top` says of the processes of a job, by the first word of their commands."""
    return {process["command"].split()[0]: process for process in answers(jobtop, "top", "--json", job_id)["processes"]}


def test_of_a_member_that_changed_user_is_told_what_may_be_seen(restricted: Jobtop, unprivileged: Jobtop) -> None:
    changed = unprivileged.home / "changed"
    shutil.copy("/bin/sleep", changed)
    os.chown(changed, NO_AGENT - 1, NO_AGENT - 1)
    changed.chmod(0o4755)
    job_id = unprivileged("run", "--detach", "--", "sh", "-c", f"{changed} 600 & sleep 601; :").stdout.strip()
    try:
        # Until a child executes its command it is a shell, of the user who started it.
        wait_for(lambda: by_command(unprivileged, job_id).keys() == {"sh", str(changed), "sleep"}, DEADLINE)
        used = answers(unprivileged, "top", "--json", job_id)["mem"]["used"]
        everyone, unhidden = by_command(unprivileged, job_id), by_command(restricted, job_id)
    finally:
        assert unprivileged("kill", job_id).returncode == 0
    kinds = {command: process["memory_kind"] for command, process in everyone.items()}
    if kinds[str(changed)] == "pss":
        require("setuid", f"{changed} does not change its user here")
    assert kinds == {"sh": "pss", str(changed): "rss", "sleep": "pss"}
    assert used is None, "what all hold together without counting twice is not known"
    own = {command: process["pid"] for command, process in everyone.items() if command != str(changed)}
    assert {command: process["pid"] for command, process in unhidden.items()} == own
    assert {process["memory_kind"] for process in unhidden.values()} == {"pss"}
    wait_for(lambda: processes_of(unprivileged) == [], DEADLINE)  # the agent leaves last


def test_the_doctor_says_what_is_hidden_and_its_remedies_are_some(restricted: Jobtop, unprivileged: Jobtop) -> None:
    page = restricted("doctor")
    assert (page.returncode, page.stderr) == (0, "")
    assert page.stdout.splitlines()[-1] == "jobtop works here, with the limits marked ✗."
    found = {finding["name"]: finding for finding in answers(restricted, "doctor", "--json")}
    hidden = ("hidepid", "host pressure")
    assert {found[name]["state"] for name in hidden} == {"fails"}
    works = ("CPU clocks", "/proc/PID/io", "/proc/PID/fd", "smaps_rollup", "shim", "host CPU", "host memory")
    assert {found[name]["state"] for name in works} == {"works"}
    remedies = [found[name]["remedy"].removeprefix("as root: ").partition("; for")[0] for name in hidden]
    healed = inside(unprivileged, HIDING, *remedies)
    found = {finding["name"]: finding for finding in answers(healed, "doctor", "--json")}
    assert {found[name]["state"] for name in hidden} == {"works"}
