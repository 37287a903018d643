"""Around the console on a real terminal, by keys and by mouse, at every size; and what a poor terminal is spared."""

import os
import re
import signal
import sys
import termios
from collections.abc import Callable, Iterator, Mapping

import pytest

from benchmarks.display import Display
from records import kept_jobs, made_job
from running import nothing_is_left
from support import Jobtop
from terminal import Terminal, broken_boxes, ended, recorded, terminal

__all__ = ["nothing_is_left"]

SIZES = ((60, 15), (80, 24), (160, 42), (240, 60))
RESIZED = ((60, 15), (160, 42))
# What the first pane of a screen is called, by its key: the titles at the top are always there.
PANES = {"2": "History", "3": "Compare", "4": "Containers", "5": "Active", "6": "Doctor", "1": "Jobs"}
NAMES = ("[/b]train", "日本語 and 한국어", "x" * 300, "\x1b[31mred\nline")
CURSOR_ROW = re.compile(r"^[│┃|#][▌>].*?\b([0-9a-f]{8})\b", re.MULTILINE)
MODE = re.compile(rb"\x1b\[\?([\d;]+)([hl])")
COLOUR = re.compile(rb"\x1b\[[\d;]*\b(?:[34]\d|9[0-7]|10[0-7])\b[\d;]*m")
# Modes that a terminal has from the start: lines are wrapped, and the cursor is seen.
USUAL = {b"7", b"25"}
MISTAKE = """
import jobtop.tui.screens.dashboard as broken
broken.Dashboard.show = 0
from jobtop.__main__ import main
main()
"""


@pytest.fixture(params=["store", "demo"])
def console(jobtop: Jobtop, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """A console that shows its first picture: of a store with odd names and a job that ran, or the demo."""
    kept_jobs(jobtop.state, *(made_job(name=name) for name in NAMES))
    jobtop("run", "--name", "fails", "--", "sh", "-c", "echo 日本語; exit 3")
    with terminal(jobtop) as shell:
        shell.enter(f"clear; $J {'--demo' if request.param == 'demo' else ''}; echo code $?")
        shell.until(lambda screen: CURSOR_ROW.search(screen) is not None, "a console")
        yield shell
        shell.press("q")
        shell.shows("code 0")


def arrives(console: Terminal, size: tuple[int, int], holds: Callable[[str], bool], words: str) -> str:
    """The screen once this holds of it, the first and the last are where they belong, and every box closes."""
    columns, lines = size

    def is_whole(screen: str) -> bool:
        rows = screen.splitlines()
        has_ends = len(rows) == lines and rows[0].startswith(" jobtop ") and rows[-1].endswith(("^p palette", "^p"))
        return has_ends and holds(screen) and not broken_boxes(screen)

    return console.until(is_whole, f"{words} at {columns}×{lines}, with every box closed")


def is_page(key: str) -> Callable[[str], bool]:
    return lambda screen: re.search(f"[╭┏+][─━=-] {PANES[key]} ", screen) is not None


def is_job(job_id: str) -> Callable[[str], bool]:
    """Where there is little room, the tab of the timeline has a short name."""

    def holds(screen: str) -> bool:
        is_named = re.search(rf"\b{job_id}\b", screen.splitlines()[1]) is not None
        return is_named and re.search(r"\bTime(line)?\b", screen) is not None

    return holds


def job_at_cursor(screen: str) -> str:
    found = CURSOR_ROW.search(screen)
    assert found is not None
    return found[1]


def test_every_screen_is_a_key_away_and_whole_after_the_terminal_has_shrunk_and_grown(console: Terminal) -> None:
    for key, pane in PANES.items():
        console.press(key)
        for size in RESIZED:
            console.resize(*size)
            screen = arrives(console, size, is_page(key), pane)
    job = job_at_cursor(screen)
    console.press("Enter")
    for size in RESIZED:
        console.resize(*size)
        arrives(console, size, is_job(job), "the job")
    console.press("Escape")
    arrives(console, size, is_page("1"), "the dashboard again")


def test_every_screen_is_reached_by_mouse_at_every_size(console: Terminal) -> None:
    for size in SIZES:
        console.resize(*size)
        screen = arrives(console, size, is_page("1"), "the dashboard")
        console.click(5, next(y for y, row in enumerate(screen.splitlines()) if CURSOR_ROW.match(row)), times=2)
        screen = arrives(console, size, is_job("[0-9a-f]{8}"), "a job, since rows change their places")
        for key, pane in PANES.items():
            console.click(screen.index(f" {key} ") + 1, 0)
            screen = arrives(console, size, is_page(key), pane)


@pytest.mark.parametrize(
    ("screen", "broken"),
    [
        ("╭─ a ─╮╭─╮\n│日本 ││ │\n╰─────╯╰─╯", 0),
        ("╭─ a ─╮\n│日本x │\n╰─────╯", 4),
        ("╭─ a ╭──╮\n│    │  │\n╰────╰──╯", 2),
        ("╭─────╮\n│     │", 2),
    ],
    ids=["whole", "too long a line", "one over another", "cut off"],
)
def test_a_box_that_does_not_close_is_noticed(screen: str, broken: int) -> None:
    assert len(broken_boxes(screen)) == broken


def tour(shown: Display) -> None:
    """All screens, a job, help and the palette, each seen before the next key is pressed."""

    def answered(key: str, holds: Callable[[str], bool]) -> None:
        shown.press(key)
        shown.until(lambda screen: holds(screen.text()), f"the answer to {key!r}", seconds=20.0)

    shown.until(lambda screen: CURSOR_ROW.search(screen.text()) is not None, "a first picture")
    for key in PANES:
        answered(key, is_page(key))
    answered("\r", lambda text: "Timeline" in text)
    answered("?", lambda text: "esc closes" in text)
    answered("\x1b", lambda text: "esc closes" not in text)
    answered("\x10", lambda text: "name of an action" in text)


def test_no_screen_has_a_colour_or_more_than_ascii_where_that_is_not_wanted(jobtop: Jobtop) -> None:
    with recorded(jobtop.command("--demo", "--ascii", "--color", "never"), jobtop.env) as (shown, recorder):
        tour(shown)
        assert COLOUR.search(recorder.written) is None
        assert b"\x1b[1m" in recorder.written
        assert recorder.written.isascii()


@pytest.mark.parametrize(
    ("settings", "has_colours", "is_ascii"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"LC_ALL": "C"}, True, False),
        ({"PYTHONIOENCODING": "latin-1"}, True, True),
    ],
    ids=str,
)
def test_the_environment_says_what_a_terminal_can_show(
    jobtop: Jobtop, settings: Mapping[str, str], has_colours: bool, is_ascii: bool
) -> None:
    kept_jobs(jobtop.state, made_job())
    with recorded(jobtop.command(), {**jobtop.env, **settings}) as (shown, recorder):
        shown.until(lambda screen: CURSOR_ROW.search(screen.text()) is not None, "a job")
        assert (COLOUR.search(recorder.written) is not None) == has_colours
        assert recorder.written.isascii() == is_ascii


@pytest.mark.parametrize(
    ("way", "code"),
    [("q", 0), ("\x03", 0), (signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), ("a mistake", 125)],
    ids=repr,
)
def test_every_mode_that_was_set_is_reset_whatever_ends_it(
    jobtop: Jobtop, way: str | signal.Signals, code: int
) -> None:
    kept_jobs(jobtop.state, made_job())
    command = [sys.executable, "-c", MISTAKE] if way == "a mistake" else jobtop.command()
    fresh = os.openpty()
    usual = termios.tcgetattr(fresh[0])
    for descriptor in fresh:
        os.close(descriptor)
    with recorded(command, jobtop.env) as (shown, recorder):
        if way != "a mistake":
            shown.until(lambda screen: CURSOR_ROW.search(screen.text()) is not None, "a job")
            assert termios.tcgetattr(shown.fd) != usual
        if isinstance(way, signal.Signals):
            shown.process.send_signal(way)
        elif way != "a mistake":
            shown.press(way)
        assert ended(shown) == code
        assert termios.tcgetattr(shown.fd) == usual
    last = {number: on == b"h" for numbers, on in MODE.findall(recorder.written) for number in numbers.split(b";")}
    assert b"1049" in last
    assert {number for number, on in last.items() if on} == USUAL
    pushed, popped = re.findall(rb"\x1b\[>\d*u", recorder.written), recorder.written.count(b"\x1b[<u")
    assert len(pushed) <= popped
