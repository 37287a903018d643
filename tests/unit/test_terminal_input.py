"""Keys typed into the terminal of a job through its FIFO, and its size."""

import os
import pty
import signal
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobtop.core.run import terminal_input
from jobtop.core.run.supervisor import Terminal
from jobtop.core.run.terminal_input import open_input
from jobtop.core.shim.terminal import INPUT, Keyboard, signal_keys
from shims import Begin
from shims import begin as begin
from support import wait_for


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    master, slave = pty.openpty()
    yield master, slave
    os.close(master)
    os.close(slave)


@pytest.fixture
def keyboard(tmp_path: Path, ends: tuple[int, int]) -> Iterator[Keyboard]:
    os.set_blocking(ends[0], False)
    keyboard = Keyboard(str(tmp_path), Terminal(*ends).order())
    yield keyboard
    keyboard.close()


def test_keys_reach_the_terminal(tmp_path: Path, ends: tuple[int, int], keyboard: Keyboard) -> None:
    typing = open_input(tmp_path)
    assert typing is not None
    assert typing.type("grüße\r".encode())
    keyboard.move()
    assert os.read(ends[1], 100) == "grüße\n".encode()
    typing.close()
    assert not typing.type(b"x")


def test_a_long_text_is_typed_whole(tmp_path: Path, ends: tuple[int, int], keyboard: Keyboard) -> None:
    tty.setraw(ends[1])
    typing = open_input(tmp_path)
    assert typing is not None
    text = bytes(range(256)) * 12
    assert typing.type(text)
    typing.close()
    received = b""
    while len(received) < len(text):
        keyboard.move()
        received += os.read(ends[1], 4096)
    assert received == text


def test_the_size_is_set(tmp_path: Path, ends: tuple[int, int], keyboard: Keyboard) -> None:
    typing = open_input(tmp_path)
    assert typing is not None
    assert typing.resize(97, 13)
    keyboard.move()
    assert os.get_terminal_size(ends[1]) == (97, 13)
    typing.close()


@pytest.mark.parametrize(
    "garbage", [b"nonsense", b"K", b"K\x00", b"K\xff\xff", b"S\x00", b"S\x00\x00\x00\x00", b"\x00"]
)
def test_garbage_is_dropped_or_waits(tmp_path: Path, ends: tuple[int, int], keyboard: Keyboard, garbage: bytes) -> None:
    before = os.get_terminal_size(ends[1])
    fd = os.open(tmp_path / INPUT, os.O_WRONLY)
    os.write(fd, garbage)
    os.close(fd)
    keyboard.move()
    keyboard.move()
    assert os.get_terminal_size(ends[1]) == before


def test_the_fifo_is_private_and_goes_with_the_job(tmp_path: Path, keyboard: Keyboard) -> None:
    assert (tmp_path / INPUT).stat().st_mode & 0o777 == 0o600
    keyboard.close()
    assert not (tmp_path / INPUT).exists()
    assert open_input(tmp_path) is None


def test_a_fifo_without_a_reader_is_no_terminal(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / INPUT)
    assert open_input(tmp_path) is None


def test_a_file_or_a_link_is_no_terminal(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"")
    (tmp_path / INPUT).symlink_to("other")
    assert open_input(tmp_path) is None
    (tmp_path / INPUT).unlink()
    (tmp_path / INPUT).write_bytes(b"")
    assert open_input(tmp_path) is None
    assert open_input(tmp_path / "none") is None


def test_a_raw_terminal_makes_no_signals(ends: tuple[int, int]) -> None:
    assert signal_keys(ends[0]) == {0x03: signal.SIGINT, 0x1C: signal.SIGQUIT, 0x1A: signal.SIGTSTP}
    tty.setraw(ends[1])
    assert signal_keys(ends[0]) == {}


def test_a_job_reads_what_is_typed_and_ctrl_c_is_a_signal(begin: Begin, tmp_path: Path) -> None:
    terminal = Terminal(*os.openpty())
    terminal.is_controlling = False
    script = "trap 'echo interrupted; exit 4' INT; read line; echo got-$line; while :; do sleep 0.02; done"
    job = begin("sh", "-c", script, terminal=terminal, detached=True)
    typing = wait_for(lambda: open_input(tmp_path / "job"))
    typing.type(b"words\r")
    log = tmp_path / "job" / "stdout.log"
    wait_for(lambda: "got-words" in log.read_text())
    typing.type(b"\x03")
    assert os.waitstatus_to_exitcode(int(job.end()["status"])) == 4
    assert log.read_text() == "words\ngot-words\ninterrupted\n"
    assert not typing.type(b"more")
    typing.close()
    assert terminal_input.open_input(tmp_path / "job") is None
