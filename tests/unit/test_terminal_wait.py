"""Which processes wait for input from a terminal: on captured files of /proc, and with real programs."""

import os
import pty
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobtop.core.measure.collectors.terminal_wait import CALLS, any_waits_for_input
from support import wait_for

REST = "0x0 0x0 0x0 0x7ffc 0x7f09\n"


def process(root: Path, syscall: str, links: dict[int, str], memory: bytes = b"") -> Path:
    folder = root / "7"
    (folder / "fd").mkdir(parents=True)
    (folder / "syscall").write_text(syscall)
    (folder / "mem").write_bytes(memory)
    for fd, target in links.items():
        os.symlink(target, folder / "fd" / str(fd))
    return root


@pytest.mark.parametrize(
    ("machine", "syscall", "waits"),
    [
        ("x86_64", f"0 0x0 0x7f45 0x400 {REST}", True),
        ("x86_64", f"0 0x3 0x7f45 0x400 {REST}", False),
        ("x86_64", f"1 0x0 0x7f45 0x400 {REST}", False),
        ("x86_64", "running\n", False),
        ("x86_64", "-1 0x7ffc 0x7f45\n", False),
        ("x86_64", "", False),
        ("x86_64", f"0 0x9 0x7f45 0x400 {REST}", False),
        ("aarch64", f"63 0x0 0x7f45 0x400 {REST}", True),
        ("aarch64", f"0 0x0 0x7f45 0x400 {REST}", False),
        ("riscv64", f"63 0x0 0x7f45 0x400 {REST}", False),
        ("x86_64", f"270 0x1 0x10 0x0 {REST}", True),
        ("x86_64", f"23 0x4 0x18 0x0 {REST}", False),
        ("aarch64", f"72 0x1 0x10 0x0 {REST}", True),
        ("x86_64", f"7 0x20 0x2 0xffff {REST}", True),
        ("x86_64", f"271 0x28 0x1 0x0 {REST}", False),
        ("x86_64", f"7 0xfffffffffffffff0 0x1 0x0 {REST}", False),
    ],
)
def test_a_read_of_a_terminal_is_recognised(tmp_path: Path, machine: str, syscall: str, waits: bool) -> None:
    memory = bytearray(48)
    memory[16], memory[24] = 0b1, 0b1000  # sets of descriptors: 0; 3
    memory[32:48] = struct.pack("=ihhihh", 0, 1, 0, 0, 4, 0)  # input of descriptor 0; its output
    root = process(tmp_path, syscall, {0: "/dev/pts/3", 3: "socket:[17]"}, bytes(memory))
    assert any_waits_for_input([6, 7], str(root), machine) is waits


@contextmanager
def at_terminal(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    master, slave = pty.openpty()
    try:
        with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True) as program:
            os.close(slave)
            try:
                yield program
            finally:
                program.kill()
    finally:
        os.close(master)


@pytest.mark.skipif(os.geteuid() != 0 or os.uname().machine not in CALLS, reason="needs the right to trace")
@pytest.mark.parametrize(
    "command",
    [
        (sys.executable, "-c", "input('name? ')"),
        (sys.executable, "-i", "-q"),
        ("sh", "-c", "read x"),
        ("bash", "--norc", "-i"),
    ],
    ids=["input", "python", "read", "bash"],
)
def test_real_programs_that_wait_are_recognised(command: tuple[str, ...]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    with at_terminal(*command) as program:
        wait_for(lambda: any_waits_for_input([program.pid]) or None)


@pytest.mark.skipif(os.geteuid() != 0 or os.uname().machine not in CALLS, reason="needs the right to trace")
def test_a_program_that_sleeps_does_not_wait_for_input() -> None:
    with at_terminal("sleep", "60") as program:
        wait_for(lambda: "sleep" in Path(f"/proc/{program.pid}/comm").read_text() or None)
        assert not any_waits_for_input([program.pid])
