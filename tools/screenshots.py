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
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from textual._compositor import LayoutUpdate
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import Input, TextArea

from jobtop.tui.app import Console
from jobtop.tui.demo import demo_console
from tools.picture import drawing

FOLDER = Path(__file__).resolve().parent.parent / "screenshots"
MOMENT = 1_773_319_269.0  # 2026-03-12 12:41:09 UTC
SIZES = {"": (160, 42), "-80": (80, 24)}
QUIET_LOOKS, LOOK_SECONDS, DEADLINE_SECONDS = 4, 0.05, 20.0
PNG_ZOOM = "1.5"


@dataclass(frozen=True, slots=True)
class Scene:
    """A screen: the keys that lead to it from the dashboard, and those that lead back."""

    name: str
    keys: tuple[str, ...] = ()
    back: tuple[str, ...] = ("escape", "1")


SCENES = (Scene("dashboard", back=()),)


def main() -> int:
    if "--check" in sys.argv[1:]:
        stale = stale_pictures()
        print(
            "\n".join(f"screenshots/{name}.svg is stale: python -m tools.screenshots makes it anew" for name in stale)
        )
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
    with standing_still():
        return {
            f"{name}{suffix}": picture
            for suffix, size in SIZES.items()
            for name, picture in asyncio.run(performed(size)).items()
        }


@contextmanager
def standing_still() -> Iterator[None]:
    """One moment, in one place."""
    zone = {"TZ": "UTC"}
    with patch.dict(os.environ, zone), patch("time.time", return_value=MOMENT):
        time.tzset()
        yield
    time.tzset()


async def performed(size: tuple[int, int]) -> dict[str, str]:
    """The scenes of one console, one after the other."""
    taken = {}
    with demo_console(now=MOMENT) as console:
        console.animation_level = "none"
        async with console.run_test(size=size) as pilot:
            for scene in SCENES:
                await pilot.press(*scene.keys)
                taken[scene.name] = await picture_of(console, pilot)
                await pilot.press(*scene.back)
    return taken


async def picture_of(console: Console, pilot: Pilot[int]) -> str:
    """The screen, once it has come to rest."""
    end = time.monotonic() + DEADLINE_SECONDS
    before: list[Strip] = []
    quiet = 0
    while quiet < QUIET_LOOKS:
        if time.monotonic() > end:
            raise TimeoutError(f"{console.screen} does not come to rest")
        await pilot.pause(LOOK_SECONDS)
        for field in (*console.screen.query(Input), *console.screen.query(TextArea)):
            field.cursor_blink = False
        rows = painted(console)
        quiet = quiet + 1 if rows == before and console.view is not None else 0
        before = rows
    return drawing([list(row) for row in before], console.size.width, f"jobtop: {console.screen.name}")


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
