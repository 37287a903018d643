"""The open files of processes: what fd and fdinfo say, how far files are read, and every file that can be missing."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jobtop.core.measure.collectors.files.progress import Progress
from jobtop.core.measure.collectors.files.reading import is_data, list_descriptors, read_link, read_mapped
from jobtop.core.measure.live.files import FileLine, FileReader, LiveFiles
from jobtop.core.measure.target import Target
from jobtop.core.model import Identity
from jobtop.core.text.file_text import position_text, rate_text
from open_files import FileProc, sized

MIB = 1 << 20
TARGET = Target(Identity("boot", 1, 1), 0.0)


class Machine:
    """Processes with open files, read by a reader whose clock the test moves."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.proc = directory, FileProc(directory)
        self.now = 0.0
        self.pids = [10]
        self.proc.process(10)
        self.reader = self.opened()

    def opened(self, own: str = "", has_all: bool = False) -> FileReader:
        return FileReader(TARGET, own, has_all, (), self.proc.path, lambda: self.pids, lambda: self.now)

    def file(self, name: str, size: int) -> Path:
        return sized(self.directory / name, size)

    def read_after(self, seconds: float) -> LiveFiles:
        self.now += seconds
        return self.reader.read()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_rate_position_and_time_left_of_a_file_that_is_read_forward(machine: Machine) -> None:
    machine.proc.open(10, 3, machine.file("data", 100 * MIB), 10 * MIB)
    machine.proc.counters(10, 10 * MIB)
    (first,) = machine.read_after(0).files
    assert (first.position, first.size_bytes, first.mode) == (10 * MIB, 100 * MIB, "read")
    assert first.read_rate is None
    machine.proc.at(10, 3, 30 * MIB)
    machine.proc.counters(10, 30 * MIB)
    (line,) = machine.read_after(2).files
    assert line.read_rate == 10 * MIB
    assert line.seconds_left == 7.0
    assert line.write_rate is None
    assert (line.pid, line.command) == (10, "worker 10")
    assert (position_text(line), rate_text(line)) == ("30 %", "10.0 MiB/s")


def test_a_position_that_falls_is_another_pass(machine: Machine) -> None:
    machine.proc.open(10, 3, machine.file("data", 100 * MIB), 60 * MIB)
    machine.proc.counters(10, 60 * MIB)
    machine.read_after(0)
    machine.proc.at(10, 3, 20 * MIB)
    machine.proc.counters(10, 120 * MIB)  # the rest of the file, and 20 MiB from its start
    (line,) = machine.read_after(1).files
    assert (line.read_bytes, line.passes) == (120 * MIB, 2)
    assert line.seconds_left is None
    assert line.is_estimate


def test_a_seek_counts_for_no_more_than_was_read(machine: Machine) -> None:
    machine.proc.open(10, 3, machine.file("data", 100 * MIB), 90 * MIB)
    machine.proc.counters(10, 1 * MIB)
    (line,) = machine.read_after(0).files
    assert (line.read_bytes, line.is_estimate) == (MIB, True)
    machine.proc.at(10, 3, 50 * MIB)
    machine.proc.counters(10, 2 * MIB)
    (line,) = machine.read_after(1).files
    assert (line.read_bytes, line.passes) == (2 * MIB, 1)


def test_a_file_that_is_written_has_no_time_left(machine: Machine) -> None:
    machine.proc.open(10, 4, machine.file("out", 8 * MIB), 8 * MIB, os.O_WRONLY)
    machine.proc.counters(10, 0, 8 * MIB)
    machine.read_after(0)
    machine.file("out", 12 * MIB)
    machine.proc.at(10, 4, 12 * MIB, os.O_WRONLY)
    machine.proc.counters(10, 0, 12 * MIB)
    (line,) = machine.read_after(2).files
    assert (line.mode, line.write_rate, line.read_rate, line.seconds_left) == ("write", 2 * MIB, None, None)
    assert line.written_bytes == 12 * MIB


def both(machine: Machine, steps: list[tuple[int, int, int]], size: int = 0) -> FileLine:
    """A file open to read and to write after steps: its position, and what the process has read and written in all."""
    data = machine.file("both", size)
    machine.read_after(0)
    machine.proc.open(10, 4, data, 0, os.O_RDWR)
    for position, read, written in steps:
        os.truncate(data, max(position, data.stat().st_size))
        machine.proc.at(10, 4, position, os.O_RDWR)
        machine.proc.counters(10, read, written)
        (line,) = machine.read_after(1).files
    return line


@pytest.mark.parametrize(
    ("steps", "size", "read", "written"),
    [
        pytest.param([(500, 0, 500), (900, 0, 900)], 0, None, 900, id="only written"),
        pytest.param([(500, 500, 0), (900, 900, 0)], 900, 900, None, id="only read"),
        pytest.param([(500, 9000, 500)], 0, None, None, id="the process also read elsewhere"),
        pytest.param([(500, 9000, 500), (900, 9999, 900)], 0, None, 400, id="behind the former end"),
        pytest.param([(500, 20, 500)], 0, None, 480, id="more than was read"),
        pytest.param([(500, 500, 20)], 900, 480, None, id="more than was written"),
        pytest.param([(900, 0, 900), (400, 400, 900)], 0, 400, 900, id="written, then read from the start"),
        pytest.param([(9000, 20, 30)], 0, None, None, id="a seek"),
        pytest.param([(9000, 0, 30)], 0, None, 30, id="a seek of a process that only writes"),
    ],
)
def test_a_file_open_for_both_counts_only_what_cannot_be_the_other_direction(
    machine: Machine, steps: list[tuple[int, int, int]], size: int, read: int | None, written: int | None
) -> None:
    line = both(machine, steps, size)
    assert (line.mode, line.read_bytes, line.written_bytes) == ("read+write", read, written)
    assert line.is_estimate or (read, written) == (None, None)


def test_what_a_process_read_before_it_opened_a_file_does_not_count(machine: Machine) -> None:
    machine.proc.counters(10, 300_000)  # as Python does when it starts
    assert both(machine, [(500, 300_000, 500)]).written_bytes == 500


def test_a_move_in_an_unknown_direction_has_no_rate(machine: Machine) -> None:
    line = both(machine, [(500, 9000, 9000)], 900)
    assert (line.read_rate, line.write_rate, rate_text(line)) == (None, None, "–")


def test_a_fork_that_reads_through_a_file_open_for_both_is_no_writer(machine: Machine) -> None:
    data = machine.file("both", 900)
    machine.pids = [10, 11]
    machine.proc.process(11)
    for pid in machine.pids:
        machine.proc.open(pid, 4, data, 500, os.O_RDWR)
    machine.proc.counters(11, 500)
    (line,) = machine.read_after(0).files
    assert (line.read_bytes, line.written_bytes) == (500, None)


def test_an_open_file_that_a_fork_shares_counts_once(machine: Machine) -> None:
    data = machine.file("data", 100 * MIB)
    machine.pids = [10, 11]
    machine.proc.process(11)
    for pid in machine.pids:
        machine.proc.open(pid, 3, data, 20 * MIB)
    machine.proc.counters(10, 12 * MIB)
    machine.proc.counters(11, 8 * MIB)
    (line,) = machine.read_after(0).files
    assert (line.read_bytes, line.processes) == (20 * MIB, 2)


def test_workers_that_open_a_file_themselves_count_each(machine: Machine) -> None:
    data = machine.file("data", 100 * MIB)
    machine.pids = [10, 11]
    machine.proc.process(11)
    for pid, position in zip(machine.pids, (20 * MIB, 30 * MIB), strict=True):
        machine.proc.open(pid, 3, data, position)
        machine.proc.counters(pid, position)
    (line,) = machine.read_after(0).files
    assert (line.read_bytes, line.passes, line.processes) == (50 * MIB, 2, 2)
    assert line.position == 30 * MIB


def test_pipes_sockets_devices_libraries_and_own_logs_are_left_out(machine: Machine) -> None:
    logs = machine.directory / "state"
    logs.mkdir()
    for fd, target in enumerate(("pipe:[77]", "socket:[78]", "anon_inode:[eventpoll]", "/dev/null", "/proc/self/stat")):
        machine.proc.open(10, fd, target)
    machine.proc.open(10, 8, machine.file("libx.so.1", 10))
    machine.proc.open(10, 9, machine.file("module.pyc", 10))
    machine.proc.open(10, 10, machine.file("state/stdout.log", 10))
    machine.proc.open(10, 11, machine.directory)
    machine.proc.open(10, 12, machine.file("data", 10))
    machine.reader = machine.opened(str(logs))
    assert [Path(line.path).name for line in machine.read_after(0).files] == ["data"]
    machine.reader = machine.opened(str(logs), has_all=True)
    names = {Path(line.path).name for line in machine.read_after(0).files}
    assert {"data", "libx.so.1", "module.pyc"} <= names
    assert "stdout.log" not in names


def test_a_mapped_file_has_no_position(machine: Machine) -> None:
    mapped, program = machine.file("weights", 4 * MIB), machine.file("program", 10)
    maps = (
        f"7f00-7f10 r--s 00000000 08:01 42 {mapped}\n"
        f"7f10-7f20 r-xp 00000000 08:01 43 {program}\n"
        f"7f20-7f30 rw-p 00000000 08:01 43 {program}\n"
        "7f30-7f40 rw-p 00000000 00:00 0 [heap]\ntorn line\n7f\n"
    )
    machine.proc.process(10, maps=maps)
    (line,) = machine.read_after(0).files
    assert (line.path, line.is_mapped, line.position) == (str(mapped), True, None)
    assert (position_text(line), rate_text(line)) == ("mapped", "–")


def test_a_deleted_mapping_is_marked(machine: Machine) -> None:
    machine.proc.process(10, maps="7f00-7f10 rw-s 00000000 08:01 42 /data/gone (deleted)\n")
    (found,) = read_mapped(10, machine.proc.path)
    assert (found.path, found.is_deleted, found.size_bytes, found.mode) == ("/data/gone", True, None, "read+write")


def test_a_denied_process_is_a_reason(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: str) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "listdir", denied)
    found = machine.read_after(0)
    assert (found.files, found.denied) == ((), 1)
    assert found.reason == "Permission denied"


@pytest.mark.parametrize("name", ["fd", "fdinfo", "io", "maps", "cmdline", "", "fdinfo/3"])
def test_a_file_of_proc_that_is_missing_is_no_error(machine: Machine, name: str) -> None:
    machine.proc.open(10, 3, machine.file("data", 100), 50)
    machine.proc.counters(10, 50)
    machine.read_after(0)
    moved = machine.proc.root / "10" / name
    moved.rename(machine.directory / "elsewhere")
    found = machine.read_after(1)
    assert found.denied == 0
    assert [line.path for line in found.files] in ([], [str(machine.directory / "data")])


@pytest.mark.parametrize(
    "text", ["", "pos:", "pos:\t12", "pos:\t1\nflags:\t01", "pos:\tx\nflags:\t0\n", "flags:\t99\npos:\t1\n", "\0\0"]
)
def test_a_torn_fdinfo_is_no_open_file(machine: Machine, text: str) -> None:
    machine.proc.open(10, 3, machine.file("data", 100), 50)
    (machine.proc.root / "10/fdinfo/3").write_text(text)
    assert read_link(10, 3, machine.proc.path) is None
    assert machine.read_after(0).files == ()


def test_descriptors_that_vanish_after_the_listing_are_left_out(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.proc.open(10, 3, machine.file("data", 100), 50)
    machine.proc.open(10, 4, machine.directory / "vanished", 50)  # the link is there, the file is not
    listdir: Callable[[str], list[str]] = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: [*listdir(path), "77", "x"])
    assert list_descriptors(10, machine.proc.path) == ([3, 4, 77], None)
    assert [Path(line.path).name for line in machine.read_after(0).files] == ["data"]


def test_without_counters_positions_are_believed(machine: Machine) -> None:
    machine.proc.open(10, 3, machine.file("data", 100 * MIB), 90 * MIB)
    (machine.proc.root / "10/io").unlink()
    (line,) = machine.read_after(0).files
    assert line.read_bytes == 90 * MIB
    machine.proc.at(10, 3, 10 * MIB)
    (line,) = machine.read_after(1).files
    assert line.read_bytes == 100 * MIB  # at least: the rest of the file may not have been read


def test_a_descriptor_number_that_goes_to_another_file_starts_anew(machine: Machine) -> None:
    machine.proc.open(10, 3, machine.file("first", 100), 80)
    machine.proc.counters(10, 80)
    machine.read_after(0)
    machine.proc.close(10, 3)
    machine.proc.open(10, 3, machine.file("second", 100), 90)
    machine.proc.counters(10, 170)
    (line,) = machine.read_after(1).files
    assert (Path(line.path).name, line.read_bytes) == ("second", 90)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data/a.bin", True),
        ("/dev/shm/x", False),
        ("/usr/lib/libm.so.6", False),
        ("/x/m.pyc", False),
        ("/a.so", False),
    ],
)
def test_which_paths_are_data(path: str, expected: bool) -> None:
    assert is_data(path) is expected


def test_a_block_device_is_data() -> None:
    assert is_data("/dev/sda", is_device=True)


def test_exited_processes_are_forgotten_and_their_bytes_kept(machine: Machine) -> None:
    machine.proc.open(10, 3, machine.file("data", 100), 50)
    machine.proc.counters(10, 50)
    machine.read_after(0)
    progress: Progress = machine.reader.progress
    progress.forget({10})
    assert progress.known(10, 3) is None
    assert [totals.read_bytes for totals in progress.files.values()] == [50]
