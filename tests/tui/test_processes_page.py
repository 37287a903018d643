"""The Processes page: what it lists, in which order, what its keys do, and that it reads only while it is visible."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from still_processes import BOOT, StillProcesses, still_process

from hostile import hostile_texts
from jobtop.core.measure.live.machine_processes import MachineProcess
from jobtop.core.model import Identity
from jobtop.core.procfs import start_ticks
from jobtop.core.record import replace
from jobtop.tui.app import Options
from jobtop.tui.data.processes.feed import MachineSource
from jobtop.tui.dialogs.confirm import Confirm
from jobtop.tui.screens.dashboard import OTHERS_SECONDS
from jobtop.tui.screens.job.screen import JobScreen
from jobtop.tui.screens.processes import READ_SECONDS, Processes
from records import kept_jobs, running_job
from support import wait_for
from visiting import Visitor, visit

WIDE, NARROW, SMALLEST = (160, 45), (80, 24), (60, 15)
SHIM, MAIN = still_process(10, "jobtop-shim", cpu_percent=0.0), still_process(11, "/usr/bin/python train.py", 10)
OTHER = still_process(20, "backup --all", user="eve", cpu_percent=90.0, state="R", memory_bytes=3 << 30)
ALL = (SHIM, MAIN, OTHER)
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff]")


def options(source: StillProcesses, **values: object) -> Options:
    return replace(Options([], processes=source), **values)


def pids(visitor: Visitor) -> list[int]:
    page = visitor.console.screen
    assert isinstance(page, Processes)
    return [process.pid for _, process in page.rows.order] if page.rows is not None else []


async def at_page(visitor: Visitor, *texts: str) -> str:
    await visitor.press("8")
    return await visitor.shows("╭─ Processes", *texts)


async def told(visitor: Visitor, *texts: str) -> None:
    """Wait for a notification with these texts."""
    console = visitor.console
    await visitor.until(
        lambda: any(all(text in notice.message for text in texts) for notice in console._notifications), str(texts)
    )


def kept_train(home: Path) -> str:
    return str(kept_jobs(home, running_job(name="train", shim=Identity(BOOT, 10, SHIM.start)))[0].id)


def test_processes_are_listed_with_what_they_use_and_their_jobs(home: Path) -> None:
    job_id = kept_train(home)

    async def scene(visitor: Visitor) -> None:
        screen = await at_page(visitor, "3 processes · sort cpu▼", "jobs 25% + others 90%", job_id[:8])
        assert pids(visitor) == [20, 11, 10]
        line = next(line for line in screen.splitlines() if "train.py" in line)
        assert [
            word for word in ("11", "ada", "25", "64.0M", "2", "1h23m", "sleeping", "train") if word not in line
        ] == []
        assert "/usr/bin" not in line

    visit(home, scene, WIDE, options(StillProcesses(*ALL)))


@pytest.mark.parametrize("size", [NARROW, SMALLEST], ids=str)
def test_columns_are_dropped_where_there_is_little_room(home: Path, size: tuple[int, int]) -> None:
    kept_train(home)

    async def scene(visitor: Visitor) -> None:
        screen = await at_page(visitor, "PID", "CPU%", "MEM", "backup --all", "python train")
        assert all(len(line) <= size[0] for line in screen.splitlines())
        assert ("AGE" in screen, " train " in screen) == (size == NARROW, True)

    visit(home, scene, size, options(StillProcesses(*ALL)))


def test_processes_are_read_only_while_the_page_is_visible(home: Path) -> None:
    source = StillProcesses(*ALL)

    async def scene(visitor: Visitor) -> None:
        await visitor.press("2")
        await visitor.shows("╭─ History")
        await visitor.until(lambda: not visitor.console.process_feed.is_running)
        await at_page(visitor, "3 processes")
        await visitor.press("2")
        await visitor.until(lambda: not visitor.console.process_feed.is_running and source.is_closed)
        await at_page(visitor, "3 processes")
        assert visitor.console.process_feed.is_running

    visit(home, scene, WIDE, options(source))


def test_a_filter_shows_what_matches_and_esc_shows_all_again(home: Path) -> None:
    async def scene(visitor: Visitor) -> None:
        await at_page(visitor, "3 processes")
        await visitor.press("slash")
        await visitor.type("eve")
        await visitor.shows("1 of 3 processes")
        assert pids(visitor) == [20]
        await visitor.type("x")
        await visitor.shows("0 of 3 processes", "No matching processes")
        await visitor.press("escape")
        await visitor.shows(" 3 processes")

    visit(home, scene, WIDE, options(StillProcesses(*ALL)))


def test_the_tree_has_processes_below_their_parents_and_sorting_goes_on(home: Path) -> None:
    async def scene(visitor: Visitor) -> None:
        await at_page(visitor, "3 processes")
        await visitor.press("T")
        await visitor.shows("└ python train.py", " · tree")
        assert pids(visitor) == [20, 10, 11]
        await visitor.press("S")
        await visitor.until(lambda: pids(visitor) == [10, 11, 20])

    visit(home, scene, WIDE, options(StillProcesses(*ALL)))


def test_enter_opens_the_job_of_a_process(home: Path) -> None:
    job_id = kept_train(home)

    async def scene(visitor: Visitor) -> None:
        await at_page(visitor, job_id[:8])
        await visitor.press("enter")
        await told(visitor, "20 belongs to no job")
        await visitor.press("down", "enter")
        await visitor.until(lambda: isinstance(visitor.console.screen, JobScreen))

    visit(home, scene, WIDE, options(StillProcesses(*ALL)))


def test_a_process_of_another_user_gets_no_signal_and_the_line_says_why(home: Path) -> None:
    async def scene(visitor: Visitor) -> None:
        await at_page(visitor, "3 processes")
        await visitor.press("x")
        await told(visitor, "process 20 belongs to eve", "kill -TERM 20")
        assert not isinstance(visitor.console.screen, Confirm)

    visit(home, scene, WIDE, options(StillProcesses(*ALL)))


def test_a_readonly_console_changes_no_process(home: Path) -> None:
    async def scene(visitor: Visitor) -> None:
        screen = await at_page(visitor, "1 process")
        assert "Attach" not in screen.splitlines()[-1]
        for key in ("x", "X", "a"):
            await visitor.press(key)
        await told(visitor, "--readonly")
        assert not isinstance(visitor.console.screen, Confirm)

    visit(home, scene, WIDE, options(StillProcesses(OTHER._replace(uid=os.geteuid())), is_readonly=True))


def real(process: "subprocess.Popen[bytes]") -> MachineProcess:
    start = start_ticks(process.pid)
    assert start is not None
    return still_process(process.pid, "sleep 600", os.getpid(), uid=os.geteuid(), start=start)


@pytest.mark.parametrize(("key", "number"), [("x", signal.SIGTERM), ("X", signal.SIGKILL)])
def test_a_signal_is_sent_only_after_yes(home: Path, key: str, number: signal.Signals) -> None:
    with subprocess.Popen(["sleep", "600"]) as sleeper:

        async def scene(visitor: Visitor) -> None:
            await at_page(visitor, "1 process")
            await visitor.press(key)
            await visitor.shows(f"{'Stop' if key == 'x' else 'Kill'} this process?", str(sleeper.pid), number.name)
            await visitor.press("n")
            await visitor.until(lambda: not isinstance(visitor.console.screen, Confirm))
            assert sleeper.poll() is None
            await visitor.press(key)
            await visitor.shows("this process?")
            await visitor.press("y")
            await told(visitor, str(sleeper.pid))

        try:
            visit(home, scene, WIDE, options(StillProcesses(real(sleeper))))
            wait_for(lambda: sleeper.poll() is not None)
            assert sleeper.returncode == -number
        finally:
            sleeper.kill()


def test_a_pid_that_was_reused_gets_no_signal(home: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as sleeper:

        async def scene(visitor: Visitor) -> None:
            await at_page(visitor, "1 process")
            await visitor.press("X")
            await visitor.shows("Kill this process?")
            await visitor.press("y")
            await told(visitor, "has exited already")

        try:
            visit(home, scene, WIDE, options(StillProcesses(real(sleeper)._replace(start=1))))
            assert sleeper.poll() is None
        finally:
            sleeper.kill()


def test_hostile_names_and_commands_keep_every_line_and_no_control_character_works(home: Path) -> None:
    texts = hostile_texts()[:200]
    processes = [
        still_process(100 + number, text, user=texts[-number - 1], name=text, cpu_percent=float(len(texts) - number))
        for number, text in enumerate(texts)
    ]

    async def scene(visitor: Visitor) -> None:
        await at_page(visitor, f"{len(texts)} processes")
        for _ in range(6):
            screen = visitor.screen()
            assert not UNSAFE.search(screen)
            assert len(screen.splitlines()) == WIDE[1]
            await visitor.press("pagedown")
        await visitor.press("x")
        await told(visitor, "belongs to")

    visit(home, scene, WIDE, options(StillProcesses(*processes)))


def test_a_frozen_page_stays_as_it_is(home: Path) -> None:
    source = StillProcesses(*ALL)

    async def scene(visitor: Visitor) -> None:
        await at_page(visitor, "3 processes")
        await visitor.press("f")
        source.processes = (OTHER,)
        before = source.readings
        await visitor.until(lambda: source.readings > before + 1)
        assert "3 processes" in visitor.screen()
        await visitor.press("f")
        await visitor.shows("1 process ·")

    visit(home, scene, WIDE, options(source))


def test_the_page_of_a_real_machine_lists_this_process(home: Path) -> None:
    async def scene(visitor: Visitor) -> None:
        await visitor.press("8")
        await visitor.until(lambda: os.getpid() in pids(visitor))

    visit(home, scene, WIDE, Options([], processes=MachineSource()))


def test_the_dashboard_names_the_heaviest_processes_that_belong_to_no_job(home: Path) -> None:
    kept_train(home)
    source = StillProcesses(*ALL, still_process(30, "idle", cpu_percent=0.0, memory_bytes=9 << 30))

    async def scene(visitor: Visitor) -> None:
        screen = await visitor.shows("╭─ Not in jobs  CPU 90%", "8 lists all", "backup --all", "9.0G")
        assert "python train.py" not in screen
        assert screen.index("backup") < screen.index("9.0G")
        assert visitor.console.process_feed.interval_seconds == OTHERS_SECONDS
        await visitor.press("8")
        await visitor.shows("4 processes")
        assert visitor.console.process_feed.interval_seconds == READ_SECONDS

    visit(home, scene, WIDE, options(source))


def test_the_dashboard_reads_no_processes_where_it_has_no_room_for_them(home: Path) -> None:
    kept_train(home)
    source = StillProcesses(*ALL)

    async def scene(visitor: Visitor) -> None:
        await visitor.shows("train", "CPU%")
        await visitor.until(lambda: visitor.console.pages["dashboard"].is_painted)  # type: ignore[attr-defined]
        assert source.readings == 0
        await visitor.pilot.resize_terminal(*WIDE)
        await visitor.shows("Not in jobs", "backup")

    visit(home, scene, NARROW, options(source))


def test_the_first_reading_that_has_no_percentages_is_not_shown(home: Path) -> None:
    source = StillProcesses(*(process._replace(cpu_percent=None) for process in ALL))

    async def scene(visitor: Visitor) -> None:
        await visitor.press("8")
        await visitor.until(lambda: source.readings > 0)
        await visitor.shows("Reading the processes")
        source.processes = ALL
        await visitor.shows("3 processes")

    visit(home, scene, WIDE, options(source))
