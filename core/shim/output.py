"""A job's output on its way to its log and to whoever started it.

Part of every shim: standard library only, nothing imported late.
"""

import errno
import os

try:
    import _ctypes
    from _ctypes import call_function, dlopen, dlsym
except ImportError:  # they are private, and another Python may not have them
    _ctypes = None  # type: ignore[assignment]
    try:
        import ctypes
    except ImportError:  # a Python without libffi: nothing can be asked of the C library
        ctypes = None  # type: ignore[assignment]

PUNCH_HOLE = 3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
BUFFER_BYTES = 128 * 1024
PIPE_BUF = 4096
complaints: list[str] = []


def c_call(name: str, *arguments: int) -> int:
    """Call a function of the C library with integers; -1 if there is none, or no way to call it."""
    try:
        if _ctypes is not None:
            return private_call(name, arguments)
        if ctypes is not None:
            return int(ctypes.CDLL(None)[name](*map(ctypes.c_longlong, arguments)))
    except (OSError, AttributeError):  # there is no such function
        pass
    return -1


def private_call(name: str, arguments: tuple[int, ...]) -> int:
    """Call it without the 2 MB of the ctypes package."""

    class Long(_ctypes._SimpleCData):  # type: ignore[type-arg]
        _type_ = "q"

    address = dlsym(dlopen(None, 0), name)  # type: ignore[arg-type]
    return int(call_function(address, tuple(map(Long, arguments))))


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def read_to_end(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 65536):
        parts.append(part)
    os.close(fd)
    return b"".join(parts)


def open_twin(fd: int) -> int:
    """The same pipe or terminal with its own flags, so that not blocking is nobody else's business; -1 if none."""
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return -1


class Stream:
    """One output of the job on its way to the log and to whoever started the job."""

    def __init__(self, source: int, sink: int, log: "Log | None") -> None:
        self.source, self.sink, self.log = source, sink, log
        self.pending: memoryview | None = None
        self.error: str | None = None
        self.buffer = bytearray(BUFFER_BYTES)
        os.set_blocking(source, False)
        kind = os.fstat(sink).st_mode & 0o170000 if sink >= 0 else 0
        self.twin = open_twin(sink) if kind in (0o010000, 0o020000) else -1
        self.writes_may_block = kind != 0o100000 and self.twin < 0

    def pull(self) -> bool:
        """Move one buffer; False when nothing is there now."""
        try:
            count = os.readv(self.source, [self.buffer])
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EIO:  # EIO: the last holder of the pseudo-terminal is gone
                raise
            count = 0
        if count == 0:
            self.close()
            return False
        data = memoryview(self.buffer)[:count]
        if self.log is not None:
            self.log.write(data)
        if self.sink >= 0:
            self.pending = data
            self.push()
        return True

    def push(self) -> None:
        """Pass on what is pending, as much as the reader takes."""
        while self.pending is not None:
            part = self.pending[:PIPE_BUF] if self.writes_may_block else self.pending
            try:
                count = os.write(self.twin if self.twin >= 0 else self.sink, part)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.EIO):  # nobody but us is told of a full disk
                    self.error = os.strerror(error.errno or 0)
                    complain(f"cannot write the output of this job ({self.error}); what is kept of it is in its log")
                self.reader_left()
                return
            self.pending = self.pending[count:] if count < len(self.pending) else None
            if self.writes_may_block:
                return

    def reader_left(self) -> None:
        """The job must see that its reader went away as it would without us: its next write fails."""
        self.close()

    def drop_sink(self) -> None:
        for fd in (self.twin, self.sink):
            if fd >= 0:
                os.close(fd)
        self.twin = self.sink = -1
        self.pending = None

    def close(self) -> None:
        if self.source >= 0:
            os.close(self.source)
        self.source = -1
        self.drop_sink()


class Log:
    """A log file that keeps its head and its tail: a hole is punched between them once it exceeds its limit."""

    def __init__(self, path: str, limit: int) -> None:
        self.path, self.limit = path, limit
        self.punched = self.untrimmed = limit // 2
        self.error: str | None = None
        try:
            self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self.fd = -1
            self.fail(error)

    def fail(self, error: OSError) -> None:
        if self.error is None:
            self.error = os.strerror(error.errno or 0)
            complain(f"the output of this job cannot be kept ({self.error}); it still passes through")

    def write(self, data: memoryview) -> None:
        if self.error is not None:
            return
        self.untrimmed -= len(data)
        if self.untrimmed < 0:
            self.untrimmed = self.limit // 16
            self.trim()
        try:
            while data:
                data = data[os.write(self.fd, data) :]
        except OSError as error:
            self.fail(error)

    def size(self) -> int:
        return os.fstat(self.fd).st_size if self.fd >= 0 else 0

    def room(self) -> float:
        """How many bytes may come before the log takes a quarter more than its limit."""
        kept = self.size() - (self.punched - self.limit // 2)
        return float("inf") if self.error is not None else self.limit * 5 / 4 - kept

    def trim(self) -> None:
        """Give back everything but the head and the tail; where no hole can be made, the head alone is kept."""
        tail_start = (self.size() - self.limit // 2) & ~4095
        start = (self.punched + 4095) & ~4095
        if self.fd < 0 or tail_start - start < max(self.limit // 16, 4096):
            return
        if c_call("fallocate", self.fd, PUNCH_HOLE, start, tail_start - start) == 0:
            self.punched = tail_start
        elif self.error is None:
            self.error = "longer than run.log_max, and this file system cannot drop the middle of a file"


def complain(text: str) -> None:
    """Say on standard error what cannot be kept, once: a full disk fails everything at a time."""
    if complaints:
        return
    complaints.append(text)
    try:
        os.write(2, f"jobtop: {text}\n".encode())
    except OSError:
        return
