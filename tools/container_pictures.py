"""Makes pictures of the container screens from a real Docker engine: screenshots/containers-real*, container-real*.

As root: `.venv/bin/python -m tools.container_pictures`. Look at the results before committing them.
"""

import asyncio
import os
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from jobtop.core.config import load
from jobtop.tui.app import Console, Options
from tools.picture import draw_svg
from tools.screenshots import FOLDER, SIZES, make_png, screen_rows

SECONDS = 45.0  # of curves
BUSY = "i=0; while :; do i=$((i+1)); [ $((i % {})) = 0 ] && sleep 0.05; done"
HOLD = "x=$(head -c {} /dev/zero | tr '\\0' x); while :; do echo \"checkpoint written\"; sleep 1; done"
SHOP = "com.docker.compose.project"
SERVICE = "com.docker.compose.service"
MIB = 1 << 20


def containers() -> list[dict[str, Any]]:
    """What runs in the pictures: names, commands and limits."""
    return [
        made("shop-api-1", BUSY.format(1500), "shop", "api", mem_limit=64 * MIB, nano_cpus=1_500_000_000),
        made("shop-db-1", HOLD.format(24 * MIB), "shop", "db", mem_limit=64 * MIB),
        made("shop-cache-1", HOLD.format(2 * MIB), "shop", "cache", mem_limit=32 * MIB),
        made("metrics-scraper-1", BUSY.format(150), "metrics", "scraper"),
        made("backup", "while :; do date; sleep 2; done"),
    ]


def made(name: str, script: str, project: str | None = None, service: str = "", **host: Any) -> dict[str, Any]:
    labels = {} if project is None else {SHOP: project, SERVICE: service}
    return {"name": name, "command": ("sh", "-c", script), "labels": labels, "host": {"network_mode": "none"} | host}


def main() -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    from engines import own_engine

    with own_engine("docker") as engine, tempfile.TemporaryDirectory() as home:
        os.environ.update(engine.env | {"JOBTOP_HOME": home, "TZ": "UTC"})
        start_containers(engine)
        options = Options((), config=load((), dict(os.environ), Path(home)))
        for suffix, size in SIZES.items():
            for name, picture in asyncio.run(take(Console(options), size)).items():
                (FOLDER / f"{name}-real{suffix}.svg").write_text(picture, encoding="utf-8")
                make_png(f"{name}-real{suffix}")
    return 0


def start_containers(engine: Any) -> None:
    """Start the containers; the end of their engine removes them."""
    for one in containers():
        started = engine.create(*one["command"], name=one["name"], host=one["host"], labels=one["labels"])
        with closing(engine.api()) as api:
            api.start(started)


async def take(console: Console, size: tuple[int, int]) -> dict[str, str]:
    """The list after a while, and the first container of the list."""
    console.animation_level = "none"
    taken = {}
    async with console.run_test(size=size) as pilot:
        console.simulate_key("4")
        await pilot.pause(SECONDS)
        console.simulate_key("down")
        await pilot.pause(1.5)
        taken["containers"] = draw_svg([list(row) for row in screen_rows(console)], size[0], "jobtop: containers")
        console.simulate_key("enter")
        await pilot.pause(6.0)
        taken["container"] = draw_svg([list(row) for row in screen_rows(console)], size[0], "jobtop: container")
    return taken


if __name__ == "__main__":
    sys.exit(main())
