"""What a forked child does to become the job: descriptors, session, cgroups, directory, and the exec.

Part of every shim: standard library only, nothing imported late.
"""

import errno
import fcntl
import os
import sys

from jobtop.core.procfs import signals, status_value
from jobtop.core.shim.output import c_call, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class MissingInterpreter(Exception):  # noqa: N818
    """The file is there; what its `#!` line names is not."""


TIOCSCTTY = 0x540E if sys.platform == "linux" else 0x20007461


def become_job(spec: "dict[str, Any]", go_read: int, answer_write: int, outputs: tuple[int, int]) -> None:
    """In the forked child: become what the command expects to find, wait for the word, execute."""
    stage = "start"
    try:
        signals.set_wakeup_fd(-1)
        for number in (signals.SIGPIPE, signals.SIGXFSZ, signals.SIGCHLD):
            signals.signal(number, signals.SIG_DFL)
        if spec["output"] == "pty":
            os.setsid()
            fcntl.ioctl(spec["slave"], TIOCSCTTY, 0)
            os.dup2(spec["slave"], 0)
        else:
            os.setpgid(0, 0)
            if spec["stdin"] == "null":
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(outputs[0], 1)
        os.dup2(outputs[1], 2)
        # A directory on a dead server keeps us here: the job has not begun yet, and whoever waits can give up.
        problem = entering(spec["cwd"])
        joined = [b"y" if join_cgroup(procs) else b"n" for procs in spec["cgroup_join"]]
        write_all(answer_write, b"r" + b"".join(joined))
        if os.read(go_read, 1) != b"g":
            os._exit(0)
        stage = "cwd"
        if problem is not None:
            raise problem
        stage = "priority"
        take_priority(spec["nice"], spec["ionice"])
        if spec["affinity"] is not None:
            os.sched_setaffinity(0, some_cpus(spec["affinity"]))
        stage = "exec"
        write_all(answer_write, f"{status_value(os.getpid(), 'VmHWM:')} ".encode())
        execute(spec["argv"], spec["env"])
    except MissingInterpreter:
        write_all(answer_write, b"interpreter 2")
    except OSError as error:
        prefix = "" if stage == "exec" else "0 "
        write_all(answer_write, f"{prefix}{stage} {error.errno or 0}".encode())
    finally:
        os._exit(127)


def entering(directory: bytes) -> OSError | None:
    """Go to a directory; why that cannot be done, if it cannot."""
    try:
        os.chdir(directory)
    except OSError as error:
        return error
    return None


def take_priority(nice: int | None, ionice: "tuple[int, ...] | None") -> None:
    """Before the exec, so that all of the job inherits it and its shim does not."""
    if nice is not None:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
        try:
            # Where sessions are scheduled against each other, a niceness counts only within its own: see sched(7).
            fd = os.open("/proc/self/autogroup", os.O_WRONLY | os.O_CLOEXEC)
            write_all(fd, str(nice).encode())
            os.close(fd)
        except OSError:  # they are not
            pass
    if ionice is not None and c_call("syscall", *ionice) != 0:
        raise PermissionError(errno.EPERM, "ioprio_set")


def some_cpus(count: int) -> "list[int]":
    """So many of the CPUs we may use; whoever starts next takes others."""
    allowed = sorted(os.sched_getaffinity(0))
    start = os.getpid() % max(1, len(allowed) // count) * count
    return allowed[start : start + count]


def join_cgroup(procs: str) -> bool:
    try:
        fd = os.open(procs, os.O_WRONLY | os.O_CLOEXEC)
        write_all(fd, b"0")
        os.close(fd)
    except OSError:  # removed or refused since it was made
        return False
    return True


def execute(argv: "list[bytes]", env: "dict[bytes, bytes]") -> None:
    """execvpe as the C library does it: along PATH, and a text without `#!` is a shell script."""
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
