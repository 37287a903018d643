"""Writes what the console shows to the terminal: changed cells only, and never more than the terminal can take.

While the terminal is busy with what was written before, newer pictures replace older ones that were not written yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.color import ColorSystem
from textual._compositor import ChopsUpdate, LayoutUpdate

from jobtop.tui.screen_memory import ScreenMemory
from jobtop.tui.terminal_driver import TerminalDriver

if TYPE_CHECKING:
    from textual.app import App

RETRY_SECONDS = 0.02


class TerminalOutput:
    """The way of pictures to the terminal."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._memory: ScreenMemory | None = None
        self._starts = 0
        self._is_waiting = False
        self._cursor: tuple[int, int] | None = None

    def show(self, update: object) -> bool:
        """Write an update of Textual's compositor; False if Textual has to do that itself."""
        driver = self._app._driver
        if not isinstance(driver, TerminalDriver) or not isinstance(update, LayoutUpdate | ChopsUpdate):
            return False
        memory = self._fitting_memory(driver)
        if isinstance(update, LayoutUpdate):
            put_layout(memory, update)
        else:
            put_chops(memory, update)
        self._write()
        return True

    def _fitting_memory(self, driver: TerminalDriver) -> ScreenMemory:
        """The memory of a screen of this size; nothing is known after another program had the terminal."""
        width, height = self._app.size
        memory = self._memory
        if memory is None or (memory.width, memory.height) != (width, height):
            colors = self._app.console._color_system or ColorSystem.TRUECOLOR
            memory = self._memory = ScreenMemory(width, height, colors)
            self._starts = driver.starts
        elif self._starts != driver.starts:
            self._starts = driver.starts
            memory.forget()
        return memory

    def _write(self) -> None:
        """Write what has changed, or wait until the terminal has taken what was written before."""
        app, driver, memory = self._app, self._app._driver, self._memory
        if self._is_waiting or not isinstance(driver, TerminalDriver) or memory is None:
            return
        if not driver.is_idle:
            self._is_waiting = True
            app.set_timer(RETRY_SECONDS, self._write_later)
            return
        changes = memory.changes()
        cursor = app.screen.outer_size.clamp_offset(app.cursor_position)
        if not changes and self._cursor == cursor:
            return
        self._cursor = cursor
        app._begin_update()
        driver.write(f"{changes}\x1b[{cursor.y + 1};{cursor.x + 1}H")
        app._end_update()
        driver.flush()

    def _write_later(self) -> None:
        self._is_waiting = False
        if self._app.is_running:
            self._write()


def put_layout(memory: ScreenMemory, update: LayoutUpdate) -> None:
    """Set the cells of a whole region."""
    for y, line in enumerate(update.strips, update.region.y):
        x = update.region.x
        for strip in line:
            x = memory.put(x, y, strip)


def put_chops(memory: ScreenMemory, update: ChopsUpdate) -> None:
    """Set the cells of parts of lines."""
    for y, x1, x2 in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x <= x2 and end > x1:
                memory.put(x, y, strip, end)
