"""The newest lines of a container, read in a thread of its own, with a limit on memory."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from jobtop.core.errors import EngineError

if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.log_lines import LogLine
    from jobtop.tui.data.containers.source import FollowedLog

MOST_LINES, MOST_BYTES = 10_000, 8 << 20


class LogTail:
    """Keeps the newest lines of a followed log. One thread reads; `lines` and the rest are read by another."""

    def __init__(self, log: FollowedLog, most_lines: int = MOST_LINES, most_bytes: int = MOST_BYTES) -> None:
        self._log, self._most_lines, self._most_bytes = log, most_lines, most_bytes
        self._lines: deque[LogLine] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self.read = 0  # lines that were read so far: the number of the next one
        self.is_over = False
        self.problem: str | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="jobtop-log", daemon=True)

    def start(self) -> LogTail:
        self._thread.start()
        return self

    def close(self) -> None:
        """End the thread; its stream ends in another one, since a closed connection may have to wait."""
        self._is_closed = True
        threading.Thread(target=self._log.close, name="jobtop-log-end", daemon=True).start()

    def newest(self) -> tuple[int, list[LogLine]]:
        """The number of the first kept line, counted from 0, and all kept lines, the oldest first."""
        with self._lock:
            return self.read - len(self._lines), list(self._lines)

    def _run(self) -> None:
        try:
            for line in self._log:
                if self._is_closed:
                    return
                self._keep(line)
        except EngineError as error:
            self.problem = None if self._is_closed else str(error)
        finally:
            self.is_over = True

    def _keep(self, line: LogLine) -> None:
        with self._lock:
            self._lines.append(line)
            self._bytes += len(line.data)
            self.read += 1
            while len(self._lines) > self._most_lines or self._bytes > self._most_bytes:
                self._bytes -= len(self._lines.popleft().data)
