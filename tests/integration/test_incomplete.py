"""What the kernel cannot know is said to be missing, and nothing else is."""

import json
from pathlib import Path

import pytest

from jobtop.core.collectors.cgroup import all_hierarchies
from support import Jobtop, require

SA_NOCLDWAIT = """\
import ctypes, os, time
class Action(ctypes.Structure):
    _fields_ = [("handler", ctypes.c_void_p), ("mask", ctypes.c_ulong * 16), ("flags", ctypes.c_int)]
assert ctypes.CDLL(None).sigaction(17, ctypes.byref(Action(flags=2)), None) == 0
"""
WAITING = "import os, time\n"
CHILDREN = """\
for _ in range(4):
    child = os.fork()
    if child == 0:
        began = time.process_time()
        while time.process_time() - began < 0.2:
            pass
        os._exit(0)
    try:
        os.waitpid(child, 0)
    except ChildProcessError:
        pass
time.sleep(2.5)
"""


@pytest.mark.parametrize(("start", "missing"), [(SA_NOCLDWAIT, True), (WAITING, False)], ids=["discarded", "waited"])
def test_children_nobody_waits_for_are_said_to_be_missing(
    jobtop: Jobtop, tmp_path: Path, start: str, missing: bool
) -> None:
    (tmp_path / "job.py").write_text(start + CHILDREN)
    record = tmp_path / "record.json"
    options = ("--set", "monitor.without=cgroup", "run", "--quiet", "--record", str(record))
    assert jobtop(*options, "--", jobtop.python, str(tmp_path / "job.py")).returncode == 0
    job = json.loads(record.read_text())
    assert any(entry.startswith("cpu: ") for entry in job["incomplete"]) == missing
    assert (job["resource_usage"]["cpu_total_seconds"] < 0.8) == missing


REWRITE = """\
import os, time
held = bytearray(b"1") * (100 << 20)
for _ in range(2):
    if os.fork() == 0:
        time.sleep(1.2)
        held[::4096] = b"2" * len(held[::4096])
        time.sleep(2.5)
        os._exit(0)
os.wait(), os.wait()
"""


def test_pages_that_forks_write_to_are_counted_without_a_cgroup(jobtop: Jobtop, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    options = ("--set", "monitor.without=cgroup", "run", "--quiet", "--record", str(record))
    assert jobtop(*options, "--", jobtop.python, "-I", "-S", "-c", REWRITE).returncode == 0
    job = json.loads(record.read_text())
    assert job["resource_usage"]["memory_peak_bytes"] == pytest.approx(310 << 20, rel=0.05)
    assert (job["sources"]["memory_peak"], job["incomplete"]) == ("pss", [])


LEAVES = """\
import os, sys, time
def leave():
    for line in open("/proc/self/cgroup").read().split():
        _, names, path = line.split(":", 2)
        for mount in (f"/sys/fs/cgroup/{names.removeprefix('name=')}", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
            if "jobtop-" in path and os.path.exists(f"{mount}{path}/cgroup.procs"):
                open(f"{mount}{os.path.dirname(path)}/cgroup.procs", "w").write("0")
                break
leave()
assert "jobtop-" not in open("/proc/self/cgroup").read()
held = bytearray(b"1") * (300 << 20)
child = os.fork()
if child == 0:
    held[::4096] = b"2" * len(held[::4096])
while time.process_time() < 1.5: pass
time.sleep(1.5)
if child:
    os.waitpid(child, 0)
"""


@pytest.mark.usefixtures("root")
def test_what_a_process_uses_outside_the_job_s_cgroup_is_counted_and_said(jobtop: Jobtop, tmp_path: Path) -> None:
    if not all_hierarchies():
        require("cgroup", "no cgroup is mounted")
    record = tmp_path / "record.json"
    options = ("run", "--quiet", "--interval", "0.5s", "--record", str(record))
    finished = jobtop(*options, "--", jobtop.python, "-I", "-S", "-c", LEAVES)
    assert finished.returncode == 0, finished.stderr
    job = json.loads(record.read_text())
    usage = job["resource_usage"]
    assert usage["cpu_total_seconds"] == pytest.approx(3.0, rel=0.3)
    assert usage["cpu_percent_peak"] > 20
    assert job["sources"]["cpu"] == "cgroup+rusage"
    assert [entry.partition(":")[0] for entry in job["incomplete"]] == ["cpu"]
    assert usage["memory_peak_bytes"] == pytest.approx(600 << 20, rel=0.1)
