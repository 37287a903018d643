"""The system calls that the parts of a shim share: whole reads and writes, two clocks, functions of the C library.

Part of every shim: standard library only, imports nothing later.
"""

import os
import time

from jobtop.core.procfs import BOOTTIME

try:
    import _ctypes
    from _ctypes import call_function, dlopen, dlsym
except ImportError:  # these are private names; another Python may not have them
    _ctypes = None  # type: ignore[assignment]
    try:
        import ctypes
    except ImportError:  # this Python was built without libffi and cannot call the C library
        ctypes = None  # type: ignore[assignment]

warnings: list[str] = []  # at most one


def c_call(name: str, *arguments: int) -> int:
    """Call a function of the C library with integers; -1 if the function does not exist or cannot be called."""
    try:
        if _ctypes is not None:
            return private_call(name, arguments)
        if ctypes is not None:
            return int(ctypes.CDLL(None)[name](*map(ctypes.c_longlong, arguments)))
    except (OSError, AttributeError):  # there is no such function
        pass
    return -1


def private_call(name: str, arguments: tuple[int, ...]) -> int:
    """Call a function of the C library without the ctypes package, which takes 2 MB."""

    class Long(_ctypes._SimpleCData):  # type: ignore[type-arg]
        _type_ = "q"

    address = dlsym(dlopen(None, 0), name)  # type: ignore[arg-type]
    return int(call_function(address, tuple(map(Long, arguments))))


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def read_exactly(fd: int, count: int) -> bytes:
    """Read this many bytes, or fewer if the file ends before."""
    data = b""
    while part := os.read(fd, count - len(data)):
        data += part
    return data


def read_to_end(fd: int) -> bytes:
    """Read until the end of the file, then close it."""
    parts = []
    while part := os.read(fd, 65536):
        parts.append(part)
    os.close(fd)
    return b"".join(parts)


def now() -> tuple[float, float]:
    """The wall clock, and the seconds since boot with suspended time."""
    return time.time(), time.clock_gettime(BOOTTIME)


def warn_once(text: str) -> None:
    """Write the first warning of this shim to standard error; a full disk makes everything fail at the same time."""
    if warnings:
        return
    warnings.append(text)
    try:
        os.write(2, f"jobtop: {text}\n".encode())
    except OSError:
        return
