"""`jobtop export`: writes samples, or a line per job, in formats that other programs read."""

import csv
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import click

from jobtop.cli.app import App
from jobtop.cli.files import PACKED, new_file, new_path, pack
from jobtop.cli.selection import JOBS_HELP, complete_job_or_filter, filter_option, find_selected
from jobtop.cli.workflow_jobs import workflow_jobs
from jobtop.core.errors import UsageError
from jobtop.core.model import Job
from jobtop.core.query.selection import Selection, read_selection
from jobtop.core.series.readings import KEYS, SampleReader, SampleReading, csv_row, sample_json
from jobtop.core.series.trace_formats import (
    NEXTFLOW_COLUMNS,
    SNAKEMAKE_COLUMNS,
    MemoryPeaks,
    nextflow_row,
    snakemake_row,
)
from jobtop.core.text.job_text import are_samples_deleted, is_thinned
from jobtop.core.units import number_of
from jobtop.store.jobs import Jobs, Query
from jobtop.store.samples.curves import Curves

FORMATS = ("csv", "jsonl", "sqlite", "snakemake", "nextflow")
STYLES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".db": "sqlite", ".sqlite": "sqlite"}
PROGRESS_FROM_JOBS = 20  # exporting this many may take longer than a second


@click.command(epilog=JOBS_HELP)
@click.argument("words", metavar="[JOB… | FILTER…]", nargs=-1, shell_complete=complete_job_or_filter)
@filter_option
@click.option(
    "--format",
    "chosen_style",
    type=click.Choice(FORMATS),
    help="The format; by default what the name of the file says, else csv.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default="-",
    metavar="PATH",
    help="The file to write, such as jobs.csv.gz, which is compressed; by default standard output.",
)
@click.option("--force", is_flag=True, help="Overwrite that file.")
@click.pass_obj
def export(
    app: App, words: tuple[str, ...], filters: tuple[str, ...], chosen_style: str | None, output: Path, force: bool
) -> int:
    """Write jobs in a format that other programs read: the given jobs, those that match a filter, or all.

    The number or the name of a workflow means the jobs of its last run.

    \b
    csv, jsonl   every sample of each job, as jobtop metrics prints them
    sqlite       the tables job_resource_samples and job_metadata, as Torc keeps them
    snakemake    a line per job, as in a benchmark file
    nextflow     a line per job, as in a trace file
    """
    style = chosen_style or style_of(output)
    if style == "sqlite" and str(output) == "-":
        raise UsageError("--format sqlite writes a file: give --output PATH")
    selection = read_selection(words, filters, time.time())
    workflow = None if filters else workflow_jobs(app, words, None)
    if selection == Selection():
        chosen = app.fleet.select(Query(reverse=True, limit=None))
    elif workflow is not None:
        chosen = workflow[1]
    else:
        chosen = find_selected(app, selection)
    exported = ExportedJobs(app, chosen)
    if style == "sqlite":
        write_database(output, force, exported)
    else:
        with new_file("--output", output, force) as file:
            WRITERS[style](file, exported, workflow is None and len(selection.references) == 1)
    exported.warn_of_damage()
    exported.warn_of_age(style)
    return 0


def style_of(output: Path) -> str:
    """Return the format that the name of a file says: jobs.jsonl, jobs.jsonl.gz; csv if it says none."""
    name = output.with_suffix("") if output.suffix == PACKED else output
    if name.suffix == ".json":
        raise UsageError(f"--output: {output}: samples are JSON Lines (.jsonl); --format writes another format")
    return STYLES.get(name.suffix, "csv")


def write_database(output: Path, force: bool, exported: "ExportedJobs") -> None:
    """Write the samples as a database, which is compressed if its name ends with .gz."""
    from jobtop.store.transfer.exports import write_resource_metrics

    with new_path("--output", output, force) as path:
        if output.suffix != PACKED:
            write_resource_metrics(path, exported.samples())
            return
        plain = path.with_name(f"{path.name}.db")
        try:
            write_resource_metrics(plain, exported.samples())
            pack(plain, path)
        finally:
            plain.unlink(missing_ok=True)


class ExportedJobs:
    """The jobs to export, read one after the other; counts damaged samples."""

    def __init__(self, app: App, chosen: list[tuple[Jobs, Job]]) -> None:
        self.app, self.chosen, self.damaged = app, chosen, 0

    def with_curves(self) -> Iterator[tuple[Curves, Job]]:
        """Yield every job with its curves; shows a progress bar on a terminal if there are many."""
        hidden = len(self.chosen) < PROGRESS_FROM_JOBS or not sys.stderr.isatty()
        with click.progressbar(self.chosen, label="jobs", file=sys.stderr, hidden=hidden) as bar:
            for jobs, job in bar:
                yield Curves(jobs.database), job

    def samples(self) -> Iterator[tuple[Job, Iterator[SampleReading]]]:
        for curves, job in self.with_curves():
            news = curves.follow(job, None)
            self.damaged += news.damaged
            yield job, SampleReader().read(news.samples)

    def peaks(self) -> Iterator[tuple[Job, MemoryPeaks]]:
        keys = ("mem.rss", "mem.vms", "mem.pss")
        for curves, job in self.with_curves():
            series = curves.series(job, keys)
            self.damaged += series.damaged
            known = ([value for value in series.values[key] if value is not None] for key in keys)
            yield job, MemoryPeaks(*(max(values, default=None) for values in known))

    def warn_of_damage(self) -> None:
        if self.damaged:
            self.app.warn(f"{self.damaged} samples are damaged and left out")

    def warn_of_age(self, style: str) -> None:
        """Warn how many jobs have lost samples; thinning matters only to formats with a row per sample."""
        deleted = sum(are_samples_deleted(job) for _, job in self.chosen)
        thinned = sum(is_thinned(job) for _, job in self.chosen) if style in ("csv", "jsonl", "sqlite") else 0
        if deleted:
            self.app.warn(f"{jobs_are(deleted)} old: their samples were deleted, so only totals are written")
        if thinned:
            self.app.warn(f"{jobs_are(thinned)} old: a row is a minute, not a sample")


def jobs_are(count: int) -> str:
    return number_of(count, "job is", "jobs are")


def write_csv(file: TextIO, exported: ExportedJobs, single: bool) -> None:
    """Write the samples of one job as `metrics` prints them; of several jobs with the job id as first column."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*([] if single else ["job_id"]), "timestamp", "elapsed", *KEYS])
    for job, readings in exported.samples():
        own = [] if single else [job.id]
        writer.writerows([*own, *csv_row(job, reading, KEYS)] for reading in readings)


def write_jsonl(file: TextIO, exported: ExportedJobs, single: bool) -> None:
    for job, readings in exported.samples():
        file.writelines(json.dumps(sample_json(job, reading)) + "\n" for reading in readings)


def write_tsv(
    names: list[str], line: Callable[[Job, MemoryPeaks], list[str]]
) -> Callable[[TextIO, ExportedJobs, bool], None]:
    def write(file: TextIO, exported: ExportedJobs, single: bool) -> None:
        file.write("\t".join(names) + "\n")
        file.writelines("\t".join(line(job, peaks)) + "\n" for job, peaks in exported.peaks())

    return write


WRITERS: dict[str, Callable[[TextIO, ExportedJobs, bool], None]] = {
    "csv": write_csv,
    "jsonl": write_jsonl,
    "snakemake": write_tsv(SNAKEMAKE_COLUMNS, snakemake_row),
    "nextflow": write_tsv(NEXTFLOW_COLUMNS, nextflow_row),
}
