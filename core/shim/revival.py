"""Starts an agent when the process that records a job, or the last agent, was killed.

Part of every shim: standard library only, imports nothing later.
"""

import errno
import fcntl
import os
import time

from jobtop.core.procfs import CALL_FOR_AGENT, HAS_PROC, SHIM_NAME, read_text, signals, stat_fields
from jobtop.core.shim.system_calls import c_call, read_to_end, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.shim.order import AgentStart

PR_SET_CHILD_SUBREAPER = 36
PF_EXITING = 4
CLONE_PARENT = 0x8000
# The system call number of clone(2); on other machines the shim stops being a subreaper for a moment instead.
CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220, "ppc64le": 120}
GIVE_UP_SECONDS = 60.0
CHECK_SECONDS, LATE_CHECK_SECONDS = 0.05, 1.0
EARLY_SECONDS = 10.0  # how long to check often
SETTLED_SECONDS = 2.5  # a new agent finds jobs without a recorder within a second; one that fails has exited by then
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.2, 30.0
NO_AGENT = "it ended at once (jobtop.log may say why)"


class Revival:
    """Starts agents until one has taken over the store. `attend` does what is due and never waits.

    The lock file is empty after an agent has exited normally, and holds the pid of an agent that has started up.
    With `is_needed` an agent is also started if the last one has exited normally. Without a command the outermost
    `run` is asked to start it.
    """

    def __init__(self, lock_path: str, command: list[str], is_needed: bool, delay_seconds: float = 0.0) -> None:
        self.lock_path, self.command, self.is_needed = lock_path, command, is_needed
        self.error: str | None = None
        self.due: float | None = time.monotonic()  # None: nothing is left to do
        self._begun_at = self.due
        self._start_at = self.due + delay_seconds
        self._pause = FIRST_PAUSE_SECONDS
        self._turn_fd = -1
        self._started_pid = 0
        self._running_since: float | None = None

    def attend(self, moment: float) -> None:
        """Look for an agent if that is due, and start one if there is none."""
        if self.due is None or moment < self.due:
            return
        is_locked, pid = read_agent_lock(self.lock_path)
        if is_locked and (is_alive(pid) or not HAS_PROC):
            self._running_since, self.error = self._running_since or moment, None
            is_done = not self.is_needed or moment - self._running_since >= SETTLED_SECONDS
        else:
            self._running_since = None
            has_exited_normally = not is_locked and pid is None
            is_done = not self.is_needed and (has_exited_normally or moment >= self._begun_at + GIVE_UP_SECONDS)
            if not is_done and not is_locked and moment >= self._start_at and self._has_turn():
                self._start(moment)
        is_early = moment < self._begun_at + EARLY_SECONDS
        self.due = None if is_done else moment + (CHECK_SECONDS if is_early else LATE_CHECK_SECONDS)
        if is_done:
            self._close()

    def cancel(self) -> None:
        """Start no more agents; the job has ended."""
        self.due = None

    def _has_turn(self) -> bool:
        """Whether this shim starts the agent: one of all shims does, and another one if that shim is killed."""
        if self._turn_fd < 0:
            self._turn_fd = lock(self.lock_path + ".turn")
        return self._turn_fd >= 0

    def _start(self, moment: float) -> None:
        if is_alive(self._started_pid):
            return
        if self._started_pid:
            self.error = NO_AGENT
        if self.command:
            self._started_pid, failed = start_outside_job(self.command)
            self.error = os.strerror(failed) if failed else self.error
        else:
            ask_outermost_run()
        self._start_at, self._pause = moment + self._pause, min(2 * self._pause, LAST_PAUSE_SECONDS)

    def _close(self) -> None:
        if self._turn_fd >= 0:
            os.close(self._turn_fd)
            self._turn_fd = -1


def revive_killed_agent(agent: "AgentStart | None") -> None:
    """Start an agent if the last one was killed: jobs may be queued, and no other process may notice."""
    if agent is None:
        return
    revival = Revival(*agent, is_needed=False)
    while revival.due is not None:
        time.sleep(max(0.0, revival.due - time.monotonic()))
        revival.attend(time.monotonic())


def start_outside_job(command: list[str]) -> tuple[int, int]:
    """Start a program that is not our descendant, and so not part of the job; its pid, and an errno or 0."""
    reader, writer = os.pipe()
    if fork_outside_job() == 0:
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


def fork_outside_job() -> int:
    """Fork a process that is not our descendant; 0 in that process.

    An orphaned grandchild would become our child, since we are the subreaper of the job. Where clone(2) cannot be
    called, we stop being a subreaper for the moment in which the grandchild is orphaned.
    """
    own_pid, number = os.getpid(), CLONE.get(os.uname().machine, 0)
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
    except OSError:  # the user may have no more processes
        if os.getpid() != own_pid:
            os._exit(0)
    c_call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return -1


def ask_outermost_run() -> None:
    """Ask the `run` of the outermost job to start an agent: an agent that we start would be part of that job."""
    pid, run = os.getppid(), 0
    while pid > 1:
        parent = int((stat_fields(pid) or ("", "0"))[1])
        run = parent if read_text(f"/proc/{pid}/comm").rstrip() == SHIM_NAME else run
        pid = parent
    try:
        if run > 1:
            os.kill(run, CALL_FOR_AGENT)
    except OSError:  # it has exited, and its own shim starts an agent
        return


def read_agent_lock(path: str) -> "tuple[bool, int | None]":
    """Whether a process holds the lock, and the pid in the file; None if the file is empty or does not exist."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False, None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        is_locked = False
    except OSError:
        is_locked = True
    try:
        text = os.pread(fd, 32, 0).rstrip()
    except OSError:  # it is not a regular file
        text = b""
    os.close(fd)
    return is_locked, int(text) if text.isdigit() else None


def lock(path: str) -> int:
    """Lock a file until the returned descriptor is closed; -1 if another process has locked it."""
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


def is_alive(pid: int | None) -> bool:
    """Whether a process runs; a zombie does not, and neither does a process that is exiting.

    A killed agent closes its end of our pipe before it releases its lock.
    """
    fields = stat_fields(pid) if pid else []
    return fields[:1] not in ([], ["Z"], ["X"]) and not int(fields[6]) & PF_EXITING
