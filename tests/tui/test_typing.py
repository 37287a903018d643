"""Typing into the terminal of a job: which keys reach it, when that is refused, and the size of the terminal."""

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from textual import events

from jobtop.core.model import Job, Status
from jobtop.core.paths import StatePaths
from jobtop.core.shim.terminal import KEYS, SIZE
from jobtop.tui.app import Options
from jobtop.tui.screens.job.screen import JobScreen
from jobtop.tui.widgets.output_view import OutputView
from records import HERE, kept_jobs, running_job, this_process
from visiting import Visitor, visit

Scene = Callable[[Visitor, JobScreen], Awaitable[None]]


class Terminal:
    """The reading end of the FIFO of a job, as its shim has it."""

    def __init__(self, directory: Path) -> None:
        os.mkfifo(directory / "input", 0o600)
        self.fd = os.open(directory / "input", os.O_RDWR | os.O_NONBLOCK)
        self.typed, self.sizes, self._rest = b"", list[tuple[int, int]](), b""

    def read(self) -> bytes:
        """All bytes that were typed so far."""
        with suppress(BlockingIOError):
            self._rest += os.read(self.fd, 65536)
        while self._rest:
            numbers = [int.from_bytes(self._rest[start : start + 2], "big") for start in (1, 3)]
            if self._rest[:1] == SIZE:
                self.sizes.append((numbers[0], numbers[1]))
                self._rest = self._rest[5:]
            else:
                assert self._rest[:1] == KEYS
                self.typed += self._rest[3 : 3 + numbers[0]]
                self._rest = self._rest[3 + numbers[0] :]
        return self.typed


@contextmanager
def job_with_terminal(root: Path, **values: object) -> Iterator[tuple[Job, Terminal]]:
    us = this_process()
    (job,) = kept_jobs(root, running_job(**{"name": "train", "shim": us, "recorder": us, **values}))
    directory = StatePaths(root, HERE).job(job.id)
    directory.mkdir(parents=True)
    (directory / "stdout.log").write_bytes(b"hello\r\nname? ")
    terminal = Terminal(directory)
    try:
        yield job, terminal
    finally:
        os.close(terminal.fd)


def on_screen(root: Path, job: Job, scene: Scene, **options: object) -> None:
    async def perform(visitor: Visitor) -> None:
        if not isinstance(visitor.console.screen, JobScreen):
            await visitor.console.open_job(job.id)
        screen = visitor.console.screen
        assert isinstance(screen, JobScreen)
        await visitor.shows("name?")
        await scene(visitor, screen)

    visit(root, perform, options=Options([], **options))  # type: ignore[arg-type]


def test_all_keys_go_to_the_job_until_typing_ends(tmp_path: Path) -> None:
    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.press("i")
        await visitor.shows("typing into train · F12 ends")
        assert screen.query_one(OutputView).has_focus
        await visitor.press("a", "q", "question_mark", "space", "tab", "ctrl+c", "escape", "up", "ctrl+p", "ctrl+q")
        await visitor.press("backspace", "enter")
        screen.query_one(OutputView).post_message(events.Paste("two\nlines"))
        expected = b"aq? \t\x03\x1b\x1b[A\x10\x11\x7f\rtwo\rlines"
        await visitor.until(lambda: terminal.read() == expected, str(terminal.typed))
        assert visitor.console.screen is screen
        assert "End typing" in visitor.screen()
        await visitor.press("f12")
        await visitor.shows("Output")
        assert "typing into" not in visitor.screen()
        await visitor.press("slash")
        assert terminal.read() == expected

    with job_with_terminal(tmp_path) as (job, terminal):
        on_screen(tmp_path, job, scene)


@pytest.mark.parametrize("way", ["ctrl+right_square_bracket", "blur"])
def test_typing_ends_in_other_ways_too(tmp_path: Path, way: str) -> None:
    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.press("i")
        await visitor.shows("typing into")
        if way == "blur":
            screen.query_one("#tree").focus()
        else:
            await visitor.press(way)
        await visitor.until(lambda: not screen.query_one(OutputView).takes_all_keys)
        await visitor.press("x")
        assert terminal.read() == b""

    with job_with_terminal(tmp_path) as (job, terminal):
        on_screen(tmp_path, job, scene)


def test_a_maximised_pane_stays_when_escape_is_typed_into_the_job(tmp_path: Path) -> None:
    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        screen.open_pane("output")
        await visitor.press("z", "i")
        await visitor.shows("typing into")
        await visitor.press("escape")
        await visitor.until(lambda: terminal.read() == b"\x1b")
        assert screen.maximized is not None

    with job_with_terminal(tmp_path) as (job, terminal):
        on_screen(tmp_path, job, scene)


def test_typing_ends_when_the_job_takes_nothing_any_more(tmp_path: Path) -> None:
    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.press("i")
        await visitor.shows("typing into")
        os.close(terminal.fd)
        terminal.fd = os.open(os.devnull, os.O_RDONLY)
        await visitor.press("a")
        await visitor.until(lambda: any("has ended" in notice.message for notice in visitor.console._notifications))
        assert not screen.query_one(OutputView).takes_all_keys

    with job_with_terminal(tmp_path) as (job, terminal):
        on_screen(tmp_path, job, scene)


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        ({"host": "elsewhere"}, {}, "elsewhere"),
        ({"status": Status.SUCCESS, "settled": True}, {}, "has ended"),
        ({}, {"is_readonly": True}, "cannot change"),
    ],
    ids=["another host", "ended", "readonly"],
)
def test_typing_is_refused_with_the_reason(
    tmp_path: Path, values: dict[str, object], options: dict[str, object], words: str
) -> None:
    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        await visitor.press("i", "a")
        await visitor.until(lambda: any(words in notice.message for notice in visitor.console._notifications))
        assert not screen.query_one(OutputView).takes_all_keys
        assert terminal.read() == b""

    with job_with_terminal(tmp_path, **values) as (job, terminal):
        on_screen(tmp_path, job, scene, **options)


def test_a_job_without_a_terminal_cannot_be_typed_into(tmp_path: Path) -> None:
    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        (StatePaths(tmp_path, HERE).job(job.id) / "input").unlink()
        await visitor.press("i")
        await visitor.until(lambda: any("no terminal" in notice.message for notice in visitor.console._notifications))

    with job_with_terminal(tmp_path) as (job, _):
        on_screen(tmp_path, job, scene)


def test_the_terminal_of_the_own_job_has_the_size_of_the_output(tmp_path: Path) -> None:
    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        view = screen.query_one(OutputView)
        await visitor.until(lambda: terminal.read() == b"" and terminal.sizes)
        assert terminal.sizes == [view.text_size]
        assert 0 < view.drawn_size.width - view.text_size[0] < 10
        screen.open_pane("output")
        await visitor.press("z")
        await visitor.until(lambda: terminal.read() == b"" and len(terminal.sizes) > 1)
        assert terminal.sizes[-1] == view.text_size > terminal.sizes[0]

    with job_with_terminal(tmp_path) as (job, terminal):
        on_screen(tmp_path, job, scene, job_id=job.id, is_attended=True)


def test_the_terminal_of_another_job_keeps_its_size_until_it_is_typed_into(tmp_path: Path) -> None:
    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        screen.open_pane("output")
        await visitor.press("z", "z")
        assert (terminal.read(), terminal.sizes) == (b"", [])
        await visitor.press("i")
        await visitor.until(lambda: terminal.read() == b"" and terminal.sizes)

    with job_with_terminal(tmp_path) as (job, terminal):
        on_screen(tmp_path, job, scene)


def test_new_output_is_shown_between_two_readings_of_the_job(tmp_path: Path) -> None:
    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        screen.read_seconds = 1000.0
        await visitor.pilot.pause()
        with (StatePaths(tmp_path, HERE).job(job.id) / "stdout.log").open("ab") as log:
            log.write(b"\r\nprinted later\r\n")
        await visitor.shows("printed later")

    with job_with_terminal(tmp_path) as (job, _):
        on_screen(tmp_path, job, scene)
