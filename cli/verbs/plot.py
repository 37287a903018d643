"""`jobtop plot`: draws what a job or the host used over time, in the terminal or to an SVG file."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.files import new_file
from jobtop.cli.selection import JOBS_HELP, filter_option, find_selected, jobs_argument, selection_of
from jobtop.cli.text.sample_text import deleted_text, warn_if_never_sampled, warn_of_damage
from jobtop.cli.values import Count, LastOrSince
from jobtop.cli.verbs.metrics import host_options, is_about_host, metric_option, run_seconds
from jobtop.core.clock import local
from jobtop.core.errors import UsageError
from jobtop.core.metrics import Metric
from jobtop.core.model import Job
from jobtop.core.series.drawing import Curve, make_curve
from jobtop.core.series.readings import job_metrics
from jobtop.core.text.job_text import are_samples_deleted
from jobtop.core.text.usage_text import GLYPHS
from jobtop.core.units import format_duration, printable
from jobtop.store.jobs import Jobs
from jobtop.store.samples.curves import Curves

DEFAULT_METRICS = ("cpu.percent", "mem.used")
NOT_MEASURED = "not measured for this job"
MIN_COLUMNS = 30
MOST_DRAWN = 10  # jobs of a filter


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
@click.option("--svg", "svg_path", type=click.Path(path_type=Path), metavar="PATH", help="Write an SVG file instead.")
@click.option("--force", is_flag=True, help="Overwrite that file.")
@click.pass_obj
def plot(
    app: App,
    /,
    words: tuple[str, ...],
    filters: tuple[str, ...],
    keys: tuple[str, ...],
    svg_path: Path | None,
    force: bool,
    **options: Any,
) -> int:
    """Draw what a job used over time: CPU and memory, or the given metrics; counters are drawn as rates.

    Several jobs, or those that match a filter, are drawn one below the other. Where no samples were taken, as while
    the machine was suspended, the curve has a gap. With --host: what the host did in the last hour, or its devices.
    """
    if is_about_host(words or filters, options):
        return plot_host(app, keys, svg_path, force, options)
    if options["since"] is not None:
        raise UsageError("--since needs --host: a job is drawn from its start")
    metrics = job_metrics(keys or DEFAULT_METRICS)
    found = find_selected(app, selection_of(words, filters))
    if svg_path is not None and len(found) > 1:
        raise UsageError(f"--svg draws one job, and {len(found)} are selected (@1, or a longer filter, selects one)")
    if len(found) > MOST_DRAWN:
        app.warn(f"the newest {MOST_DRAWN} of {len(found)} jobs are drawn")
    for number, (jobs, job) in enumerate(found[-MOST_DRAWN:]):
        drawn_curves, end = read_curves(app, jobs, job, metrics)
        if svg_path is not None:
            from jobtop.core.series.svg import svg

            with new_file("--svg", svg_path, force) as file:
                file.write(svg(job.name, subtitle(job, end), drawn_curves, end))
            return 0
        print("\n" * bool(number) + f"{printable(job.name)}  {subtitle(job, end)}")
        empty = f"samples {deleted_text(jobs.database, job)}" if are_samples_deleted(job) else NOT_MEASURED
        print(terminal_charts(app, drawn_curves, end, options["width"], options["height"], empty))
    return 0


def plot_host(app: App, keys: tuple[str, ...], svg_path: Path | None, force: bool, options: Mapping[str, Any]) -> int:
    """Draw the host, or its devices one below the other."""
    from jobtop.cli.machine_plot import drawings

    found = drawings(app, options["devices"], keys, options["since"])
    if svg_path is not None:
        from jobtop.core.series.svg import svg

        if len(found) > 1:
            raise UsageError(f"--svg draws one device, and {len(found)} are selected (--device disk:sda selects one)")
        with new_file("--svg", svg_path, force) as file:
            for drawing in found:
                file.write(svg(drawing.title, drawing.subtitle, drawing.curves, drawing.end))
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


def terminal_charts(
    app: App, curves: list[Curve], end: float, width: int | None, height: int | None, empty: str
) -> str:
    """Return the charts, sized to fit the terminal if possible; `empty` says why a curve has no values."""
    from jobtop.tui.chart.terminal_plot import charts

    columns, lines = shutil.get_terminal_size()
    fitting = (lines - 2) // len(curves) - 1
    return charts(
        curves, end, width or max(MIN_COLUMNS, columns), height or min(20, max(10, fitting)), app.uses_color(1), empty
    )
