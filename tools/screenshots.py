"""Makes the pictures of the console in screenshots/: every screen, wide and narrow, from the demo at a fixed moment.

`.venv/bin/python -m tools.screenshots`, and look at what came out; `--check` only says which are stale.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from textual._compositor import LayoutUpdate
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import Input, TextArea

from jobtop.tui.app import Console, Options
from jobtop.tui.demo.demo import demo, of_demo
from tools.picture import drawing
from tools.scenes import DOCTOR, HOME, SCENES, config

FOLDER = Path(__file__).resolve().parent.parent / "screenshots"
MOMENT = 1_773_319_269.0  # 2026-03-12 12:41:09 UTC
SIZES = {"": (160, 42), "-80": (80, 24)}
HOME_SCREEN = "Dashboard"
QUIET_LOOKS, LOOK_SECONDS, DEADLINE_SECONDS = 1, 0.05, 60.0
PNG_ZOOM = "1"


def main() -> int:
    if "--check" in sys.argv[1:]:
        stale = stale_pictures()
        for name in stale:
            print(f"stale: screenshots/{name}.svg; run python -m tools.screenshots", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for name, picture in pictures().items():
        (FOLDER / f"{name}.svg").write_text(picture, encoding="utf-8")
        make_png(name)
    return 0


def stale_pictures() -> list[str]:
    """The names of those that look different now, or are not there."""
    return [name for name, picture in pictures().items() if picture != kept(name)]


def kept(name: str) -> str:
    """The picture as it was last made; empty if it never was."""
    file = FOLDER / f"{name}.svg"
    return file.read_text(encoding="utf-8") if file.exists() else ""


def pictures() -> dict[str, str]:
    """All of them by name, as SVG."""
    with standing_still(), demo(MOMENT) as made:
        options = of_demo(made, Options((), config=config()))
        return {
            f"{name}{suffix}": picture
            for suffix, size in SIZES.items()
            for name, picture in asyncio.run(performed(Console(options), size)).items()
        }


@contextmanager
def standing_still() -> Iterator[None]:
    """One moment, in one place."""
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TZ": "UTC"}
    try:
        with (
            patch.dict(os.environ, environment, clear=True),
            patch("time.time", return_value=MOMENT),
            patch("os.getcwd", return_value=str(HOME / "vision")),
            patch("jobtop.tui.screens.settings.examine", return_value=DOCTOR),
        ):
            time.tzset()
            yield
    finally:
        time.tzset()


async def performed(console: Console, size: tuple[int, int]) -> dict[str, str]:
    """The scenes, one after the other."""
    taken = {}
    console.animation_level = "none"
    async with console.run_test(size=size) as pilot:
        await come_to_rest(console, pilot, HOME_SCREEN)
        for scene in SCENES:
            await scene.way(console, pilot)
            rows = await come_to_rest(console, pilot, scene.screen)
            taken[scene.name] = drawing([list(row) for row in rows], size[0], f"jobtop: {scene.name}")
            console.simulate_key(scene.back)
            await come_to_rest(console, pilot, HOME_SCREEN, looks=0)
    return taken


async def come_to_rest(console: Console, pilot: Pilot[int], screen: str, looks: int = QUIET_LOOKS) -> list[Strip]:
    """What the screen shows, once it is the one that is meant and the same so many times."""
    end = time.monotonic() + DEADLINE_SECONDS
    before: list[Strip] = []
    quiet = -1
    while quiet < looks:
        if time.monotonic() > end:
            raise TimeoutError(f"{screen} does not come to rest: {console.screen} is shown")
        await pilot.pause(LOOK_SECONDS)
        for field in (*console.screen.query(Input), *console.screen.query(TextArea)):
            field.cursor_blink = False
        rows = painted(console)
        is_there = type(console.screen).__name__ == screen and console.view is not None
        is_busy = any(not work.is_finished for work in console.workers)
        quiet = quiet + 1 if is_there and not is_busy and (rows == before or not looks) else -1
        before = rows
    return before


def painted(console: Console) -> list[Strip]:
    """The screen with what shines through behind it, as Textual's own screenshots take it."""
    behind = console._background_screens
    update = console.screen._compositor.render_update(full=True, screen_stack=behind, simplify=True)
    assert isinstance(update, LayoutUpdate)
    return [Strip.join(strips).simplify() for strips in update.strips]


def make_png(name: str) -> None:
    if shutil.which("rsvg-convert") is None:
        return
    source, target = (str(FOLDER / f"{name}.{kind}") for kind in ("svg", "png"))
    subprocess.run(["rsvg-convert", "-z", PNG_ZOOM, source, "-o", target], check=True)


if __name__ == "__main__":
    sys.exit(main())
