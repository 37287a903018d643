"""Runs the console in the current terminal, and restores the terminal however the console ends."""

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
EXIT_PATIENCE_SECONDS, GARBAGE_DELAY_SECONDS = 3.0, 2.5
# Turn off mouse, bracketed paste, focus and size reports; restore line wrap, keyboard mode, main screen and cursor.
RESET = "".join(f"\x1b[?{mode}l" for mode in (1000, 1003, 1015, 1006, 1016, 2004, 1004, 2048)) + (
    "\x1b[?7h\x1b[<u\x1b[?1049l\x1b[?25h"
)


def options_for_terminal(options: Options) -> Options:
    """The options for this terminal: with NO_COLOR the theme that needs no colours, ASCII if it is not UTF-8."""
    is_unicode = "utf" in (sys.stdout.encoding or "").lower()
    theme = TERMINAL.name if "NO_COLOR" in os.environ else options.theme
    return replace(options, theme=theme, is_ascii=options.is_ascii or not is_unicode)


def run_console(console: Console) -> int:
    """Run the console until the user or a signal ends it; return the exit code. Exceptions are raised at the end."""
    if not os.isatty(2):  # Textual writes to standard error
        sys.__stderr__ = sys.__stdout__  # type: ignore[misc]
    # Textual's own filters would replace the terminal's colours, and turn colours into greys.
    console._filters = [
        *([Colourless()] if console.no_color else []),
        *([Ascii()] if console.options.is_ascii else []),
    ]
    return RunningConsole(console).run()


def tune_garbage_collection() -> None:
    """Keep all objects made so far out of garbage collection, and collect younger ones rarely."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


class RunningConsole:
    """A running console, and the ways to end it."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._loop: asyncio.AbstractEventLoop | None = None
        self._terminal_settings: list[Any] | None = None

    def run(self) -> int:
        with self._terminal_restored(), self._signals_handled():
            code = asyncio.run(self._main())
        if self.console._exception is not None:
            # Textual wraps an exception of a worker in another one, without the place that raised it.
            raise getattr(self.console._exception, "error", self.console._exception)
        return code or 0

    async def _main(self) -> int | None:
        self._loop = asyncio.get_running_loop()
        self._loop.call_later(GARBAGE_DELAY_SECONDS, tune_garbage_collection)
        return await self.console.run_async()

    @contextmanager
    def _terminal_restored(self) -> Iterator[None]:
        with suppress(termios.error):
            self._terminal_settings = termios.tcgetattr(0)
        try:
            yield
        finally:
            self._restore_settings()

    @contextmanager
    def _signals_handled(self) -> Iterator[None]:
        """End the console on a signal or when a thread dies, in the same way as `q` does."""
        before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        threading.excepthook = self._thread_died
        try:
            yield
        finally:
            threading.excepthook = threading.__excepthook__
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _: FrameType | None = None) -> None:
        """Ask the console to exit; after a while exit without it: Textual may wait for ever if the terminal is gone."""
        code = 128 + number
        if self._loop is None or self._loop.is_closed():
            os._exit(code)
        watchdog = threading.Timer(EXIT_PATIENCE_SECONDS, self._give_up, (code,))
        watchdog.daemon = True
        watchdog.start()
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self.console.exit, code)

    def _thread_died(self, args: threading.ExceptHookArgs) -> None:
        """Report an exception that ended a thread; EIO means only that the terminal was closed."""
        error = args.exc_value
        if isinstance(error, OSError) and error.errno == errno.EIO:
            self._on_signal(signal.SIGHUP)
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
        if self._terminal_settings is not None:
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, self._terminal_settings)
