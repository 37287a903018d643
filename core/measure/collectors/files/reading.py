"""Reads the open files of a process from fd and fdinfo: path, size, position and mode. Nothing is remembered here."""

from __future__ import annotations

import os
import stat

from jobtop.core.measure.collectors.attribute import read_number
from jobtop.core.measure.collectors.process_fields import is_count
from jobtop.core.procfs import read_text, word_in
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    FileId = tuple[int, int]  # device and inode

READ, WRITE, BOTH = "read", "write", "read+write"
MODES = {os.O_RDONLY: READ, os.O_WRONLY: WRITE, os.O_RDWR: BOTH}
O_PATH = 0o10000000  # opened to name the file, not to read it; os.O_PATH is not on every system
DELETED = " (deleted)"
SECTOR_BYTES = 512
SYSTEM_PATHS = (
    *("/dev/", "/proc/", "/sys/", "/memfd:", "/SYSV", "/[aio]"),
    *("/usr/lib/locale/", "/usr/share/locale/"),
)
NO_DATA_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random", "/dev/tty")
SYSTEM_NAMES = ("gconv-modules.cache", "ld.so.cache")
LIBRARY_ENDINGS = (".pyc", ".so", ".a")


@record
class Descriptor:
    """One open file of a process; `position` is None for a file that is only mapped, `size_bytes` if it is unknown."""

    fd: int
    path: str
    file: FileId
    size_bytes: int | None
    position: int | None
    mode: str
    is_deleted: bool = False
    is_device: bool = False


@record
class OpenLink:
    """What the link of a descriptor and its fdinfo say; the file itself was not asked."""

    fd: int
    path: str
    position: int
    mode: str


def list_descriptors(pid: int, proc: str = "/proc") -> tuple[list[int], int | None]:
    """The numbers of the open files of a process in order; the error if they cannot be listed."""
    try:
        names = os.listdir(f"{proc}/{pid}/fd")
    except OSError as error:
        return [], error.errno
    return sorted(int(name) for name in names if name.isdigit()), None


def read_path(pid: int, fd: int, proc: str = "/proc") -> str | None:
    """The path of an open file; None if it is closed, or no file with a path (a pipe, a socket)."""
    try:
        path = os.readlink(f"{proc}/{pid}/fd/{fd}")
    except OSError:
        return None
    return path if path.startswith("/") else None


def read_link(pid: int, fd: int, proc: str = "/proc", path: str | None = None) -> OpenLink | None:
    """What a descriptor is; None if it is closed, or no file with a path. `path`: what `read_path` has read."""
    path = path or read_path(pid, fd, proc)
    if path is None:
        return None
    text = read_text(f"{proc}/{pid}/fdinfo/{fd}")
    text = text[: text.rfind("\n") + 1]  # of a torn line, fewer digits would be another mode or position
    position, flags = word_in(text, "pos:"), word_in(text, "flags:")
    try:
        opened = int(flags, 8)
        if opened & O_PATH:
            return None
        return OpenLink(fd, path, int(position), MODES.get(opened & os.O_ACCMODE, BOTH))
    except ValueError:  # it was closed meanwhile, or the kernel does not tell
        return None


def read_descriptor(pid: int, link: OpenLink, proc: str = "/proc", sys: str = "/sys") -> Descriptor | None:
    """The open file behind a link; None if it is closed, or neither a regular file nor a block device.

    Asking a file on a network file system for its size can take as long as its server takes to answer.
    """
    try:
        found = os.stat(f"{proc}/{pid}/fd/{link.fd}")
    except OSError:
        return None
    is_device = stat.S_ISBLK(found.st_mode)
    if not is_device and not stat.S_ISREG(found.st_mode):
        return None
    path, is_deleted = link.path, link.path.endswith(DELETED) and found.st_nlink == 0
    if is_deleted:
        path = path.removesuffix(DELETED)
    size = device_bytes(found.st_rdev, sys) if is_device else found.st_size
    file = (found.st_rdev, 0) if is_device else (found.st_dev, found.st_ino)
    return Descriptor(link.fd, path, file, size, link.position, link.mode, is_deleted, is_device)


def device_bytes(device: int, sys: str = "/sys") -> int | None:
    """The size of a block device; None if it is unknown."""
    sectors = read_number(f"{sys}/dev/block/{os.major(device)}:{os.minor(device)}/size")
    return None if sectors is None or sectors < 0 else sectors * SECTOR_BYTES


def read_mapped(pid: int, proc: str = "/proc") -> Iterator[Descriptor]:
    """The files that a process has mapped into its memory, each once, without programs and libraries.

    How much of a mapped file is read, and where, the kernel does not tell.
    """
    programs: set[str] = set()
    mapped: dict[str, tuple[str, FileId]] = {}
    for line in read_text(f"{proc}/{pid}/maps").splitlines():
        words = line.split(None, 5)
        if len(words) < 6 or not words[5].startswith("/"):
            continue
        permissions, device, inode, path = words[1], words[3], words[4], words[5]
        if "x" in permissions:
            programs.add(path)
        major, _, minor = device.partition(":")
        try:
            file = os.makedev(int(major, 16), int(minor, 16)), int(inode)
        except ValueError:
            continue
        is_written = "w" in permissions and permissions.endswith("s")
        mapped.setdefault(path, (BOTH if is_written else READ, file))
    for path, (mode, file) in mapped.items():
        if path not in programs:
            is_deleted = path.endswith(DELETED)
            size = None if is_deleted else file_bytes(pid, path, proc)
            yield Descriptor(-1, path.removesuffix(DELETED), file, size, None, mode, is_deleted)


def file_bytes(pid: int, path: str, proc: str = "/proc") -> int | None:
    """The size of a file as the process sees it: it may be in a container; None if it cannot be asked."""
    try:
        found = os.stat(f"{proc}/{pid}/root{path}")
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def is_data(path: str, is_device: bool = False) -> bool:
    """Whether a path may be data of the job: not of the system, no library, no compiled Python."""
    if is_device:
        return path not in NO_DATA_DEVICES
    name = path.rpartition("/")[2]
    return not (
        path.startswith(SYSTEM_PATHS) or name.endswith(LIBRARY_ENDINGS) or ".so." in name or name in SYSTEM_NAMES
    )


def read_counters(pid: int, proc: str = "/proc") -> tuple[int | None, int | None]:
    """The bytes that a process has read and written by system calls; None if that cannot be known."""
    text = read_text(f"{proc}/{pid}/io")
    read, written = word_in(text, "rchar:"), word_in(text, "wchar:")
    return int(read) if is_count(read) else None, int(written) if is_count(written) else None


def read_parent(pid: int, proc: str = "/proc") -> int:
    """The parent of a process; 0 if it is gone."""
    fields = read_text(f"{proc}/{pid}/stat").rpartition(")")[2].split(None, 2)
    return int(fields[1]) if len(fields) > 1 and is_count(fields[1]) else 0
