"""The OCR project's `epoch_N.csv`: what its callback saw of a training run, a file an epoch, a line every so often."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from jobtop.store.transfer.samples import sampled
from jobtop.store.transfer.values import MIB, Intake, Taken, amount, moment, number

KIND = "epochs"
FIRST_COLUMNS = ("step", "timestamp")
DEFAULT_DIRECTORY = "resource_logs"
GPU_COLUMN = re.compile(r"gpu_\d+_(util|memory_used_mb)")
KNOWN = frozenset(
    "step timestamp cpu_process_percent memory_process_mb disk_read_mb disk_write_mb io_read_rate_mbps"
    " io_write_rate_mbps".split()
)
WHOLE_GPUS = "gpu: of whole devices, whoever used them"


def fits(names: Sequence[str]) -> bool:
    """Whether a header is of such a file."""
    return set(FIRST_COLUMNS) <= set(names)


def read(paths: Sequence[Path], intake: Intake) -> Iterator[Taken]:
    """The files of a directory are one job; its traffic is what was counted since the line before."""
    found = (row for path in paths for row in rows_of(path, intake))
    rows = sorted(intake.most_samples(paths[0].parent, found), key=lambda row: row[0])
    if not rows:
        return
    points, traffic = [], Traffic(rows[0][0])
    for at, line in rows:
        points.append((at, values_of(line) | traffic.after(at, line)))
    directory = paths[0].absolute().parent
    name = directory.parent.name if directory.name == DEFAULT_DIRECTORY else directory.name
    doubts = (WHOLE_GPUS,) if any("gpu.util" in values for _, values in points) else ()
    first = sorted(rows[0][1].items())
    yield sampled(intake.job(KIND, first, name=name or KIND, incomplete=doubts), points)


def rows_of(path: Path, intake: Intake) -> Iterator[tuple[float, dict[str, str]]]:
    """The moment and the values of every line."""
    reader = csv.reader(intake.lines(path))
    names: list[str] = []
    try:
        for words in reader:
            if not names:
                names = words
                intake.leave_out(KIND, (name for name in names if name not in KNOWN and not GPU_COLUMN.fullmatch(name)))
            elif words:
                line = dict(zip(names, words, strict=False))
                at = moment(line.get("timestamp"))
                if at is None or len(words) != len(names):
                    intake.cannot_read(path, reader.line_num, "it breaks off, or has no time")
                else:
                    yield at, line
    except csv.Error as error:
        intake.cannot_read(path, reader.line_num, str(error))


class Traffic:
    """Bytes read and written so far, from those of each line or from the rate since the one before."""

    def __init__(self, start: float) -> None:
        self.before = start
        self.total: dict[str, float] = {}

    def after(self, at: float, line: Mapping[str, str]) -> dict[str, int]:
        passed, self.before = at - self.before, at
        for way in ("read", "write"):
            size, rate = number(line.get(f"disk_{way}_mb")), number(line.get(f"io_{way}_rate_mbps"))
            grown = size if size is not None else None if rate is None else rate * passed
            if grown is not None:
                key = f"io.{way}_bytes"
                self.total[key] = self.total.get(key, 0.0) + max(0.0, grown) * MIB
        return {key: round(value) for key, value in self.total.items()}


def values_of(line: Mapping[str, str]) -> dict[str, float | int | None]:
    """What is of the job, by key; of several GPUs the sum."""
    memory = amount(line.get("memory_process_mb"), MIB)
    values: dict[str, float | int | None] = {"cpu.percent": number(line.get("cpu_process_percent"))}
    values |= {"mem.used": memory, "mem.rss": memory}
    for name, word in line.items():
        found, value = GPU_COLUMN.fullmatch(name), number(word)
        if found is None or value is None:
            continue
        key, factor = ("gpu.util", 1) if found[1] == "util" else ("gpu.mem_used", MIB)
        values[key] = (values.get(key) or 0) + (value if factor == 1 else round(value * factor))
    return values
