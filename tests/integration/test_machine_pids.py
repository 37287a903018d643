"""Pids that a driver reports, in real pid namespaces: jobtop outside of a container, and inside of one."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from jobtop.core.measure.collectors.machine_pids import UNSEEN, MachinePids, is_first_namespace
from jobtop.core.measure.collectors.pid_owners import PidOwners
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.measure.target import Target
from processes import FakeProc
from support import require, wait_for

# A container with a /proc of its own, and the machine's at $1 or nowhere; it reads the machine's pids from its input.
INSIDE = """
import subprocess, sys
from jobtop.core.measure.collectors.machine_pids import MachinePids
from jobtop.core.measure.collectors.pid_owners import PidOwners
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.measure.target import Target
job = subprocess.Popen(["sh", "-c", "sleep 300 & unshare --pid --fork sleep 300; wait"])
owners = PidOwners(machine_pids=MachinePids())
print(owners.problem(), flush=True)
pids = [int(word) for word in sys.stdin.readline().split()]
found = owners.find(pids, {"job": Target(identify(job.pid), 0.0)})
print(*("job" if found[pid] else "none" for pid in pids), flush=True)
sys.stdin.readline()
"""
CONTAINER = 'test -z "$1" || mount --bind /proc "$1"; mount -t proc proc /proc; shift; exec "$@"'


@pytest.fixture(autouse=True)
def namespaces() -> None:
    if shutil.which("unshare") is None:
        require("namespaces", "unshare (util-linux) is not installed")
    if os.geteuid() != 0:
        require("namespaces", "only root makes pid namespaces here")
    if not is_first_namespace("/proc"):
        require("namespaces", "the tests run in a pid namespace of their own")


class Container:
    """A process in new namespaces; `place` is where it sees the machine's /proc."""

    def __init__(self, stack: ExitStack, place: Path | None) -> None:
        command = ["unshare", "--pid", "--fork", "--mount", "--propagation", "private", "--kill-child", "sh", "-c"]
        argv = [*command, CONTAINER, "sh", str(place or ""), sys.executable, "-c", INSIDE]
        pipe = subprocess.PIPE
        self.process = stack.enter_context(subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True))
        stack.callback(self.process.kill)
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        self.stdout, self.stdin = self.process.stdout, self.process.stdin
        self.problem = self.stdout.readline().strip()
        self.sleepers = wait_for(self.two_sleepers)

    def two_sleepers(self) -> list[int] | None:
        """The machine's pids of the sleepers of its job; the second one is in a namespace below."""
        found = [pid for pid in below(self.process.pid) if command_of(pid) == "sleep"]
        return sorted(found, key=depth) if len(found) == 2 else None

    def owners(self, *pids: int) -> list[str]:
        self.stdin.write(" ".join(map(str, pids)) + "\n")
        self.stdin.flush()
        return self.stdout.readline().split()


def below(root: int) -> list[int]:
    found = [root]
    for pid in found:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            found += map(int, task.read_text().split())
    return found


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def depth(pid: int) -> int:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("NSpid:")]
    return len(line.split())


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def test_pids_of_the_machine_are_found_in_containers_and_from_within(stack: ExitStack, tmp_path: Path) -> None:
    place = tmp_path / "the machine's proc"
    place.mkdir()
    container = Container(stack, place)
    other = Container(stack, None)
    assert (container.problem, other.problem) == ("None", UNSEEN)
    pids = [*container.sleepers, *other.sleepers, os.getpid(), 2**22 + 7]
    job = Target(identify(container.process.pid), 0.0)
    outside = PidOwners(machine_pids=MachinePids()).find(pids, {"job": job})
    assert [bool(outside[pid]) for pid in pids] == [True, True, False, False, False, False]
    assert container.owners(*pids) == ["job", "job", "none", "none", "none", "none"]


def test_without_a_kernel_that_tells_namespaces_pids_are_those_of_here(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    proc.put(7, 1)
    pids = MachinePids(str(tmp_path))
    assert (pids.problem(), pids.local(7)) == (None, 7)
