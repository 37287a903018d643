"""Prints samples of a job as they arrive: as a table, blocks, JSON, JSON Lines or CSV."""

import csv
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jobtop.cli.text.blocks import block, clock_time
from jobtop.core.metrics import Kind, Metric, find_metric
from jobtop.core.model import Job
from jobtop.core.series.readings import KEYS, SampleReading, csv_row, sample_json
from jobtop.core.text.limits_used import open_files_text
from jobtop.core.text.metric_text import format_rate, format_value
from jobtop.core.units import ABSENT, format_bytes, format_duration, format_percent


class Printer:
    """Prints readings of a job as they arrive; each batch is flushed at once."""

    def __init__(self, job: Job, metrics: Sequence[Metric] = ()) -> None:
        self.job, self.metrics = job, metrics
        self.keys = tuple(metric.key for metric in metrics) or KEYS

    def print(self, readings: Iterable[SampleReading]) -> None:
        for reading in readings:
            self.print_reading(reading)
        sys.stdout.flush()

    def print_reading(self, reading: SampleReading) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Print the end of the output, if the format has one."""


class JsonLinesPrinter(Printer):
    def print_reading(self, reading: SampleReading) -> None:
        print(json.dumps(sample_json(self.job, reading, self.keys)))


class JsonPrinter(Printer):
    def __init__(self, job: Job, metrics: Sequence[Metric]) -> None:
        super().__init__(job, metrics)
        self.records: list[dict[str, Any]] = []

    def print_reading(self, reading: SampleReading) -> None:
        self.records.append(sample_json(self.job, reading, self.keys))

    def close(self) -> None:
        print(json.dumps(self.records, indent=2))


class CsvPrinter(Printer):
    def __init__(self, job: Job, metrics: Sequence[Metric]) -> None:
        super().__init__(job, metrics)
        self.writer = csv.writer(sys.stdout, lineterminator="\n")
        self.writer.writerow(["timestamp", "elapsed", *self.keys])

    def print_reading(self, reading: SampleReading) -> None:
        self.writer.writerow(csv_row(self.job, reading, self.keys))


class BlockPrinter(Printer):
    def print_reading(self, reading: SampleReading) -> None:
        if reading.seconds_since is not None:
            print(block(self.job, reading))


@dataclass(frozen=True, slots=True)
class SampleColumn:
    """A column of the table. Its width is fixed, because rows are printed before later ones are known."""

    title: str
    width: int
    format: Callable[[SampleReading], str]


def rate_formatter(key: str, form: Callable[[Any], str]) -> Callable[[SampleReading], str]:
    return lambda reading: form(reading.rates[key])


def value_column(key: str, title: str, width: int) -> SampleColumn:
    metric = find_metric(key)
    return SampleColumn(title, width, lambda reading: format_value(metric, reading.values[key]))


def rate_column(key: str, title: str, width: int) -> SampleColumn:
    metric = find_metric(key)
    return SampleColumn(title, width, lambda reading: format_rate(metric, reading.rates[key]))


NARROW_WIDTH = 80
# With TIME and ELAPSED, and two spaces between columns, these fill 80 characters.
DEFAULT_COLUMNS = (
    value_column("cpu.percent", "CPU", 7),
    value_column("mem.used", "MEM", 10),
    SampleColumn("READ/s", 10, rate_formatter("io.read_bytes", format_bytes)),
    SampleColumn("WRITE/s", 10, rate_formatter("io.write_bytes", format_bytes)),
    value_column("proc.count", "PROCS", 5),
    value_column("proc.threads", "THREADS", 7),
)


def share_of_limit(reading: SampleReading) -> str:
    used, limit = reading.values["mem.used"], reading.values["limit.memory"]
    return ABSENT if used is None or not limit else format_percent(used / limit)


def open_files(reading: SampleReading) -> str:
    files, limit = reading.values["proc.fds"], reading.values["limit.fds"]
    return ABSENT if files is None else open_files_text(files, limit, reading.values["proc.count"]).partition(" (")[0]


# More columns, in this order, for as long as a terminal has room for them.
WIDE_COLUMNS = (
    SampleColumn("PEAK", 10, lambda reading: format_bytes(reading.memory_peak)),
    SampleColumn("OF LIMIT", 8, share_of_limit),
    SampleColumn("FILES", 13, open_files),
    rate_column("cpu.throttled", "THROTTLED", 9),
)


def fitting_columns(width: int) -> tuple[SampleColumn, ...]:
    """Return the columns of the table that a terminal of this width has room for."""
    columns, used = list(DEFAULT_COLUMNS), NARROW_WIDTH
    for column in WIDE_COLUMNS:
        used += column.width + 2
        if used >= width:
            break
        columns.append(column)
    return tuple(columns)


def sample_columns(metrics: Sequence[Metric]) -> Iterable[SampleColumn]:
    """Yield one column for a gauge, two for a counter: its total and its rate."""
    for metric in metrics:
        yield value_column(metric.key, metric.key, max(10, len(metric.key)))
        if metric.kind is Kind.COUNTER:
            yield rate_column(metric.key, "rate", 12)


class TablePrinter(Printer):
    """Prints a line per sample; on a terminal the titles are repeated once per screen."""

    def __init__(self, job: Job, metrics: Sequence[Metric]) -> None:
        super().__init__(job, metrics)
        width = shutil.get_terminal_size().columns if os.isatty(1) else NARROW_WIDTH
        self.columns = (
            SampleColumn("TIME    ", 8, lambda reading: clock_time(self.job, reading)),
            SampleColumn("ELAPSED", 8, lambda reading: format_duration(reading.elapsed)),
            *(tuple(sample_columns(metrics)) or fitting_columns(width)),
        )
        self.lines = 0
        self.height = shutil.get_terminal_size().lines - 1 if os.isatty(1) else None

    def print_reading(self, reading: SampleReading) -> None:
        cells = [column.format(reading) for column in self.columns]
        if all(cell == ABSENT for cell in cells[2:]) and reading.seconds_since is None:
            return  # the sample at the start of the job has no values for this table
        if self.lines == 0 or (self.height and self.lines % self.height == 0):
            self.print_line(column.title for column in self.columns)
        self.print_line(cells)

    def print_line(self, cells: Iterable[str]) -> None:
        print("  ".join(f"{cell:>{column.width}}" for cell, column in zip(cells, self.columns, strict=True)))
        self.lines += 1


PRINTERS = {"table": TablePrinter, "json": JsonPrinter, "jsonl": JsonLinesPrinter, "csv": CsvPrinter}
