"""`jobtop import`: copies jobs that other programs recorded into this host's history."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobtop.cli.app import App
from jobtop.cli.text.tables import format_options, print_records
from jobtop.core.model import SCHEMA_VERSION
from jobtop.core.run.request import tag
from jobtop.core.units import number_of, printable

if TYPE_CHECKING:
    from jobtop.store.transfer.imports import FoundSources, ImportCounts, Source
    from jobtop.store.transfer.values import ImportContext

PROGRESS_AFTER_SECONDS = 1.0
MOST_NAMED_PLACES = 10


@click.command("import")
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Print what would be imported, and import nothing.")
@click.option("--tag", "tags", multiple=True, metavar="K[=V]", help="A tag for the imported jobs; may be repeated.")
@click.option("--host", metavar="NAME", help="The host that the jobs ran on, if their file does not say.")
@format_options
@click.pass_obj
def import_(
    app: App, paths: tuple[Path, ...], dry_run: bool, tags: tuple[str, ...], host: str | None, style: str
) -> int:
    """Import the jobs of other programs, from files or from all files in a directory.

    \b
    Torc        resource_metrics_HOST_WORKFLOW_RUN.db
    Keystone    jobs_history.jsonl
    OCR         epoch_N.csv of its training callback; a directory of them is one job
    Joblet      JOB/TIME.jsonl.gz
    con-duct    PREFIX_info.json and PREFIX_usage.jsonl
    Snakemake   benchmark files
    Nextflow    trace files

    Jobs imported before are left unchanged. Jobs without a recorded outcome get the status unknown.

    Exit code 1 if a file could not be read and no job came from it.
    """
    from jobtop.store.transfer.imports import ImportCounts, batches, find_sources
    from jobtop.store.transfer.values import ImportContext

    intake = ImportContext(dict(map(tag, tags)), host, app.config.texts("run.redact"))
    found = find_sources(paths)
    total = ImportCounts()
    by_kind: dict[str, ImportCounts] = {}
    has_failed = False
    with open_importer(app, dry_run) as keep_batch, progress(found, intake) as update:
        for source in found.sources:
            bad_before, jobs_before = intake.count_unreadable(), total.jobs + total.known
            for batch in batches(source.jobs(intake)):
                kept = keep_batch(batch)
                total, by_kind[source.kind] = total + kept, by_kind.get(source.kind, ImportCounts()) + kept
                update(None)
            has_failed |= intake.count_unreadable() > bad_before and total.jobs + total.known == jobs_before
            update(source)
    if style == "table":
        print(import_text(total, by_kind, found, intake, dry_run))
    else:
        print_records(style, [import_json(total, by_kind, found, intake, dry_run)], single=True)
    return int(has_failed)


@contextmanager
def open_importer(app: App, dry_run: bool) -> Iterator[Callable[[Any], ImportCounts]]:
    """Yield the function that imports a batch into this host's store; with dry_run it only counts."""
    from jobtop.store.database import open_to_read, open_to_write
    from jobtop.store.transfer.imports import enlarge_cache, insert_batch, preview_batch

    if not dry_run:
        with closing(open_to_write(app.paths, app.config.switch("store.network"))) as database:
            enlarge_cache(database)
            yield lambda batch: insert_batch(database, batch)
    elif app.paths.store.exists():
        with closing(open_to_read(app.paths.store)) as database:
            yield lambda batch: preview_batch(database, batch)
    else:
        yield lambda batch: preview_batch(None, batch)


@contextmanager
def progress(found: FoundSources, intake: ImportContext) -> Iterator[Callable[[Source | None], None]]:
    """Yield a function to call with each finished source; it shows a progress bar on a terminal after a second."""
    begin, done = time.monotonic(), 0
    bar = click.progressbar(length=sum(source.size() for source in found.sources), label="importing", file=sys.stderr)
    is_shown = False

    def update(source: Source | None) -> None:
        nonlocal done, is_shown
        done += 0 if source is None else source.size()
        if not is_shown and (not sys.stderr.isatty() or time.monotonic() - begin < PROGRESS_AFTER_SECONDS):
            return
        is_shown = True
        bar.update(max(0, (done if source else done + intake.position()) - bar.pos))

    try:
        yield update
    finally:
        if is_shown:
            bar.render_finish()


def import_text(
    total: ImportCounts, by_kind: dict[str, ImportCounts], found: FoundSources, intake: ImportContext, dry_run: bool
) -> str:
    """Return what was imported and what was not."""
    kinds = ", ".join(f"{kind} {kept.jobs}" for kind, kept in by_kind.items()) if len(by_kind) > 1 else "".join(by_kind)
    lines = [
        f"{'would import ' if dry_run else ''}{number_of(total.jobs, 'job')}, {number_of(total.samples, 'sample')}"
    ]
    lines[0] += f" ({kinds})" if by_kind else ""
    if total.known:
        lines.append(f"{number_of(total.known, 'job')} imported before")
    lines += unreadable_lines(intake)
    for kind, names in intake.left_out.items():
        if names:
            lines.append(
                f"not imported from {kind}, since jobtop has no field for it: {printable(', '.join(sorted(names)))}"
            )
    if found.passed_over:
        lines.append(f"{number_of(found.passed_over, 'other file')} skipped")
    return "\n".join(lines)


def unreadable_lines(intake: ImportContext) -> list[str]:
    lines = []
    for what in ("line", "file"):
        places = [str(place) for place in intake.unreadable if (place.line is None) == (what == "file")]
        if places:
            more = f", and {len(places) - MOST_NAMED_PLACES} more" if len(places) > MOST_NAMED_PLACES else ""
            named = printable(", ".join(places[:MOST_NAMED_PLACES]))
            lines.append(f"{number_of(len(places), what)} could not be read: {named}{more}")
    if intake.unnamed:
        lines.append(f"{number_of(intake.unnamed, 'other place')} could not be read either")
    return lines


def import_json(
    total: ImportCounts, by_kind: dict[str, ImportCounts], found: FoundSources, intake: ImportContext, dry_run: bool
) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "dry_run": dry_run,
        "jobs": total.jobs,
        "samples": total.samples,
        "already_there": total.known,
        "by_kind": {kind: {"jobs": kept.jobs, "samples": kept.samples} for kind, kept in by_kind.items()},
        "unreadable": [{"file": str(place.path), "line": place.line, "why": place.why} for place in intake.unreadable],
        "unreadable_unnamed": intake.unnamed,
        "left_out": {kind: sorted(names) for kind, names in intake.left_out.items() if names},
        "passed_over": found.passed_over,
    }
