"""`jobtop metrics`: the samples of a job from its start, then as they come, until it ends."""

import time
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.completion import job_ids
from jobtop.cli.text.printers import PRINTERS, Blocks, Printer
from jobtop.cli.text.sample_text import warn_if_never_sampled, warn_if_thinned, warn_of_damage
from jobtop.cli.text.tables import format_options
from jobtop.cli.values import Duration
from jobtop.core.errors import StoreBusy, UsageError
from jobtop.core.model import Job, Sample
from jobtop.core.series.downsample import kept_positions
from jobtop.core.series.readings import KEYS, Reader, Reading, job_metrics
from jobtop.lifecycle.reconcile import current
from jobtop.lifecycle.wait import Looks
from jobtop.store.jobs import Jobs
from jobtop.store.samples.curves import Curves
from jobtop.store.samples.series import News

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
    jobs, job = app.find(reference)
    follow = options["follow"]
    if follow is None:
        follow = style != "json" and not job.status.ended
    elif follow and style == "json":
        raise UsageError("--format json is one list and has to end: --follow goes with --format jsonl")
    printer = Blocks(job) if blocks else PRINTERS[style](job, chosen)
    window = Window(options["since"], options["max_points"], keys or THINNED_BY)
    stream(app, jobs, job, follow, window, printer)
    return 0


def stream(app: App, jobs: Jobs, job: Job, follow: bool, window: "Window", printer: Printer) -> None:
    """Print what there is and, following, what comes."""
    curves, reader = Curves(jobs.database), Reader()
    looks = Looks(jobs.database.path, app.config.switch("store.network"))
    warn_if_never_sampled(app, curves, job)
    warn_if_thinned(app, job)
    printer.job = job = current(jobs, app.paths, job)  # it may have begun meanwhile
    news, cursor = curves.follow(job, None), None
    while True:
        warn_of_damage(app, job, news.damaged)
        readings = window.past(job, reader, news.samples) if cursor is None else reader.read(news.samples)
        printer.print(readings)
        cursor = news.cursor
        if news.over or not follow:
            printer.close()
            return
        looks.wait(POLL_SECONDS)
        news = News([], cursor)
        with suppress(StoreBusy):  # by and by it is not
            # Before the samples are read: those of a job that has ended by now are all there.
            printer.job = job = current(jobs, app.paths, job)
            news = curves.follow(job, cursor)


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
    """How long a job has run, or ran; of one that was lost nothing is known but its samples."""
    if job.duration_seconds is not None or job.status.ended:
        return job.duration_seconds or 0.0
    return 0.0 if job.start_time is None else time.time() - job.start_time
