"""Appends lines to Keystone's `jobs_history.jsonl`, from any number of processes, and rotates it within a size."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from contextlib import suppress

from jobtop.core.paths import make_private_dir

NAME, OLDER_NAME = "jobs_history.jsonl", "jobs_history.1.jsonl"
MOST_BYTES = 64 * 1024 * 1024  # of both files together
PATIENCE_SECONDS = 1.0  # that another process may hold the file: one that is stopped holds it for long
RETRY_SECONDS = 0.01
FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def append_line(directory: str, line: str, most_bytes: int = MOST_BYTES) -> str:
    """Append one line in one write, and return the path of the file; OSError if that is not possible.

    A line that another process has left unfinished is ended first, so that only that one is lost. A file that has grown
    to half of `most_bytes` becomes the older one, in place of the one before.
    """
    make_private_dir(directory)
    path, data = os.path.join(directory, NAME), line.encode("utf-8", "surrogateescape") + b"\n"
    fd = _open_locked(path)
    try:
        size = os.fstat(fd).st_size
        if size and size + len(data) > most_bytes // 2:
            os.replace(path, os.path.join(directory, OLDER_NAME))
            os.close(fd)
            fd = _open_locked(path)
            size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            data = b"\n" + data
        if os.write(fd, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    finally:
        os.close(fd)
    return path


def _open_locked(path: str) -> int:
    """Open the file that has this name now; it is locked, unless another process holds it for too long."""
    due = time.monotonic() + PATIENCE_SECONDS
    while True:
        fd = os.open(path, FLAGS, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file", path)
            is_locked = _lock(fd, due)
            is_in_place = _is_at(path, fd)
        except BaseException:
            os.close(fd)
            raise
        if is_in_place or not is_locked:
            return fd
        os.close(fd)  # another process has made it the older one


def _lock(fd: int, due: float) -> bool:
    """Lock a file; False where locks do not work, or if it takes too long: one write appends a whole line anyway."""
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= due:
                return False
            time.sleep(RETRY_SECONDS)
        except OSError:
            return False
        else:
            return True


def _is_at(path: str, fd: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd))
    return False
