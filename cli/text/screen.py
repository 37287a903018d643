"""Paints pages in place on a terminal's alternate screen, and restores the previous content afterwards."""

import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"  # no cursor, no line wrap
HOME, CLEAR_LINE, CLEAR_REST = "\x1b[H", "\x1b[K", "\x1b[J"
LONGEST_WAIT_SECONDS = 3600.0


def can_paint() -> bool:
    """Return whether standard output is a terminal with cursor control."""
    return os.isatty(1) and os.environ.get("TERM", "dumb") != "dumb"


class Screen:
    """A context manager that enters the alternate screen and always leaves it; keys come from standard input."""

    def __enter__(self) -> Self:
        self._wakeup_read, self._wakeup_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._previous_wakeup = signal.set_wakeup_fd(self._wakeup_write, warn_on_full_buffer=False)
        self._handlers: dict[int, Any] = {
            signal.SIGTERM: signal.signal(signal.SIGTERM, _exit),
            signal.SIGWINCH: signal.signal(signal.SIGWINCH, _ignore),
            signal.SIGTSTP: signal.signal(signal.SIGTSTP, _ignore),
        }
        self._keys = [0] if os.isatty(0) else []
        self._terminal_settings: list[Any] | None = None
        self._page: Callable[[int], Sequence[str]] | None = None
        self._enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_wakeup)
        os.close(self._wakeup_read)
        os.close(self._wakeup_write)

    def paint(self, page: Callable[[int], Sequence[str]]) -> None:
        """Paint the lines that `page` returns for the terminal's width; the last line says how many do not fit."""
        self._page = page
        size = shutil.get_terminal_size()
        lines = page(size.columns)
        if len(lines) > size.lines:
            lines = [*lines[: size.lines - 1], f"… {len(lines) - size.lines + 1} more"[: size.columns]]
        # Clear each line before writing it: at the end of a full line, clearing would erase its last character.
        below = "\n" + CLEAR_REST if len(lines) < size.lines else ""
        self._write(HOME + "\n".join(CLEAR_LINE + line for line in lines) + below)

    def wait(self, seconds: float, descriptors: Sequence[int] = ()) -> bool:
        """Wait for the time or for a readable descriptor; return True if q was pressed or the terminal is gone."""
        due = time.monotonic() + seconds
        poll = select.poll()
        for descriptor in (self._wakeup_read, *self._keys, *descriptors):
            poll.register(descriptor, select.POLLIN)
        while True:
            left = min(max(0.0, due - time.monotonic()), LONGEST_WAIT_SECONDS)
            ready = {descriptor for descriptor, _ in poll.poll(1000 * left)}
            if self._wakeup_read in ready:
                self._handle_signals(os.read(self._wakeup_read, 4096))
            if ready.intersection(self._keys) and self._wants_to_leave():
                return True
            if ready.intersection(descriptors) or time.monotonic() >= due:
                return False

    def _handle_signals(self, signals: bytes) -> None:
        """Repaint after a change of size; on Ctrl-Z leave the screen, stop, and enter it again after `fg`."""
        if signal.SIGTSTP in signals:
            self._leave()
            os.kill(os.getpid(), signal.SIGSTOP)
            self._enter()
        if self._page is not None:
            self.paint(self._page)

    @staticmethod
    def _wants_to_leave() -> bool:
        try:
            keys = os.read(0, 4096)
        except OSError:
            return True
        return not keys or b"q" in keys.lower()

    def _enter(self) -> None:
        if self._keys:
            import termios
            import tty

            self._terminal_settings = termios.tcgetattr(0)
            tty.setcbreak(0, termios.TCSADRAIN)
        self._write(ENTER + HOME + CLEAR_REST)

    def _leave(self) -> None:
        self._write(HOME + CLEAR_REST + LEAVE)
        if self._terminal_settings is not None:
            import termios

            termios.tcsetattr(0, termios.TCSADRAIN, self._terminal_settings)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _exit(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _ignore(number: int, _: FrameType | None) -> None:
    """Do nothing: `wait` reads the signal from the wakeup descriptor."""
