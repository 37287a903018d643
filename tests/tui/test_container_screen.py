"""The screen of one container: header, charts, logs, processes, events and inspection, each with a reason if empty."""

import threading
import time
from pathlib import Path

import pytest
from still_containers import AT, DOCKER, StillContainers, still_row

from jobtop.core.measure.collectors.docker.model import ContainerEvent
from jobtop.core.record import replace
from jobtop.tui.app import Options
from jobtop.tui.data.containers.source import Act
from jobtop.tui.demo.containers import DemoContainers, DemoLog
from jobtop.tui.screens.container.screen import ContainerScreen
from jobtop.tui.widgets.log_view import MOST_AT_ONCE, LogView
from jobtop.tui.widgets.prose import Prose
from jobtop.tui.widgets.tables.container_events import event_lines
from records import kept_jobs
from stage import text_of
from support import wait_for
from visiting import Visitor, visit

WIDE, NARROW, SMALLEST = (170, 42), (80, 24), (60, 15)


def options(source: StillContainers) -> Options:
    return Options([], containers=source)


async def opened(visitor: Visitor, *texts: str) -> str:
    """Open the first container."""
    await visitor.press("4")
    await visitor.shows("╭─ Containers")
    await visitor.until(lambda: getattr(visitor.console.screen, "shown", None))
    await visitor.press("enter")
    await visitor.until(lambda: isinstance(visitor.console.screen, ContainerScreen))
    return await visitor.shows(*texts)


def test_everything_known_of_a_container_is_on_its_screen(home: Path) -> None:
    row = still_row("web", 1, "shop", health="unhealthy", restarts=3)
    events = (ContainerEvent(AT - 5.0, "health_status", "unhealthy", row.container.id),)

    async def scene(visitor: Visitor) -> None:
        await opened(
            *(visitor, "! running, unhealthy", "web", "aaaaaaaaaaaa", "3 restarts", "service shop/web", "docker"),
            *("CPU 12.5 %", "memory 64.0M of 128M (50 %)", "network ↓1.0K/s", "pids 3", "$ sleep 9", "image box:1"),
            *("limit 128.0 MiB", "╭─ Processes 1", "sleep 9", "╭─ Logs  2 lines", "second line", "● follows"),
            *("╭─ Events 3", "created", "started", "! unhealthy"),
        )

    visit(home, scene, WIDE, options(StillContainers(replace(row, events=events))))


def test_the_thread_of_the_log_ends_with_the_screen_and_with_the_console(home: Path) -> None:
    def reading() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "jobtop-log"]

    before = reading()

    async def scene(visitor: Visitor) -> None:
        await opened(visitor, "╭─ Logs")
        await visitor.until(lambda: len(reading()) > len(before))
        await visitor.press("escape")
        await visitor.until(lambda: reading() == before)
        await opened(visitor, "╭─ Logs")
        await visitor.until(lambda: len(reading()) > len(before))

    visit(home, scene, WIDE, Options([], containers=DemoContainers({})))
    wait_for(lambda: reading() == before)


def test_a_log_of_the_demo_after_a_long_sleep_has_only_its_newest_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    now, source = time.time(), DemoContainers({})
    container = next(row.container for row in source.at(now, False).rows if row.container.is_alive)
    log = DemoLog(container, 10)
    monkeypatch.setattr(time, "time", lambda: now)
    lines = iter(log)
    before = [next(lines) for _ in range(10)]
    monkeypatch.setattr(time, "time", lambda: now + 1e7)
    newest = [next(lines) for _ in range(10)]
    log.close()
    assert (before[-1].at or 0.0) <= now
    assert (newest[0].at or 0.0) > now + 1e7 - 600


def test_secrets_are_hidden_in_the_inspection(home: Path) -> None:
    async def scene(visitor: Visitor) -> None:
        await opened(visitor, "╭─ Processes")
        await visitor.press("i")
        screen = await visitor.shows("╭─ Inspect", '"Env": [', '"COLOR=blue"', '"PASSWORD=***"')
        assert "hunter2" not in screen
        pane = visitor.console.screen.query_one("#inspect", Prose)
        assert pane.has_focus
        assert not any("hunter2" in text_of(line) for line in pane.lines(60))

    visit(home, scene, WIDE, options(StillContainers(still_row("web"))))


def test_on_a_narrow_screen_panes_are_tabs(home: Path) -> None:
    kept_jobs(home)

    async def scene(visitor: Visitor) -> None:
        await opened(visitor, "▌CPU+mem", "▌Logs", "second line")
        await visitor.press("tab")
        await visitor.shows("▌Events", "started")
        await visitor.press("tab")
        await visitor.shows("▌Inspect", "PASSWORD=***")
        await visitor.press("tab", "tab")
        await visitor.shows("▌Network")
        await visitor.press("shift+tab", "shift+tab", "shift+tab", "shift+tab", "shift+tab")
        await visitor.shows("▌Processes", "sleep 9")
        await visitor.pilot.resize_terminal(*SMALLEST)
        await visitor.shows("▌Processes", "sleep 9", "● running")

    visit(home, scene, NARROW, options(StillContainers(still_row("web"))))


def test_lines_are_filtered_and_searched_by_regular_expressions(home: Path) -> None:
    source = StillContainers(still_row("web"))
    source.lines = [f"{'ERROR' if number % 10 == 0 else 'info'} line {number}".encode() for number in range(200)]

    async def scene(visitor: Visitor) -> None:
        await opened(visitor, "200 lines", "info line 199")
        view = visitor.console.screen.query_one(LogView)
        await visitor.press("ampersand")
        await visitor.type("error.*[05]0$")
        await visitor.press("enter")
        await visitor.shows("3 of 200 lines match", "ERROR line 150")
        await visitor.until(lambda: view.has_focus)
        await visitor.press("ampersand", "escape")
        await visitor.shows("200 lines")
        await visitor.press("slash")
        await visitor.type("line 1[37]0")
        await visitor.press("enter")
        await visitor.until(lambda: view.match == 170)
        await visitor.press("N")
        await visitor.until(lambda: view.match == 130)
        await visitor.shows("▌ERROR line 130")
        await visitor.press("n")
        await visitor.until(lambda: view.match == 170)
        await visitor.press("slash")
        await visitor.type("(")
        await visitor.shows("is not a regular expression")
        await visitor.press("escape", "g")
        await visitor.shows("info line 1", "‖ stays here")
        await visitor.press("G")
        await visitor.shows("info line 199", "● follows")
        await visitor.press("o", "o")
        await visitor.shows("none of 200 lines matches")

    visit(home, scene, WIDE, options(source))


def test_a_pane_without_content_says_why(home: Path) -> None:
    source = StillContainers(still_row("web"))
    source.refusal = "docker (unix:///run/docker.sock) does not answer within 3 s (restart it)"

    async def scene(visitor: Visitor) -> None:
        screen = await opened(visitor, "does not answer")
        await visitor.until(lambda: visitor.screen().count("does not answer") >= 2)
        assert "Traceback" not in screen
        await visitor.press("i")
        await visitor.until(lambda: visitor.screen().count("does not answer") >= 2)

    visit(home, scene, WIDE, options(source))


def test_an_ended_container_says_how_it_ended(home: Path) -> None:
    row = still_row("web", state="exited", exit_code=137, is_oom_killed=True, finished_at=AT)
    source = StillContainers(replace(row, values={}, rates={}, source=None, why_absent="it does not run"))
    source.lines = []

    async def scene(visitor: Visitor) -> None:
        await visitor.press("4", "a")
        await visitor.shows("exited 137")
        await visitor.press("enter")
        await visitor.shows("▼ exited", "exit 137", "out of memory", "it does not run", "exited with code 137")
        await visitor.shows("nothing written yet")

    visit(home, scene, WIDE, options(source))


def test_a_container_that_is_removed_or_cannot_be_asked_stays_on_the_screen(home: Path) -> None:
    source = StillContainers(still_row("web"))

    async def scene(visitor: Visitor) -> None:
        await opened(visitor, "memory 64.0M")
        source.show()
        await visitor.shows("it was removed", "web", "second line")
        source.show(engines=(replace(DOCKER, problem="docker (x) has closed the connection"),))
        await visitor.shows("docker (x) has closed the connection", "web")

    visit(home, scene, WIDE, options(source))


def test_the_keys_of_the_list_work_on_the_screen(home: Path) -> None:
    source = StillContainers(still_row("web"))

    async def scene(visitor: Visitor) -> None:
        await opened(visitor, "memory 64.0M")
        await visitor.press("R")
        await visitor.shows("Restart this container?")
        await visitor.press("y")
        await visitor.until(lambda: source.done == [(Act.RESTART, "web")])
        await visitor.press("escape")
        await visitor.shows("╭─ Containers")

    visit(home, scene, WIDE, options(source))


def test_curves_grow_and_stay_while_the_screen_is_open(home: Path) -> None:
    row = still_row("web")
    source = StillContainers(row)

    async def scene(visitor: Visitor) -> None:
        await opened(visitor, "CPU 12.5 %")
        console = visitor.console
        for second in range(1, 4):
            source.show(replace(row, values={**row.values, "cpu.percent": 10.0 * second}, read_at=AT + second))
            await visitor.shows(f"CPU {10 * second} %")
        curve = console.container_feed.track(row.key).curve("cpu.percent")
        assert curve.values == [12.5, 10.0, 20.0, 30.0]
        await visitor.press("escape", "1", "4", "enter")
        await visitor.until(lambda: isinstance(console.screen, ContainerScreen))
        assert len(console.container_feed.track(row.key).curve("cpu.percent").values) == 4

    visit(home, scene, WIDE, options(source))


def test_events_are_told_once_in_the_order_of_time() -> None:
    row = still_row("web", state="exited", exit_code=3, finished_at=AT + 9.0)
    happened = (
        ContainerEvent(AT - 60.0, "start", None, row.container.id),
        ContainerEvent(AT + 8.0, "kill", None, row.container.id, {"signal": "15"}),
        ContainerEvent(AT + 9.0, "die", None, row.container.id, {"exitCode": "3"}),
        ContainerEvent(AT + 9.5, "strange [/b]", None, row.container.id),
    )
    lines = event_lines(replace(row, events=happened), AT + 10.0)
    assert [line.words for line in lines] == ["started", "got signal 15", "exited with code 3", "strange [/b]"]


def test_many_lines_are_filtered_in_steps(home: Path) -> None:
    source = StillContainers(still_row("web"))
    source.lines = [f"line {number}".encode() for number in range(2 * MOST_AT_ONCE + 7)]

    async def scene(visitor: Visitor) -> None:
        await opened(visitor, f"{2 * MOST_AT_ONCE + 7} lines", f"line {2 * MOST_AT_ONCE + 6}")
        await visitor.press("ampersand")
        await visitor.type("line 77?$")
        await visitor.press("enter")
        await visitor.shows(f"2 of {2 * MOST_AT_ONCE + 7} lines match")

    visit(home, scene, WIDE, options(source))
