"""The pseudo-terminal of a job: what other processes type into it, and the process that holds it beside the shim.

Part of every shim: standard library only, imports nothing later.
"""

import fcntl
import os
import select
import sys

from jobtop.core.procfs import signal_descendants, signals
from jobtop.core.shim.logs import Log
from jobtop.core.shim.output import TerminalStream
from jobtop.core.shim.own_process import open_fds, replace_by_null, set_name
from jobtop.core.shim.system_calls import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.shim.order import TerminalOrder

INPUT = "input"  # the FIFO in the directory of the job
KEYS, SIZE = b"K", b"S"  # messages: K, the number of bytes, the bytes; S, columns, lines; numbers have two bytes
MOST_PENDING_BYTES = 64 * 1024  # what the job has not read yet; more is dropped, as a terminal does
HOLDER_NAME = "jobtop-holder"
ENDED = b"e"
TCGETS, TIOCSWINSZ = 0x5401, 0x5414 if sys.platform == "linux" else 0x80087467
LOCAL_FLAGS_OFFSET, CONTROL_KEYS_OFFSET = 12, 17  # in Linux's struct termios
ISIG = 1
KEY_SIGNALS = ((0, signals.SIGINT), (1, signals.SIGQUIT), (10, signals.SIGTSTP))  # VINTR, VQUIT, VSUSP


def signal_keys(terminal: int) -> "dict[int, int]":
    """The keys that this terminal turns into signals, by their bytes; none while a program has made it raw."""
    if sys.platform != "linux":
        return {0x03: signals.SIGINT, 0x1C: signals.SIGQUIT, 0x1A: signals.SIGTSTP}
    settings = fcntl.ioctl(terminal, TCGETS, bytes(60))
    flags = int.from_bytes(settings[LOCAL_FLAGS_OFFSET : LOCAL_FLAGS_OFFSET + 4], sys.byteorder)
    keys = settings[CONTROL_KEYS_OFFSET:]
    return {keys[place]: number for place, number in KEY_SIGNALS if keys[place]} if flags & ISIG else {}


def set_size(terminal: int, columns: int, lines: int) -> None:
    """Set the size of a terminal; the kernel sends SIGWINCH only to jobs of which it is the controlling terminal."""
    numbers = (lines, columns, 0, 0)
    fcntl.ioctl(terminal, TIOCSWINSZ, b"".join(number.to_bytes(2, sys.byteorder) for number in numbers))


class Keyboard:
    """The FIFO through which other processes of this user type into the terminal of the job, and set its size."""

    def __init__(self, directory: str, terminal: "TerminalOrder") -> None:
        self.path = os.path.join(directory, INPUT)
        self.master = os.dup(terminal["master"])  # polled for room, while the pump polls the other one for output
        self.makes_signals = not terminal["is_controlling"]  # otherwise the kernel does
        self.fd = -1
        self._received = self._pending = b""
        try:
            os.mkfifo(self.path, 0o600)
            # For reading and writing: a FIFO without a writer would always be ready to be read.
            self.fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # the job runs, and only this terminal can type into it
            return

    def register(self, poll: "select.poll") -> None:
        if self.fd >= 0:
            poll.register(self.fd, select.POLLIN)
        if self._pending:
            poll.register(self.master, select.POLLOUT)

    def move(self) -> None:
        """Read messages, and write keys to the terminal as far as it takes them."""
        if self.fd < 0:
            return
        try:
            self._received += os.read(self.fd, 65536)
        except BlockingIOError:
            pass
        while (message := self._next()) is not None:
            self._obey(*message)
        try:
            self._pending = self._pending[os.write(self.master, self._pending) :] if self._pending else b""
        except BlockingIOError:
            return
        except OSError:  # the terminal is closed
            self.close()

    def close(self) -> None:
        if self.fd < 0:
            return
        os.close(self.fd)
        os.close(self.master)
        self.fd, self._pending = -1, b""
        try:
            os.unlink(self.path)
        except OSError:  # the directory was deleted
            return

    def _next(self) -> "tuple[bytes, bytes] | None":
        """Take the next whole message out of what was received; what is no message is dropped."""
        tag, data = self._received[:1], self._received[1:]
        count = 4 if tag == SIZE else 2 + int.from_bytes(data[:2], "big")
        if tag not in (KEYS, SIZE):
            self._received = b""
        if not self._received or len(data) < max(2, count):
            return None
        self._received = data[count:]
        return tag, data[:count]

    def _obey(self, tag: bytes, data: bytes) -> None:
        if tag == KEYS:
            self._type(data[2:])
            return
        columns, lines = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:], "big")
        if columns and lines:
            set_size(self.master, columns, lines)
            if self.makes_signals:
                signal_descendants(os.getpid(), signals.SIGWINCH)

    def _type(self, data: bytes) -> None:
        """Add keys to those that the terminal gets; a key that means a signal sends it to all processes of the job."""
        keys = signal_keys(self.master) if self.makes_signals else {}
        for number in {keys[byte] for byte in data if byte in keys}:
            signal_descendants(os.getpid(), number)
        kept = bytes(byte for byte in data if byte not in keys)
        if len(self._pending) + len(kept) <= MOST_PENDING_BYTES:
            self._pending += kept


def start_holder(terminal: "TerminalOrder", directory: str | None, log_max: int) -> int:
    """Start a process that holds the master, so that a killed shim does not hang up the job.

    It is no child of the shim, and so no member of the job: call this before the shim becomes a subreaper. Returns the
    descriptor to which `end_holder` writes; without that, the end of the shim makes the holder keep the output.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.fork() == 0:
                hold(terminal["master"], reader, directory, log_max)
        finally:
            os._exit(0)
    try:
        os.waitpid(child, 0)
    except ChildProcessError:  # the caller ignores SIGCHLD
        pass
    os.close(reader)
    return writer


def end_holder(fd: int) -> None:
    try:
        write_all(fd, ENDED)
    except OSError:  # it was killed
        return


def hold(master: int, reader: int, directory: str | None, log_max: int) -> None:
    """Runs in the holder: wait for the end of the shim; if it was killed, write the output of the job to its log."""
    set_name(HOLDER_NAME)
    for number in (signals.SIGINT, signals.SIGTERM, signals.SIGHUP, signals.SIGQUIT):
        signals.signal(number, signals.SIG_IGN)
    replace_by_null(0, 1, 2)
    for fd in open_fds() - {0, 1, 2, master, reader}:
        os.close(fd)
    if os.read(reader, 1) == ENDED:
        return
    log = Log(os.path.join(directory, "stdout.log"), log_max) if directory is not None else None
    stream, poll = TerminalStream(master, -1, log), select.poll()
    poll.register(master, select.POLLIN)
    while stream.source >= 0:
        poll.poll()
        stream.pull()
