"""`jobtop metrics`: the samples of a job from its start, then as they come, until it ends."""

import csv
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.blocks import block
from jobtop.cli.completion import job_ids
from jobtop.cli.output import format_options
from jobtop.cli.values import Duration
from jobtop.core.display import format_rate, format_value
from jobtop.core.errors import UsageError
from jobtop.core.metrics import Kind, Metric, find_metric
from jobtop.core.model import Job, Sample
from jobtop.core.readings import KEYS, Reader, Reading, job_metrics, row, to_json
from jobtop.core.thinning import kept_positions
from jobtop.core.units import ABSENT, format_bytes, format_duration
from jobtop.store.curves import Curves
from jobtop.store.jobs import Jobs
from jobtop.store.reconcile import current

POLL_SECONDS = 0.25
THINNED_BY = ("cpu.percent", "mem.used")  # whose peaks stay, unless others are asked for


def metric_keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [key for key in KEYS if key.startswith(incomplete)]


@click.command()
@click.argument("reference", metavar="ID", shell_complete=job_ids)
@click.option(
    "--metric",
    "keys",
    multiple=True,
    metavar="KEY",
    shell_complete=metric_keys,
    help="Only this, such as mem.used; may be repeated.",
)
@click.option("--since", type=Duration(), help="Only the last so long, such as 5m: until now, or until it ended.")
@click.option("--max-points", type=click.IntRange(2), metavar="N", help="Thin the past to so many; peaks stay.")
@click.option("-f", "--follow/--no-follow", default=None, help="Go on until the job has ended; by default if it runs.")
@click.option("--blocks", is_flag=True, help="A block of lines a sample, with everything known, instead of a table.")
@format_options
@click.pass_obj
def metrics(app: App, /, reference: str, keys: tuple[str, ...], style: str, blocks: bool, **options: Any) -> int:
    """Print the samples of a job from its start and go on while it runs.

    A table has a line a sample: rates are since the sample before. JSON Lines and CSV have counters as they stood.
    """
    chosen = job_metrics(keys)
    if blocks and (keys or style != "table"):
        raise UsageError("--blocks shows everything for people: leave out --metric and --format")
    jobs = app.jobs()
    job = jobs.find(reference)
    follow = options["follow"]
    if follow is None:
        follow = style != "json" and not job.status.ended
    elif follow and style == "json":
        raise UsageError("--format json is one list and has to end: --follow goes with --format jsonl")
    printer = Blocks(job) if blocks else PRINTERS[style](job, chosen)
    window = Window(options["since"], options["max_points"], keys or THINNED_BY)
    damaged = stream(app, jobs, job, follow, window, printer)
    warn_of_damage(app, job, damaged)
    return 0


def stream(app: App, jobs: Jobs, job: Job, follow: bool, window: "Window", printer: "Printer") -> int:
    """Print what there is and, following, what comes; how many samples could not be read."""
    curves, reader = Curves(jobs.database), Reader()
    warn_if_never_sampled(app, curves, job)
    cursor, damaged = None, 0
    while True:
        news = curves.follow(job, cursor)
        damaged += news.damaged
        readings = window.past(job, reader, news.samples) if cursor is None else reader.read(news.samples)
        printer.print(readings)
        cursor = news.cursor
        if news.over or not follow:
            printer.close()
            return damaged
        time.sleep(POLL_SECONDS)
        # Before the samples are read: those of a job that has ended by now are all there.
        job = current(jobs, app.paths, job)


def warn_if_never_sampled(app: App, curves: Curves, job: Job) -> None:
    """Say why there is no curve, and how to have one."""
    if job.seq is not None and curves.store.count(job.seq):
        return
    if job.status.ended:
        app.warn(
            f"job {job.id[:8]} was never sampled, so only its totals are known"
            " (jobtop run samples unless --no-monitor or --detach is given)"
        )
    else:
        app.warn(f"no samples of job {job.id[:8]} yet (one run with --no-monitor or --detach gets none)")


def warn_of_damage(app: App, job: Job, damaged: int) -> None:
    if damaged:
        app.warn(f"{damaged} samples of job {job.id[:8]} are damaged and left out")


@dataclass(frozen=True, slots=True)
class Window:
    """What to print of the samples that were there when we came: the last so many seconds, at most so many of them."""

    since: float | None
    max_points: int | None
    keys: Sequence[str]

    def past(self, job: Job, reader: Reader, samples: Sequence[Sample]) -> Iterator[Reading]:
        """The readings to print; the reader has seen all of the samples then."""
        start = 0.0 if self.since is None else age(job) - self.since
        kept = self._kept(start, samples)
        recent = (reading for reading in reader.read(samples) if reading.elapsed >= start)
        return (reading for position, reading in enumerate(recent) if position in kept)

    def _kept(self, start: float, samples: Sequence[Sample]) -> Container[int]:
        """Which of the readings since a moment; a first look keeps only what thinning needs of them."""
        if self.max_points is None:
            return range(len(samples))
        rows = [
            (reading.elapsed, *(reading.rates[key] for key in self.keys))
            for reading in Reader().read(samples)
            if reading.elapsed >= start
        ]
        if len(rows) <= self.max_points:
            return range(len(rows))
        times, *columns = map(list, zip(*rows, strict=True))
        return set(kept_positions(times, columns, self.max_points))


def age(job: Job) -> float:
    """How long a job has run, or ran."""
    if job.duration_seconds is not None:
        return job.duration_seconds
    return 0.0 if job.start_time is None else time.time() - job.start_time


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
