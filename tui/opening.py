"""Opens the console in the terminal we are in, and leaves that as it was, whatever ends the console."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import select
import signal
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from jobtop.core.record import replace
from jobtop.tui.app import Console, Options
from jobtop.tui.palette import TERMINAL, Ascii, Colourless

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
PATIENCE_SECONDS, SETTLING_SECONDS = 3.0, 2.5
# No mouse, no pasting in brackets, no reports of focus and size, wrapped lines, the shell's keys, screen and cursor.
RESET = "".join(f"\x1b[?{mode}l" for mode in (1000, 1003, 1015, 1006, 1016, 2004, 1004, 2048)) + (
    "\x1b[?7h\x1b[<u\x1b[?1049l\x1b[?25h"
)


def fitted(options: Options) -> Options:
    """What this terminal can show: without colours its own theme, which has reverse video; ASCII if it is not UTF-8."""
    is_unicode = "utf" in (sys.stdout.encoding or "").lower()
    theme = TERMINAL.name if "NO_COLOR" in os.environ else options.theme
    return replace(options, theme=theme, is_ascii=options.is_ascii or not is_unicode)


def run_console(console: Console) -> int:
    """Until the user leaves or a signal says so: the exit code. A mistake of ours is raised once all is clean."""
    if not os.isatty(2):  # Textual paints on standard error
        sys.__stderr__ = sys.__stdout__  # type: ignore[misc]
    # Instead of Textual's, which turn the terminal's own colours into others, and colours into greys.
    console._filters = [
        *([Colourless()] if console.no_color else []),
        *([Ascii()] if console.options.is_ascii else []),
    ]
    return Opened(console).run()


def settle() -> None:
    """What was made until now stays, and is never looked through for garbage; what pictures and keys leave, seldom."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


class Opened:
    """A console that runs, and how it is told to end."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._loop: asyncio.AbstractEventLoop | None = None
        self._settings: list[Any] | None = None

    def run(self) -> int:
        with self._kept_terminal(), self._heard_signals():
            code = asyncio.run(self._main())
        if self.console._exception is not None:
            # A mistake of a worker comes wrapped in another, which does not tell where it was made.
            raise getattr(self.console._exception, "error", self.console._exception)
        return code or 0

    async def _main(self) -> int | None:
        self._loop = asyncio.get_running_loop()
        self._loop.call_later(SETTLING_SECONDS, settle)
        return await self.console.run_async()

    @contextmanager
    def _kept_terminal(self) -> Iterator[None]:
        with suppress(termios.error):
            self._settings = termios.tcgetattr(0)
        try:
            yield
        finally:
            self._restore_settings()

    @contextmanager
    def _heard_signals(self) -> Iterator[None]:
        """Signals and the death of a thread end the console as `q` does."""
        before = {number: signal.signal(number, self._told) for number in SIGNALS}
        threading.excepthook = self._thread_died
        try:
            yield
        finally:
            threading.excepthook = threading.__excepthook__
            for number, handler in before.items():
                signal.signal(number, handler)

    def _told(self, number: int, _: FrameType | None = None) -> None:
        """Textual may wait for ever for a terminal that is gone: then we leave without it."""
        code = 128 + number
        if self._loop is None or self._loop.is_closed():
            os._exit(code)
        watchdog = threading.Timer(PATIENCE_SECONDS, self._give_up, (code,))
        watchdog.daemon = True
        watchdog.start()
        with suppress(RuntimeError):  # it has ended by now
            self._loop.call_soon_threadsafe(self.console.exit, code)

    def _thread_died(self, args: threading.ExceptHookArgs) -> None:
        """A terminal that was closed is no mistake of ours."""
        error = args.exc_value
        if isinstance(error, OSError) and error.errno == errno.EIO:
            self._told(signal.SIGHUP)
        elif self._loop is not None and isinstance(error, Exception):
            with suppress(RuntimeError):  # the console has ended
                self._loop.call_soon_threadsafe(self.console._handle_exception, error)

    def _give_up(self, code: int) -> None:
        with suppress(OSError):
            if select.select([], [1], [], 0)[1]:
                os.write(1, RESET.encode())
        self._restore_settings()
        os._exit(code)

    def _restore_settings(self) -> None:
        if self._settings is not None:
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, self._settings)
