"""Files below a state directory: made, opened and removed without ever following a link.

The state directory itself may be a link. A link below it was not made by jobtop and could lead anywhere.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from jobtop.core.errors import StoreUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
WORLD_WRITABLE = 0o002


def make_state_dirs(root: Path, *directories: Path) -> None:
    """Create the state directory and directories in it, for this user only (0700).

    Raises StoreUnavailable for one that every user can write, or that is a link, and OSError.
    """
    from jobtop.core.paths import make_private_dir

    make_private_dir(root)
    _refuse_writable(root, os.stat(root).st_mode)
    for directory in directories:
        with suppress(FileExistsError):
            os.mkdir(directory, 0o700)
        mode = os.lstat(directory).st_mode
        if not stat.S_ISDIR(mode):
            refuse_link(directory)
            raise StoreUnavailable(f"{directory}: it is not a directory; remove it")
        _refuse_writable(directory, mode)


def refuse_link(path: Path) -> None:
    """Raise StoreUnavailable for a link in a state directory."""
    if os.path.islink(path):
        raise StoreUnavailable(f"{path}: it is a link; remove it (only the state directory itself may be a link)")


def open_job_file(directory: Path, name: str) -> int:
    """Open a file of a job's directory to read; OSError if there is none, or none that jobtop made."""
    root = directory.parent.parent
    fd = _open_parent(root, directory.parent.name, directory.name)
    try:
        return open_regular(name, fd)
    finally:
        os.close(fd)


def open_regular(path: str | Path, dir_fd: int | None = None) -> int:
    """Open a regular file to read, no link and no device; never waits for the writer of a FIFO."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return fd


def read_state_file(path: Path, most_bytes: int) -> bytes:
    """The bytes of a file in a directory of the state directory; OSError if it is too long or no regular file."""
    fd = _open_parent(path.parent.parent, path.parent.name)
    try:
        with open(open_regular(path.name, fd), "rb") as file:
            content = file.read(most_bytes + 1)
    finally:
        os.close(fd)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, "it is too large", str(path))
    return content


def remove_directory(directory: Path) -> None:
    """Remove a job's directory and all in it, if it is there; a link is removed, not what it leads to."""
    import shutil

    with suppress(OSError):
        fd = _open_parent(directory.parent.parent, directory.parent.name)
        try:
            if stat.S_ISLNK(os.lstat(directory.name, dir_fd=fd).st_mode):
                os.unlink(directory.name, dir_fd=fd)
            else:
                shutil.rmtree(directory.name, ignore_errors=True, dir_fd=fd)
        finally:
            os.close(fd)


def remove_file(path: Path) -> None:
    """Remove a file in a directory of the state directory, if it is there."""
    with suppress(OSError):
        fd = _open_parent(path.parent.parent, path.parent.name)
        try:
            os.unlink(path.name, dir_fd=fd)
        finally:
            os.close(fd)


def _open_parent(root: Path, *names: str) -> int:
    """A descriptor of a directory below the state directory, reached without a link."""
    fd = os.open(root, DIRECTORY)
    for name in names:
        try:
            inner = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def _refuse_writable(path: Path, mode: int) -> None:
    if mode & WORLD_WRITABLE:
        raise StoreUnavailable(f"{path}: every user can write to it, so nothing in it can be trusted: chmod 700 {path}")
