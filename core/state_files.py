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
WORLD_WRITABLE, GROUP_WRITABLE = 0o002, 0o020


def make_state_dirs(root: Path, *directories: Path) -> None:
    """Create the state directory and directories in it, for this user only (0700).

    Raises StoreUnavailable for one that another user owns or can write, or that is a link, and OSError.
    """
    from jobtop.core.paths import make_private_dir

    make_private_dir(root)
    refuse_shared(root, os.stat(root))
    for directory in directories:
        with suppress(FileExistsError):
            os.mkdir(directory, 0o700)
        found = os.lstat(directory)
        if not stat.S_ISDIR(found.st_mode):
            refuse_link(directory)
            raise StoreUnavailable(f"{directory}: it is not a directory; remove it")
        refuse_shared(directory, found)


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


def touch_state_file(path: Path) -> None:
    """Create a file in a directory of the state directory, or give it the time of now; OSError for a link."""
    parent = _open_parent(path.parent.parent, path.parent.name)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(path.name, flags, 0o600, dir_fd=parent)
        os.utime(fd)
        os.close(fd)
    finally:
        os.close(parent)


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


def refuse_shared(path: Path, found: os.stat_result) -> None:
    """Raise StoreUnavailable for a directory in which another user could place a command that jobtop would run.

    A group that has the number of its user is that user's own.
    """
    if found.st_uid != os.geteuid():
        raise StoreUnavailable(f"{path}: it belongs to another user; set JOBTOP_HOME to a directory of your own")
    by_group = found.st_mode & GROUP_WRITABLE and found.st_gid not in (found.st_uid, 0)
    if found.st_mode & WORLD_WRITABLE or by_group:
        raise StoreUnavailable(
            f"{path}: other users can write to it, so nothing in it can be trusted: chmod 700 {path}"
        )


def open_lock(path: str | Path, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    """Open a file that processes lock; StoreUnavailable for one that is no regular file."""
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise StoreUnavailable(f"{path}: it is not a regular file; remove it") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise StoreUnavailable(f"{path}: it is not a regular file; remove it")
    return fd
