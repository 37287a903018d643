"""`jobtop plot`: what a job used over time, as charts in the terminal or in an SVG file."""

import shutil
from pathlib import Path

import click

from jobtop.cli.app import App
from jobtop.cli.completion import job_ids
from jobtop.cli.files import new_file
from jobtop.cli.run.summary import GLYPHS
from jobtop.cli.text.sample_text import warn_if_never_sampled, warn_of_damage
from jobtop.cli.verbs.metrics import age, metric_keys
from jobtop.core.clock import local
from jobtop.core.model import Job
from jobtop.core.series.drawing import Curve, make_curve
from jobtop.core.series.readings import job_metrics
from jobtop.core.units import format_duration, printable
from jobtop.store.samples.curves import Curves

DEFAULT = ("cpu.percent", "mem.used")
NARROWEST = 30


@click.command()
@click.argument("reference", metavar="ID", shell_complete=job_ids)
@click.option(
    "--metric",
    "keys",
    multiple=True,
    metavar="KEY",
    shell_complete=metric_keys,
    help="A chart of this, such as io.read_bytes; may be repeated.",
)
@click.option("--height", type=click.IntRange(6, 200), metavar="N", help="Lines a chart; by default as fits.")
@click.option("--width", type=click.IntRange(NARROWEST, 1000), metavar="N", help="Columns; by default the terminal's.")
@click.option("--svg", "svg_path", type=click.Path(path_type=Path), metavar="PATH", help="Write an SVG file instead.")
@click.option("--force", is_flag=True, help="Overwrite that file.")
@click.pass_obj
def plot(app: App, /, reference: str, keys: tuple[str, ...], svg_path: Path | None, force: bool, **size: int) -> int:
    """Draw what a job used over time: CPU and memory, or what is asked for; a counter by its rate.

    Where nobody looked, as while the machine slept, the curve has a gap.
    """
    metrics = job_metrics(keys or DEFAULT)
    jobs, job = app.find(reference)
    curves = Curves(jobs.database)
    warn_if_never_sampled(app, curves, job)
    series = curves.series(job, [metric.key for metric in metrics])
    warn_of_damage(app, job, series.damaged)
    drawn = [make_curve(metric, series.times, series.values[metric.key]) for metric in metrics]
    end = max([age(job), *series.times[-1:]])
    if svg_path is not None:
        from jobtop.core.series.svg import svg

        with new_file("--svg", svg_path, force) as file:
            file.write(svg(job.name, subtitle(job, end), drawn, end))
        return 0
    print(f"{printable(job.name)}  {subtitle(job, end)}")
    print(in_terminal(app, drawn, end, size["width"], size["height"]))
    return 0


def subtitle(job: Job, end: float) -> str:
    """How the job stands, when it began, how long it took."""
    if job.start_time is None and not end:
        return f"{GLYPHS[job.status]} {job.status}, {job.id[:8]}"
    time = "after" if job.status.ended else "for"
    return (
        f"{GLYPHS[job.status]} {job.status} {time} {format_duration(end)}, from {local(job.start_time)}, {job.id[:8]}"
    )


def in_terminal(app: App, curves: list[Curve], end: float, width: int | None, height: int | None) -> str:
    """The charts, of a size that fits the screen if it can."""
    from jobtop.tui.chart.terminal_plot import charts

    columns, lines = shutil.get_terminal_size()
    fitting = (lines - 2) // len(curves) - 1
    return charts(curves, end, width or max(NARROWEST, columns), height or min(20, max(10, fitting)), app.colored(1))
