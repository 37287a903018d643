"""The terminal in which benchmarks look at the console: what is printed where, and when it was there."""

import os
import sys

import pytest

from benchmarks.display import TerminalScreen, display
from benchmarks.report import MeasurementError


def lines(screen: TerminalScreen) -> list[str]:
    return [line.rstrip() for line in screen.text().split("\n")]


def test_what_is_printed_is_where_the_cursor_was() -> None:
    screen = TerminalScreen(8, 3)
    screen.feed(b"ab\r\n\x1b[1mcd\x1b[0m\x1b[3;7Hxyz\x1b[Hq")
    assert lines(screen) == ["qb", "cd", "      xy"]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_pieces_of_sequences_and_characters_make_a_whole(size: int) -> None:
    written = "\x1b[?2026h\x1b[38;2;1;2;3m\x1b]2;title\x07▌é\x1bP+q\x1b\\\x1b[2;1Hend".encode()
    screen = TerminalScreen(8, 2)
    for start in range(0, len(written), size):
        screen.feed(written[start : start + size])
    assert lines(screen) == ["▌é", "end"]


def test_a_program_is_waited_for_answers_keys_and_is_gone_afterwards() -> None:
    code = "import os, tty; tty.setraw(0); print('ready', *os.get_terminal_size()); print(os.read(0, 1)); os.read(0, 1)"
    with display([sys.executable, "-c", code], os.environ, 40, 5) as shown:
        appeared = shown.until(lambda screen: "ready 40 5" in screen.text(), "its size")
        shown.press("j")
        answered = shown.until(lambda screen: "b'j'" in screen.text(), "the key")
        assert shown.began < appeared < answered
        assert shown.resident_bytes() > 1_000_000
        assert shown.cpu_seconds() >= 0.0
    assert shown.process.returncode is not None


def test_what_never_appears_is_said_with_the_screen() -> None:
    with (
        display([sys.executable, "-c", "print('something else')"], os.environ, 40, 5) as shown,
        pytest.raises(MeasurementError, match="something else"),
    ):
        shown.until(lambda screen: "never" in screen.text(), "it", seconds=10.0)
