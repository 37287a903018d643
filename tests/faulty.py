"""Faults of files: each makes one file unreadable or wrong, and puts it back; and a record of what a source reads."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from drm import as_user

from jobtop.core.measure.source import Readings
from jobtop.core.measure.watch import values_by_key

MIB = 1 << 20
GARBAGE = b"\xff\xfe" + random.Random(13).randbytes(600) + b"\n"
CONTENTS = {
    "empty": b"",
    "garbage": GARBAGE,
    "not UTF-8": b"\xff",
    "other digits": "²\n".encode(),
    "many digits": b"9" * 5000 + b"\n",
}
READ_ERRORS = {"EIO": errno.EIO, "ENODEV": errno.ENODEV, "ESRCH": errno.ESRCH}
FAULTS = (*CONTENTS, *READ_ERRORS, "missing", "torn", "denied", "directory", "huge")
LISTING_FAULTS = ("missing", "denied", "EIO")  # of a directory
Value = tuple[str, ...]


class Reads:
    """Notes which files and directories below a root are read, and lets reads of one of them fail."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = f"{root}/"
        self.files: set[str] = set()
        self.directories: set[str] = set()
        self.failing: tuple[str, int] | None = None
        self._paths: dict[int, str] = {}
        self._open, self._close, self._read, self._pread, self._listdir = (
            *(os.open, os.close, os.read),
            *(os.pread, os.listdir),
        )
        for name in ("open", "close", "read", "pread", "listdir"):
            monkeypatch.setattr(os, name, getattr(self, name))

    def open(self, path: str, flags: int, mode: int = 0o777, **options: int) -> int:
        fd = self._open(path, flags, mode, **options)
        if str(path).startswith(self._root):
            self.files.add(str(path))
            self._paths[fd] = str(path)
        return fd

    def close(self, fd: int) -> None:
        self._paths.pop(fd, None)
        self._close(fd)

    def read(self, fd: int, size: int) -> bytes:
        self._fail(self._paths.get(fd))
        return self._read(fd, size)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self._fail(self._paths.get(fd))
        return self._pread(fd, size, offset)

    def listdir(self, path: str = ".") -> list[str]:
        if str(path).startswith(self._root):
            self.directories.add(str(path))
            self._fail(str(path))
        return self._listdir(path)

    def _fail(self, path: str | None) -> None:
        if self.failing is not None and self.failing[0] == path:
            raise OSError(self.failing[1], os.strerror(self.failing[1]), path)

    @contextmanager
    def faulty(self, path: str, fault: str) -> Iterator[None]:
        """Read within it, and one file has a fault."""
        file = Path(os.path.realpath(path))  # through a link, a directory may be above itself
        away = Path(f"{file}.away")
        content = b"" if file.is_dir() else file.read_bytes()
        if fault in READ_ERRORS:
            self.failing = path, READ_ERRORS[fault]
            try:
                yield
            finally:
                self.failing = None
        elif fault in ("missing", "directory"):
            file.rename(away)
            if fault == "directory":
                file.mkdir()
            try:
                yield
            finally:
                if fault == "directory":
                    file.rmdir()
                away.rename(file)
        elif fault == "denied":
            mode = file.stat().st_mode
            file.chmod(0)
            try:
                with as_user():
                    yield
            finally:
                file.chmod(mode)
        else:
            file.write_bytes(wrong_content(fault, content))
            try:
                yield
            finally:
                file.write_bytes(content)


def wrong_content(fault: str, content: bytes) -> bytes:
    """What a file with a fault has instead of its content."""
    if fault == "huge":
        return content + b"9" * 2 * MIB
    return content[: len(content) // 2] if fault == "torn" else CONTENTS[fault]


def flat(readings: Readings) -> dict[Value, object]:
    """Every value that a source returned, by where it belongs and its key; what is not known is left out."""
    found: dict[Value, object] = {}
    jobs: dict[str, Mapping[str, object]] = {key: values_by_key(row) for key, row in readings.rows.items()}
    for job, values in (*jobs.items(), *readings.jobs.items()):
        found |= {("job", job, key): value for key, value in values.items()}
    found |= {("host", key): value for key, value in readings.host.items()}
    for device, measured in readings.devices:
        found |= {(device.kind, device.name, key): value for key, value in measured.items()}
    found |= {("named", *names): value for names, value in readings.named.items()}
    for job, remarks in readings.remarks.items():
        found |= {("incomplete", job, text.partition(":")[0]): text for text in remarks.incomplete}
        for kind, rows in remarks.findings.items():
            for row in rows:
                name = str(row.get("path") or row.get("device"))
                found |= {(kind, job, name, key): value for key, value in row.items()}
    return {key: value for key, value in found.items() if value is not None}
