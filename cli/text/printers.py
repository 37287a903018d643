"""How samples of a job are printed as they come: a table, blocks, JSON, JSON Lines, CSV."""

import csv
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobtop.cli.text.blocks import block
from jobtop.core.metrics import Kind, Metric, find_metric
from jobtop.core.model import Job
from jobtop.core.series.readings import KEYS, Reading, row, to_json
from jobtop.core.text.metric_text import format_rate, format_value
from jobtop.core.units import ABSENT, format_bytes, format_duration


class Printer:
    """Prints readings of a job as they come, each batch at once."""

    def __init__(self, job: Job, metrics: Sequence[Metric] = ()) -> None:
        self.job, self.metrics = job, metrics
        self.keys = tuple(metric.key for metric in metrics) or KEYS

    def print(self, readings: Iterable[Reading]) -> None:
        for reading in readings:
            self.one(reading)
        sys.stdout.flush()

    def one(self, reading: Reading) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Print what ends the output."""


class JsonLines(Printer):
    def one(self, reading: Reading) -> None:
        print(json.dumps(to_json(self.job, reading, self.keys)))


class Json(Printer):
    def __init__(self, job: Job, metrics: Sequence[Metric]) -> None:
        super().__init__(job, metrics)
        self.shapes: list[dict[str, Any]] = []

    def one(self, reading: Reading) -> None:
        self.shapes.append(to_json(self.job, reading, self.keys))

    def close(self) -> None:
        print(json.dumps(self.shapes, indent=2))


class Csv(Printer):
    def __init__(self, job: Job, metrics: Sequence[Metric]) -> None:
        super().__init__(job, metrics)
        self.writer = csv.writer(sys.stdout, lineterminator="\n")
        self.writer.writerow(["timestamp", "elapsed", *self.keys])

    def one(self, reading: Reading) -> None:
        self.writer.writerow(row(self.job, reading, self.keys))


class Blocks(Printer):
    def one(self, reading: Reading) -> None:
        if reading.seconds_since is not None:
            print(block(self.job, reading))


@dataclass(frozen=True, slots=True)
class Cell:
    """A column of the table; its width is fixed, for nobody knows what is to come."""

    title: str
    width: int
    show: Callable[[Reading], str]


def shown(key: str, form: Callable[[Any], str]) -> Callable[[Reading], str]:
    return lambda reading: form(reading.rates[key])


def value_cell(key: str, title: str, width: int) -> Cell:
    metric = find_metric(key)
    return Cell(title, width, lambda reading: format_value(metric, reading.values[key]))


def rate_cell(key: str, title: str, width: int) -> Cell:
    metric = find_metric(key)
    return Cell(title, width, lambda reading: format_rate(metric, reading.rates[key]))


# 80 columns, two blanks apart, with TIME and ELAPSED.
CELLS = (
    value_cell("cpu.percent", "CPU", 7),
    value_cell("mem.used", "MEM", 10),
    Cell("READ/s", 10, shown("io.read_bytes", format_bytes)),
    Cell("WRITE/s", 10, shown("io.write_bytes", format_bytes)),
    value_cell("proc.count", "PROCS", 5),
    value_cell("proc.threads", "THREADS", 7),
)


def cells_of(metrics: Sequence[Metric]) -> Iterable[Cell]:
    """A gauge is one column; a counter two, what it stands at and how fast it grows."""
    for metric in metrics:
        yield value_cell(metric.key, metric.key, max(10, len(metric.key)))
        if metric.kind is Kind.COUNTER:
            yield rate_cell(metric.key, "rate", 12)


class Table(Printer):
    """A line a sample, each printed at once, so that widths are fixed; on a terminal each screen has the titles."""

    def __init__(self, job: Job, metrics: Sequence[Metric]) -> None:
        super().__init__(job, metrics)
        self.cells = (
            Cell("TIME    ", 8, self.time),
            Cell("ELAPSED", 8, lambda reading: format_duration(reading.elapsed)),
            *(tuple(cells_of(metrics)) or CELLS),
        )
        self.lines = 0
        self.height = shutil.get_terminal_size().lines - 1 if os.isatty(1) else None

    def time(self, reading: Reading) -> str:
        if self.job.start_time is None:
            return ABSENT
        return datetime.fromtimestamp(self.job.start_time + reading.elapsed).astimezone().strftime("%H:%M:%S")

    def one(self, reading: Reading) -> None:
        words = [cell.show(reading) for cell in self.cells]
        if all(word == ABSENT for word in words[2:]) and reading.seconds_since is None:
            return  # the start, of which nothing is shown here
        if self.lines == 0 or (self.height and self.lines % self.height == 0):
            self.line(cell.title for cell in self.cells)
        self.line(words)

    def line(self, words: Iterable[str]) -> None:
        print("  ".join(f"{word:>{cell.width}}" for word, cell in zip(words, self.cells, strict=True)))
        self.lines += 1


PRINTERS = {"table": Table, "json": Json, "jsonl": JsonLines, "csv": Csv}
