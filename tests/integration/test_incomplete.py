"""What the kernel cannot know is said to be missing, and nothing else is."""

import json
from typing import Any

import pytest

from jobtop.core.measure.collectors.cgroup import all_hierarchies
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


TOGETHER = """\
for _ in range(2):
    if os.fork() == 0:
        began = time.process_time()
        while time.process_time() - began < 0.4:
            pass
        os._exit(0)
try:
    while True:
        os.wait()
except ChildProcessError:
    pass
"""


@pytest.fixture(params=["root", "unprivileged"])
def user(request: pytest.FixtureRequest) -> Jobtop:
    """jobtop as whoever runs the tests, and as a user without privileges."""
    jobtop: Jobtop = request.getfixturevalue("jobtop" if request.param == "root" else "unprivileged")
    return jobtop


def record_of(jobtop: Jobtop, code: str, *options: str) -> dict[str, Any]:
    """What is recorded of a Python program."""
    record = jobtop.home / "record.json"
    finished = jobtop("run", "--quiet", "--record", str(record), *options, "--", jobtop.python, "-I", "-c", code)
    assert finished.returncode == 0, finished.stderr
    job: dict[str, Any] = json.loads(record.read_text())
    return job


def missing(job: dict[str, Any]) -> list[str]:
    """What is incomplete, without the reasons."""
    return [entry.partition(":")[0] for entry in job["incomplete"]]


@pytest.mark.parametrize("children", [CHILDREN, TOGETHER], ids=["first", "together"])
@pytest.mark.parametrize(("start", "is_missing"), [(SA_NOCLDWAIT, True), (WAITING, False)], ids=["discarded", "waited"])
def test_children_that_are_not_waited_for_are_said_to_be_missing(
    user: Jobtop, start: str, children: str, is_missing: bool
) -> None:
    job = record_of(user, start + children, "--without", "cgroup")
    assert ("cpu" in missing(job)) == is_missing
    assert is_missing or job["resource_usage"]["cpu_total_seconds"] >= 0.8


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


def test_pages_that_forks_write_to_are_counted_without_a_cgroup(user: Jobtop) -> None:
    job = record_of(user, REWRITE, "--without", "cgroup")
    assert job["resource_usage"]["memory_peak_bytes"] == pytest.approx(310 << 20, rel=0.05)
    assert (job["sources"]["memory_peak"], missing(job)) == ("pss", [])


MEMFDS = """\
import mmap, os, time
size = 150 << 20
written, mapped = os.memfd_create("written"), os.memfd_create("mapped")
for fd in (written, mapped):
    for _ in range(size >> 20):
        os.write(fd, b"1" * (1 << 20))
seen = mmap.mmap(mapped, size)
sum(seen[::4096])
held = bytearray(b"1") * (50 << 20)
if {forks}:
    pids = [os.fork() for _ in range(1)]
    if pids == [0]:
        os.dup(written)
        sum(seen[::4096])
time.sleep(2.5)
"""


@pytest.mark.parametrize("forks", [False, True], ids=["alone", "shared"])
def test_open_memfds_are_counted_once_whether_they_are_mapped_or_not(user: Jobtop, forks: bool) -> None:
    job = record_of(user, MEMFDS.format(forks=forks), "--without", "cgroup", "--after-exit", "wait")
    assert job["resource_usage"]["memory_peak_bytes"] == pytest.approx(362 << 20, rel=0.05)
    assert (job["sources"]["memory_peak"], missing(job)) == ("pss+memfd", [])


MAPPED_LATER = """\
import mmap, os, time
size = 150 << 20
fd = os.memfd_create("later")
for _ in range(size >> 20):
    os.write(fd, b"1" * (1 << 20))
time.sleep(1.2)
seen = mmap.mmap(fd, size)
sum(seen[::4096])
time.sleep(1.5)
"""


def test_a_memfd_that_is_mapped_after_a_sample_is_not_counted_twice(user: Jobtop) -> None:
    job = record_of(user, MAPPED_LATER, "--without", "cgroup")
    assert job["resource_usage"]["memory_peak_bytes"] == pytest.approx(162 << 20, rel=0.08)


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
def test_what_a_process_uses_outside_the_job_s_cgroup_is_counted_and_said(jobtop: Jobtop) -> None:
    if not all_hierarchies():
        require("cgroup", "no cgroup is mounted")
    job = record_of(jobtop, LEAVES, "--interval", "0.5s")
    usage = job["resource_usage"]
    assert usage["cpu_total_seconds"] == pytest.approx(3.0, rel=0.3)
    assert usage["cpu_percent_peak"] > 20
    assert (job["sources"]["cpu"], missing(job)) == ("cgroup+rusage", ["cpu"])
    assert usage["memory_peak_bytes"] == pytest.approx(600 << 20, rel=0.1)
