"""The output of a job on its way to the logs and to the process that started the job.

Part of every shim: standard library only, imports nothing later.
"""

import errno
import fcntl
import os
import select

from jobtop.core.procfs import signal_descendants, signals
from jobtop.core.shim.system_calls import warn_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.shim.logs import JobLogs, Log
    from jobtop.core.shim.order import Order

BUFFER_BYTES = 128 * 1024
PIPE_BUF = 4096
F_SETPIPE_SZ = 1031
READS_PER_ROUND = 16  # of one stream, before the others have their turn
READER_SECONDS = 1.0  # for the reader of a stopped job to take the rest of its output


def open_twin(fd: int) -> int:
    """Open the same pipe or terminal again, without blocking: the flags of `fd` itself are shared with other processes.

    Returns -1 if it cannot be opened again.
    """
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return -1


class Stream:
    """One output of the job: read from the job, written to the log and to the reader."""

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
        """Move one buffer; False if the job has written nothing more."""
        try:
            count = os.readv(self.source, [self.buffer])
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EIO:  # EIO: the last process has closed the pseudo-terminal
                raise
            count = 0
        if count == 0:
            self.close()
            return False
        data = memoryview(self.buffer)[:count]
        if self.log is not None:
            self.keep(self.log, data)
        if self.sink >= 0:
            self.pending = data
            self.push()
        return True

    def keep(self, log: "Log", data: memoryview) -> None:
        """Write output to the log."""
        log.write(data)

    def push(self) -> None:
        """Write pending output, as much as the reader takes."""
        while self.pending is not None:
            part = self.pending[:PIPE_BUF] if self.writes_may_block else self.pending
            try:
                count = os.write(self.twin if self.twin >= 0 else self.sink, part)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.EIO):  # the job itself does not see a full disk
                    self.error = os.strerror(error.errno or 0)
                    warn_once(f"cannot write the output of this job ({self.error}); what is kept of it is in its log")
                self.reader_left()
                return
            self.pending = self.pending[count:] if count < len(self.pending) else None
            if self.writes_may_block:
                return

    def reader_left(self) -> None:
        """Close the stream, so that the next write of the job fails: without a shim it would fail too."""
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


class TerminalStream(Stream):
    """The output of a job on its terminal. Another process holds the master too: see holder.py."""

    held_back = b""  # a carriage return at the end of the last part: a line feed may follow

    def keep(self, log: "Log", data: memoryview) -> None:
        """Write output to the log as the job wrote it: the terminal has put a carriage return before each line feed."""
        text = self.held_back + data
        self.held_back = text[-1:] if text.endswith(b"\r") else b""
        log.write(memoryview(text[: len(text) - len(self.held_back)].replace(b"\r\n", b"\n")))

    def close(self) -> None:
        if self.log is not None and self.held_back:
            self.log.write(memoryview(self.held_back))
            self.held_back = b""
        super().close()

    def reader_left(self) -> None:
        self.drop_sink()
        signal_descendants(os.getpid(), signals.SIGHUP)
        signal_descendants(os.getpid(), signals.SIGCONT)


class Pump:
    """Moves the output of the job; a detached job writes to its logs itself and has no streams."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.error: str | None = None  # why output could not be written to the reader
        self._abandon_at: float | None = None

    def open(self, order: "Order", logs: "JobLogs") -> tuple[int, int]:
        """Open the logs and the streams; return the two descriptors that the job writes to."""
        replaced = {*order["terminal"]["replaced"]} if order["terminal"] is not None else set()
        is_one_copy = not replaced and {1, 2} <= {*order["copied"]} and is_same_file(1, 2)
        files = logs.open("stdout.log") if {1, 2} <= replaced or is_one_copy else logs.open("stdout.log", "stderr.log")
        fds = [self._open_end(order, number + 1, log) for number, log in enumerate(files)]
        logs.are_written_by_job = len(self.streams) < len(fds)
        return fds[0], fds[-1]

    def move(self) -> bool:
        """Move the output that can be moved without waiting; True while a stream is open."""
        for stream in self.streams:
            for _ in range(READS_PER_ROUND):
                if stream.pending is not None:
                    stream.push()
                if stream.pending is not None or stream.source < 0 or not stream.pull():
                    break
        for stream in self.streams:
            if stream.source < 0:
                self.error = self.error or stream.error
        self.streams = [stream for stream in self.streams if stream.source >= 0]
        return bool(self.streams)

    def register(self, poll: "select.poll") -> None:
        """Wait for more output, or for room at the reader."""
        for stream in self.streams:
            if stream.pending is not None:
                poll.register(stream.twin if stream.twin >= 0 else stream.sink, select.POLLOUT)
            elif stream.source >= 0:
                poll.register(stream.source, select.POLLIN)

    def waits_for_reader(self) -> bool:
        return any(stream.pending is not None for stream in self.streams)

    def may_abandon_readers(self, moment: float, is_stop_requested: bool) -> bool:
        """Whether a stopped job has exited long enough ago that its reader is not waited for any longer."""
        if self._abandon_at is None and is_stop_requested:
            self._abandon_at = moment + READER_SECONDS
        return self._abandon_at is not None and moment >= self._abandon_at

    def abandon_readers(self) -> None:
        """Write no more to readers that do not read; the logs still get all output."""
        for stream in self.streams:
            stream.push()
            stream.drop_sink()

    def due_times(self) -> "tuple[float | None, ...]":
        return (self._abandon_at,)

    def _open_end(self, order: "Order", target: int, log: "Log | None") -> int:
        """Open what the job has in place of one of our own descriptors."""
        terminal, is_copied = order["terminal"], target in order["copied"]
        if terminal is not None and target in terminal["replaced"]:
            self.streams.append(TerminalStream(terminal["master"], os.dup(target) if is_copied else -1, log))
            return terminal["slave"]
        if is_copied:
            return self._open_pipe(target, log)
        return log.fd if log is not None and log.fd >= 0 else os.open(os.devnull, os.O_WRONLY)

    def _open_pipe(self, target: int, log: "Log | None") -> int:
        """Open a pipe that leads to the log and to one of our own descriptors; return the end to write to."""
        reader, writer = os.pipe()
        try:
            fcntl.fcntl(writer, F_SETPIPE_SZ, 2 * BUFFER_BYTES)  # fewer context switches for a job with much output
        except OSError:  # not Linux, or this user's allowance for pipes is used up
            pass
        self.streams.append(Stream(reader, os.dup(target), log))
        return writer


def is_same_file(one: int, other: int) -> bool:
    """Whether two descriptors lead to the same place: then one pipe keeps the order of what is written to both."""
    first, second, null = os.fstat(one), os.fstat(other), os.stat(os.devnull)
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino) and first.st_rdev != null.st_rdev
