"""The facts that a shim leaves of a job: their types, and how `started`, `ended` and `marks` are written.

core/run/facts.py reads them. Part of every shim: standard library only, imports nothing later.
"""

import os

from jobtop.core.shim.system_calls import warn_once, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TypedDict

    # Each field is written as a line `key value`; None is not written. A list holds groups of lines that are repeated.
    # A moment is the wall clock and the seconds since boot. Sizes are bytes, times are seconds.

    class LimitLines(TypedDict):
        limit: str  # "memory" or "cpus", and what enforces it
        memory_limit: int | None  # where the sampler has to enforce it

    class CgroupLines(TypedDict):
        cgroup: str  # a directory that the shim removes

    class KilledLines(TypedDict):
        killed: str  # pid and name

    class LogLines(TypedDict):
        log: int  # size
        log_error: str | None

    class Started(TypedDict):
        version: int
        boot: str
        shim: str  # pid and start time in ticks
        main: str  # the same of the process that executes the command
        start: str  # moment
        limits: list[LimitLines]
        subreaper: int  # whether orphans of the job become children of the shim
        cgroups: list[CgroupLines]

    class Counts(TypedDict):
        utime: str
        stime: str
        minflt: int
        majflt: int
        inblock: int
        oublock: int
        nvcsw: int
        nivcsw: int
        maxrss: int
        floor: int  # what maxrss is at least, because the job was forked from the shim
        hwm: int  # the largest resident size that was seen of one process
        rchar: int
        wchar: int
        chars_missing: int  # processes with unknown rchar and wchar
        reaped: int
        seen: int
        peak: int  # processes at the same time
        threads: int

    class Ended(Counts):
        version: int
        final: int  # 0: descendants are left, and a second report will follow
        exec_error: str | None  # the stage that failed, and the errno
        status: int | None  # of the main process, as wait4 returns it
        start: str  # moments: of the main process …
        end: str
        last: str  # … and of the last descendant
        looked: str  # the age of the job when its processes were last looked at
        before_cgroup: str  # CPU time that the job used before it joined its cgroup
        left: int  # descendants
        discarding: str | None  # a process that does not wait for its children
        subreaper: int
        stop: str | None  # signal, timeout, limit or after_exit
        limits: list[LimitLines]
        processes_killed: list[KilledLines]
        logs: list[LogLines]
        agent_error: str | None
        output_error: str | None
        complained: str | None  # the warning on standard error
        oom_before: int | None
        evidence: list[dict[str, str]]  # files of the job's cgroups, as cgroup.NAME
        counted: str  # the moment of this report
        own_cpu: str
        own_rss: int


RESERVED_BYTES = 16 * 1024


class StatusPipe:
    """The pipe to the process that records the job; its messages end with a NUL."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def send(self, text: bytes) -> bool:
        """Send a message, if the pipe is still open; False if its reader has exited."""
        if self.fd >= 0:
            try:
                write_all(self.fd, text + b"\0")
            except OSError:
                return False
        return True

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


def text_of(facts: "Mapping[str, object]") -> bytes:
    """The facts as they are written."""
    return "".join(lines(facts)).encode("utf-8", "surrogateescape")


def lines(facts: "Mapping[str, object]") -> "Iterator[str]":
    """A line `key value` for each known fact; line breaks in a value are escaped."""
    for key, value in facts.items():
        if isinstance(value, list):
            for group in value:
                yield from lines(group)
        elif value is not None:
            escaped = str(value).replace("\\", "\\\\").replace("\n", "\\n")
            yield f"{key} {escaped}\n"


def create_started(directory: str, text: bytes) -> bool:
    """Create `started`, which commits to the start; False if it exists: the job runs, or ran, under another shim."""
    try:
        fd = os.open(os.path.join(directory, "started"), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        write_all(fd, text)
        os.close(fd)
        reserve(os.path.join(directory, "ended.new"))
    except FileExistsError:
        return False
    except OSError as error:
        warn_once(f"cannot keep this job's record in {directory}: {os.strerror(error.errno or 0)}")
    return True


def reserve(draft: str) -> None:
    """Reserve disk space for `ended`, in case the job fills the disk."""
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, RESERVED_BYTES)
    finally:
        os.close(fd)


def write_ended(directory: str, text: bytes) -> None:
    """Write `ended` so that it is there as a whole or not at all, even after a crash of the machine."""
    path = os.path.join(directory, "ended")
    draft = path + ".new"
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        write_all(fd, text)
        os.ftruncate(fd, len(text))
        os.fsync(fd)
        os.close(fd)
        os.rename(draft, path)
    except OSError as error:
        if os.path.exists(draft):
            os.unlink(draft)
        warn_once(f"cannot keep the end of this job in {path}: {os.strerror(error.errno or 0)}")


def make_directory(path: str) -> None:
    """Make a directory for this user only, and the missing ones above it."""
    if not os.path.isdir(path):
        make_directory(os.path.dirname(path))
        try:
            os.mkdir(path, 0o700)
        except OSError:  # it exists by now, or the write that follows reports the reason
            return


def append_mark(directory: str, age_seconds: float, sizes: tuple[int, ...]) -> None:
    """Add a line to `marks`: the age of the job, and the size of each log."""
    line = f"{age_seconds:.3f} {' '.join(map(str, sizes))}\n"
    try:
        path = os.path.join(directory, "marks")
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        write_all(fd, line.encode())
        os.close(fd)
    except OSError:
        return
