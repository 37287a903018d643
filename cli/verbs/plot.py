"""`jobtop plot`: draws what a job used over time, in the terminal or to an SVG file."""

import shutil
from pathlib import Path

import click

from jobtop.cli.app import App
from jobtop.cli.completion import complete_job_id
from jobtop.cli.files import new_file
from jobtop.cli.run.summary import GLYPHS
from jobtop.cli.text.sample_text import warn_if_never_sampled, warn_of_damage
from jobtop.cli.verbs.metrics import metric_option, run_seconds
from jobtop.core.clock import local
from jobtop.core.model import Job
from jobtop.core.series.drawing import Curve, make_curve
from jobtop.core.series.readings import job_metrics
from jobtop.core.units import format_duration, printable
from jobtop.store.samples.curves import Curves

DEFAULT_METRICS = ("cpu.percent", "mem.used")
MIN_COLUMNS = 30


@click.command()
@click.argument("reference", metavar="ID", shell_complete=complete_job_id)
@metric_option("Draw this metric, such as io.read_bytes; may be repeated.")
@click.option("--height", type=click.IntRange(6, 200), metavar="N", help="Lines per chart; by default as many as fit.")
@click.option(
    "--width", type=click.IntRange(MIN_COLUMNS, 1000), metavar="N", help="Columns; by default the terminal's width."
)
@click.option("--svg", "svg_path", type=click.Path(path_type=Path), metavar="PATH", help="Write an SVG file instead.")
@click.option("--force", is_flag=True, help="Overwrite that file.")
@click.pass_obj
def plot(app: App, /, reference: str, keys: tuple[str, ...], svg_path: Path | None, force: bool, **size: int) -> int:
    """Draw what a job used over time: CPU and memory, or the given metrics; counters are drawn as rates.

    Where no samples were taken, as while the machine was suspended, the curve has a gap.
    """
    metrics = job_metrics(keys or DEFAULT_METRICS)
    jobs, job = app.find(reference)
    curves = Curves(jobs.database)
    warn_if_never_sampled(app, curves, job)
    series = curves.series(job, [metric.key for metric in metrics])
    warn_of_damage(app, job, series.damaged)
    drawn_curves = [make_curve(metric, series.times, series.values[metric.key]) for metric in metrics]
    end = max([run_seconds(job), *series.times[-1:]])
    if svg_path is not None:
        from jobtop.core.series.svg import svg

        with new_file("--svg", svg_path, force) as file:
            file.write(svg(job.name, subtitle(job, end), drawn_curves, end))
        return 0
    print(f"{printable(job.name)}  {subtitle(job, end)}")
    print(terminal_charts(app, drawn_curves, end, size["width"], size["height"]))
    return 0


def subtitle(job: Job, end: float) -> str:
    """Return the job's status, start time, duration and id."""
    if job.start_time is None and not end:
        return f"{GLYPHS[job.status]} {job.status}, {job.id[:8]}"
    time = "after" if job.status.ended else "for"
    return (
        f"{GLYPHS[job.status]} {job.status} {time} {format_duration(end)}, from {local(job.start_time)}, {job.id[:8]}"
    )


def terminal_charts(app: App, curves: list[Curve], end: float, width: int | None, height: int | None) -> str:
    """Return the charts, sized to fit the terminal if possible."""
    from jobtop.tui.chart.terminal_plot import charts

    columns, lines = shutil.get_terminal_size()
    fitting = (lines - 2) // len(curves) - 1
    return charts(
        curves, end, width or max(MIN_COLUMNS, columns), height or min(20, max(10, fitting)), app.uses_color(1)
    )
