"""Creates, opens and removes files below a state directory without following links.

The state directory itself may be a link. A link below it was not made by jobtop and could point anywhere.
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

    Name = str | Path

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
WORLD_WRITABLE, GROUP_WRITABLE = 0o002, 0o020


def make_state_dirs(root: Name, *directories: Name) -> None:
    """Create the state directory and directories in it for this user only (0700).

    Raises StoreUnavailable if one is a link, or another user owns it or can write to it; OSError for other failures.
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


def refuse_link(path: Name) -> None:
    """Raise StoreUnavailable for a link in a state directory."""
    if os.path.islink(path):
        raise StoreUnavailable(f"{path}: it is a link; remove it (only the state directory itself may be a link)")


def open_job_file(directory: Name, name: str) -> int:
    """Open a file of a job's directory for reading; OSError if it does not exist or was not made by jobtop."""
    jobs, job = os.path.split(directory)
    root, inner = os.path.split(jobs)
    fd = _open_directory(root, inner, job)
    try:
        return open_regular(name, fd)
    finally:
        os.close(fd)


def open_regular(path: Name, dir_fd: int | None = None) -> int:
    """Open a regular file for reading, not a link, device or FIFO; never blocks."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return fd


def read_state_file(path: Name, most_bytes: int) -> bytes:
    """Read a file in a subdirectory of the state directory; OSError if it is too large or not a regular file."""
    fd, name = _open_parent(path)
    try:
        with open(open_regular(name, fd), "rb") as file:
            content = file.read(most_bytes + 1)
    finally:
        os.close(fd)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, "it is too large", str(path))
    return content


def touch_state_file(path: Name) -> None:
    """Create a file in a subdirectory of the state directory, or set its time to now; OSError for a link."""
    parent, name = _open_parent(path)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(name, flags, 0o600, dir_fd=parent)
        os.utime(fd)
        os.close(fd)
    finally:
        os.close(parent)


def remove_directory(directory: Name) -> None:
    """Remove a job's directory and its content, if it exists; of a link only the link itself."""
    import shutil

    with suppress(OSError):
        fd, name = _open_parent(directory)
        try:
            if stat.S_ISLNK(os.lstat(name, dir_fd=fd).st_mode):
                os.unlink(name, dir_fd=fd)
            else:
                shutil.rmtree(name, ignore_errors=True, dir_fd=fd)
        finally:
            os.close(fd)


def remove_file(path: Name) -> None:
    """Remove a file in a subdirectory of the state directory, if it exists."""
    with suppress(OSError):
        fd, name = _open_parent(path)
        try:
            os.unlink(name, dir_fd=fd)
        finally:
            os.close(fd)


def _open_parent(path: Name) -> tuple[int, str]:
    """Open the parent of `path`, a subdirectory of the state directory; return its descriptor and the last name."""
    directory, name = os.path.split(path)
    root, inner = os.path.split(directory)
    return _open_directory(root, inner), name


def _open_directory(root: Name, *names: str) -> int:
    """Open a directory below the state directory without following links; return its descriptor."""
    fd = os.open(root, DIRECTORY)
    for name in names:
        try:
            inner = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def refuse_shared(path: Name, found: os.stat_result) -> None:
    """Raise StoreUnavailable for a directory in which another user could place a command that jobtop would run.

    A group with the same number as the user is the user's private group.
    """
    if found.st_uid != os.geteuid():
        raise StoreUnavailable(f"{path}: it belongs to another user; set JOBTOP_HOME to a directory of your own")
    by_group = found.st_mode & GROUP_WRITABLE and found.st_gid not in (found.st_uid, 0)
    if found.st_mode & WORLD_WRITABLE or by_group:
        raise StoreUnavailable(
            f"{path}: other users can write to it, so nothing in it can be trusted: chmod 700 {path}"
        )


def open_lock(path: Name, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    """Open a lock file; StoreUnavailable if it is not a regular file."""
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
