"""The CSV file of one epoch: a row per reading, and a header that fits every row."""

from __future__ import annotations

import csv
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FIRST_COLUMNS = ["step", "timestamp"]


class EpochFile:
    """Appends rows; a column that appears later is added to the whole file, empty in the rows before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._header: list[str] | None = None

    def append(self, step: int, timestamp: str, metrics: Mapping[str, float], columns: Sequence[str]) -> None:
        """Write one row, and make the file and its folder where they are missing."""
        header = self._header_with([*FIRST_COLUMNS, *columns])
        row = {"step": step, "timestamp": timestamp} | {name: round(value, 3) for name, value in metrics.items()}
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, header, restval="", lineterminator="\n").writerow(row)

    def _header_with(self, wanted: Sequence[str]) -> list[str]:
        """Return the header of the file after it has the wanted columns."""
        if self._header is None or not self.path.exists():
            self._header = self._read_header()
        missing = [name for name in wanted if name not in self._header]
        if missing:
            self._write_again([*self._header, *missing])
        return self._header

    def _read_header(self) -> list[str]:
        """Return the header that an earlier training has left; none without one."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        header = next(csv.reader(text.splitlines()), [])
        if header and header[:2] != FIRST_COLUMNS:
            raise ValueError(f"{self.path} has other contents; move it, or choose another timeseries_path")
        if header and not text.endswith("\n"):  # the training was killed in the middle of a row
            with self.path.open("a", encoding="utf-8") as file:
                file.write("\n")
        return header

    def _write_again(self, header: list[str]) -> None:
        """Replace the file by one with this header and the same rows."""
        rows: list[list[str]] = []
        if self._header:
            with self.path.open(newline="", encoding="utf-8") as file:
                rows = list(csv.reader(file))[1:]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            with fresh.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(header)
                writer.writerows(row + [""] * (len(header) - len(row)) for row in rows)
            fresh.replace(self.path)
        finally:
            fresh.unlink(missing_ok=True)
        self._header = header
