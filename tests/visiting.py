"""The user of a console: opens it on a store, presses keys, reads the screen."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from still_processes import StillProcesses
from textual.pilot import Pilot

from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.tui.app import Console, Options
from records import HERE

DEADLINE_SECONDS = 60.0  # on a loaded machine a screen takes seconds; what has to be fast is measured elsewhere


class Visitor:
    """The user of a console: presses keys, and reads the screen."""

    def __init__(self, pilot: Pilot[Any], console: Console) -> None:
        self.pilot, self.console = pilot, console

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def until(self, condition: Callable[[], object], words: str = "") -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, words + "\n" + self.screen()
            await self.pilot.pause(0.03)

    async def shows(self, *texts: str) -> str:
        """The screen, once it shows all of these."""
        await self.until(lambda: all(text in self.screen() for text in texts), f"waited for {texts}")
        return self.screen()

    async def type(self, text: str) -> None:
        for character in text:
            await self.pilot.press("space" if character == " " else character)

    def screen(self) -> str:
        """The text of the screen, line by line."""
        strips = self.console.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips[: self.console.size.height])


def own_store(paths: StatePaths, **values: Any) -> Options:
    """The options of a console that runs jobs in a store of its own."""
    return replace(Options([paths.store], own=paths), **values)


def visit(
    root: Path,
    scene: Callable[[Visitor], Awaitable[None]],
    size: tuple[int, int] = (160, 42),
    options: Options | None = None,
) -> None:
    """Open a console on the store of a state directory, and run the scene with its visitor."""
    paths = StatePaths(root, HERE)
    chosen = options or Options([])
    processes = chosen.processes or StillProcesses()  # to read those of a busy machine takes time
    stores = chosen.stores or [paths.store]
    console = Console(replace(chosen, stores=stores, refresh_seconds=0.2, processes=processes))

    async def perform() -> None:
        async with console.run_test(size=size) as pilot:
            visitor = Visitor(pilot, console)
            await visitor.until(lambda: console.view is not None)
            await scene(visitor)

    asyncio.run(perform())
