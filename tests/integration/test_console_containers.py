"""The console on a real engine: it lists its containers, shows the output of one, records it as a job, and kills it."""

from pathlib import Path

from container_jobs import engine
from engines import RealEngine
from jobtop.core.paths import StatePaths
from jobtop.tui.app import Options
from jobtop.tui.data.containers.source import EngineSource
from jobtop.tui.screens.container.screen import ContainerScreen
from jobtop.tui.screens.job.screen import JobScreen
from jobtop.tui.widgets.tables.processes import ProcessTree
from records import HERE, kept_jobs
from visiting import Visitor, visit

__all__ = ["engine"]

MIB = 1 << 20
LABELS = {"com.docker.compose.project": "shop", "com.docker.compose.service": "web"}
LOOP = "while true; do echo tick; sleep 0.2; done"


def recorded(visitor: Visitor) -> list[str]:
    """The names of the jobs in containers that the console shows."""
    rows = visitor.console.view.rows if visitor.console.view is not None else ()
    return [row.job.name for row in rows if row.job.kind == "container" and not row.job.status.ended]


def test_a_real_container_is_shown_recorded_and_killed(home: Path, engine: RealEngine) -> None:
    kept_jobs(home)
    paths = StatePaths(home, HERE)
    source = EngineSource(engine.env | {"HOME": str(home), "XDG_RUNTIME_DIR": str(home)})

    async def scene(visitor: Visitor) -> None:
        await visitor.press("4", "slash")
        await visitor.type("seen-by-console")
        await visitor.press("enter")
        await visitor.shows("╭─ Containers", "seen-by-console", "shop", "running", "1 of ", f"● {engine.kind}")
        await visitor.press("enter")
        await visitor.until(lambda: isinstance(visitor.console.screen, ContainerScreen))
        await visitor.shows("tick", "● follows", "service shop/web", "limit 64.0 MiB", "started")
        tree = visitor.console.screen.query_one(ProcessTree)
        await visitor.until(lambda: len(tree.source or ()) >= 1)
        await visitor.press("i")
        await visitor.shows('"Id": "')
        await visitor.press("w")
        await visitor.shows(" job ")
        await visitor.until(lambda: recorded(visitor))
        await visitor.press("w")
        await visitor.until(lambda: isinstance(visitor.console.screen, JobScreen))
        await visitor.press("escape")
        await visitor.press("X")
        await visitor.shows("Kill this container?")
        await visitor.press("y")
        await visitor.shows("exited", "exit 137", "exited with code 137")

    with engine.container(
        *("/bin/sh", "-c", LOOP), name="seen-by-console", labels=LABELS, host={"mem_limit": 64 * MIB}
    ):
        visit(home, scene, options=Options([paths.store], own=paths, containers=source))
