"""`jobtop workflow report`: writes the files of a run, as its `resource_monitor` section says."""

from __future__ import annotations

import os
from pathlib import Path

import click

from jobtop.cli.app import App
from jobtop.cli.files import new_path
from jobtop.cli.verbs.export import ExportedJobs
from jobtop.cli.verbs.workflow.looking import RUN_ID
from jobtop.cli.verbs.workflow.starting import REFERENCE
from jobtop.cli.workflow_jobs import find_run, jobs_of, run_title
from jobtop.core.errors import ExitCode, UsageError
from jobtop.core.units import printable
from jobtop.store.transfer.exports import write_resource_metrics


@click.command()
@REFERENCE
@RUN_ID
@click.option("-o", "--output-dir", metavar="DIR", help="Instead of the directory that the run has.")
@click.pass_obj
def report(app: App, reference: str, run_id: int | None, output_dir: str | None) -> int:
    """Write the samples of a run into resource_utilization/resource_metrics_HOST_WORKFLOW_RUN.db, as Torc keeps them.

    A run does this itself at its end if its file says granularity: time_series, and draws plots with generate_plots.
    """
    found = find_run(app, reference, run_id)
    _, workflow, run, _ = found
    said = run.settings.get("output_dir")
    directory = Path(output_dir or (said if isinstance(said, str) else "output")) / "resource_utilization"
    target = directory / f"resource_metrics_{workflow.host}_{workflow.id}_{run.run_id}.db"
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{printable(str(directory))}: {error.strerror}; choose another --output-dir") from None
    chosen = jobs_of(app, found)
    exported = ExportedJobs(app, chosen)
    with new_path("--output-dir", target, force=True) as path:
        write_resource_metrics(path, exported.samples())
    exported.warn_of_damage()
    print(target)
    monitor = run.settings.get("monitor")
    if isinstance(monitor, dict) and monitor.get("generate_plots"):
        from jobtop.store.plots import PlotOptions, write_plots

        options = PlotOptions(title=run_title(workflow, run), overwrite=True)
        for plot in write_plots(chosen, directory, app.prices, options, app.warn):
            print(plot)
    return ExitCode.OK
