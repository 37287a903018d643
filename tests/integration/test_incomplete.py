"""What the kernel cannot know is said to be missing, and nothing else is."""

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import unprivileged
from jobtop.core.measure.collectors.cgroup import all_hierarchies
from support import Jobtop, clean_environment, require

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


WITHOUT = ("--without", "cgroup")
PROGRAMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "left": (LEAVES, ("--interval", "0.5s")),
    "memfds alone": (MEMFDS.format(forks=False), (*WITHOUT, "--after-exit", "wait")),
    "memfds shared": (MEMFDS.format(forks=True), (*WITHOUT, "--after-exit", "wait")),
    "memfd mapped later": (MAPPED_LATER, WITHOUT),
    "rewritten": (REWRITE, WITHOUT),
    "discarded first": (SA_NOCLDWAIT + CHILDREN, WITHOUT),
    "discarded together": (SA_NOCLDWAIT + TOGETHER, WITHOUT),
    "waited first": (WAITING + CHILDREN, WITHOUT),
    "waited together": (WAITING + TOGETHER, WITHOUT),
}
USERS = ("root", "unprivileged")
AT_ONCE = 4  # most of the time they sleep, and wait for a sample

Record = dict[str, Any]
Records = dict[tuple[str, str], Future[Record]]


@pytest.fixture(scope="module")
def records(
    tmp_path_factory: pytest.TempPathFactory, unprivileged_installation: unprivileged.Installation
) -> Iterator[Records]:
    """What is recorded of each program for each user: whoever runs the tests, and a user without privileges."""

    def home_of(user: str) -> Jobtop:
        if user == "unprivileged":
            return unprivileged_installation.new_home()
        home = tmp_path_factory.mktemp("home")
        return Jobtop(sys.executable, home, clean_environment(home))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            (name, user): pool.submit(record_of, home_of(user), code, *options)
            for name, (code, options) in PROGRAMS.items()
            for user in USERS
            if name != "left" or (user == "root" and os.geteuid() == 0 and all_hierarchies())
        }


def record_of(jobtop: Jobtop, code: str, *options: str) -> Record:
    """What is recorded of a Python program."""
    record = jobtop.home / "record.json"
    finished = jobtop("run", "--quiet", "--record", str(record), *options, "--", jobtop.python, "-I", "-c", code)
    assert finished.returncode == 0, finished.stderr
    job: Record = json.loads(record.read_text())
    return job


def missing(job: dict[str, Any]) -> list[str]:
    """What is incomplete, without the reasons."""
    return [entry.partition(":")[0] for entry in job["incomplete"]]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("children", ["first", "together"])
@pytest.mark.parametrize("start", ["discarded", "waited"])
def test_children_that_are_not_waited_for_are_said_to_be_missing(
    records: Records, user: str, start: str, children: str
) -> None:
    job, is_missing = records[f"{start} {children}", user].result(), start == "discarded"
    assert ("cpu" in missing(job)) == is_missing
    assert is_missing or job["resource_usage"]["cpu_total_seconds"] >= 0.8


@pytest.mark.parametrize("user", USERS)
def test_pages_that_forks_write_to_are_counted_without_a_cgroup(records: Records, user: str) -> None:
    job = records["rewritten", user].result()
    assert job["resource_usage"]["memory_peak_bytes"] == pytest.approx(310 << 20, rel=0.05)
    assert (job["sources"]["memory_peak"], missing(job)) == ("pss", [])


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("forks", ["alone", "shared"])
def test_open_memfds_are_counted_once_whether_they_are_mapped_or_not(records: Records, user: str, forks: str) -> None:
    job = records[f"memfds {forks}", user].result()
    assert job["resource_usage"]["memory_peak_bytes"] == pytest.approx(362 << 20, rel=0.05)
    assert (job["sources"]["memory_peak"], missing(job)) == ("pss+memfd", [])


@pytest.mark.parametrize("user", USERS)
def test_a_memfd_that_is_mapped_after_a_sample_is_not_counted_twice(records: Records, user: str) -> None:
    job = records["memfd mapped later", user].result()
    assert job["resource_usage"]["memory_peak_bytes"] == pytest.approx(162 << 20, rel=0.08)


@pytest.mark.usefixtures("root")
def test_what_a_process_uses_outside_the_job_s_cgroup_is_counted_and_said(records: Records) -> None:
    if not all_hierarchies():
        require("cgroup", "no cgroup is mounted")
    job = records["left", "root"].result()
    usage = job["resource_usage"]
    assert usage["cpu_total_seconds"] == pytest.approx(3.0, rel=0.3)
    assert usage["cpu_percent_peak"] > 20
    assert (job["sources"]["cpu"], missing(job)) == ("cgroup+rusage", ["cpu"])
    assert usage["memory_peak_bytes"] == pytest.approx(600 << 20, rel=0.1)
