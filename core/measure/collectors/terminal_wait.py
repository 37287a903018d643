"""Whether a process waits for input from its terminal: in read, select or poll of a pseudo-terminal, by /proc."""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

from jobtop.core.procfs import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_PROCESSES = 256
MOST_FDS = 64  # of one select or poll
POLLIN, POLLFD_BYTES = 0x001, 8
TERMINALS = ("/dev/pts/", "/dev/tty")


class Calls(NamedTuple):
    """The numbers of the system calls that wait for input."""

    read: frozenset[int]
    select: frozenset[int]
    poll: frozenset[int]


# read, readv; select, pselect6; poll, ppoll
CALLS = {
    "x86_64": Calls(frozenset({0, 19}), frozenset({23, 270}), frozenset({7, 271})),
    "aarch64": Calls(frozenset({63, 65}), frozenset({72}), frozenset({73})),
}


def any_waits_for_input(pids: Iterable[int], proc: str = "/proc", machine: str | None = None) -> bool:
    """Whether one of these processes waits for input from a terminal; False also where the kernel does not tell.

    The kernel tells only those who may trace the process: root, or its user where Yama's ptrace_scope is 0.
    """
    calls = CALLS.get(machine or os.uname().machine)
    if calls is None:
        return False
    return any(_waits(f"{proc}/{pid}", calls) for _, pid in zip(range(MOST_PROCESSES), pids, strict=False))


def _waits(process: str, calls: Calls) -> bool:
    fields = read_text(f"{process}/syscall").split()
    if len(fields) < 7 or not fields[0].isdigit():  # "running", or empty where it cannot be read
        return False
    number, arguments = int(fields[0]), [int(field, 16) for field in fields[1:7]]
    return any(_is_terminal(process, fd) for fd in _awaited_fds(process, number, arguments, calls))


def _awaited_fds(process: str, number: int, arguments: list[int], calls: Calls) -> list[int]:
    """The descriptors from which the system call waits for input."""
    first, second = arguments[:2]
    if number in calls.read:
        return [first]
    if number in calls.select and second:
        bits = int.from_bytes(_memory(process, second, (min(first, MOST_FDS) + 7) // 8), "little")
        return [fd for fd in range(min(first, MOST_FDS)) if bits >> fd & 1]
    if number in calls.poll and first:
        data = _memory(process, first, min(second, MOST_FDS) * POLLFD_BYTES)
        whole = data[: len(data) // POLLFD_BYTES * POLLFD_BYTES]
        return [fd for fd, events, _ in struct.iter_unpack("=ihh", whole) if events & POLLIN]
    return []


def _is_terminal(process: str, fd: int) -> bool:
    try:
        return os.readlink(f"{process}/fd/{fd}").startswith(TERMINALS)
    except OSError:
        return False


def _memory(process: str, address: int, size: int) -> bytes:
    """Some bytes of the memory of a process; empty if they cannot be read."""
    try:
        fd = os.open(f"{process}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(fd, size, address)
    except (OSError, OverflowError):
        return b""
    finally:
        os.close(fd)
