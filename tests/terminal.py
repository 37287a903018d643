"""A real terminal with a shell in it, driven as a person would: tmux on a socket of its own."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import Jobtop, require

PROMPT = "ready>"
DEADLINE = 20.0


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
    """A terminal whose shell has jobtop's environment; gone at the end of the block."""
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
