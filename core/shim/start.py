"""The start of a job: the shim forks a process, and that process prepares itself and executes the command.

Part of every shim: standard library only, imports nothing later.
"""

import errno
import fcntl
import os
import sys

from jobtop.core.procfs import signals, status_value
from jobtop.core.shim.cgroups import join_cgroup
from jobtop.core.shim.system_calls import c_call, read_to_end, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.shim.order import Order

TIOCSCTTY = 0x540E if sys.platform == "linux" else 0x20007461
GO = b"g"


class MissingInterpreter(Exception):  # noqa: N818
    """The program exists, but not the interpreter that its `#!` line names."""


class Launch:
    """A forked process that is ready to become the main process of the job, and waits for `execute`."""

    def __init__(self, order: "Order", outputs: tuple[int, int]) -> None:
        self.order = order
        go_read, self._go_write = os.pipe()
        self._answer_read, answer_write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._go_write)
            become_job(order, go_read, answer_write, outputs)
        os.close(go_read)
        os.close(answer_write)

    def refused_cgroups(self) -> "list[str]":
        """Wait until the process has joined its cgroups; return those that it could not join."""
        answers = os.read(self._answer_read, 64)[1:].decode()
        pairs = zip(self.order["cgroup_directories"], answers, strict=False)
        return [directory for directory, answer in pairs if answer == "n"]

    def execute(self) -> "tuple[int, tuple[str, int] | None]":
        """Let the process execute the command, and wait until it has.

        Returns the KiB that its ru_maxrss is at least, and the stage and the errno if the command cannot be executed.
        """
        write_all(self._go_write, GO)
        os.close(self._go_write)
        words = read_to_end(self._answer_read).decode().split()
        floor_kib = int(words[0]) + exec_kib(self.order) if words else 0
        return floor_kib, (words[1], int(words[2])) if len(words) == 3 else None


def exec_kib(order: "Order") -> int:
    """The memory that execve adds: the kernel copies arguments and environment, and charges them to the caller."""
    words = [*order["argv"], *order["env"], *order["env"].values()]
    return (3 * sum(map(len, words)) + 200 * len(words)) // 1024


def become_job(order: "Order", go_read: int, answer_write: int, outputs: tuple[int, int]) -> None:
    """Runs in the forked process: set up what the command expects, wait for permission, execute the command."""
    stage = "start"
    try:
        signals.set_wakeup_fd(-1)
        for number in (signals.SIGPIPE, signals.SIGXFSZ, signals.SIGCHLD):
            signals.signal(number, signals.SIG_DFL)
        terminal = order["terminal"]
        if terminal is not None and terminal["is_controlling"]:
            os.setsid()
            fcntl.ioctl(terminal["slave"], TIOCSCTTY, 0)
        else:
            os.setpgid(0, 0)
        if terminal is not None and 0 in terminal["replaced"]:
            os.dup2(terminal["slave"], 0)
        elif order["stdin"] == "null":
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(outputs[0], 1)
        os.dup2(outputs[1], 2)
        # A directory on a dead server blocks here: the job has not started yet, so a caller that waits can give up.
        problem = enter(order["cwd"])
        joined = [b"y" if join_cgroup(procs) else b"n" for procs in order["cgroup_procs"]]
        write_all(answer_write, b"r" + b"".join(joined))
        if os.read(go_read, 1) != GO:
            os._exit(0)
        stage = "cwd"
        if problem is not None:
            raise problem
        stage = "priority"
        set_priority(order["nice"], order["ionice"])
        if order["affinity"] is not None:
            os.sched_setaffinity(0, choose_cpus(order["affinity"]))
        stage = "exec"
        write_all(answer_write, f"{status_value(os.getpid(), 'VmHWM:')} ".encode())
        execute(order["argv"], order["env"])
    except MissingInterpreter:
        write_all(answer_write, b"interpreter 2")
    except OSError as error:
        prefix = "" if stage == "exec" else "0 "
        write_all(answer_write, f"{prefix}{stage} {error.errno or 0}".encode())
    finally:
        os._exit(127)


def enter(directory: bytes) -> OSError | None:
    """Change the working directory; return the error if that fails."""
    try:
        os.chdir(directory)
    except OSError as error:
        return error
    return None


def set_priority(nice: int | None, ionice: "tuple[int, ...] | None") -> None:
    """Set the priorities of this process, which the whole job inherits; the shim keeps its own."""
    if nice is not None:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
        try:
            # With autogroups a niceness counts only within its session; this is the niceness of the session: sched(7).
            fd = os.open("/proc/self/autogroup", os.O_WRONLY | os.O_CLOEXEC)
            write_all(fd, str(nice).encode())
            os.close(fd)
        except OSError:  # the kernel has no autogroups
            pass
    if ionice is not None and c_call("syscall", *ionice) != 0:
        raise PermissionError(errno.EPERM, "ioprio_set")


def choose_cpus(count: int) -> "list[int]":
    """This many of the CPUs that we may use; which ones depends on the pid, so that jobs get different ones."""
    allowed = sorted(os.sched_getaffinity(0))
    start = os.getpid() % max(1, len(allowed) // count) * count
    return allowed[start : start + count]


def execute(argv: "list[bytes]", env: "dict[bytes, bytes]") -> None:
    """Execute a command as execvpe(3) does: search PATH, and run a text file without `#!` with the shell."""
    name = argv[0]
    if not name:
        raise FileNotFoundError(errno.ENOENT, "no name")
    directories = [b""] if b"/" in name else env.get(b"PATH", os.defpath.encode()).split(b":")
    worst: OSError = FileNotFoundError(errno.ENOENT, "not found")
    for directory in directories:
        path = directory + b"/" + name if directory else name
        try:
            os.execve(path, argv, env)
        except OSError as error:
            if error.errno == errno.ENOENT and os.path.exists(path):
                raise MissingInterpreter from error
            if error.errno == errno.ENOEXEC:
                os.execve(b"/bin/sh", [b"/bin/sh", path, *argv[1:]], env)
            if error.errno not in (errno.ENOENT, errno.ENOTDIR) and os.path.lexists(path):
                worst = error
                if error.errno != errno.EACCES:
                    raise
    raise worst
