"""The log files of a job: written, trimmed to a limit, and marked with the time at which they had which size.

Part of every shim: standard library only, imports nothing later.
"""

import fcntl
import os
import time

from jobtop.core.procfs import signals
from jobtop.core.shim.facts import append_mark
from jobtop.core.shim.system_calls import c_call, now, warn_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.shim.facts import LogLines

PUNCH_HOLE = 3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
MARK_SECONDS = ((3600.0, 1.0), (14400.0, 5.0), (float("inf"), 10.0))  # age of the job: seconds between marks
SHORTEST_CHECK_SECONDS = 0.02
FASTEST_BYTES = 4 << 30  # per second that a job can write to its log


class Log:
    """A log file that keeps its start and its end: above its limit, a hole is punched between them."""

    def __init__(self, path: str, limit: int) -> None:
        self.path, self.limit = path, limit
        self.punched = self.untrimmed = limit // 2
        self.error: str | None = None
        try:
            self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self.fd = -1
            self.fail(error)

    def fail(self, error: OSError) -> None:
        if self.error is None:
            self.error = os.strerror(error.errno or 0)
            warn_once(f"the output of this job cannot be kept ({self.error}); it still passes through")

    def write(self, data: memoryview) -> None:
        if self.error is not None:
            return
        self.untrimmed -= len(data)
        if self.untrimmed < 0:
            self.untrimmed = self.limit // 16
            self.trim()
        try:
            while data:
                data = data[os.write(self.fd, data) :]
        except OSError as error:
            self.fail(error)

    def size(self) -> int:
        return os.fstat(self.fd).st_size if self.fd >= 0 else 0

    def room(self) -> float:
        """The bytes that can be added before the log takes a quarter more than its limit."""
        kept = self.size() - (self.punched - self.limit // 2)
        return float("inf") if self.error is not None else self.limit * 5 / 4 - kept

    def trim(self) -> None:
        """Free the blocks between start and end; on a file system without holes only the start is kept."""
        tail_start = (self.size() - self.limit // 2) & ~4095
        start = (self.punched + 4095) & ~4095
        if self.fd < 0 or tail_start - start < max(self.limit // 16, 4096):
            return
        if c_call("fallocate", self.fd, PUNCH_HOLE, start, tail_start - start) == 0:
            self.punched = tail_start
        elif self.error is None:
            self.error = "longer than run.log_max, and this file system cannot drop the middle of a file"


class JobLogs:
    """The one or two logs of a job. If the job writes to one itself, the shim has to watch it grow."""

    def __init__(self, directory: str | None, limit: int) -> None:
        self.directory, self.limit = directory, limit
        self.are_written_by_job = False
        self.files: list[Log] = []
        self._start_boottime = 0.0
        self._marked: tuple[int, ...] = ()
        self._mark_at = 0.0
        self._checked: tuple[int, ...] = ()
        self._check_at: float | None = None
        self._watched_fd = -1

    def open(self, *names: str) -> "list[Log | None]":
        """Open logs with these names; None for each if the job has no directory."""
        if self.directory is None:
            return [None] * len(names)
        self.files = [Log(os.path.join(self.directory, name), self.limit) for name in names]
        return [*self.files]

    def begin(self, moment: float, start_boottime: float) -> None:
        """Start to mark the logs, and to watch those that the job writes itself."""
        self._start_boottime = start_boottime
        self._mark_at = moment + MARK_SECONDS[0][1]
        if self.are_written_by_job and self.directory:
            self._watch()

    def due_times(self) -> "tuple[float | None, ...]":
        return self._mark_at, self._check_at

    def attend(self, moment: float) -> None:
        """Trim and mark the logs if that is due."""
        if self._check_at is not None and moment >= self._check_at:
            self._check_at = self._check(moment)
        if moment >= self._mark_at:
            age = now()[1] - self._start_boottime
            self.mark(age)
            self._mark_at = moment + next(step for until, step in MARK_SECONDS if age < until)

    def note_growth(self) -> None:
        """Check the sizes soon: the kernel has reported that a log grows."""
        self._check_at = time.monotonic()

    def mark(self, age_seconds: float) -> None:
        """Trim the logs, and add the age of the job and their sizes to `marks`, so that all output has a time."""
        sizes = self._sizes()
        self._trim()
        if self.directory and sizes != self._marked:
            self._marked = sizes
            self._check_at = self._check_at or (time.monotonic() if self.are_written_by_job else None)
            append_mark(self.directory, age_seconds, sizes)

    def lines(self) -> "list[LogLines]":
        """The size and the error of each log, for the report."""
        return [{"log": log.size(), "log_error": log.error} for log in self.files]

    def _check(self, moment: float) -> float | None:
        """Trim the logs; return when they could be too long again, or None if they have stopped growing."""
        sizes = self._sizes()
        if sizes == self._checked:
            self._watch()
            return None
        self._checked = sizes
        self._trim()
        room = min((log.room() for log in self.files), default=float("inf"))
        return moment + min(max(SHORTEST_CHECK_SECONDS, room / FASTEST_BYTES), MARK_SECONDS[0][1])

    def _watch(self) -> None:
        """Have the kernel send one SIGIO when a log grows. A user may have only few inotify instances."""
        if self.directory is None:
            return
        try:
            if self._watched_fd < 0:
                signals.signal(signals.SIGIO, lambda *_: None)
                self._watched_fd = os.open(self.directory, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.fcntl(self._watched_fd, fcntl.F_NOTIFY, fcntl.DN_MODIFY)
        except (OSError, AttributeError):  # not Linux, or built without dnotify: the next mark finds the growth
            return

    def _sizes(self) -> tuple[int, ...]:
        return tuple(log.size() for log in self.files)

    def _trim(self) -> None:
        for log in self.files:
            log.trim()
