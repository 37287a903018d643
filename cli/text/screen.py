"""Pages painted in place on a terminal's alternate screen; what was on it before is there again afterwards."""

import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"  # and no cursor, no wrapped lines
HOME, CLEAR_LINE, CLEAR_REST = "\x1b[H", "\x1b[K", "\x1b[J"
LONGEST_WAIT_SECONDS = 3600.0


def is_screen() -> bool:
    """Whether standard output is a terminal that can be painted on."""
    return os.isatty(1) and os.environ.get("TERM", "dumb") != "dumb"


class Screen:
    """The alternate screen, from `with` to its end, whatever ends it; keys come from standard input."""

    def __enter__(self) -> Self:
        self._signals, self._told = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._wakeup = signal.set_wakeup_fd(self._told, warn_on_full_buffer=False)
        self._handlers: dict[int, Any] = {
            signal.SIGTERM: signal.signal(signal.SIGTERM, _end),
            signal.SIGWINCH: signal.signal(signal.SIGWINCH, _wake),
            signal.SIGTSTP: signal.signal(signal.SIGTSTP, _wake),
        }
        self._keys = [0] if os.isatty(0) else []
        self._settings: list[Any] | None = None
        self._page: Callable[[int], Sequence[str]] | None = None
        self._take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._signals)
        os.close(self._told)

    def paint(self, page: Callable[[int], Sequence[str]]) -> None:
        """The lines for so many columns, from the top; how many do not fit is said in the last one."""
        self._page = page
        size = shutil.get_terminal_size()
        lines = page(size.columns)
        if len(lines) > size.lines:
            lines = [*lines[: size.lines - 1], f"… {len(lines) - size.lines + 1} more"[: size.columns]]
        # Clearing comes first: at the end of a full line it would take the last character.
        below = "\n" + CLEAR_REST if len(lines) < size.lines else ""
        self._write(HOME + "\n".join(CLEAR_LINE + line for line in lines) + below)

    def wait(self, seconds: float, others: Sequence[int] = ()) -> bool:
        """Until the time is over or another descriptor has news; whether q was pressed or the terminal is gone."""
        due = time.monotonic() + seconds
        poll = select.poll()
        for descriptor in (self._signals, *self._keys, *others):
            poll.register(descriptor, select.POLLIN)
        while True:
            left = min(max(0.0, due - time.monotonic()), LONGEST_WAIT_SECONDS)
            ready = {descriptor for descriptor, _ in poll.poll(1000 * left)}
            if self._signals in ready:
                self._heed(os.read(self._signals, 4096))
            if ready.intersection(self._keys) and self._is_told_to_leave():
                return True
            if ready.intersection(others) or time.monotonic() >= due:
                return False

    def _heed(self, signals: bytes) -> None:
        """Another size; or Ctrl-Z, as for any other program, and all is back after `fg`."""
        if signal.SIGTSTP in signals:
            self._give_back()
            os.kill(os.getpid(), signal.SIGSTOP)
            self._take()
        if self._page is not None:
            self.paint(self._page)

    @staticmethod
    def _is_told_to_leave() -> bool:
        try:
            keys = os.read(0, 4096)
        except OSError:
            return True
        return not keys or b"q" in keys.lower()

    def _take(self) -> None:
        if self._keys:
            import termios
            import tty

            self._settings = termios.tcgetattr(0)
            tty.setcbreak(0, termios.TCSADRAIN)
        self._write(ENTER + HOME + CLEAR_REST)

    def _give_back(self) -> None:
        self._write(HOME + CLEAR_REST + LEAVE)
        if self._settings is not None:
            import termios

            termios.tcsetattr(0, termios.TCSADRAIN, self._settings)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _end(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _wake(number: int, _: FrameType | None) -> None:
    """What has to be done is done where we wait."""
