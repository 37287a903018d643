"""Jobs a test watches from outside: started, looked at through /proc, ended, and nothing of them left behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from support import Jobtop, wait_for

PYTHON = (sys.executable, "-I", "-S", "-c")
CGROUPS = Path("/sys/fs/cgroup")
DEADLINE = 30.0

T = TypeVar("T")


class Run:
    """A `jobtop run` in progress; `reference` is the external id every verb finds it by."""

    def __init__(self, jobtop: Jobtop, process: subprocess.Popen[bytes], reference: str) -> None:
        self.jobtop, self.process, self.reference = jobtop, process, reference

    @property
    def pid(self) -> int:
        return self.process.pid

    def shim(self) -> int:
        """The pid of the shim, as soon as there is one."""
        return wait_for(lambda: next(iter(children(self.pid)), None), DEADLINE)

    def until(self, condition: Callable[[], T | None], deadline: float = DEADLINE) -> T:
        """Wait for a condition; if the run ends before it holds, what it had to say is the failure."""

        def check() -> T | None:
            over = self.process.poll() is not None
            answer = condition()
            if over and not answer:
                _, err = self.process.communicate()
                pytest.fail(f"the run ended with {self.process.returncode} before its time: {err!r}")
            return answer

        return wait_for(check, deadline)

    def reads(self, line: bytes) -> None:
        """Wait for this line of its standard output."""
        assert self.process.stdout
        assert self.process.stdout.readline() == line + b"\n"

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self, deadline: float = DEADLINE) -> int:
        """Wait for the end; its exit code, negative if a signal ended it."""
        return self.process.wait(deadline)

    def outputs(self, deadline: float = DEADLINE) -> tuple[bytes, bytes]:
        """Wait for the end of both streams and of the process."""
        return self.process.communicate(timeout=deadline)

    def record(self) -> dict[str, Any]:
        return show(self.jobtop, self.reference)


@contextmanager
def running(
    jobtop: Jobtop,
    *args: str,
    reference: str = "the-job",
    prefix: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    **streams: Any,
) -> Iterator[Run]:
    """`jobtop run --external-id REFERENCE ARGS…`; whatever of it still lives at the end of the block is killed."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    command = [*prefix, *jobtop.command("run", "--external-id", reference, *args)]
    started = subprocess.Popen(command, env=env or jobtop.env, cwd=jobtop.home, **streams)
    process = cast("subprocess.Popen[bytes]", started)
    try:
        yield Run(jobtop, process, reference)
    finally:
        if process.poll() is None:
            below = descendants(process.pid)
            process.kill()
            for pid in below:
                kill_if_alive(pid)
            process.wait()
            jobtop("history")  # removes what a killed shim could not
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()


def show(jobtop: Jobtop, reference: str) -> dict[str, Any]:
    """What the next verb of anyone says of a job."""
    shown = jobtop("show", reference, "--json")
    assert shown.returncode == 0, shown.stderr
    record: dict[str, Any] = json.loads(shown.stdout)
    return record


def ended(jobtop: Jobtop, reference: str, deadline: float = DEADLINE) -> dict[str, Any]:
    """What `show` says once the job is over."""
    live = ("running", "paused")
    return wait_for(lambda: None if (job := show(jobtop, reference))["status"] in live else job, deadline)


def the_log(jobtop: Jobtop, reference: str, stream: str = "stdout") -> str:
    """What `jobtop logs` prints of one stream."""
    printed = jobtop("logs", f"--{stream}", reference)
    assert printed.returncode == 0, printed.stderr
    return printed.stdout if stream == "stdout" else printed.stderr


def log_file(jobtop: Jobtop, record: Mapping[str, Any], stream: str = "stdout") -> Path:
    return jobtop.state / "jobs" / str(record["id"]) / f"{stream}.log"


def children(pid: int) -> list[int]:
    """The children of a process, dead ones included, as ps knows them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        fields = stat_of(path)
        if len(fields) > 1 and int(fields[1]) == pid:
            found.append(int(path.parent.name))
    return found


def descendants(pid: int) -> list[int]:
    order = [pid]
    for known in order:
        order.extend(children(known))
    return order[1:]


def stat_of(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def state(pid: int) -> str:
    """The letter of ps: R, S, T, Z, …; nothing if there is no such process."""
    fields = stat_of(Path(f"/proc/{pid}/stat"))
    return fields[0] if fields else ""


def is_alive(pid: int) -> bool:
    return state(pid) not in ("", "Z", "X")


def is_waiting_on_a_pipe(pid: int) -> bool:
    """Whether a process sleeps until another one writes to, or reads from, a pipe."""
    place = Path(f"/proc/{pid}/wchan").read_text()
    return "pipe" in place or (place == "0" and state(pid) == "S")


def kill_if_alive(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def pids_in(file: Path) -> list[int]:
    """The pids that the processes of a job appended to a file, one a line."""
    try:
        return [int(line) for line in file.read_text().split()]
    except FileNotFoundError:
        return []


def processes_of(jobtop: Jobtop) -> list[int]:
    """Every living process with this $JOBTOP_HOME: runs, shims and jobs alike."""
    marker = f"JOBTOP_HOME={jobtop.state}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            is_ours = marker in path.read_bytes().split(b"\0")
        except OSError:
            continue
        if is_ours and is_alive(int(path.parent.name)):
            found.append(int(path.parent.name))
    return found


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return "?"


def cgroups_of(jobtop: Jobtop) -> list[str]:
    """The cgroup directories of this home's jobs that are still there."""
    ids = {path.name for path in (jobtop.state / "jobs").glob("*")}
    found = (Path(folder) for folder, _, _ in os.walk(CGROUPS))
    return [str(path) for path in found if (name := re.fullmatch("jobtop-(.+)", path.name)) and name[1] in ids]


@pytest.fixture(autouse=True)
def nothing_is_left(jobtop: Jobtop) -> Iterator[None]:
    """After each test no process and no cgroup of its jobs is there; the signals a job inherits are as in a shell."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)}
    for number in before:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    end = time.monotonic() + 5
    while (left := processes_of(jobtop)) and time.monotonic() < end:
        time.sleep(0.01)
    described = [f"{pid} {command_line(pid)}" for pid in left]
    for pid in left:
        kill_if_alive(pid)
    assert not described, f"processes are left: {described}"
    while (cgroups := cgroups_of(jobtop)) and time.monotonic() < end:
        time.sleep(0.01)
    for directory in sorted(cgroups, key=len, reverse=True):
        os.rmdir(directory)
    assert not cgroups, f"cgroups are left: {cgroups}"
