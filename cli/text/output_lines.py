"""Prints the lines of a job's output as JSON, JSON Lines or CSV, each with its stream and its time."""

import csv
import json
import sys
import time
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from jobtop.core.clock import iso
from jobtop.core.model import SCHEMA_VERSION, Job
from jobtop.core.text.terminal_text import without_escapes
from jobtop.store.output.logs import STREAMS

DIGITS = 3


class LinePrinter:
    """Prints a record per line; times come from the marks, and of lines without a mark from the clock.

    A mark has the sizes of both logs at a moment, so that the time of a line is when it was written at the latest.
    """

    def __init__(
        self, job: Job, style: str, marks: Sequence[tuple[float, int, int | None]], is_live: bool, raw: bool
    ) -> None:
        self.job, self.style, self.is_live, self.raw = job, style, is_live, raw
        self._times = [mark[0] for mark in marks]
        self._sizes = [[mark[1] for mark in marks], [mark[2] or 0 for mark in marks]]
        self._records: list[dict[str, Any]] = []
        self._writer = csv.writer(sys.stdout, lineterminator="\n") if style == "csv" else None
        if self._writer is not None:
            self._writer.writerow(self._record(0, "", None, None))

    def print_line(self, stream: int, line: bytes, end: int) -> None:
        """Print a line that ends at an offset in its log."""
        text = (line if self.raw else without_escapes(line)).decode("utf-8", "replace").removesuffix("\r")
        self._print(self._record(stream, text, self._moment(stream, end), None))

    def print_hole(self, stream: int, size: int) -> None:
        """Print how many bytes are missing where the middle of a long log was dropped."""
        self._print(self._record(stream, "", None, size))

    def flush(self) -> None:
        sys.stdout.flush()

    def close(self) -> None:
        """Print the list, if the format is one."""
        if self.style == "json":
            print(json.dumps(self._records, indent=2))
        self.flush()

    def _moment(self, stream: int, end: int) -> float | None:
        """Return when a line was written at the latest, in seconds since the start; None if that is not known."""
        number = bisect_left(self._sizes[stream], end)
        if number < len(self._times):
            return self._times[number]
        if self.job.status.ended or not self.is_live or self.job.start_time is None:
            return self.job.duration_seconds
        return max(0.0, time.time() - self.job.start_time)

    def _record(self, stream: int, text: str, elapsed: float | None, left_out: int | None) -> dict[str, Any]:
        begin = self.job.start_time
        return {
            "schema_version": SCHEMA_VERSION,
            "job_id": self.job.id,
            "elapsed": None if elapsed is None else round(elapsed, DIGITS),
            "timestamp": None if elapsed is None or begin is None else iso(begin + elapsed),
            "stream": STREAMS[stream],
            "text": text,
            "left_out_bytes": left_out,
        }

    def _print(self, record: dict[str, Any]) -> None:
        if self.style == "json":
            self._records.append(record)
        elif self._writer is not None:
            self._writer.writerow(record.values())
        else:
            print(json.dumps(record))
