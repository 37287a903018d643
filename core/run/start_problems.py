"""Why a process could not be started, and the remedy. Imported only after a failure."""

import errno
import os
import sys

from jobtop.core.errors import StartError

TOO_MANY = "no more processes may be started here: end some, or raise the limit (ulimit -u, pids.max of the cgroup)"
WITHOUT_PROC = "/proc is not mounted, so jobtop cannot see processes (as root: mount -t proc proc /proc)"
WITHOUT_NULL = "/dev/null is missing (as root: mknod -m 666 /dev/null c 1 3)"
REMEDIES = {
    errno.EAGAIN: TOO_MANY,
    errno.ENOMEM: "there is not enough memory to start a process: end some, or raise the limit (ulimit -v)",
    errno.EMFILE: "no more files may be open here: raise the limit (ulimit -n)",
    errno.ENFILE: "the system has too many open files: end some processes",
}


def missing_part() -> str | None:
    """What every job needs and this machine lacks; None if it has all."""
    if sys.platform == "linux" and not os.path.exists("/proc/self/stat"):
        return WITHOUT_PROC
    return None if os.path.exists(os.devnull) else WITHOUT_NULL


def explanation(number: int) -> str | None:
    """What an errno means for starting a process, and the remedy; None if strerror says enough."""
    return REMEDIES.get(number)


def cannot_start(what: str, error: OSError) -> StartError:
    """The error for a process that could not be started."""
    number = error.errno or 0
    return StartError(f"cannot start {what}: {missing_part() or explanation(number) or os.strerror(number)}")
