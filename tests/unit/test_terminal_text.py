"""The output of programs as a terminal shows it: colours pass, nothing else has an effect, whatever the bytes are."""

import random
import re
import time

import pytest

from fuzzing import fuzz, fuzzed, mutated
from hostile import ATOMS
from jobtop.core.text.output_streams import LONGEST_HELD, PlainStream, TerminalStream
from jobtop.core.text.terminal_text import (
    PLAIN,
    Run,
    TextStyle,
    colored_lines,
    line_runs,
    plain_line,
    sgr,
    style_after,
    with_sgr,
    without_escapes,
)

RED, BOLD_RED = TextStyle(foreground=1), TextStyle(foreground=1, bold=True)
SGR = re.compile("\x1b\\[[0-9;]*m")
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
PROGRAM = (
    "\x1b[1;31merror\x1b[0m: caf\u00e9 \x1b[38;5;208mfile\x1b[39m\r\n"
    "\r 10 %\x1b[K\r\x1b[32m 20 %\x1b[0m\n\x1b]0;title\x07a\bb\t\x1b[4:3mcurly\x1b[24m \x1b[48:2::1:2:3mback\x1b[49m\n"
).encode()


@pytest.mark.parametrize(
    ("parameters", "style"),
    [
        ("", PLAIN),
        ("0", PLAIN),
        ("31", RED),
        ("1;31", BOLD_RED),
        ("91", TextStyle(foreground=9)),
        ("44", TextStyle(background=4)),
        ("107", TextStyle(background=15)),
        ("38;5;208", TextStyle(foreground=208)),
        ("48;5;16;1", TextStyle(background=16, bold=True)),
        ("38;2;1;2;3;4", TextStyle(foreground=(1, 2, 3), underline=True)),
        ("38:5:208", TextStyle(foreground=208)),
        ("38:2:1:2:3", TextStyle(foreground=(1, 2, 3))),
        ("38:2::1:2:3;3", TextStyle(foreground=(1, 2, 3), italic=True)),
        ("4:3", TextStyle(underline=True)),
        ("4:0", PLAIN),
        ("58;5;9;7", TextStyle(reverse=True)),
        ("2;3", TextStyle(dim=True, italic=True)),
        ("1;2;22", PLAIN),
        ("31;39;41;49", PLAIN),
        ("38;5;256", PLAIN),
        ("38;2;1;2;300", PLAIN),
        ("38;5", TextStyle(foreground=0)),
        ("38", PLAIN),
        ("5;8;53;999;99999999999", PLAIN),
        (";".join(["31"] * 200), PLAIN),
    ],
)
def test_parameters_set_the_style(parameters: str, style: TextStyle) -> None:
    assert with_sgr(PLAIN, parameters) == style
    assert with_sgr(BOLD_RED, f"0;{sgr(style)[2:-1]}") == style


@pytest.mark.parametrize(
    ("line", "runs"),
    [
        ("plain", [Run("plain", PLAIN)]),
        ("", []),
        ("\x1b[31mred\x1b[0m plain", [Run("red", RED), Run(" plain", PLAIN)]),
        ("a\x1b[?25l\x1b[2Jb\x1b]0;title\x07c\x1b(B\x1bMd", [Run("abcd", PLAIN)]),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\x1bPsixel\x1b\\.", [Run("link.", PLAIN)]),
        ("\x1b[>4;31mx\x1b[31 mx", [Run("xx", PLAIN)]),
        ("\x1b]0;no end", [Run("0;no end", PLAIN)]),
        ("\x1b[31", [Run("31", PLAIN)]),
        ("x\x1b", [Run("x", PLAIN)]),
        ("\x1b\x1b[31mx", [Run("x", RED)]),
        ("10 %\r\x1b[31m20\x1b[0m", [Run("20", RED), Run(" %", PLAIN)]),
        ("loading\r\x1b[Kdone", [Run("done", PLAIN)]),
        ("\x1b[2K\x1b[1Gone\x1b[2K\x1b[1Gtwo", [Run("two", PLAIN)]),
        ("xx\x1b[1Kyy", [Run("  yy", PLAIN)]),
        ("abc\b\bX", [Run("aXc", PLAIN)]),
        ("\b\b\bX", [Run("X", PLAIN)]),
        ("one\r\r", [Run("one", PLAIN)]),
        ("\x07\x00\t\x9b31m", [Run("\x07\x00\t\x9b31m", PLAIN)]),
    ],
)
def test_a_line_is_shown_as_it_was_last(line: str, runs: list[Run]) -> None:
    assert line_runs(line)[0] == runs
    assert plain_line(line) == "".join(run.text for run in runs)


def test_what_tput_prints_in_tmux_is_not_shown() -> None:
    assert line_runs("\x1b[32mgreen\x1b[m\x0f plain")[0] == [Run("green", TextStyle(2)), Run(" plain", PLAIN)]


def test_a_style_carries_over_to_the_next_lines() -> None:
    assert line_runs("\x1b[31mred", PLAIN)[1] == RED
    assert line_runs("still red\x1b[1m", RED) == ([Run("still red", RED)], BOLD_RED)
    assert style_after(b"\x1b[1mx\n\x1b[mx\x1b[31m\ny") == RED
    assert style_after(b"no colours", RED) == RED


def test_lines_for_a_terminal_stand_alone_and_end_in_its_own_colours() -> None:
    data = "\x1b[31mred\r\nstill\x1b[0m \x1b[2J\x07caf\u00e9\tx\nlast".encode() + b"\xff"
    assert colored_lines(data, color=True) == [
        "\x1b[31mred\x1b[0m",
        "\x1b[31mstill\x1b[0m \\x07caf\u00e9\tx",
        "last\ufffd",
    ]
    assert colored_lines(data, color=False) == ["red", "still \\x07caf\u00e9\tx", "last\ufffd"]
    assert colored_lines(b"", color=True) == []
    assert colored_lines(b"\n\n", color=True) == ["", ""]


def test_a_file_gets_no_escapes_and_plain_line_ends_and_all_other_bytes() -> None:
    data = b"\x1b[31mred\x1b[0m\r\n\x00\x07\x9b\xff \x1b]0;title\x1b\\10 %\r20 %\r\r\n\r"
    assert without_escapes(data) == b"red\n\x00\x07\x9b\xff 10 %\r20 %\n\r"


def chunked(dice: random.Random, data: bytes) -> list[bytes]:
    chunks = []
    while data:
        size = dice.choice((1, 1, 2, 3, 7, 50, 5000))
        chunks.append(data[:size])
        data = data[size:]
    return chunks


def on_terminal(chunks: list[bytes], color: bool = True) -> str:
    stream = TerminalStream(color)
    return "".join([*map(stream.feed, chunks), stream.feed(b"", is_end=True)])


def to_pipe(chunks: list[bytes]) -> bytes:
    stream = PlainStream()
    return b"".join([*map(stream.feed, chunks), stream.feed(b"", is_end=True)])


def test_chunks_give_what_the_whole_gives() -> None:
    whole = on_terminal([PROGRAM])
    for size in range(1, 20):
        chunks = [PROGRAM[start : start + size] for start in range(0, len(PROGRAM), size)]
        assert to_pipe(chunks) == without_escapes(PROGRAM)
        shown = [plain_line(line) for line in on_terminal(chunks).split("\n")]
        assert shown == [plain_line(line) for line in whole.split("\n")]


def test_a_progress_bar_is_drawn_again_in_its_place() -> None:
    stream = TerminalStream(color=True)
    assert stream.feed(b"one\n") == "one\n"
    assert stream.feed(b" 10 %") == " 10 %"
    assert stream.feed(b" of 9") == " of 9"
    assert stream.feed(b"\r 20 % of 9\r\x1b[32m 30 %") == "\r\x1b[32m 30 %\x1b[0m of 9"
    assert stream.feed(b"\r\x1b[K\x1b[0mdone") == "\rdone      "
    assert stream.feed(b"\r") == ""
    assert stream.feed(b"\nnext\n") == "\nnext\n"


def test_a_terminal_is_in_its_own_colours_between_chunks() -> None:
    stream = TerminalStream(color=True)
    assert stream.feed(b"\x1b[31mred\n") == "\x1b[31mred\n\x1b[0m"
    assert stream.feed(b"red ") == "\x1b[31mred \x1b[0m"
    assert stream.feed(b"\x1b[") == ""
    assert stream.feed(b"0mplain") == "plain"


def test_an_escape_without_an_end_is_not_waited_for_forever() -> None:
    stream, pipe = TerminalStream(color=True), PlainStream()
    begun = b"\x1b]0;" + b"x" * LONGEST_HELD
    assert "x" * 100 in stream.feed(begun) + stream.feed(b"x")
    assert b"x" * 100 in pipe.feed(begun) + pipe.feed(b"x")


HOSTILE = [atom.encode("utf-8", "surrogatepass") for atom in ATOMS]
PARTS = [b"\x1b[", b"\x1b]", b"\x1b", b"m", b"31;", b"38;2;", b"K", b"\r", b"\b", b"\n", b"\r\n", b"\xe2\x82", b"\xac"]


def hostile_output(dice: random.Random) -> bytes:
    pieces = dice.choices([*HOSTILE, *PARTS, PROGRAM], k=dice.randint(1, 60))
    return mutated(dice, b"".join(pieces), 8) if dice.random() < 0.5 else b"".join(pieces)


def check_output(data: bytes) -> None:
    dice = random.Random(data)
    chunks = chunked(dice, data)
    for color in (True, False):
        shown = on_terminal(chunks, color).replace("\r", "") if color else "\n".join(colored_lines(data, color))
        rest = SGR.sub("", shown) if color else shown
        assert CONTROLS.search(rest) is None
    assert [line for line in colored_lines(data, True) if SGR.findall(line)[-1:] not in ([], ["\x1b[0m"])] == []
    assert b"\x1b" not in to_pipe(chunks)
    assert to_pipe([data]) == without_escapes(data)


@fuzzed("terminal text", inputs=1500)
def test_nothing_but_colours_reaches_a_terminal(count: int) -> None:
    fuzz("terminal text", hostile_output, check_output, count)


@pytest.mark.parametrize(
    "pattern",
    [
        b"\x1b[",
        b"\x1b]x",
        b"\x1b[0",
        b"0;",
        b"\r",
        b"\b",
        b"x\r",
        b"\x1b[31mx",
        b"\x1b[K",
        b"\x1bP",
        b"ab\b",
        b"\r\r\nx",
    ],
    ids=repr,
)
@pytest.mark.parametrize("start", [b"", b"\x1b[", b"\x1b]"], ids=repr)
def test_long_output_takes_time_in_proportion(pattern: bytes, start: bytes) -> None:
    def seconds(size: int) -> float:
        data = start + pattern * (size // len(pattern))
        began = time.process_time()
        colored_lines(data, True)
        on_terminal([data[at : at + 65536] for at in range(0, len(data), 65536)])
        to_pipe([data])
        style_after(data)
        return time.process_time() - began

    assert seconds(500_000) < 3.0  # quadratic: minutes
