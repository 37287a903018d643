"""`jobtop plot`: draws what jobs or the host used over time: in the terminal, as a picture, or as HTML pages."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.files import new_path
from jobtop.cli.selection import JOBS_HELP, filter_option, find_selected, jobs_argument, selection_of
from jobtop.cli.text.sample_text import deleted_text, warn_if_never_sampled, warn_of_damage
from jobtop.cli.values import Count, LastOrSince, Numbers
from jobtop.cli.verbs.metrics import host_options, is_about_host, metric_option, run_seconds
from jobtop.core.clock import local
from jobtop.core.errors import UsageError
from jobtop.core.metrics import Metric
from jobtop.core.model import Job
from jobtop.core.series.drawing import Curve, make_curve
from jobtop.core.series.readings import job_metrics
from jobtop.core.text.job_text import are_samples_deleted
from jobtop.core.text.usage_text import GLYPHS
from jobtop.core.units import format_duration, number_of, printable
from jobtop.store.jobs import Jobs
from jobtop.store.samples.curves import Curves

DEFAULT_METRICS = ("cpu.percent", "mem.used")
NOT_MEASURED = "not measured for this job"
MIN_COLUMNS = 30
MOST_DRAWN = 10  # jobs of a filter
LONGEST_LABEL = 26
SEED_VERB = "plot-resources"  # Torc's verb writes HTML pages, into the current directory
PAGES_DIRECTORY = "plots"
PAGE_OPTIONS = ("shared_js", "all_jobs", "job_ids")


@click.command(epilog=JOBS_HELP)
@jobs_argument
@filter_option
@host_options
@click.option(
    "--since", type=LastOrSince(), help="With --host: the last 5m, or since a time: 2026-11-15T14:30; 1h unless given."
)
@metric_option("Draw this metric, such as io.read_bytes; may be repeated.")
@click.option("--height", type=Count(6, 200), metavar="N", help="Lines per chart, 6 to 200; by default as many as fit.")
@click.option(
    "--width", type=Count(MIN_COLUMNS, 1000), metavar="N", help="Columns, 30 to 1000; by default the terminal's width."
)
@click.option(
    "--output",
    "-o",
    "--output-dir",
    "output",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Write a picture, x.svg or x.png, instead; with --html, the directory for the pages: plots unless given.",
)
@click.option("--svg", "svg_path", type=click.Path(path_type=Path), metavar="PATH", help="The same as --output x.svg.")
@click.option("--html", is_flag=True, help="Write pages with charts to zoom into, and a report; see docs/plots.md.")
@click.option("--shared-js", is_flag=True, help="With --html: write Plotly's script once, beside the pages.")
@click.option("--all", "all_jobs", is_flag=True, help="With --html: a page of each job, also of more than 50.")
@click.option(
    "--job-ids", type=Numbers(), metavar="N,N", help="With --html: only the jobs of these numbers, such as 1,2."
)
@click.option("--force", is_flag=True, help="Overwrite files.")
@click.pass_context
def plot(
    ctx: click.Context,
    /,
    words: tuple[str, ...],
    filters: tuple[str, ...],
    keys: tuple[str, ...],
    **options: Any,
) -> int:
    """Draw what jobs used over time: CPU and memory, or the given metrics; counters are drawn as rates.

    Several jobs, or those that match a filter, are drawn in one chart, aligned on their start. Where no samples were
    taken, as while the machine was suspended, a curve has a gap. With --host: what the host did in the last hour, or
    its devices. With --html: pages for a browser, also from Torc's .db files.
    """
    app: App = ctx.obj
    if options["svg_path"] is not None and options["output"] is not None:
        raise UsageError("--svg and --output name two files: give one of them")
    if is_about_host(words or filters, options):
        return plot_host(app, keys, options)
    if options["since"] is not None:
        raise UsageError("--since needs --host: a job is drawn from its start")
    metrics = job_metrics(keys or DEFAULT_METRICS)
    if options["html"] or ctx.info_name == SEED_VERB:
        from jobtop.cli.html_plots import write_html

        if options["svg_path"] is not None:
            raise UsageError("--svg writes a picture, and --html pages: give one of them")
        default = Path() if ctx.info_name == SEED_VERB else Path(PAGES_DIRECTORY)
        return write_html(app, words, filters, keys, options, default)
    for name in PAGE_OPTIONS:
        if options[name]:
            raise UsageError(f"--{name.replace('_', '-').replace('all-jobs', 'all')} is for --html")
    return plot_jobs(app, find_selected(app, selection_of(words, filters)), metrics, options)


def plot_jobs(
    app: App, found: Sequence[tuple[Jobs, Job]], metrics: Sequence[Metric], options: Mapping[str, Any]
) -> int:
    """Draw jobs in the terminal or as a picture; several in one chart per metric."""
    path = picture_path(options)
    if len(found) > MOST_DRAWN:
        app.warn(f"the newest {MOST_DRAWN} of {len(found)} jobs are drawn (--html draws all)")
    found = found[-MOST_DRAWN:]
    drawn = [read_curves(app, jobs, job, metrics) for jobs, job in found]
    end = max(seconds for _, seconds in drawn)
    if path is not None:
        write_picture(path, options, *picture_of(found, drawn), end)
        return 0
    if len(found) == 1:
        (jobs, job), (curves, _) = found[0], drawn[0]
        print(f"{printable(job.name)}  {subtitle(job, end)}")
        empty = f"samples {deleted_text(jobs.database, job)}" if are_samples_deleted(job) else NOT_MEASURED
        print(terminal_charts(app, curves, end, options["width"], options["height"], empty))
        return 0
    from jobtop.tui.chart.terminal_plot import legend_mark, overlaid

    for number, ((_, job), (_, seconds)) in enumerate(zip(found, drawn, strict=True)):
        mark = legend_mark(number, app.uses_color(1))
        print(f"{mark} {printable(job.name)}  {subtitle(job, seconds)}")
    width, height = chart_size(len(metrics), options["width"], options["height"], len(found))
    for number in range(len(metrics)):
        same = [curves[number] for curves, _ in drawn]
        print("\n" + overlaid(same, end, width, height, app.uses_color(1), "not measured for these jobs"))
    return 0


def picture_path(options: Mapping[str, Any]) -> Path | None:
    """Return the picture to write, if any; its name says its format."""
    path: Path | None = options["svg_path"] or options["output"]
    if options["svg_path"] is None and path is not None and path.suffix not in (".svg", ".png"):
        raise UsageError(f"--output: {path}: a picture is a file x.svg or x.png (--html writes pages into a directory)")
    return path


def picture_of(
    found: Sequence[tuple[Jobs, Job]], drawn: Sequence[tuple[list[Curve], float]]
) -> tuple[str, str, list[list[tuple[str, Curve]]]]:
    """Return title, subtitle, and the labelled curves of each chart."""
    if len(found) == 1:
        (_, job), (curves, end) = found[0], drawn[0]
        return job.name, subtitle(job, end), [[("", curve)] for curve in curves]
    labels = [f"{printable(job.name)[:LONGEST_LABEL]} {job.id[:8]}" for _, job in found]
    rows = [
        [(label, curves[number]) for label, (curves, _) in zip(labels, drawn, strict=True)]
        for number in range(len(drawn[0][0]))
    ]
    return number_of(len(found), "job"), "each aligned on its start", rows


def write_picture(
    path: Path,
    options: Mapping[str, Any],
    title: str,
    about: str,
    rows: Sequence[Sequence[tuple[str, Curve]]],
    end: float,
) -> None:
    """Write charts as SVG or PNG."""
    from jobtop.core.series.svg import Chart, svg_of

    option = "--output" if options["svg_path"] is None else "--svg"
    text = svg_of(title, about, [Chart(tuple(row)) for row in rows], end)
    if path.suffix == ".png" and option == "--output":
        from jobtop.core.series.png import png

        data = png(text)
    else:
        data = text.encode("utf-8", "backslashreplace")
    with new_path(option, path, options["force"]) as part:
        part.write_bytes(data)


def plot_host(app: App, keys: tuple[str, ...], options: Mapping[str, Any]) -> int:
    """Draw the host, or its devices one below the other."""
    from jobtop.cli.machine_plot import drawings

    for name in ("html", *PAGE_OPTIONS):
        if options[name]:
            raise UsageError(f"--{name.replace('_', '-').replace('all-jobs', 'all')} is for jobs, not for --host")
    found = drawings(app, options["devices"], keys, options["since"])
    path = picture_path(options)
    if path is not None:
        if len(found) > 1:
            option = "--output" if options["svg_path"] is None else "--svg"
            raise UsageError(
                f"{option} draws one device, and {len(found)} are selected (--device disk:sda selects one)"
            )
        for drawing in found:
            rows = [[("", curve)] for curve in drawing.curves]
            write_picture(path, options, drawing.title, drawing.subtitle, rows, drawing.end)
        return 0
    for number, drawing in enumerate(found):
        print("\n" * bool(number) + f"{drawing.title}  {drawing.subtitle}")
        print(terminal_charts(app, drawing.curves, drawing.end, options["width"], options["height"], "not measured"))
    return 0


def read_curves(app: App, jobs: Jobs, job: Job, metrics: Sequence[Metric]) -> tuple[list[Curve], float]:
    """Return the curves of a job, and the seconds after its start at which they end."""
    curves = Curves(jobs.database)
    warn_if_never_sampled(app, curves, job)
    series = curves.series(job, [metric.key for metric in metrics])
    warn_of_damage(app, job, series.damaged)
    drawn_curves = [make_curve(metric, series.times, series.values[metric.key]) for metric in metrics]
    return drawn_curves, max([run_seconds(job), *series.times[-1:]])


def subtitle(job: Job, end: float) -> str:
    """Return the job's status, start time, duration and id."""
    if job.start_time is None and not end:
        return f"{GLYPHS[job.status]} {job.status}, {job.id[:8]}"
    time = "after" if job.status.ended else "for"
    return (
        f"{GLYPHS[job.status]} {job.status} {time} {format_duration(end)}, from {local(job.start_time)}, {job.id[:8]}"
    )


def chart_size(charts: int, width: int | None, height: int | None, headings: int = 1) -> tuple[int, int]:
    """Return the columns and the lines of a chart; by default all of them fit the terminal, if that is possible."""
    columns, lines = shutil.get_terminal_size()
    fitting = (lines - 1 - headings) // charts - 1
    return width or max(MIN_COLUMNS, columns), height or min(20, max(10, fitting))


def terminal_charts(
    app: App, curves: list[Curve], end: float, width: int | None, height: int | None, empty: str
) -> str:
    """Return the charts, sized to fit the terminal if possible; `empty` says why a curve has no values."""
    from jobtop.tui.chart.terminal_plot import charts

    columns, lines = chart_size(len(curves), width, height)
    return charts(curves, end, columns, lines, app.uses_color(1), empty)
