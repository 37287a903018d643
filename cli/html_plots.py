"""Writes pages of jobs for a browser: `jobtop plot --html`, and `jobtop plot-resources` as Torc has it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobtop.cli.app import App
from jobtop.cli.selection import find_selected, selection_of
from jobtop.cli.workflow_jobs import workflow_jobs
from jobtop.core.errors import UnknownJob, UsageError
from jobtop.core.model import Job
from jobtop.core.query.selection import Selection
from jobtop.core.series.readings import job_metrics
from jobtop.core.units import printable
from jobtop.store.jobs import Jobs

TORC_SUFFIX = ".db"


def write_html(
    app: App, words: tuple[str, ...], filters: tuple[str, ...], keys: tuple[str, ...], options: Mapping[str, Any]
) -> int:
    """Write the pages of jobs or of Torc's databases, and print the names of the files."""
    from jobtop.store.plots import MOST_PAGES, PlotOptions, write_pages, write_plots

    for name in ("width", "height"):
        if options[name] is not None:
            raise UsageError(f"--{name} is for charts in the terminal: leave it out with --html")
    directory: Path = options["output"] or Path()
    if directory.suffix in (".svg", ".png", ".html"):
        raise UsageError(f"--output: {directory}: with --html it is a directory for several files")
    wanted: tuple[int, ...] = options["job_ids"] or ()
    how = PlotOptions(
        most_pages=None if options["all_jobs"] else MOST_PAGES,
        shared_script=options["shared_js"],
        overwrite=options["force"],
        keys=tuple(metric.key for metric in job_metrics(keys)) if keys else (),
    )
    databases = [word for word in words if word.endswith(TORC_SUFFIX)]
    if databases:
        from jobtop.store.transfer.torc_plots import read_databases

        if len(databases) < len(words) or filters:
            raise UsageError(f"{printable(databases[0])} is a database of Torc: leave out other jobs and filters")
        contents = read_databases([Path(word) for word in databases], wanted)
        written = write_pages(contents, directory, how, app.warn)
    else:
        written = write_plots(chosen_jobs(app, words, filters, wanted), directory, app.prices, how, app.warn)
    for path in written:
        print(printable(str(path)))
    return 0


def chosen_jobs(
    app: App, words: Sequence[str], filters: Sequence[str], wanted: Sequence[int]
) -> list[tuple[Jobs, Job]]:
    """Return the named or selected jobs, or those of some numbers among them."""
    if not words and not filters and wanted:
        return find_selected(app, Selection(references=tuple(f"#{number}" for number in wanted)))
    workflow = None if filters else workflow_jobs(app, tuple(words), None)
    found = find_selected(app, selection_of(words, filters)) if workflow is None else workflow[1]
    if not wanted:
        return found
    missing = set(wanted) - {job.seq for _, job in found}
    if missing:
        raise UnknownJob(
            f"--job-ids: no such number among the {len(found)} jobs: {', '.join(map(str, sorted(missing)))}"
        )
    return [(jobs, job) for jobs, job in found if job.seq in wanted]
