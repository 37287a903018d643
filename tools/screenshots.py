"""Makes the pictures of the console in screenshots/: every screen, wide and narrow, from the demo at a fixed time.

`.venv/bin/python -m tools.screenshots`; look at the results before committing them. `--check` only lists stale ones.
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
from tools.picture import draw_svg
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
    """Return the names of pictures that are missing or would look different now."""
    return [name for name, picture in pictures().items() if picture != stored_picture(name)]


def stored_picture(name: str) -> str:
    """Return the picture in screenshots/; empty if there is none."""
    file = FOLDER / f"{name}.svg"
    return file.read_text(encoding="utf-8") if file.exists() else ""


def pictures() -> dict[str, str]:
    """Return all pictures by name, as SVG."""
    with fixed_time_and_place(), demo(MOMENT) as made:
        options = of_demo(made, Options((), config=config()))
        return {
            f"{name}{suffix}": picture
            for suffix, size in SIZES.items()
            for name, picture in asyncio.run(take_pictures(Console(options), size)).items()
        }


@contextmanager
def fixed_time_and_place() -> Iterator[None]:
    """Fix the time, the time zone, the working directory and the doctor's findings."""
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


async def take_pictures(console: Console, size: tuple[int, int]) -> dict[str, str]:
    """Show the scenes one after the other; return their pictures."""
    taken = {}
    console.animation_level = "none"
    async with console.run_test(size=size) as pilot:
        await wait_until_stable(console, pilot, HOME_SCREEN)
        for scene in SCENES:
            await scene.navigate(console, pilot)
            rows = await wait_until_stable(console, pilot, scene.screen)
            taken[scene.name] = draw_svg([list(row) for row in rows], size[0], f"jobtop: {scene.name}")
            console.simulate_key(scene.back)
            await wait_until_stable(console, pilot, HOME_SCREEN, looks=0)
    return taken


async def wait_until_stable(console: Console, pilot: Pilot[int], screen: str, looks: int = QUIET_LOOKS) -> list[Strip]:
    """Wait until the wanted screen is shown and unchanged `looks` times; return its rows."""
    end = time.monotonic() + DEADLINE_SECONDS
    before: list[Strip] = []
    quiet = -1
    while quiet < looks:
        if time.monotonic() > end:
            raise TimeoutError(f"{screen} does not become stable: {console.screen} is shown")
        await pilot.pause(LOOK_SECONDS)
        for field in (*console.screen.query(Input), *console.screen.query(TextArea)):
            field.cursor_blink = False
        rows = screen_rows(console)
        is_there = type(console.screen).__name__ == screen and console.view is not None
        is_busy = any(not work.is_finished for work in console.workers) or is_reading_processes(console)
        quiet = quiet + 1 if is_there and not is_busy and (rows == before or not looks) else -1
        before = rows
    return before


def is_reading_processes(console: Console) -> bool:
    """Whether the page shows processes, and none were read yet."""
    feed = console.__dict__.get("process_feed")
    return feed is not None and feed.is_running and feed.now is None


def screen_rows(console: Console) -> list[Strip]:
    """Return the rows of the screen and of screens visible behind it, as Textual's own screenshots do."""
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
