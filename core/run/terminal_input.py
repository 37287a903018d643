"""Types into the terminal of a job that runs elsewhere: in another process, below its shim."""

from __future__ import annotations

import errno
import os
import stat

from jobtop.core.shim.terminal import INPUT, KEYS, SIZE

MOST_BYTES = 1024  # of keys in one message: the kernel does not split or mix messages of up to 4096 bytes
LARGEST_SIDE = 0xFFFF


class TerminalInput:
    """The writing end of the FIFO that the shim of a job reads."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def type(self, data: bytes) -> bool:
        """Type keys, in the bytes that a terminal sends for them; False if the job has ended or does not take them."""
        parts = [data[start : start + MOST_BYTES] for start in range(0, len(data), MOST_BYTES)]
        return all(self._send(KEYS + len(part).to_bytes(2, "big") + part) for part in parts)

    def resize(self, columns: int, lines: int) -> bool:
        """Set the size of the terminal; False if the job has ended."""
        sides = (min(max(1, side), LARGEST_SIDE).to_bytes(2, "big") for side in (columns, lines))
        return self._send(SIZE + b"".join(sides))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _send(self, message: bytes) -> bool:
        try:
            return self._fd >= 0 and os.write(self._fd, message) == len(message)
        except (BlockingIOError, BrokenPipeError):  # the shim is stopped, or it has exited
            return False


def open_input(directory: str | os.PathLike[str]) -> TerminalInput | None:
    """Open the terminal of the job with this directory for typing; None if it has no terminal, or has ended."""
    try:
        # Without waiting for a reader: ENXIO if the shim has exited.
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(os.path.join(directory, INPUT), flags)
    except OSError as error:
        if error.errno not in (errno.ENXIO, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES):
            raise
        return None
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    return TerminalInput(fd)


def has_terminal(directory: str | os.PathLike[str]) -> bool:
    """Whether the job with this directory runs and has a terminal of its own."""
    try:
        return stat.S_ISFIFO(os.stat(os.path.join(directory, INPUT), follow_symlinks=False).st_mode)
    except OSError:
        return False
