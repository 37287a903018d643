"""Writes pages of jobs for a browser: `jobtop plot --html`, and `jobtop plot-resources` as Torc has it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobtop.cli.app import App
from jobtop.cli.selection import find_selected, selection_of
from jobtop.cli.workflow_jobs import jobs_of, named_run, run_title
from jobtop.core.errors import UnknownJob, UsageError
from jobtop.core.model import Job
from jobtop.core.query.selection import Selection
from jobtop.core.record import replace
from jobtop.core.series.readings import job_metrics
from jobtop.core.units import format_bytes, printable
from jobtop.store.jobs import Jobs

TORC_SUFFIX = ".db"


def write_html(
    app: App,
    words: tuple[str, ...],
    filters: tuple[str, ...],
    keys: tuple[str, ...],
    options: Mapping[str, Any],
    default_directory: Path,
) -> int:
    """Write the pages of jobs or of Torc's databases, and print the names of the files."""
    from jobtop.store.plots import MOST_PAGES, PlotOptions, write_pages, write_plots

    for name in ("width", "height"):
        if options[name] is not None:
            raise UsageError(f"--{name} is for charts in the terminal: leave it out with --html")
    directory: Path = options["output"] or default_directory
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
        title, chosen = chosen_jobs(app, words, filters, wanted)
        how = replace(how, title=title)
        written = write_plots(chosen, directory, app.prices, how, app.warn)
    for path in written:
        print(printable(str(path)))
    if options["output"] is None:
        size = format_bytes(sum(path.stat().st_size for path in written))
        app.warn(f"{len(written)} files, {size}, in {directory.absolute()} (-o DIR chooses another directory)")
    return 0


def chosen_jobs(
    app: App, words: Sequence[str], filters: Sequence[str], wanted: Sequence[int]
) -> tuple[str | None, list[tuple[Jobs, Job]]]:
    """Return the named or selected jobs, or those of some numbers among them, and the name of their run if all."""
    if not words and not filters and wanted:
        return None, find_selected(app, Selection(references=tuple(f"#{number}" for number in wanted)))
    run = None if filters else named_run(app, tuple(words), None)
    found = find_selected(app, selection_of(words, filters)) if run is None else jobs_of(app, run)
    if not wanted:
        return None if run is None else run_title(run[1], run[2]), found
    missing = set(wanted) - {job.seq for _, job in found}
    if missing:
        raise UnknownJob(
            f"--job-ids: no such number among the {len(found)} jobs: {', '.join(map(str, sorted(missing)))}"
        )
    return None, [(jobs, job) for jobs, job in found if job.seq in wanted]
