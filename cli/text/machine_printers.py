"""Prints samples of the host and its devices as they arrive: as a table for each kind, JSON, JSON Lines or CSV."""

import csv
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from jobtop.cli.text.tables import truncate
from jobtop.core.clock import local
from jobtop.core.measure.device import Device
from jobtop.core.metrics import Kind, Metric, Scope, find_metric
from jobtop.core.record import record
from jobtop.core.series.machine_readings import LATENCY, MachineReading, machine_json, machine_row
from jobtop.core.text.metric_text import format_rate, format_value
from jobtop.core.units import ABSENT, cell_width, format_bytes, format_percent, printable

Form = Callable[[MachineReading], str]
MAX_NAME = 32


@record
class Line:
    """One sample, and the host or device that it belongs to."""

    host: str
    device: Device | None
    reading: MachineReading

    @property
    def kind(self) -> str:
        return "" if self.device is None else self.device.kind


@record
class Cell:
    """A column of the table. Its width is fixed, because rows are printed before later ones are known."""

    title: str
    width: int
    format: Form


def value_cell(key: str, title: str, width: int) -> Cell:
    metric = find_metric(key)
    return Cell(title, width, lambda reading: format_value(metric, reading.values.get(key)))


def rate_cell(key: str, title: str, width: int) -> Cell:
    metric = find_metric(key)
    return Cell(title, width, lambda reading: format_rate(metric, reading.rates.get(key)))


def bytes_cell(key: str, title: str) -> Cell:
    return Cell(title, 10, lambda reading: format_bytes(reading.rates.get(key)))


def share_cell(part: str, whole: str, title: str, width: int) -> Cell:
    def form(reading: MachineReading) -> str:
        used, total = reading.values.get(part), reading.values.get(whole)
        return ABSENT if used is None or not total else format_percent(used / total)

    return Cell(title, width, form)


def sum_cell(keys: Sequence[str], title: str, width: int) -> Cell:
    metric = find_metric(keys[0])

    def form(reading: MachineReading) -> str:
        known = [value for key in keys if (value := reading.rates.get(key)) is not None]
        return format_rate(metric, sum(known) if len(known) == len(keys) else None)

    return Cell(title, width, form)


# With TIME and two spaces between columns, those of the host fill 80 characters.
TRAFFIC = (bytes_cell("disk.read_bytes", "READ/s"), bytes_cell("disk.write_bytes", "WRITE/s"))
NETWORK = (bytes_cell("net.rx_bytes", "RX/s"), bytes_cell("net.tx_bytes", "TX/s"))
CELLS: dict[str, tuple[Cell, ...]] = {
    "": (
        value_cell("cpu.percent", "CPU", 7),
        value_cell("mem.used", "MEM", 10),
        *TRAFFIC,
        *NETWORK,
    ),
    Scope.CORE: (
        value_cell("cpu.percent", "CPU", 7),
        rate_cell("cpu.iowait", "IOWAIT", 7),
        rate_cell("cpu.steal", "STEAL", 7),
    ),
    Scope.DISK: (
        *TRAFFIC,
        rate_cell("disk.busy", "BUSY", 7),
        Cell("LATENCY", 7, lambda reading: format_value(LATENCY, reading.rates.get(LATENCY.key))),
        value_cell("disk.used", "USED", 10),
        share_cell("disk.used", "disk.total", "OF DISK", 7),
    ),
    Scope.INTERFACE: (
        *NETWORK,
        sum_cell(("net.rx_packets", "net.tx_packets"), "PACKETS", 10),
        rate_cell("net.errors", "ERRORS", 8),
        rate_cell("net.drops", "DROPS", 8),
    ),
    Scope.NUMA: (
        value_cell("mem.used", "MEM", 10),
        value_cell("mem.cached", "CACHED", 10),
        value_cell("mem.total", "TOTAL", 10),
        rate_cell("numa.misses", "MISSES", 10),
    ),
    Scope.SENSOR: (value_cell("temp", "TEMP", 9), value_cell("fan.speed", "FAN", 10)),
    Scope.BATTERY: (value_cell("battery.charge", "CHARGE", 7), value_cell("battery.power", "POWER", 9)),
    Scope.PACKAGE: (rate_cell("energy.cpu", "POWER", 9),),
    Scope.GPU: (
        value_cell("gpu.util", "UTIL", 7),
        value_cell("gpu.mem_used", "MEM", 10),
        share_cell("gpu.mem_used", "gpu.mem_total", "OF GPU", 7),
        value_cell("gpu.temp", "TEMP", 8),
        value_cell("gpu.power", "POWER", 8),
    ),
}


class MachinePrinter:
    """Prints batches of lines; each batch is flushed at once."""

    def __init__(self, lines_of: Sequence[tuple[str, Device | None]], metrics: Sequence[Metric], keys: Sequence[str]):
        self.lines_of, self.metrics, self.keys = lines_of, metrics, keys

    def print(self, batch: Iterable[Line]) -> None:
        for line in sorted(batch, key=lambda line: line.reading.at):
            self.print_line(line)
        sys.stdout.flush()

    def print_line(self, line: Line) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Print the end of the output, if the format has one."""

    def record(self, line: Line) -> dict[str, Any]:
        return machine_json(line.host, line.device, line.reading, self.keys)


class JsonLines(MachinePrinter):
    def print_line(self, line: Line) -> None:
        print(json.dumps(self.record(line)))


class JsonList(MachinePrinter):
    """Writes each record as it comes, so that a week of samples does not fill the memory."""

    has_any = False

    def print_line(self, line: Line) -> None:
        text = json.dumps(self.record(line), indent=2).replace("\n", "\n  ")
        print(f"{',' if self.has_any else '['}\n  {text}", end="")
        self.has_any = True

    def close(self) -> None:
        print("\n]" if self.has_any else "[]")


class Csv(MachinePrinter):
    def __init__(self, lines_of: Sequence[tuple[str, Device | None]], metrics: Sequence[Metric], keys: Sequence[str]):
        super().__init__(lines_of, metrics, keys)
        self.writer = csv.writer(sys.stdout, lineterminator="\n")
        self.writer.writerow(["timestamp", "elapsed", "host", "kind", "name", *keys])

    def print_line(self, line: Line) -> None:
        self.writer.writerow(machine_row(line.host, line.device, line.reading, self.keys))


class Table(MachinePrinter):
    """Prints a line per sample, the lines of a kind of devices together; titles come once per kind and screen."""

    def __init__(self, lines_of: Sequence[tuple[str, Device | None]], metrics: Sequence[Metric], keys: Sequence[str]):
        super().__init__(lines_of, metrics, keys)
        self.kind: str | None = None
        self.lines = 0
        self.height = shutil.get_terminal_size().lines - 1 if os.isatty(1) else None
        has_hosts = len({host for host, _ in lines_of}) > 1
        self.host_width = max(4, *(cell_width(printable(host)) for host, _ in lines_of)) if has_hosts else 0

    def print(self, batch: Iterable[Line]) -> None:
        for _, lines in groupby(batch, lambda line: line.kind):
            super().print(lines)

    def print_line(self, line: Line) -> None:
        reading = line.reading
        if self.kind != line.kind or (self.height and self.lines % self.height == 0):
            if self.kind not in (None, line.kind):
                print()
            self.kind = line.kind
            self.print_titles()
        cells = [f"{cell.format(reading):>{cell.width}}" for cell in self.cells()]
        name = () if line.device is None else (padded(line.device.name, self.name_width()),)
        host = (padded(line.host, self.host_width),) if self.host_width else ()
        print("  ".join((local(reading.at)[-8:], *host, *name, *cells)))
        self.lines += 1

    def print_titles(self) -> None:
        host = (f"{'HOST':<{self.host_width}}",) if self.host_width else ()
        name = (f"{str(self.kind).upper():<{self.name_width()}}",) if self.kind else ()
        print("  ".join(("TIME    ", *host, *name, *(f"{cell.title:>{cell.width}}" for cell in self.cells()))))
        self.lines += 1

    def cells(self) -> Sequence[Cell]:
        """The columns of the kind: the chosen metrics, a counter with its rate, or those that fit the kind."""
        if not self.metrics and self.kind in CELLS:
            return CELLS[self.kind]
        cells = []
        for metric in self.metrics or [find_metric(key) for key in self.keys]:
            cells.append(value_cell(metric.key, metric.key, max(10, len(metric.key))))
            if metric.kind is Kind.COUNTER:
                cells.append(rate_cell(metric.key, "rate", 12))
        return cells

    def name_width(self) -> int:
        names = [
            printable(device.name) for _, device in self.lines_of if device is not None and device.kind == self.kind
        ]
        return min(MAX_NAME, max(len(self.kind or ""), *map(cell_width, names)))


def padded(text: str, width: int) -> str:
    text = truncate(printable(text), width)
    return text + " " * (width - cell_width(text))


MACHINE_PRINTERS: dict[str, type[MachinePrinter]] = {"table": Table, "json": JsonList, "jsonl": JsonLines, "csv": Csv}
