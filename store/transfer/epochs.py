"""Import the OCR project's `epoch_N.csv`: samples of a training run, with one file for each epoch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from jobtop.store.transfer.samples import WHOLE_GPUS, job_from_samples
from jobtop.store.transfer.values import MIB, ImportContext, ImportedJob, amount, moment, number

KIND = "epochs"
FIRST_COLUMNS = ("step", "timestamp")
DEFAULT_DIRECTORY = "resource_logs"
GPU_COLUMN = re.compile(r"gpu_\d+_(util|memory_used_mb)")
KNOWN = frozenset(
    "step timestamp cpu_process_percent memory_process_mb disk_read_mb disk_write_mb io_read_rate_mbps"
    " io_write_rate_mbps".split()
)


def matches(names: Sequence[str]) -> bool:
    """Whether a header is that of an epoch file."""
    return set(FIRST_COLUMNS) <= set(names)


def read(paths: Sequence[Path], context: ImportContext) -> Iterator[ImportedJob]:
    """The files of a directory as one job."""
    all_rows = (row for path in paths for row in rows_of(path, context))
    rows = sorted(context.most_samples(paths[0].parent, all_rows), key=lambda row: row[0])
    if not rows:
        return
    points, traffic = [], Traffic(rows[0][0])
    for at, line in rows:
        points.append((at, values_of(line) | traffic.after(at, line)))
    directory = paths[0].absolute().parent
    name = directory.parent.name if directory.name == DEFAULT_DIRECTORY else directory.name
    notes = (WHOLE_GPUS,) if any("gpu.util" in values for _, values in points) else ()
    first = sorted(rows[0][1].items())
    yield job_from_samples(context.job(KIND, first, name=name or KIND, incomplete=notes), points)


def rows_of(path: Path, context: ImportContext) -> Iterator[tuple[float, dict[str, str]]]:
    """The time and the values of every line."""
    rows = context.csv_rows(path)
    names = next(rows, (0, []))[1]
    context.leave_out(KIND, (name for name in names if name not in KNOWN and not GPU_COLUMN.fullmatch(name)))
    for line_number, words in rows:
        line = dict(zip(names, words, strict=False))
        at = moment(line.get("timestamp"))
        if at is None or len(words) != len(names):
            context.cannot_read(path, line_number, "it is truncated, or has no time")
        else:
            yield at, line


class Traffic:
    """Adds up the bytes read and written: those of each line, or its rate times the seconds since the previous line."""

    def __init__(self, start: float) -> None:
        self.before = start
        self.total: dict[str, float] = {}

    def after(self, at: float, line: Mapping[str, str]) -> dict[str, int]:
        """The bytes read and written by the time of a line, by key."""
        passed_seconds, self.before = at - self.before, at
        for direction in ("read", "write"):
            size, rate = number(line.get(f"disk_{direction}_mb")), number(line.get(f"io_{direction}_rate_mbps"))
            growth = size if size is not None else None if rate is None else rate * passed_seconds
            if growth is not None:
                key = f"io.{direction}_bytes"
                self.total[key] = self.total.get(key, 0.0) + max(0.0, growth) * MIB
        return {key: round(value) for key, value in self.total.items()}


def values_of(line: Mapping[str, str]) -> dict[str, float | int | None]:
    """The values of the job in a line, by key; the sum of several GPUs."""
    memory = amount(line.get("memory_process_mb"), MIB)
    values: dict[str, float | int | None] = {"cpu.percent": number(line.get("cpu_process_percent"))}
    values |= {"mem.used": memory, "mem.rss": memory}
    for name, word in line.items():
        match, value = GPU_COLUMN.fullmatch(name), number(word)
        if match is None or value is None:
            continue
        key, factor = ("gpu.util", 1) if match[1] == "util" else ("gpu.mem_used", MIB)
        values[key] = (values.get(key) or 0) + (value if factor == 1 else round(value * factor))
    return values
