"""A real terminal with a shell in it, driven as a person would: tmux on a socket of its own. And the bytes of one."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.cells import cell_len

from benchmarks.display import Display, TerminalScreen, display
from support import Jobtop, require, wait_for

PROMPT = "ready>"
DEADLINE = 20.0
BOXES = (tuple("╭╮╰╯│"), tuple("┏┓┗┛┃"))
CORNERS = frozenset("╭╮╰╯┏┓┗┛")


class Terminal:
    """One pane of 80 × 24 with an interactive bash; `$J` is jobtop."""

    def __init__(self, socket: str, env: Mapping[str, str], directory: Path) -> None:
        self.socket, self.env = socket, env
        settings = Path(f"{socket}.rc")
        settings.write_text(f"PS1='{PROMPT} '\nunset HISTFILE\n")
        self.tmux(
            *("-f", os.devnull, "new-session", "-d", "-x", "80", "-y", "24", "-c", str(directory)),
            f"exec bash --noprofile --rcfile {settings} -i",
        )
        self.shows(PROMPT)

    def tmux(self, *args: str) -> str:
        command = ["tmux", "-S", self.socket, *args]
        return subprocess.run(command, env=self.env, check=True, capture_output=True, encoding="utf-8").stdout

    def type(self, text: str) -> None:
        """Exactly these characters, no Enter."""
        self.tmux("send-keys", "-l", "--", text)

    def enter(self, line: str) -> None:
        self.type(line)
        self.press("Enter")

    def press(self, *keys: str) -> None:
        """Keys by tmux's names: C-c, Enter, Space."""
        self.tmux("send-keys", *keys)

    def click(self, x: int, y: int, times: int = 1) -> None:
        """The left button on a cell, counted from 0, as a terminal reports it (SGR)."""
        self.type(f"\x1b[<0;{x + 1};{y + 1}M\x1b[<0;{x + 1};{y + 1}m" * times)

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def shows(self, text: str, deadline: float = DEADLINE) -> str:
        """The screen, once it shows this."""
        return self.until(lambda screen: text in screen, repr(text), deadline)

    def until(self, holds: Callable[[str], bool], words: str, deadline: float = DEADLINE) -> str:
        """The screen, once this holds of it; the screen is the failure if it never does."""
        end = time.monotonic() + deadline
        while not holds(screen := self.screen()):
            if time.monotonic() > end:
                pytest.fail(f"the terminal did not come to {words}:\n{screen}")
            time.sleep(0.02)
        return screen

    def back_at_prompt(self) -> None:
        """Wait until the shell waits for a command."""
        self.until(lambda screen: screen.rstrip().endswith(PROMPT), "its prompt")

    def becomes_raw(self) -> None:
        """Wait until keys go through as they are: a run with --pty has taken over."""
        tty = self.tmux("display-message", "-p", "#{pane_tty}").strip()
        settings = ["stty", "-a", "-F", tty]
        self.until(lambda _: b"-isig" in subprocess.run(settings, check=True, capture_output=True).stdout, "raw mode")

    def resize(self, columns: int, lines: int) -> None:
        self.tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def shell(self) -> int:
        """The pid of the shell."""
        return int(self.tmux("display-message", "-p", "#{pane_pid}"))

    def close_window(self) -> None:
        """What closing a terminal's window does: its processes are hung up."""
        self.tmux("kill-pane")


@contextmanager
def terminal(jobtop: Jobtop) -> Iterator[Terminal]:
    """A terminal with a shell in jobtop's environment; closed at the end of the block."""
    if shutil.which("tmux") is None:
        require("tmux", "tmux is not installed")
    env = {**jobtop.env, "J": " ".join(jobtop.command()), "TERM": "xterm"}
    for key in ("TMUX", "LINES", "COLUMNS"):
        env.pop(key, None)
    # The path of a socket is at most 107 bytes long, and pytest's directories are deep.
    with tempfile.TemporaryDirectory(prefix="jobtop-") as folder:
        socket = f"{folder}/tmux"
        try:
            yield Terminal(socket, env, jobtop.home)
        finally:
            subprocess.run(["tmux", "-S", socket, "kill-server"], env=env, capture_output=True)


class Recorder(TerminalScreen):
    """A screen that also keeps every byte."""

    def __init__(self, columns: int, lines: int) -> None:
        super().__init__(columns, lines)
        self.written = b""

    def feed(self, data: bytes) -> None:
        self.written += data
        super().feed(data)


@contextmanager
def recorded(
    command: Sequence[str], env: Mapping[str, str], size: tuple[int, int] = (100, 30)
) -> Iterator[tuple[Display, Recorder]]:
    """A program on a bare pseudo-terminal, and all it writes there."""
    with display(command, env, *size) as shown:
        shown.screen = recorder = Recorder(*size)
        yield shown, recorder


def ended(shown: Display) -> int:
    """The exit code, once it has ended and all it wrote was taken."""

    def is_over() -> bool:
        shown.watch(0.01)
        return shown.process.poll() is not None

    wait_for(is_over)
    shown.watch(0.01)
    return shown.process.returncode


def broken_boxes(screen: str) -> list[str]:
    """Corners of panes with a box that does not close: something lies over it, or a line is too long or too short."""
    rows = [cells(line) for line in screen.splitlines()]
    width = max(map(len, rows), default=0)
    rows = [row + [" "] * (width - len(row)) for row in rows]
    corners = {(x, y) for y, row in enumerate(rows) for x, character in enumerate(row) if character in CORNERS}
    whole = {corner for x, y in corners for corner in box_at(rows, x, y)}
    return [f"{rows[y][x]} in line {y + 1}, column {x + 1}" for x, y in sorted(corners - whole)]


def box_at(rows: list[list[str]], x: int, y: int) -> list[tuple[int, int]]:
    """The corners of the box with its upper left one here; none if it is not whole."""
    for upper_left, upper_right, lower_left, lower_right, side in BOXES:
        if rows[y][x] != upper_left:
            continue
        right = next((other for other in range(x + 1, len(rows[y])) if rows[y][other] in CORNERS), x)
        bottom = next((other for other in range(y + 1, len(rows)) if rows[other][x] != side), y)
        found = rows[y][right], rows[bottom][x], rows[bottom][right]
        is_closed = all(rows[other][right] == side for other in range(y + 1, bottom))
        if found == (upper_right, lower_left, lower_right) and is_closed:
            return [(x, y), (right, y), (x, bottom), (right, bottom)]
    return []


def cells(line: str) -> list[str]:
    """One entry a cell: a wide character is followed by an empty one."""
    return [part for character in line for part in (character, *[""] * (cell_len(character) - 1))]
