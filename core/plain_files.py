"""Reads small files that another user may have put there: only regular files of limited size with a safe owner.

A FIFO would block the reader, a device has no end, and a file that others can write cannot be trusted.
"""

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


class UnsafeFile(Exception):  # noqa: N818 — as in core/errors.py
    """The file exists and must not be read; the text says why and names the remedy."""


def read_plain(path: "Path", most_bytes: int, may_be_owned_by_others: bool = False) -> bytes:
    """Return the content of a regular file; UnsafeFile for anything else, OSError if it cannot be read.

    Check and read use the same open descriptor. Files that the group can write are accepted: with a umask of 002,
    which many distributions set, that is every file of a user.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if problem := _problem(os.fstat(descriptor), most_bytes, may_be_owned_by_others):
            raise UnsafeFile(problem)
        content = bytearray()
        while len(content) <= most_bytes and (chunk := os.read(descriptor, most_bytes + 1 - len(content))):
            content += chunk
    finally:
        os.close(descriptor)
    if len(content) > most_bytes:  # it grew after the check
        raise UnsafeFile(_too_large(most_bytes))
    return bytes(content)


def _problem(status: os.stat_result, most_bytes: int, may_be_owned_by_others: bool) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file (remove it, or put a regular file there)"
    if not may_be_owned_by_others and status.st_uid not in (0, os.geteuid()):
        return f"it belongs to the user with the id {status.st_uid} (use a copy of your own)"
    if status.st_mode & stat.S_IWOTH:
        return "every user may write it (chmod o-w takes that away)"
    return _too_large(most_bytes) if status.st_size > most_bytes else None


def _too_large(most_bytes: int) -> str:
    return f"it is larger than {most_bytes // 1024} KiB (make it smaller)"
