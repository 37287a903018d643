"""The pages Settings and Alerts show what there is, and say what is missing, on any screen size."""

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from textual.containers import Vertical

from jobtop.core.config import Config, load
from jobtop.core.doctor.checks import Finding, State
from jobtop.core.model import Job, Status
from jobtop.core.paths import StatePaths
from jobtop.tui.app import PAGES, NewView, Options
from jobtop.tui.data.view import StoreState
from jobtop.tui.keymap import read_keys
from jobtop.tui.page import TopLine
from jobtop.tui.screens import settings
from jobtop.tui.screens.settings import SettingsPage
from jobtop.tui.widgets.problem_line import ProblemLine
from records import HERE, call, kept_jobs, made_job
from stage import Performance, play
from visiting import Visitor, visit

NARROW, SMALLEST, WIDE = (80, 24), (60, 15), (160, 42)
FOUND = {
    "Running jobs": [Finding("shim", State.WORKS, "a command runs"), Finding("logout", State.ABSENT, "no logind")],
    "Sampling": [
        Finding("hidepid", State.FAILS, "[/b] cannot be seen \x1b[31m", "as root: mount -o remount,hidepid=0 /proc")
    ],
}


def configured(*sets: str, text: str = "") -> Config:
    """The configuration from the environment of the fixture `home` and a file in its home."""
    directory = Path(os.environ["HOME"]) / ".config/jobtop"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.toml").write_text(text)
    return load(sets, os.environ, directory, root=directory)


def options(config: Config) -> Options:
    return Options([], config=config, keys=read_keys(config.keys))


def failed(name: str, seconds_ago: float, **values: Any) -> Job:
    ended = time.time() - seconds_ago
    values = {"status": Status.FAILED, "exit_code": 3, "reason": "exit code 3", **values}
    return made_job(name=name, start_time=ended - 2, end_time=ended, **values)


def test_a_view_may_come_while_a_page_opens(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its top line is there then, and its panes are not yet."""
    kept_jobs(home, made_job(name="early"))
    monkeypatch.setattr(settings, "examine", lambda *_: {})
    mount_now = Vertical.mount_composed_widgets

    async def scene(visitor: Visitor) -> None:
        console, panes_may_come = visitor.console, asyncio.Event()

        async def mount_later(self: Vertical, widgets: list[Any]) -> None:
            await panes_may_come.wait()
            await mount_now(self, widgets)

        assert console.view is not None
        for name in sorted(PAGES.keys() - {"dashboard"}):
            panes_may_come.clear()
            with monkeypatch.context() as patched:
                patched.setattr(Vertical, "mount_composed_widgets", mount_later)
                opening = asyncio.create_task(console.action_go(name))
                await visitor.until(lambda name=name: name in console.pages and console.pages[name].query(TopLine))  # type: ignore[misc]
                try:
                    assert not console.pages[name].query("#body > *")
                    console.on_new_view(NewView(console.view))
                finally:
                    panes_may_come.set()
                await opening
            assert console.pages[name].query_one(TopLine).view is not None, "it is shown once they are there"

    visit(home, scene)


def test_the_settings_ask_the_doctor_what_the_verb_asks(home: Path) -> None:
    said = json.loads(call("doctor", "--json").stdout)

    async def scene(visitor: Visitor) -> None:
        await visitor.press("6")
        page = visitor.console.screen
        assert isinstance(page, SettingsPage)
        await visitor.until(lambda: page.topics)
        assert page.topics is not None
        found = [(finding.name, str(finding.state)) for group in page.topics.values() for finding in group]
        asked = [(row["name"], row["state"]) for row in said if row["name"] != "UTF-8"]
        assert [row for row in found if row[0] != "UTF-8"] == asked
        await visitor.shows("Running jobs", "✓ shim", "Doctor · ")

    visit(home, scene, options=options(configured()))


@pytest.mark.parametrize("size", [SMALLEST, WIDE], ids=str)
def test_the_doctor_shows_failures_with_remedies_and_can_be_asked_again(
    home: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    looks: list[StatePaths] = []

    def examined(paths: StatePaths, network: bool | None, encoding: str) -> dict[str, list[Finding]]:
        looks.append(paths)
        return FOUND

    monkeypatch.setattr(settings, "examine", examined)
    kept_jobs(home)

    async def scene(visitor: Visitor) -> None:
        await visitor.press("6")
        screen = await visitor.shows(
            "✗ hidepid", "[/b] cannot be seen \\x1b[31m", "1 OK", "1 failed", "1 not available"
        )
        assert "→ as root: mount -o" in screen
        assert "remount,hidepid=0 /proc" in screen
        assert looks == [StatePaths(home, HERE)]
        await visitor.press("r")
        await visitor.until(lambda: len(looks) == 2)

    visit(home, scene, size, options(configured()))


def test_every_setting_is_there_with_its_value_its_origin_and_what_it_is_for(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "examine", lambda *_: FOUND)

    async def scene(visitor: Visitor) -> None:
        await visitor.press("6")
        screen = await visitor.shows("run.grace")
        rows = [
            line[line.index("│", 40) :] for line in screen.splitlines() if "run.grace" in line or "store.dir" in line
        ]
        assert rows[0].split()[1:4] == ["run.grace", "77s", "--set"]
        assert "JOBTOP_HOME" in rows[1]
        await visitor.press("tab", "down")
        await visitor.shows(settings.DOCS["monitor.interval"][:30])
        await visitor.press("G")
        await visitor.shows("cost.gpu_hour")

    visit(home, scene, options=options(configured("run.grace=77s")))


def test_keys_are_shown_as_remapped_and_clashes_are_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "examine", lambda *_: FOUND)
    config = configured(text='[keys]\n"jobs.kill" = "K"\n"app.quit" = "s"\n')

    async def scene(visitor: Visitor) -> None:
        await visitor.press("6", "tab", "tab", "pagedown")
        for _ in range(50):
            if "app.quit" in visitor.screen():
                break
            await visitor.press("down")
        await visitor.shows("s  ", "s is also table.sort")
        rows = [line for line in visitor.screen().splitlines() if "app.quit" in line]
        assert "s is also table.sort" in rows[0]
        await visitor.press("G")
        await visitor.until(lambda: "help.close" in visitor.screen())

    visit(home, scene, options=options(config))


def test_on_a_narrow_screen_the_pane_with_the_focus_is_open(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "examine", lambda *_: FOUND)

    async def scene(visitor: Visitor) -> None:
        await visitor.press("6")
        await visitor.shows("✓ shim", "─Settings─", "─Keys─")
        assert "monitor.enabled" not in visitor.screen()
        await visitor.press("tab")
        await visitor.shows("monitor.enabled", "─Doctor", "─Keys─")
        assert "✓ shim" not in visitor.screen()
        await visitor.press("tab")
        await visitor.shows("go.dashboard", "─Settings─")
        await visitor.pilot.resize_terminal(*WIDE)
        await visitor.shows("go.dashboard", "monitor.enabled", "✓ shim")

    visit(home, scene, NARROW, options(configured()))


def test_an_empty_history_says_how_to_run_a_job(home: Path) -> None:
    async def scene(visitor: Visitor) -> None:
        await visitor.press("2")
        screen = await visitor.shows("Press n to run one", "0 jobs")
        assert screen.count("no such store") == 1

    visit(home, scene)


def test_a_problem_of_a_store_is_shown_on_every_screen_until_it_is_solved(home: Path) -> None:
    store = StatePaths(home, HERE).store

    async def scene(visitor: Visitor) -> None:
        await visitor.shows("No jobs yet")
        for key in "23456":
            await visitor.press(key)
            await visitor.shows(f"{store.name}: ", "no such store")
        store.write_bytes(b"this was a history once" * 400)
        await visitor.until(lambda: "no such store" not in visitor.screen())
        for key in "123456":
            await visitor.press(key)
            await visitor.shows(f"{store.name}: ", "damaged")
        store.unlink()
        kept_jobs(home, made_job(name="back again"))
        await visitor.until(lambda: "damaged" not in visitor.screen())
        await visitor.press("1")
        await visitor.shows("back again")

    home.mkdir()
    visit(home, scene)


def test_the_worst_problem_is_shown_with_the_number_of_others() -> None:
    line = ProblemLine()
    read_only = StoreState(Path("/a/atlas.db"), None, "/a/atlas.db: reading only")
    gone = StoreState(
        Path("/a/very/long/path/to/rhea.db"), "/a/very/long/path/to/rhea.db: there is no such store (yet)"
    )

    async def scene(stage: Performance) -> None:
        assert not line.display
        line.stores = (read_only, StoreState(Path("/a/fine.db")))
        await stage.settle()
        assert stage.lines() == [" · /a/atlas.db: reading only".ljust(46)]
        line.stores = (read_only, gone)
        await stage.settle()
        assert [text.rstrip() for text in stage.lines()] == [
            " ! (1 more) rhea.db: there is no such store",
            "            (yet)",
        ]
        line.stores = ()
        await stage.settle()
        assert not line.display

    play(line, scene, (46, 6))
