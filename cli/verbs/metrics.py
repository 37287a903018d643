"""`jobtop metrics`: prints the samples of a job or of the host, and new ones as they come."""

import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.completion import complete_job_id
from jobtop.cli.text.printers import PRINTERS, BlockPrinter, Printer
from jobtop.cli.text.sample_text import warn_if_never_sampled, warn_if_thinned, warn_of_damage
from jobtop.cli.text.tables import STREAM, stream_format_options
from jobtop.cli.values import Count, LastOrSince
from jobtop.core.errors import StoreBusy, UsageError
from jobtop.core.metrics import BY_KEY, DEVICE_SCOPES
from jobtop.core.model import Job, Sample
from jobtop.core.series.downsample import select_positions
from jobtop.core.series.readings import KEYS, SampleReader, SampleReading, job_metrics
from jobtop.lifecycle.reconcile import current
from jobtop.lifecycle.wait import Looks
from jobtop.store.jobs import Jobs
from jobtop.store.references import FORMS_HELP
from jobtop.store.samples.curves import Curves
from jobtop.store.samples.series import News

POLL_SECONDS = 0.25
PEAK_METRICS = ("cpu.percent", "mem.used")  # thinning keeps their peaks, unless --metric names others


def complete_metric(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [key for key in (BY_KEY if ctx.params.get("host") else KEYS) if key.startswith(incomplete)]


def complete_device(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [kind for kind in (*DEVICE_SCOPES, "all") if kind.startswith(incomplete)]


def metric_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option --metric, as the argument `keys`, with this help text."""
    return click.option("--metric", "keys", multiple=True, metavar="KEY", shell_complete=complete_metric, help=text)


def host_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --host and --device to a verb, as the arguments `host` and `devices`."""
    command = click.option(
        "--device",
        "devices",
        multiple=True,
        metavar="NAME",
        shell_complete=complete_device,
        help=f"With --host: this device (disk:sda, sda), a kind ({' '.join(DEVICE_SCOPES)}) or all; may be repeated.",
    )(command)
    return click.option("--host", is_flag=True, help="The host, or its devices, instead of a job.")(command)


def is_about_host(reference: object, options: Mapping[str, Any]) -> bool:
    """Return whether the host is meant; UsageError if a job is named too, or a device without --host."""
    if options["host"] and reference:
        raise UsageError("--host is about the host: leave out the ID")
    if options["devices"] and not options["host"]:
        raise UsageError("--device needs --host")
    return bool(options["host"])


def required_id(reference: str | None) -> str:
    """Return the ID; the usual error if there is none."""
    if reference is None:
        context = click.get_current_context()
        raise click.MissingParameter(ctx=context, param=context.command.params[0])
    return reference


@click.command(epilog=FORMS_HELP)
@click.argument("reference", metavar="ID", required=False, shell_complete=complete_job_id)
@host_options
@metric_option("Only this metric, such as mem.used; may be repeated.")
@click.option(
    "--since",
    type=LastOrSince(),
    help="Only the last part, such as 5m: up to now, or to the job's end. Or since a time: 2026-11-15T14:30."
    " With --host: 1h unless given.",
)
@click.option("--max-points", type=Count(2), metavar="N", help="Thin past samples to at most N; peaks are kept.")
@click.option(
    "-f",
    "--follow/--no-follow",
    default=None,
    help="Print new samples until the job has ended; the default for a running job. With --host: until Ctrl-C.",
)
@click.option(
    "--blocks", is_flag=True, help="Print a block of lines per sample, with all known values, instead of a table."
)
@stream_format_options("Short for --format jsonl.")
@click.pass_obj
def metrics(app: App, /, reference: str | None, keys: tuple[str, ...], style: str, blocks: bool, **options: Any) -> int:
    """Print the samples of a job from its start, and new ones while it runs; or those of the host.

    A table has a line per sample, with rates since the previous one. JSON Lines and CSV have the counters themselves.
    """
    style = "jsonl" if style == STREAM else style
    if is_about_host(reference, options):
        if options["follow"] and style == "json":
            raise UsageError("--follow needs --format jsonl: --format json is one list")
        if blocks or options["max_points"] is not None:
            raise UsageError("--blocks and --max-points are for jobs: leave them out with --host")
        from jobtop.cli.machine_stream import print_machine

        print_machine(app, options["devices"], keys, style, options["since"], bool(options["follow"]))
        return 0
    reference = required_id(reference)
    chosen = job_metrics(keys)
    if blocks and (keys or style != "table"):
        raise UsageError("--blocks shows everything for people: leave out --metric and --format")
    jobs, job = app.find(reference)
    follow = options["follow"]
    if follow is None:
        follow = style != "json" and not job.status.ended
    elif follow and style == "json":
        raise UsageError("--follow needs --format jsonl: --format json is one list")
    printer = BlockPrinter(job) if blocks else PRINTERS[style](job, chosen)
    window = Window(options["since"], options["max_points"], keys or PEAK_METRICS)
    stream(app, jobs, job, follow, window, printer)
    return 0


def stream(app: App, jobs: Jobs, job: Job, follow: bool, window: "Window", printer: Printer) -> None:
    """Print the samples so far; if following, print new ones until the job has ended."""
    curves, reader = Curves(jobs.database), SampleReader()
    looks = Looks(jobs.database.path, app.config.switch("store.network"))
    warn_if_never_sampled(app, curves, job)
    warn_if_thinned(app, job)
    printer.job = job = current(jobs, app.paths, job)  # it may have started meanwhile
    news, cursor = curves.follow(job, None), None
    while True:
        warn_of_damage(app, job, news.damaged)
        readings = window.past_readings(job, reader, news.samples) if cursor is None else reader.read(news.samples)
        printer.print(readings)
        cursor = news.cursor
        if news.over or not follow:
            printer.close()
            return
        looks.wait(POLL_SECONDS)
        news = News([], cursor)
        with suppress(StoreBusy):  # try again later
            # Read the job before its samples: if it has ended, all its samples are in the store.
            printer.job = job = current(jobs, app.paths, job)
            news = curves.follow(job, cursor)


@dataclass(frozen=True, slots=True)
class Window:
    """Which of the past samples to print: of the last `since` seconds, or since a time; at most `max_points`."""

    since: float | datetime | None
    max_points: int | None
    keys: Sequence[str]

    def past_readings(self, job: Job, reader: SampleReader, samples: Sequence[Sample]) -> Iterator[SampleReading]:
        """Return the readings to print; the reader reads all samples, so that later rates are right."""
        start = 0.0
        if isinstance(self.since, datetime):
            start = self.since.timestamp() - (job.start_time or 0.0)
        elif self.since is not None:
            start = run_seconds(job) - self.since
        positions = self._positions_to_print(start, samples)
        recent = (reading for reading in reader.read(samples) if reading.elapsed >= start)
        return (reading for position, reading in enumerate(recent) if position in positions)

    def _positions_to_print(self, start: float, samples: Sequence[Sample]) -> Container[int]:
        """Return which readings since `start` to print; a first pass reads only what thinning needs."""
        if self.max_points is None:
            return range(len(samples))
        rows = [
            (reading.elapsed, *(reading.rates[key] for key in self.keys))
            for reading in SampleReader().read(samples)
            if reading.elapsed >= start
        ]
        if len(rows) <= self.max_points:
            return range(len(rows))
        times, *columns = map(list, zip(*rows, strict=True))
        return set(select_positions(times, columns, self.max_points))


def run_seconds(job: Job) -> float:
    """Return how long a job has run so far, or ran; 0 if that is not known, as of a lost job."""
    if job.duration_seconds is not None or job.status.ended:
        return job.duration_seconds or 0.0
    return 0.0 if job.start_time is None else time.time() - job.start_time
