"""Identities and descendants of real processes; and signals that reach no other process."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobtop.core import procfs
from jobtop.core.measure.collectors import proc
from jobtop.core.model import Identity
from support import require, wait_for

WAIT = "import sys; sys.stdin.read()"
NAMED = "open('/proc/self/comm', 'w').write({name!r}); print(flush=True); " + WAIT
FAMILY = """
import ctypes, os, sys, threading
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # a child subreaper, as a shim is
def child():
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
thread = threading.Thread(target=child)
thread.start()
thread.join()
if os.fork() == 0:
    child()
    sys.stdin.read()
    os._exit(0)
print(flush=True)
sys.stdin.read()
"""
NO_SUCH_PID = 2**22 + 1  # pids end at 2²²

Start = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a Python program that waits for the end of its standard input; it comes at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(program: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.communicate()


def named(start: Start, name: str) -> int:
    """The pid of a process that has given itself a name."""
    process = start(NAMED.format(name=name))
    assert process.stdout is not None
    process.stdout.readline()
    return process.pid


def family(start: Start) -> int:
    """The pid of a process with a child made by a thread, a child, and a grandchild."""
    process = start(FAMILY)
    assert process.stdout is not None
    process.stdout.readline()
    wait_for(lambda: len(procfs.descendants(process.pid)) == 3)
    return process.pid


@pytest.fixture
def vanished() -> int:
    """A pid of a process that has exited."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.mark.parametrize("name", [") R 1 (", "a b", "(sd-pam)", "x\ny", "ünï"])
def test_a_name_cannot_pretend_to_be_other_fields(start: Start, name: str) -> None:
    pid = named(start, name)
    assert procfs.stat_fields(pid)[1] == str(os.getpid())
    assert procfs.name_of(pid) == name
    assert proc.is_alive(proc.identify(pid))


def test_a_process_that_vanished_is_nothing_everywhere(vanished: int) -> None:
    assert procfs.read_text(f"/proc/{vanished}/stat") == ""
    assert procfs.stat_fields(vanished) == []
    assert procfs.start_ticks(vanished) is None
    assert procfs.children(vanished) == procfs.descendants(vanished) == []
    assert procfs.signal_descendants(vanished, signal.SIGKILL) == []


def test_a_process_that_vanishes_between_open_and_read_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def vanish(fd: int, count: int) -> bytes:
        raise ProcessLookupError(errno.ESRCH, "gone")

    monkeypatch.setattr(os, "read", vanish)
    assert procfs.read_text("/proc/self/stat") == ""


def test_text_that_is_no_utf8_is_still_text(tmp_path: Path) -> None:
    (tmp_path / "comm").write_bytes(b"a\xffb")
    assert procfs.read_text(str(tmp_path / "comm")) == "a\ufffdb"


def test_children_of_threads_and_grandchildren_are_descendants(start: Start) -> None:
    pid = family(start)
    found = procfs.descendants(pid)
    assert len(found) == len(set(found)) == 3
    assert all(parent_of(child) in (pid, *found[: found.index(child)]) for child in found)


def test_a_sweep_over_all_processes_finds_the_same_descendants(start: Start) -> None:
    pid = family(start)
    assert set(procfs.scanned_descendants(pid)) == set(procfs.descendants(pid))


def test_without_children_files_descendants_are_swept_for(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = family(start)
    expected = set(procfs.descendants(pid))
    monkeypatch.setattr(os.path, "exists", lambda _: False)
    monkeypatch.setattr(procfs, "children", lambda _: pytest.fail("there are no such files"))
    assert set(procfs.descendants(pid)) == expected


def test_without_proc_ps_tells_who_is_below_whom(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("ps") is None:
        require("ps", "ps is not installed")
    pid = family(start)
    expected = set(procfs.descendants(pid))
    monkeypatch.setattr(procfs, "HAS_PROC", False)
    assert set(procfs.scanned_descendants(pid)) == expected


def parent_of(pid: int) -> int:
    return int(procfs.stat_fields(pid)[1])


def test_a_signal_reaches_all_descendants_and_no_other_process(start: Start) -> None:
    root, other = family(start), named(start, "other")
    below = procfs.descendants(root)
    reached = procfs.signal_descendants(root, signal.SIGKILL)
    assert {pid for pid, _ in reached} == set(below)
    wait_for(lambda: not any(proc.is_alive(proc.identify(pid)) for pid in below))
    assert proc.is_alive(proc.identify(root))
    assert proc.is_alive(proc.identify(other))


@pytest.mark.parametrize("pid_of", ["other", "vanished"])
def test_a_pid_that_is_no_longer_below_is_not_signalled(
    start: Start, vanished: int, monkeypatch: pytest.MonkeyPatch, pid_of: str
) -> None:
    root, other = named(start, "root"), named(start, "other")
    monkeypatch.setattr(procfs, "signal_targets", lambda *_: [other if pid_of == "other" else vanished])
    assert procfs.signal_descendants(root, signal.SIGKILL) == []
    assert proc.is_alive(proc.identify(other))


def test_the_dead_are_not_signalled(start: Start) -> None:
    root = start("import os, sys\npid = os.fork()\nif pid == 0: os._exit(0)\nprint(pid, flush=True)\nsys.stdin.read()")
    assert root.stdout is not None
    zombie = int(root.stdout.readline())
    wait_for(lambda: procfs.stat_fields(zombie)[0] == "Z")
    assert procfs.descendants(root.pid) == [zombie]
    assert procfs.signal_descendants(root.pid, signal.SIGTERM) == []
    assert not proc.is_alive(proc.identify(zombie))


@pytest.mark.parametrize(
    ("number", "is_reached"), [(errno.ENOSYS, True), (errno.EPERM, True), (errno.ESRCH, False), (errno.EMFILE, False)]
)
def test_without_pidfds_processes_are_signalled_by_pid(
    start: Start, monkeypatch: pytest.MonkeyPatch, number: int, is_reached: bool
) -> None:
    def refuse(pid: int) -> int:
        raise OSError(number, os.strerror(number))

    root = family(start)
    below = procfs.descendants(root)
    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert {pid for pid, _ in procfs.signal_descendants(root, signal.SIGCONT)} == (set(below) if is_reached else set())


def test_a_process_of_another_user_does_not_stop_the_others_from_being_signalled(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = family(start)
    below, send = procfs.descendants(root), signal.pidfd_send_signal
    refused: list[int] = []

    def refuse_first(held: int, number: int) -> None:
        if not refused:
            refused.append(held)
            raise PermissionError(errno.EPERM, "not yours")
        send(held, number)

    monkeypatch.setattr(procfs.signals, "pidfd_send_signal", refuse_first)
    assert [pid for pid, _ in procfs.signal_descendants(root, signal.SIGCONT)] == below[1:]


INNER = """
import os, sys
def be(name, *below):
    if os.fork() == 0:
        open("/proc/self/comm", "w").write(name)
        for make in below: make()
        os.write(1, f"{name} {os.getpid()}\\n".encode())
        sys.stdin.read()
        os._exit(0)
be("run", lambda: be("jobtop-shim", lambda: be("member")))
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("number", "heard_by"),
    [
        (signal.SIGINT, {"run"}),
        (signal.SIGTERM, {"run"}),
        (signal.SIGSTOP, {"run", "jobtop-shim", "member"}),
        (signal.SIGCONT, {"run", "jobtop-shim", "member"}),
        (signal.SIGKILL, {"run", "member"}),
    ],
)
def test_a_job_inside_hears_a_signal_once_and_its_shim_can_record_its_end(
    start: Start, number: int, heard_by: set[str]
) -> None:
    root = start(INNER)
    assert root.stdout is not None
    names: dict[int, str] = {}
    while len(names) < 3:
        name, pid = root.stdout.readline().split()
        names[int(pid)] = name
    assert {names[pid] for pid in procfs.signal_targets(root.pid, number)} == heard_by


STATUS = "Name:\tsh (x)\nVmHWM:\t    5120 kB\nThreads:\t3\nSigIgn:\t0000000000010000\nEmpty:\n"


@pytest.mark.parametrize(
    ("key", "word", "value"),
    [("Name:", "sh", None), ("VmHWM:", "5120", 5120), ("Threads:", "3", 3), ("Empty:", "", 0), ("Missing:", "", 0)],
)
def test_a_value_is_found_by_its_key(key: str, word: str, value: int | None) -> None:
    assert procfs.word_in(STATUS, key) == word
    if value is not None:
        assert procfs.value_in(STATUS, key) == value


def test_a_key_inside_a_line_is_not_a_key() -> None:
    assert procfs.word_in("a b: 1\nb: 2\n", "b:") == "2"
    assert procfs.word_in("a b: 1\n", "b:") == ""


def test_the_boot_has_a_name_even_without_the_kernel_s_id(monkeypatch: pytest.MonkeyPatch) -> None:
    assert procfs.boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    monkeypatch.setattr(procfs, "read_text", lambda _: "")
    assert procfs.boot_id().removeprefix("boot-").isdigit()


def test_an_identity_is_for_this_boot_and_this_start_only(start: Start) -> None:
    identity = proc.identify(named(start, "process"))
    assert identity.start is not None
    assert proc.is_alive(identity)
    assert not proc.is_alive(Identity("another boot", identity.pid, identity.start))
    assert not proc.is_alive(Identity(identity.boot, identity.pid, identity.start - 1))
    assert not proc.is_alive(Identity(identity.boot, NO_SUCH_PID, identity.start))


def test_a_signal_goes_only_to_the_process_it_is_for(start: Start, vanished: int) -> None:
    process = start(WAIT)
    identity = proc.identify(process.pid)
    assert identity.start is not None
    assert not proc.send(Identity(identity.boot, identity.pid, identity.start - 1), signal.SIGKILL)
    assert not proc.send(Identity(identity.boot, vanished, identity.start), signal.SIGKILL)
    assert process.poll() is None
    assert proc.send(identity, signal.SIGKILL)
    assert process.wait(10) == -signal.SIGKILL


def test_members_are_reached_through_a_living_shim_only(start: Start) -> None:
    root = proc.identify(family(start))
    assert root.start is not None
    assert proc.send_to_members(Identity(root.boot, root.pid, root.start - 1), signal.SIGCONT) == 0
    assert proc.send_to_members(root, signal.SIGCONT) == 3


def test_without_proc_a_process_that_answers_is_alive(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = proc.identify(named(start, "process"))
    monkeypatch.setattr(proc, "HAS_PROC", False)
    monkeypatch.delattr(os, "pidfd_open")
    assert proc.is_alive(identity)
    assert proc.send(identity, signal.SIGCONT)
    assert not proc.is_alive(Identity(identity.boot, NO_SUCH_PID, None))

    def refuse(pid: int, number: int) -> None:
        raise PermissionError(errno.EPERM, "another user's")

    monkeypatch.setattr(os, "kill", refuse)
    assert proc.is_alive(identity)


@pytest.mark.parametrize(("quota", "expected"), [(None, 3), (0.5, 0.5), (8.0, 3)])
def test_allowed_cpus_are_those_of_affinity_and_quota(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, expected: float
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5})
    monkeypatch.setattr(proc, "cpu_quota", lambda: quota)
    assert proc.cpus_allowed() == expected
