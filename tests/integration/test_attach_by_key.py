"""A process that already runs becomes a job by a key of the Processes page."""

import subprocess

import pytest

from jobtop.core.paths import StatePaths
from jobtop.tui.data.processes.feed import MachineSource
from jobtop.tui.screens.processes import Processes
from records import HERE
from running import nothing_is_left
from support import Jobtop, wait_for
from visiting import Visitor, own_store, visit

__all__ = ["nothing_is_left"]


def test_a_process_becomes_a_job_and_the_page_says_which(jobtop: Jobtop, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in jobtop.env.items():
        monkeypatch.setenv(name, value)
    paths = StatePaths(jobtop.state, HERE)
    with subprocess.Popen(["sleep", "611"]) as sleeper:

        async def scene(visitor: Visitor) -> None:
            await visitor.press("8")
            await visitor.shows(" processes · sort")
            await visitor.press("slash")
            await visitor.type(str(sleeper.pid))
            await visitor.press("enter")
            await visitor.shows("1 of ", "sleep 611")
            await visitor.press("a")
            page = visitor.console.screen
            assert isinstance(page, Processes)
            await visitor.until(lambda: page.chosen_job is not None, "the job of the process")
            await visitor.press("a")
            await visitor.until(
                lambda: any("already belongs" in notice.message for notice in visitor.console._notifications)
            )

        try:
            visit(paths.root, scene, (160, 42), own_store(paths, processes=MachineSource()))
            wait_for(lambda: '"status":"running"' in jobtop("history", "--json").stdout.replace(" ", ""))
        finally:
            sleeper.kill()
    wait_for(lambda: '"running"' not in jobtop("history", "--json").stdout)
