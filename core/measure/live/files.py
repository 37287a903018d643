"""Reads the open files of one job repeatedly, for `jobtop files` and the console."""

from __future__ import annotations

import errno
import os
import time

from jobtop.core.measure.collectors.files.progress import FileTotals, ProcessFiles, Progress
from jobtop.core.measure.collectors.files.reading import (
    BOTH,
    is_data,
    list_descriptors,
    read_counters,
    read_descriptor,
    read_link,
    read_mapped,
    read_parent,
)
from jobtop.core.measure.collectors.heaviest import command_of
from jobtop.core.procfs import descendants
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jobtop.core.measure.collectors.files.reading import Descriptor, FileId
    from jobtop.core.measure.target import Target

MOST_MAPS = 64  # processes of which the mapped files are read too


@record
class FileLine:
    """An open file of a job at a moment; rates are in bytes a second since the reading before, None is not known.

    `read_bytes` and `written_bytes` are what was seen since the file was opened, at least.
    """

    path: str
    size_bytes: int | None
    position: int | None
    mode: str
    read_rate: float | None = None
    write_rate: float | None = None
    seconds_left: float | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    passes: int | None = None
    is_mapped: bool = False
    is_deleted: bool = False
    processes: int = 1
    pid: int | None = None
    command: str | None = None
    is_estimate: bool = False

    @property
    def rate(self) -> float:
        return (self.read_rate or 0.0) + (self.write_rate or 0.0)


@record
class LiveFiles:
    """The open files at a moment, those with the highest rate first; `denied` processes could not be read, and why."""

    files: tuple[FileLine, ...] = ()
    processes: int = 0
    denied: int = 0
    reason: str | None = None


class FileReader:
    """Reads the open files of one job; with `has_all` also devices, libraries and files of the system."""

    def __init__(
        self,
        target: Target,
        own_directory: str = "",
        has_all: bool = False,
        secret: Sequence[str] = (),
        proc: str = "/proc",
        list_pids: Callable[[], list[int]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Files below `own_directory` are left out: that is where jobtop keeps the output of jobs."""
        self._target, self._own, self._has_all, self._secret = target, own_directory, has_all, tuple(secret)
        self._proc, self._clock = proc, clock
        self._list_pids = list_pids or self._members
        self.progress = Progress()
        self._before: tuple[float, dict[FileId, tuple[int, int, int]]] | None = None

    def read(self) -> LiveFiles:
        """What is open now; a process or file that vanishes meanwhile is left out."""
        pids = self._list_pids()
        began, denied, why = self._clock(), 0, None
        processes: list[ProcessFiles] = []
        for pid in pids:
            found, problem = self._process(pid)
            if problem in (errno.EACCES, errno.EPERM):
                denied, why = denied + 1, os.strerror(problem or 0)
            elif problem is None:
                processes.append(found)
        self.progress.take(processes)
        now = (began + self._clock()) / 2
        lines = list(self._lines(processes, now))
        lines += self._mapped(processes, {line.path for line in lines})
        totals = self.progress.files.items()
        self._before = now, {file: (t.read_bytes, t.written_bytes, t.unknown_bytes) for file, t in totals}
        lines.sort(key=lambda line: (-line.rate, -(line.size_bytes or 0), line.path))
        return LiveFiles(tuple(lines), len(pids), denied, why)

    def _members(self) -> list[int]:
        root = self._target.root.pid
        return [*([root] if self._target.includes_root else []), *descendants(root)]

    def _process(self, pid: int) -> tuple[ProcessFiles, int | None]:
        fds, problem = list_descriptors(pid, self._proc)
        found = []
        for fd in fds:
            link = read_link(pid, fd, self._proc)
            descriptor = None if link is None else read_descriptor(pid, link, self._proc)
            if descriptor is not None and self._is_wanted(descriptor):
                found.append(descriptor)
        self.progress.drop(pid, {descriptor.fd for descriptor in found})
        return ProcessFiles(pid, read_parent(pid, self._proc), *read_counters(pid, self._proc), found), problem

    def _is_wanted(self, descriptor: Descriptor) -> bool:
        if self._own and descriptor.path.startswith(self._own):
            return False
        return self._has_all or is_data(descriptor.path, descriptor.is_device)

    def _lines(self, processes: Sequence[ProcessFiles], now: float) -> Iterator[FileLine]:
        holders: dict[FileId, list[int]] = {}
        for process in processes:
            for descriptor in process.descriptors:
                holders.setdefault(descriptor.file, []).append(process.pid)
        for file, pids in holders.items():
            totals = self.progress.files.get(file)
            if totals is not None:
                yield self._line(totals, list(dict.fromkeys(pids)), now)

    def _line(self, totals: FileTotals, pids: list[int], now: float) -> FileLine:
        descriptor = totals.descriptor
        is_both = descriptor.mode == BOTH
        read_rate = write_rate = left = None
        if self._before is not None and now > self._before[0]:
            seconds = now - self._before[0]
            read, written, unknown = self._before[1].get(descriptor.file, (0, 0, 0))
            read_rate, write_rate = (totals.read_bytes - read) / seconds, (totals.written_bytes - written) / seconds
            if totals.unknown_bytes > unknown:  # it was read or written, and which cannot be told
                read_rate, write_rate = read_rate or None, write_rate or None
            left = seconds_left(descriptor, totals.forward_bytes / seconds)
        pid = totals.forward_key[0] if totals.forward_key is not None and totals.forward_key[0] in pids else pids[0]
        return FileLine(
            descriptor.path,
            descriptor.size_bytes,
            descriptor.position,
            descriptor.mode,
            read_rate if descriptor.mode != "write" else None,
            write_rate if descriptor.mode != "read" else None,
            left,
            (totals.known_read_bytes if is_both else totals.read_bytes) if descriptor.mode != "write" else None,
            (totals.known_written_bytes if is_both else totals.written_bytes) if descriptor.mode != "read" else None,
            totals.passes if descriptor.mode != "write" else None,
            False,
            descriptor.is_deleted,
            len(pids),
            pid,
            command_of(self._proc, pid, self._secret) or None,
            totals.is_estimate,
        )

    def _mapped(self, processes: Sequence[ProcessFiles], shown: set[str]) -> Iterator[FileLine]:
        """Files that are only mapped: the descriptor is often closed after that."""
        holders: dict[str, tuple[Descriptor, list[int]]] = {}
        for process in processes[:MOST_MAPS]:
            for descriptor in read_mapped(process.pid, self._proc):
                if descriptor.path not in shown and self._is_wanted(descriptor):
                    holders.setdefault(descriptor.path, (descriptor, []))[1].append(process.pid)
        for path, (found, pids) in holders.items():
            yield FileLine(
                path,
                found.size_bytes,
                None,
                found.mode,
                is_mapped=True,
                is_deleted=found.is_deleted,
                processes=len(pids),
                pid=pids[0],
                command=command_of(self._proc, pids[0], self._secret) or None,
            )


def seconds_left(descriptor: Descriptor, rate: float) -> float | None:
    """How long it takes until a file that is read from start to end is read; None if it is not read forward."""
    size, position = descriptor.size_bytes, descriptor.position
    if descriptor.mode != "read" or rate <= 0 or size is None or position is None or position > size:
        return None
    return (size - position) / rate
