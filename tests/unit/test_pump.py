"""Output on its way, with real pipes, terminals and files: nothing is lost, nothing blocks, logs stay small."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobtop.core.shim import logs, output, system_calls
from jobtop.core.shim.logs import Log
from jobtop.core.shim.output import BUFFER_BYTES, PIPE_BUF, Stream

MEBIBYTE = 1024 * 1024
Pipe = Callable[[], tuple[int, int]]


@pytest.fixture(autouse=True)
def warnings() -> Iterator[None]:
    """Each test can cause the one warning of a shim."""
    system_calls.warnings.clear()
    yield
    system_calls.warnings.clear()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """Make a pipe; what of it is still open at the end is closed."""
    ends: list[tuple[int, os.stat_result]] = []

    def make() -> tuple[int, int]:
        pair = os.pipe()
        ends.extend((fd, os.fstat(fd)) for fd in pair)
        return pair

    yield make
    for fd, was in ends:
        try:
            now = os.fstat(fd)
        except OSError:
            continue
        if (now.st_dev, now.st_ino) == (was.st_dev, was.st_ino):
            os.close(fd)


def drain(fd: int) -> bytes:
    """What can be read now."""
    os.set_blocking(fd, False)
    parts = []
    try:
        while part := os.read(fd, 65536):
            parts.append(part)
    except BlockingIOError:
        pass
    return b"".join(parts)


def test_output_reaches_the_log_and_the_reader_until_its_end(tmp_path: Path, pipe: Pipe) -> None:
    (source, writer), (reader, sink) = pipe(), pipe()
    stream = Stream(source, sink, Log(str(tmp_path / "log"), MEBIBYTE))
    assert not stream.pull()
    os.write(writer, b"one\n")
    assert stream.pull()
    os.write(writer, b"two\n")
    assert stream.pull()
    os.close(writer)
    assert not stream.pull()
    assert stream.source == stream.sink == stream.twin == -1
    assert system_calls.read_to_end(reader) == b"one\ntwo\n"
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"


def test_a_reader_that_does_not_read_holds_back_the_rest_and_blocks_no_other(pipe: Pipe) -> None:
    (source, writer), (reader, sink) = pipe(), pipe()
    os.set_blocking(writer, False)
    stream = Stream(source, sink, None)
    sent = b""
    while stream.pending is None:
        sent += (part := os.urandom(4096))
        os.write(writer, part)
        stream.pull()
    stream.push()
    assert stream.pending is not None
    assert os.get_blocking(sink), "the flags of a pipe that others share must stay as they are"
    got = drain(reader)
    stream.push()
    assert stream.pending is None
    assert got + drain(reader) == sent
    stream.close()


def test_when_the_reader_goes_away_the_job_sees_a_broken_pipe(pipe: Pipe) -> None:
    (source, writer), (reader, sink) = pipe(), pipe()
    stream = Stream(source, sink, None)
    os.close(reader)
    os.write(writer, b"hello?")
    stream.pull()
    assert stream.source == -1
    with pytest.raises(BrokenPipeError):
        os.write(writer, b"hello?")


def test_without_a_reader_the_log_still_gets_everything(tmp_path: Path, pipe: Pipe) -> None:
    (source, writer), (reader, sink) = pipe(), pipe()
    stream = Stream(source, sink, Log(str(tmp_path / "log"), MEBIBYTE))
    stream.drop_sink()
    assert system_calls.read_to_end(reader) == b""
    os.write(writer, b"kept")
    assert stream.pull()
    assert stream.pending is None
    assert (tmp_path / "log").read_bytes() == b"kept"
    stream.close()


def test_into_a_file_everything_goes_at_once(tmp_path: Path, pipe: Pipe) -> None:
    source, writer = pipe()
    stream = Stream(source, os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT), None)
    os.write(writer, bytes(60_000))
    assert stream.pull()
    assert stream.pending is None
    assert (tmp_path / "out").stat().st_size == 60_000
    stream.close()


def test_into_what_might_block_little_goes_at_a_time(pipe: Pipe) -> None:
    source, writer = pipe()
    near, far = socket.socketpair()
    stream = Stream(source, os.dup(near.fileno()), None)
    os.write(writer, bytes(3 * PIPE_BUF))
    assert stream.pull()
    assert len(far.recv(BUFFER_BYTES)) == PIPE_BUF
    stream.push()
    stream.push()
    assert stream.pending is None
    assert len(far.recv(BUFFER_BYTES)) == 2 * PIPE_BUF
    stream.close()
    near.close()
    far.close()


def test_a_terminal_ends_with_its_last_holder(tmp_path: Path) -> None:
    master, slave = os.openpty()
    stream = Stream(master, -1, Log(str(tmp_path / "log"), MEBIBYTE))
    os.write(slave, b"bye\n")
    assert stream.pull()
    os.close(slave)
    assert not stream.pull()
    assert stream.source == -1
    assert (tmp_path / "log").read_bytes() == b"bye\r\n"


def test_any_other_error_of_the_source_is_not_hidden(tmp_path: Path) -> None:
    stream = Stream(os.open(tmp_path, os.O_RDONLY), -1, None)
    with pytest.raises(IsADirectoryError):
        stream.pull()
    stream.close()


def test_a_twin_of_what_cannot_be_reopened_is_none() -> None:
    near, far = socket.socketpair()
    assert output.open_twin(near.fileno()) == -1
    near.close()
    far.close()


def fill(log: Log, size: int, step: int = 50_000) -> bytes:
    """Write so many different bytes to a log, and what they were."""
    data = b"".join(number.to_bytes(8, "big") for number in range(size // 8))
    for start in range(0, size, step):
        log.write(memoryview(data)[start : start + step])
    return data


def test_a_log_within_its_limit_is_whole(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "log"), MEBIBYTE)
    data = fill(log, MEBIBYTE)
    log.trim()
    assert (tmp_path / "log").read_bytes() == data
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600
    assert log.size() == MEBIBYTE


@pytest.mark.parametrize("limit", [MEBIBYTE, 1_000_000])
def test_a_long_log_keeps_its_head_and_its_tail_and_little_else(tmp_path: Path, limit: int) -> None:
    log = Log(str(tmp_path / "log"), limit)
    data = fill(log, 5 * MEBIBYTE)
    log.trim()
    kept, half = (tmp_path / "log").read_bytes(), limit // 2
    assert len(kept) == len(data)
    assert kept[:half] == data[:half]
    assert kept[-half:] == data[-half:]
    assert (tmp_path / "log").stat().st_blocks * 512 < 1.2 * limit
    assert log.error is None


def test_a_short_limit_works_like_a_long_one(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "log"), 20_000)
    data = fill(log, 200_000, step=500)
    assert log.error is None
    assert (tmp_path / "log").read_bytes()[-10_000:] == data[-10_000:]


def test_where_no_hole_can_be_made_the_head_alone_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "c_call", lambda *_: -1)
    log = Log(str(tmp_path / "log"), MEBIBYTE)
    data = fill(log, 5 * MEBIBYTE)
    kept = (tmp_path / "log").read_bytes()
    assert data.startswith(kept)
    assert MEBIBYTE <= len(kept) < 1.2 * MEBIBYTE
    assert log.error is not None
    assert "run.log_max" in log.error


def test_what_another_process_wrote_to_the_log_is_trimmed_too(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "log"), MEBIBYTE)
    (tmp_path / "log").write_bytes(bytes(b"x" * (4 * MEBIBYTE)))
    log.trim()
    assert (tmp_path / "log").stat().st_blocks * 512 < 1.2 * MEBIBYTE


def test_a_full_disk_is_said_once_and_output_passes_on(capfd: pytest.CaptureFixture[str], pipe: Pipe) -> None:
    (source, writer), (reader, sink) = pipe(), pipe()
    stream = Stream(source, sink, Log("/dev/full", MEBIBYTE))
    for text in (b"one ", b"two"):
        os.write(writer, text)
        assert stream.pull()
    assert drain(reader) == b"one two"
    assert stream.log is not None
    assert stream.log.error == "No space left on device"
    assert capfd.readouterr().err == (
        "jobtop: the output of this job cannot be kept (No space left on device); it still passes through\n"
    )
    stream.close()


def test_a_log_that_cannot_be_opened_is_said_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    logs = [Log(str(tmp_path / "none" / name), MEBIBYTE) for name in ("stdout.log", "stderr.log")]
    for log in logs:
        log.write(memoryview(b"lost"))
        log.trim()
        assert (log.size(), log.error) == (0, "No such file or directory")
    assert capfd.readouterr().err.count("\n") == 1


def test_a_warning_that_cannot_be_written_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def refuse(fd: int, data: bytes) -> int:
        tried.append(fd)
        raise OSError(errno.EPIPE, "no reader")

    monkeypatch.setattr(os, "write", refuse)
    system_calls.warn_once("help")
    assert tried == [2]


def test_a_write_in_parts_is_completed(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = pipe()
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
    system_calls.write_all(writer, b"0123456789")
    os.close(writer)
    assert system_calls.read_to_end(reader) == b"0123456789"


def test_the_c_library_is_called_with_integers() -> None:
    assert system_calls.c_call("getpid") == os.getpid()
    assert system_calls.c_call("getpgid", os.getpid()) == os.getpgid(0)
    assert system_calls.c_call("no_such_function") == -1


@pytest.mark.parametrize("missing", ["_ctypes", "_ctypes ctypes"])
def test_without_the_private_module_the_c_library_is_called_by_the_public_one(missing: str) -> None:
    code = f"""
import ctypes, os, sys
for name in {missing.split()}: sys.modules[name] = None
from jobtop.core.shim import system_calls
assert system_calls.c_call("getpgid", os.getpid()) == {"os.getpgid(0)" if missing == "_ctypes" else -1}
assert system_calls.c_call("no_such_function") == -1
"""
    subprocess.run([sys.executable, "-c", code], check=True)
