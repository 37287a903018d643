"""Starts an agent when the process that recorded a job, or the agent before it, was killed.

Part of every shim: standard library only, nothing imported late.
"""

import errno
import fcntl
import os
import time

from jobtop.core.procfs import CALL_FOR_AGENT, HAS_PROC, SHIM_NAME, read_text, signals, stat_fields
from jobtop.core.shim.output import c_call, read_to_end, write_all

PR_SET_CHILD_SUBREAPER = 36
PF_EXITING = 4
CLONE_PARENT = 0x8000
# The number of clone(2); on every other machine the subreaper is switched off for a moment instead.
CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220, "ppc64le": 120}
GIVE_UP_SECONDS = 60.0
LOOK_SECONDS, LATE_LOOK_SECONDS = 0.05, 1.0
EAGER_SECONDS = 10.0  # after that there is no hurry any more
SETTLED_SECONDS = 2.5  # an agent finds jobs without a recorder within a second; one that leaves is gone by then
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.2, 30.0
NO_AGENT = "it ended at once (jobtop.log may say why)"


class Revival:
    """Starts agents until one serves the store. `step` does what is due now and never waits.

    The file that an agent locks is empty after the agent has left in order, and holds its pid once it has settled.
    `is_needed`: also where the last agent left in order. Without a command the outermost `run` is asked for an agent.
    """

    def __init__(self, seat: str, command: list[str], is_needed: bool, delay_seconds: float = 0.0) -> None:
        self.seat, self.command, self.is_needed = seat, command, is_needed
        self.began = time.monotonic()
        self.start_at = self.began + delay_seconds
        self.pause = FIRST_PAUSE_SECONDS
        self.turn = -1
        self.started = 0
        self.seen_at: float | None = None
        self.error: str | None = None

    def step(self, moment: float) -> float | None:
        """Start an agent if there is none; when to look again, None when nothing is left to do."""
        is_held, pid = look_at_seat(self.seat)
        if is_held and (is_there(pid) or not HAS_PROC):
            self.seen_at, self.error = self.seen_at or moment, None
            is_over = not self.is_needed or moment - self.seen_at >= SETTLED_SECONDS
        else:
            self.seen_at = None
            left_in_order = not is_held and pid is None
            is_over = not self.is_needed and (left_in_order or moment >= self.began + GIVE_UP_SECONDS)
            if not is_over and not is_held and moment >= self.start_at and self.has_turn():
                self.start(moment)
        if is_over:
            self.close()
            return None
        return moment + (LOOK_SECONDS if moment < self.began + EAGER_SECONDS else LATE_LOOK_SECONDS)

    def has_turn(self) -> bool:
        """Whether this shim starts agents: one of many does; if it is killed, another does."""
        if self.turn < 0:
            self.turn = lock(self.seat + ".turn")
        return self.turn >= 0

    def start(self, moment: float) -> None:
        if is_there(self.started):
            return
        if self.started:
            self.error = NO_AGENT
        if self.command:
            self.started, failed = start_apart(self.command)
            self.error = os.strerror(failed) if failed else self.error
        else:
            call_outermost_run()
        self.start_at, self.pause = moment + self.pause, min(2 * self.pause, LAST_PAUSE_SECONDS)

    def close(self) -> None:
        if self.turn >= 0:
            os.close(self.turn)
            self.turn = -1


def revive(keeper: "tuple[str, list[str]] | None") -> None:
    """Start an agent if the last one was killed: jobs may wait in the queue, and no other process may see it."""
    if keeper is None:
        return
    revival = Revival(*keeper, is_needed=False)
    while (due := revival.step(time.monotonic())) is not None:
        time.sleep(max(0.0, due - time.monotonic()))


def start_apart(command: list[str]) -> tuple[int, int]:
    """Start a program that is not our descendant, so that it is no part of the job; its pid, and an errno or 0."""
    reader, writer = os.pipe()
    if fork_apart() == 0:
        try:
            write_all(writer, f"{os.getpid()} ".encode())
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for fd in range(3):
                os.dup2(null, fd)
            environment = {key: value for key, value in os.environ.items() if key != "JOBTOP_JOB_ID"}
            os.execve(command[0], command, environment)
        except OSError as error:
            write_all(writer, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(writer)
    words = [int(word) for word in read_to_end(reader).split()]
    return (words[0], 0) if len(words) == 1 else (0, words[-1] if words else errno.EAGAIN)


def fork_apart() -> int:
    """Fork a process that is no descendant of ours; 0 in that process.

    A grandchild that loses its parent would come to us, the subreaper of the job. Where clone(2) cannot be called we
    are no subreaper for the moment in which that happens.
    """
    ours, number = os.getpid(), CLONE.get(os.uname().machine, 0)
    pid = c_call("syscall", number, CLONE_PARENT | signals.SIGCHLD, 0, 0, 0, 0) if number else -1
    if pid >= 0:
        return pid
    c_call("prctl", PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    try:
        child = os.fork()
        if child == 0:
            if os.fork() == 0:
                return 0
            os._exit(0)
        os.waitpid(child, 0)
    except OSError:  # there are as many processes as there may be
        if os.getpid() != ours:
            os._exit(0)
    c_call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return -1


def call_outermost_run() -> None:
    """Ask the `run` of the outermost job around us for an agent: one that we start would be a part of that job."""
    pid, run = os.getppid(), 0
    while pid > 1:
        parent = int((stat_fields(pid) or ("", "0"))[1])
        run = parent if read_text(f"/proc/{pid}/comm").rstrip() == SHIM_NAME else run
        pid = parent
    try:
        if run > 1:
            os.kill(run, CALL_FOR_AGENT)
    except OSError:  # it is gone, and its own shim sees to an agent
        return


def look_at_seat(path: str) -> "tuple[bool, int | None]":
    """Whether a process holds the lock of a file, and the number in it; None if it is empty or not there."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False, None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        is_held = False
    except OSError:
        is_held = True
    try:
        text = os.pread(fd, 32, 0).rstrip()
    except OSError:  # it is no regular file
        text = b""
    os.close(fd)
    return is_held, int(text) if text.isdigit() else None


def lock(path: str) -> int:
    """Hold the lock of a file until the descriptor is closed; -1 if another process does."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError:
        return -1
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return -1
    return fd


def is_there(pid: int | None) -> bool:
    """Whether there is such a process; a zombie is gone, and so is one that dies.

    A killed agent closes our pipe before it releases its lock.
    """
    fields = stat_fields(pid) if pid else []
    return fields[:1] not in ([], ["Z"], ["X"]) and not int(fields[6]) & PF_EXITING
