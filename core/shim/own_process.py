"""The process of the shim itself: its name, its descriptors and its signals.

Part of every shim: standard library only, imports nothing later.
"""

import os

from jobtop.core.procfs import FORWARDED, OVER_LIMIT_SIGNAL, signals
from jobtop.core.shim.system_calls import write_all


def set_name(name: str) -> None:
    """Set the name that ps shows, by which outer shims know this one."""
    try:
        fd = os.open("/proc/self/comm", os.O_WRONLY | os.O_CLOEXEC)
        write_all(fd, name.encode())
        os.close(fd)
    except OSError:
        return


def open_fds() -> "set[int]":
    """The descriptors of this process, without the one that lists them."""
    for directory in ("/proc/self/fd", "/dev/fd"):
        if os.path.isdir(directory):
            found = {int(name) for name in os.listdir(directory)}
            return {fd for fd in found if is_open(fd)}
    return set()


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def replace_by_null(*fds: int) -> None:
    """Let descriptors lead to /dev/null, so that the shim keeps no terminal and no pipe open."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in fds:
        os.dup2(null, fd)
    os.close(null)


def catch_signals() -> int:
    """Return a pipe from which each signal is read as a byte; signals that are ignored at the start stay ignored."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signals.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signals.SIGTERM, signals.SIGCHLD, OVER_LIMIT_SIGNAL, *FORWARDED):
        if number == signals.SIGCHLD or signals.getsignal(number) != signals.SIG_IGN:
            signals.signal(number, lambda *_: None)
    return reader
