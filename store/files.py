"""The files of a store: which they are, whether they are whole, and what file system they are on. No SQL."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache

from jobtop.core.paths import hostname

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    Name = str | Path

JOURNALS = ("-wal", "-shm")
NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb3 smbfs lustre gpfs beegfs ceph fuse.sshfs fuse.glusterfs 9p afs pvfs2 orangefs fuse.ceph".split()
)
WAL_BYTE, WAL_VERSION = 19, b"\x02"  # where the header of a database says that it has a WAL
MOST_FRAME = slice(16, 20)  # where the index of a WAL counts its pages (WalIndexHdr.mxFrame)

Files = tuple[tuple[int, int] | None, int | None]  # device and inode of the store, inode of its WAL


def files_of(path: Name) -> Files:
    """Which file a store is, and which its WAL is; None for one that is not there, or is empty."""
    try:
        found = os.stat(path)
    except OSError:
        return None, None
    try:
        wal = os.stat(wal_of(path)).st_ino
    except OSError:
        wal = None
    return ((found.st_dev, found.st_ino) if found.st_size else None), wal


def is_same(opened: Files, there: Files) -> bool:
    """Whether these are the files that were opened; a store with a rollback journal has no WAL, and may get one."""
    return opened[0] == there[0] and (opened[1] is None or opened[1] == there[1])


def wal_of(path: Name) -> str:
    return f"{path}-wal"


def is_cut(path: Name) -> bool:
    """Whether a store was emptied while it was open: a new one has its first page before it has a WAL."""
    try:
        return os.stat(path).st_size == 0 and any(os.path.exists(f"{path}{suffix}") for suffix in JOURNALS)
    except OSError:
        return False


def remove_journals(path: Name) -> None:
    """Remove the WAL of a deleted file, and its index: SQLite must not use them with another file."""
    for suffix in JOURNALS:
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")


def file_times(path: Name) -> tuple[tuple[int, int] | None, ...]:
    """When a store and its journals were last written, and their sizes; None for a file that is not there."""
    return tuple(_written(f"{path}{suffix}") for suffix in ("", "-wal", "-journal"))


def _written(name: str) -> tuple[int, int] | None:
    try:
        status = os.stat(name)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def has_wal(file: str) -> bool:
    """Whether a reader of the store needs a WAL; a rollback journal needs nothing but a lock."""
    with open(file, "rb") as content:
        return content.read(WAL_BYTE + 1)[WAL_BYTE:] == WAL_VERSION


def has_lost_wal(path: Name) -> bool:
    """Whether pages of an open store are in a WAL that was removed: the index counts them, and the WAL is empty."""
    try:
        with open(f"{path}-shm", "rb") as index:
            pages = index.read(MOST_FRAME.stop)[MOST_FRAME]
        return any(pages) and os.path.getsize(wal_of(path)) == 0
    except OSError:
        return False


def mark_suspect(path: Name) -> None:
    """Mark a store of this host and user as damaged; in the directory of another user nothing is written."""
    with suppress(OSError):
        directory, name = os.path.split(path)
        if name == f"{hostname()}.db" and os.stat(directory or ".").st_uid == os.geteuid():
            os.close(os.open(suspicion(path), os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def suspicion(path: Name) -> str:
    """The file that marks a store as damaged: it is checked when it is next opened to be written."""
    return f"{path}.suspect"


def is_network(path: Name, mountinfo: str | None = None) -> bool:
    """Whether a path is on a file system that several machines share."""
    place = os.path.realpath(path)
    if mountinfo is not None:
        return _is_shared(place, mountinfo)
    return _is_network_directory(place if os.path.isdir(place) else os.path.dirname(place))


@lru_cache(maxsize=64)
def _is_network_directory(directory: str) -> bool:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            return _is_shared(directory, file.read())
    except OSError:
        return False


def _is_shared(place: str, mountinfo: str) -> bool:
    """By the innermost mount; of two at one place the later hides the other."""
    best, kind, below = "", "", f"{place.rstrip('/')}/"
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        mount = before.split(" ", 5)[4].replace("\\040", " ")
        if len(mount) >= len(best) and below.startswith(f"{mount.rstrip('/')}/"):
            best, kind = mount, after.split(" ", 1)[0]
    return kind in NETWORK_FILE_SYSTEMS
