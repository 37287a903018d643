"""`jobtop export`: the samples of jobs, or a line a job, in formats that other programs read."""

import csv
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import click

from jobtop.cli.app import App
from jobtop.cli.completion import job_ids
from jobtop.cli.files import new_file, new_path
from jobtop.core.errors import UsageError
from jobtop.core.model import Job
from jobtop.core.series.readings import KEYS, Reader, Reading, row, to_json
from jobtop.core.series.trace_formats import NEXTFLOW, SNAKEMAKE, MemoryPeaks, nextflow_row, snakemake_row
from jobtop.core.text.job_text import is_thinned, was_let_go
from jobtop.store.jobs import Jobs, Query
from jobtop.store.samples.curves import Curves

FORMATS = ("csv", "jsonl", "sqlite", "snakemake", "nextflow")
SHOWN_FROM = 20  # so many jobs may take longer than a second


@click.command()
@click.argument("references", metavar="[ID…]", nargs=-1, shell_complete=job_ids)
@click.option("--format", "style", type=click.Choice(FORMATS), default="csv", help="What to write; csv by default.")
@click.option(
    "--output", type=click.Path(path_type=Path), default="-", metavar="PATH", help="Where to; by default printed."
)
@click.option("--force", is_flag=True, help="Overwrite that file.")
@click.pass_obj
def export(app: App, references: tuple[str, ...], style: str, output: Path, force: bool) -> int:
    """Write jobs in a format that other programs read: those given, or all.

    \b
    csv, jsonl   every sample of each job, as jobtop metrics prints them
    sqlite       the tables job_resource_samples and job_metadata, as Torc keeps them
    snakemake    a line a job, as in a benchmark file
    nextflow     a line a job, as in a trace file
    """
    if style == "sqlite" and str(output) == "-":
        raise UsageError("--format sqlite writes a file: give --output PATH")
    chosen = [app.find(reference) for reference in dict.fromkeys(references)]
    if not references:
        chosen = app.fleet.select(Query(reverse=True, limit=None))
    source = Source(app, list({job.id: (jobs, job) for jobs, job in chosen}.values()))
    if style == "sqlite":
        from jobtop.store.transfer.exports import write_resource_metrics

        with new_path("--output", output, force) as path:
            write_resource_metrics(path, source.samples())
    else:
        with new_file("--output", output, force) as file:
            WRITERS[style](file, source, len(references) == 1)
    source.warn_of_damage()
    source.warn_of_age(style)
    return 0


class Source:
    """The jobs to export, read one after the other."""

    def __init__(self, app: App, chosen: list[tuple[Jobs, Job]]) -> None:
        self.app, self.chosen, self.damaged = app, chosen, 0

    def each(self) -> Iterator[tuple[Curves, Job]]:
        """Every job, with a bar where that takes long and somebody looks."""
        hidden = len(self.chosen) < SHOWN_FROM or not sys.stderr.isatty()
        with click.progressbar(self.chosen, label="jobs", file=sys.stderr, hidden=hidden) as bar:
            for jobs, job in bar:
                yield Curves(jobs.database), job

    def samples(self) -> Iterator[tuple[Job, Iterator[Reading]]]:
        for curves, job in self.each():
            news = curves.follow(job, None)
            self.damaged += news.damaged
            yield job, Reader().read(news.samples)

    def peaks(self) -> Iterator[tuple[Job, MemoryPeaks]]:
        keys = ("mem.rss", "mem.vms", "mem.pss")
        for curves, job in self.each():
            series = curves.series(job, keys)
            self.damaged += series.damaged
            known = ([value for value in series.values[key] if value is not None] for key in keys)
            yield job, MemoryPeaks(*(max(values, default=None) for values in known))

    def warn_of_damage(self) -> None:
        if self.damaged:
            self.app.warn(f"{self.damaged} samples are damaged and left out")

    def warn_of_age(self, style: str) -> None:
        """Say how many of the jobs are no longer whole; peaks, which is all that tables need, survive thinning."""
        let_go = sum(was_let_go(job) for _, job in self.chosen)
        thinned = sum(is_thinned(job) for _, job in self.chosen) if style in ("csv", "jsonl", "sqlite") else 0
        if let_go:
            self.app.warn(f"{jobs_are(let_go)} old: the samples were let go, and what is written is from the totals")
        if thinned:
            self.app.warn(f"{jobs_are(thinned)} old: a row is a minute, not a sample")


def jobs_are(count: int) -> str:
    return "1 job is" if count == 1 else f"{count:,} jobs are"


def write_csv(file: TextIO, source: Source, single: bool) -> None:
    """Of one job as `metrics` prints it; of several in long form, the job first."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*([] if single else ["job_id"]), "timestamp", "elapsed", *KEYS])
    for job, readings in source.samples():
        own = [] if single else [job.id]
        writer.writerows([*own, *row(job, reading, KEYS)] for reading in readings)


def write_jsonl(file: TextIO, source: Source, single: bool) -> None:
    for job, readings in source.samples():
        file.writelines(json.dumps(to_json(job, reading)) + "\n" for reading in readings)


def write_tsv(
    names: list[str], line: Callable[[Job, MemoryPeaks], list[str]]
) -> Callable[[TextIO, Source, bool], None]:
    def write(file: TextIO, source: Source, single: bool) -> None:
        file.write("\t".join(names) + "\n")
        file.writelines("\t".join(line(job, peaks)) + "\n" for job, peaks in source.peaks())

    return write


WRITERS: dict[str, Callable[[TextIO, Source, bool], None]] = {
    "csv": write_csv,
    "jsonl": write_jsonl,
    "snakemake": write_tsv(SNAKEMAKE, snakemake_row),
    "nextflow": write_tsv(NEXTFLOW, nextflow_row),
}
