"""Charts and a report of jobs as HTML files in a directory: `write_plots` for jobs of a store."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from jobtop.core.analysis.cost import Prices, cost_of
from jobtop.core.analysis.ending import explain_end, needs_explanation
from jobtop.core.errors import UsageError
from jobtop.core.metrics import find_metric
from jobtop.core.model import Job
from jobtop.core.paths import StatePaths
from jobtop.core.record import record, replace
from jobtop.core.report.content import (
    CPU,
    MEMORY,
    MOST_POINTS,
    ROWS,
    JobContent,
    limit_lines,
    marks_of,
    thin_again,
    thinned_curves,
)
from jobtop.core.report.figures import bars, comparison, timeline
from jobtop.core.report.job_report import status_line
from jobtop.core.report.page import SHARED_SCRIPT, Page, page_html
from jobtop.core.report.plotly_script import plotly_script
from jobtop.core.report.report import report_html
from jobtop.core.units import number_of
from jobtop.store.jobs import Jobs
from jobtop.store.output.last_lines import read_error_lines
from jobtop.store.samples.curves import Curves
from jobtop.store.samples.so_far import with_usage_so_far

PREFIX = "resource_plot"
REPORT = "report.html"
MOST_PAGES = 50  # pages of single jobs, unless all are wanted: each has the library of 5 MB inside
POINTS_OF_ALL = 60_000  # of all curves of a page about all jobs
FEWEST_POINTS = 60  # of one of them


@record
class PlotOptions:
    """How files are written. `most_pages` is None for a page of every job; a file is replaced only with `overwrite`."""

    title: str | None = None
    most_pages: int | None = MOST_PAGES
    shared_script: bool = False
    overwrite: bool = True
    keys: tuple[str, ...] = ()  # of metrics to draw on the page of each job, besides CPU, memory and processes
    prefix: str = PREFIX


DEFAULTS = PlotOptions()


def write_plots(
    chosen: Iterable[tuple[Jobs, Job]],
    directory: Path,
    prices: Prices | None = None,
    options: PlotOptions = DEFAULTS,
    warn: Callable[[str], None] | None = None,
) -> list[Path]:
    """Write the charts and the report of some jobs, each given with its store, and return the files.

    The directory is made if needed. UsageError, before anything is written, if Plotly is not installed, if there are no
    jobs, or if a file exists and may not be replaced. `warn` gets a line if only some jobs have a page of their own.
    """
    plotly_script()  # before the samples of all jobs are read
    contents = [read_content(jobs, job, prices or Prices(), options.keys) for jobs, job in chosen]
    return write_pages(contents, directory, options, warn)


def read_content(jobs: Jobs, job: Job, prices: Prices, keys: Sequence[str] = ()) -> JobContent:
    """Read all that the pages show of a job."""
    curves = Curves(jobs.database)
    metrics = [find_metric(key) for key in dict.fromkeys((*ROWS, *keys))]
    series = curves.series(job, [metric.key for metric in metrics])
    job = with_usage_so_far(curves, job)
    events = [(event.at, event.kind, event.detail) for event in sorted(jobs.events(job), key=lambda event: event.at)]
    output: tuple[str, ...] = ()
    if needs_explanation(job):
        output = read_error_lines(StatePaths(jobs.database.path.parent, job.host).job(job.id))
    return JobContent(
        job=job,
        number=str(job.seq),
        end=max([job.duration_seconds or 0.0, *series.times[-1:]]),
        curves=thinned_curves(metrics, series.times, series.values, MOST_POINTS),
        limits=limit_lines(job),
        marks=marks_of(job, events),
        ending=tuple(explain_end(job, events, output)),
        cost=cost_of(job, prices),
    )


def write_pages(
    contents: Sequence[JobContent],
    directory: Path,
    options: PlotOptions = DEFAULTS,
    warn: Callable[[str], None] | None = None,
) -> list[Path]:
    """Write the pages of jobs that were read already; see `write_plots`."""
    if not contents:
        raise UsageError("there are no jobs to draw")
    library = plotly_script()
    names = page_names(contents, options.prefix)
    own = dict(list(names.items())[: options.most_pages])
    if len(own) < len(contents) and warn is not None:
        warn(f"{number_of(len(own), 'job')} of {len(contents)} have a page of their own (--all writes all)")
    writer = PageWriter(directory, options.overwrite)
    shared = [f"{options.prefix}_{what}.html" for what in ("cpu_all_jobs", "memory_all_jobs", "summary")]
    writer.check([*own.values(), *shared, REPORT, *([SHARED_SCRIPT] if options.shared_script else [])])
    if options.shared_script:
        writer.write(SHARED_SCRIPT, library)
    inside = None if options.shared_script else library
    for content in contents:
        if content.job.id in own:
            name = own[content.job.id]
            writer.write(name, page_html(job_page(content, Path(name).stem), inside))
    for name, page in zip(shared, pages_of_all(contents, options.prefix), strict=True):
        writer.write(name, page_html(page, inside))
    writer.write(REPORT, report_html(options.title, contents, own, shared, time.time()))
    return writer.written


class PageWriter:
    """Writes files into one directory, each completely or not at all."""

    def __init__(self, directory: Path, overwrite: bool) -> None:
        self.directory, self.overwrite = directory, overwrite
        self.written: list[Path] = []

    def check(self, names: Iterable[str]) -> None:
        """Make the directory; UsageError if that fails, or if a file may not be replaced."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self.directory}: {os.strerror(error.errno or 0)}") from error
        for name in names:
            path = self.directory / name
            if os.path.lexists(path) and not (self.overwrite and path.is_file()):
                why = "it exists (--force replaces it)" if path.is_file() else "it is not a file"
                raise UsageError(f"{path}: {why}")

    def write(self, name: str, text: str) -> None:
        path = self.directory / name
        part = path.with_name(f".{name}.{os.getpid()}.part")
        try:
            part.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
            part.replace(path)
        except OSError as error:
            raise UsageError(f"{path}: {os.strerror(error.errno or 0)}") from error
        finally:
            part.unlink(missing_ok=True)
        self.written.append(path)


def page_names(contents: Sequence[JobContent], prefix: str = PREFIX) -> dict[str, str]:
    """The file of each job by its id; jobs of several stores with the same number have their id in the name too."""
    names: dict[str, str] = {}
    for content in contents:
        name = f"{prefix}_job_{content.number}.html"
        taken = name in names.values()
        names[content.job.id] = f"{prefix}_job_{content.number}_{content.job.id[:8]}.html" if taken else name
    return names


def job_page(content: JobContent, name: str) -> Page:
    """The page of one job: its charts over time."""
    about = f"Job {content.number}, {status_line(content)}"
    figure = timeline(content, zone_seconds(content))
    return Page(content.job.name[:200], about, name, [("CPU, memory and processes over time", figure)])


def pages_of_all(contents: Sequence[JobContent], prefix: str) -> list[Page]:
    """The pages that compare all jobs: CPU, memory, and a summary of peaks and means."""
    few = [fewer_points(content, max(FEWEST_POINTS, POINTS_OF_ALL // len(contents))) for content in contents]
    count = number_of(len(contents), "job")
    zone = zone_seconds(contents[0])
    aligned = "each aligned on its start; a line is one job"
    peaks = [("CPU", bars(contents, CPU)), ("Memory", bars(contents, MEMORY))]
    return [
        Page(f"CPU of {count}", aligned, f"{prefix}_cpu_all_jobs", [("CPU of all jobs", comparison(few, CPU, zone))]),
        Page(
            f"Memory of {count}",
            aligned,
            f"{prefix}_memory_all_jobs",
            [("Memory of all jobs", comparison(few, MEMORY, zone))],
        ),
        Page(f"Peak and average of {count}", "100 % CPU is one core", f"{prefix}_summary", peaks, is_grid=True),
    ]


def fewer_points(content: JobContent, max_points: int) -> JobContent:
    """The same with thinner curves of CPU and memory."""
    return replace(content, curves=thin_again(content.curves, (CPU, MEMORY), max_points))


def zone_seconds(content: JobContent) -> float:
    """How far local time was ahead of UTC when the job started."""
    return float(time.localtime(content.job.start_time or time.time()).tm_gmtoff)
