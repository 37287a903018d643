"""Runs a program in a pseudo-terminal: what its screen shows, how soon after a key, and what it costs."""

import codecs
import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.report import MeasurementError

DEADLINE_SECONDS = 60.0
END_SECONDS = 10.0
CHUNK_BYTES = 65536
TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
# Escape sequences with parameters, with text, of two characters; line ends; printed text.
TOKEN = re.compile(
    r"\x1b\[[0-9;:?<>=]*[ -/]*[@-~]|\x1b[\]P_^][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[^\[\]P_^]|[\r\n]|[^\x1b\r\n]+"
)
MOVE = re.compile(r"\x1b\[(\d*)(?:;(\d*))?H")
FORWARD = re.compile(r"\x1b\[(\d*)C")


class TerminalScreen:
    """The cells of a terminal; understands only cursor movement and printing, as full-screen programs use."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self.rows = [[" "] * columns for _ in range(lines)]
        self._x = self._y = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes) -> None:
        text = self._rest + self._decoder.decode(data)
        end_program = 0
        for match in TOKEN.finditer(text):
            if match.start() != end_program:
                break  # an incomplete sequence
            end_program = match.end()
            self._apply(match[0])
        self._rest = text[end_program:]

    def text(self) -> str:
        return "\n".join("".join(row) for row in self.rows)

    def _apply(self, token: str) -> None:
        if token == "\r":
            self._x = 0
        elif token == "\n":
            self._y = min(self._y + 1, self.lines - 1)
        elif token[0] != "\x1b":
            row = self.rows[self._y]
            row[self._x : self._x + len(token)] = token
            del row[self.columns :]
            self._x = min(self._x + len(token), self.columns)
        elif (move := MOVE.fullmatch(token)) is not None:
            self._y = min(int(move[1] or 1), self.lines) - 1
            self._x = min(int(move[2] or 1), self.columns) - 1
        elif (move := FORWARD.fullmatch(token)) is not None:
            self._x = min(self._x + int(move[1] or 1), self.columns - 1)


class Display:
    """A running program, its terminal and its screen."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int, screen: TerminalScreen, began: float) -> None:
        self.process, self.fd, self.screen, self.began = process, fd, screen, began
        self.bytes_received = 0

    def press(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def until(
        self, condition: Callable[[TerminalScreen], bool], description: str, seconds: float = DEADLINE_SECONDS
    ) -> float:
        """Read until the condition holds for the screen; return that time."""
        end_program = time.perf_counter() + seconds
        while not condition(self.screen):
            if not self._read(end_program - time.perf_counter()):
                raise MeasurementError(f"the screen never showed {description}:\n{self.screen.text()}")
        return time.perf_counter()

    def watch(self, seconds: float) -> None:
        """Read all output for some time, as a terminal does."""
        end_program = time.perf_counter() + seconds
        while (left := end_program - time.perf_counter()) > 0:
            self._read(left)

    def cpu_seconds(self) -> float:
        """Return the CPU time of the program so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK_SECONDS

    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]

    def _read(self, seconds: float) -> bool:
        """Read the next output; return False if there is none."""
        if not select.select([self.fd], [], [], max(0.0, seconds))[0]:
            return False
        try:
            data = os.read(self.fd, CHUNK_BYTES)
        except OSError:  # EIO: the other end was closed
            return False
        self.bytes_received += len(data)
        self.screen.feed(data)
        return bool(data)


@contextmanager
def display(command: Sequence[str], env: Mapping[str, str], columns: int = 160, lines: int = 42) -> Iterator[Display]:
    """Run a program on a terminal of this size; it is ended when the block ends."""
    settings = {**env, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    ours, its = os.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    began = time.perf_counter()
    process = subprocess.Popen(command, env=settings, stdin=its, stdout=its, stderr=its, start_new_session=True)
    os.close(its)
    running = Display(process, ours, TerminalScreen(columns, lines), began)
    try:
        yield running
    finally:
        end_program(running)


def end_program(running: Display) -> None:
    """Terminate the program, and kill it if it does not exit."""
    process = running.process
    process.terminate()
    limit = time.monotonic() + END_SECONDS
    while process.poll() is None:
        running.watch(0.02)
        if time.monotonic() > limit:
            process.kill()
            process.wait()
    os.close(running.fd)
