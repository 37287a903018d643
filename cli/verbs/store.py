"""`jobtop store`: describes, checks, shrinks, copies and merges history files."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.files import new_path
from jobtop.cli.text.tables import TableColumn, format_options, print_records, table
from jobtop.core.clock import iso, local
from jobtop.core.errors import BadValue, UsageError
from jobtop.core.model import SCHEMA_VERSION
from jobtop.core.paths import StatePaths
from jobtop.core.record import as_dict
from jobtop.core.units import ABSENT, format_bytes, format_duration, number_of
from jobtop.store.database import Database, open_to_read, open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.named_stores import SUFFIX, expanded_path
from jobtop.store.upkeep import checking, compaction, copying
from jobtop.store.upkeep.checking import Problem
from jobtop.store.upkeep.description import Description, Files, describe
from jobtop.store.upkeep.merging import Merged, merge

KEPT_WORDS = {"whole": "whole", "minutes": "as minutes", "record": "as records"}
MERGED_COLUMNS = (
    TableColumn("FILE", widest=80),
    *(TableColumn(title, right=True) for title in ("ADDED", "COMPLETED", "KNOWN", "WAITING")),
)
Progress = Callable[[int, int], object]


@click.group(invoke_without_command=True)
@click.pass_context
def store(ctx: click.Context) -> int:
    """Describe, check, shrink, copy and merge history files; without a subcommand, describe this host's."""
    return 0 if ctx.invoked_subcommand is not None else int(ctx.invoke(info, path=None, style="table"))


@store.command()
@click.argument("path", required=False)
@format_options
@click.pass_obj
def info(app: App, path: str | None, style: str) -> int:
    """Print what is in the store, and how much space it takes."""
    file = existing_store(app, path)
    found = describe(file)
    if found.notice:
        app.warn(found.notice)
    if found.problem:
        app.warn(found.problem)
    if style == "table":
        print(table((TableColumn("WHAT"), TableColumn("VALUE", widest=100)), info_rows(file, found)))
    else:
        print_records(style, [info_json(file, found)], single=True)
    return int(found.integrity == "damaged")


def info_rows(file: Path, found: Description) -> Iterator[tuple[str, str]]:
    def number(count: int | None) -> str:
        return ABSENT if count is None else f"{count:,}"

    def files(kept: Files) -> str:
        return f"{kept.count:,}, {format_bytes(kept.size_bytes)}"

    yield "store", str(file)
    free = f", {format_bytes(found.free_bytes)} of it free" if found.free_bytes else ""
    yield "size", f"{format_bytes(found.size_bytes)}{free}"
    yield "integrity", found.integrity
    if found.version is None:
        return
    yield "version", f"{found.version}, journal {found.journal}"
    by_status = ", ".join(f"{count:,} {status}" for status, count in found.jobs.items())
    yield "jobs", f"{sum(found.jobs.values()):,}" + (f" ({by_status})" if by_status else "")
    yield "oldest", local(found.oldest)
    yield "newest", local(found.newest)
    if found.kept:
        kept = ", ".join(f"{count:,} {KEPT_WORDS.get(kept, kept)}" for kept, count in found.kept.items())
        yield "kept", kept + (f", {found.pinned:,} pinned" if found.pinned else "")
    yield (
        "samples",
        f"{number(found.sealed_samples)} sealed, {number(found.raw_samples)} raw"
        + (f", {found.minutes:,} of a minute" if found.minutes else ""),
    )
    yield "machine", f"{number(found.machine_samples)} samples"
    if found.device_samples:
        yield "devices", f"{found.device_samples:,} samples"
    if found.named_samples:
        yield "named series", f"{found.named_samples:,} samples"
    yield "snapshots", number(found.snapshots)
    yield "events", number(found.events)
    yield "alerts", number(found.alerts)
    yield "logs", files(found.logs)
    yield "specs", files(found.specs)
    about = "" if found.are_bytes_exact else "about "
    for kind, size in sorted(found.bytes_by_kind.items(), key=lambda item: -item[1]):
        yield f"  {kind}", f"{about}{format_bytes(size)}"
    tiers = ", ".join(f"{tier} {format_bytes(size)}" for tier, size in found.bytes_by_tier.items())
    if tiers:
        yield "tiers", tiers


def info_json(file: Path, found: Description) -> dict[str, Any]:
    values = as_dict(found) | {"oldest": iso(found.oldest), "newest": iso(found.newest)}
    values |= {"logs": as_dict(found.logs), "specs": as_dict(found.specs)}
    return {"schema_version": SCHEMA_VERSION, "path": str(file)} | values


@store.command(short_help="Check the whole store; exit code 1 if something is wrong.")
@click.argument("path", required=False)
@format_options
@click.pass_obj
def check(app: App, path: str | None, style: str) -> int:
    """Check every page, table, reference, value and block; exit code 1 if something is wrong."""
    file = existing_store(app, path)
    with progress_bar("checking") as progress:
        problems = list(checking.check(file, progress))
    if style != "table":
        print_records(style, [{"schema_version": SCHEMA_VERSION} | as_dict(problem) for problem in problems])
    elif problems:
        what = TableColumn("WHAT", widest=200 if sys.stdout.isatty() else 10_000)
        print(table((TableColumn("WHERE"), what), map(problem_row, problems)))
    else:
        print(f"{file} is not damaged.")
    return int(bool(problems))


def problem_row(problem: Problem) -> tuple[str, str]:
    what = problem.what
    if problem.job_id is not None:
        what = f"job {problem.job_id[:8]} ({problem.name}): {what}"
    if problem.first_elapsed is not None:
        span = " to ".join(format_duration(moment) for moment in (problem.first_elapsed, problem.last_elapsed))
        what += f", {span}" + ("" if problem.samples is None else f", {problem.samples} samples")
    return problem.where, what


@store.command()
@click.option("--full", is_flag=True, help="Rewrite the whole file; not while jobs run.")
@click.pass_obj
def vacuum(app: App, full: bool) -> int:
    """Give unused space back to the file system."""
    existing_store(app, None)
    with (
        closing(open_to_write(app.paths, app.config.switch("store.network"))) as database,
        progress_bar("shrinking") as update,
    ):
        done = compaction.vacuum(database, full, update)
    freed = done.before_bytes - done.after_bytes
    print(f"{app.paths.store}: {format_bytes(max(0, freed))} freed, {format_bytes(done.after_bytes)} left")
    if done.readers:
        app.warn(f"{', '.join(done.readers)} reads the file: the journal shrinks when that process has ended")
    return 0


@store.command()
@click.argument("path")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.pass_obj
def backup(app: App, path: str, force: bool) -> int:
    """Copy the store, also while jobs run, and check the copy."""
    source, target = existing_store(app, None), expanded_path(path)
    if target.exists() and os.path.samefile(source, target):
        raise UsageError(f"{target}: it is the store itself; name another file")
    journal = Path(f"{target}-wal")
    if journal.exists() and journal.stat().st_size > 0:  # SQLite would take it for the copy's journal
        raise UsageError(f"{target}: it is a store in use; name another file")
    with closing(open_to_read(source)) as database, new_path("backup", target, force) as part:
        part.chmod(0o600)
        with progress_bar("copying") as progress:
            copying.backup(database, part, progress)
    print(f"{target}: {format_bytes(target.stat().st_size)}, checked")
    return 0


@store.command("merge", short_help="Merge the jobs of other stores into one.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--into", metavar="PATH", help="The file to merge into, NAME.db; this host's store by default.")
@format_options
@click.pass_obj
def merge_files(app: App, paths: tuple[str, ...], into: str | None, style: str) -> int:
    """Merge the jobs of other stores, or of all stores in a directory, into this host's store.

    Jobs that are already there are kept, or completed. A file or row that cannot be read is left out and named, and
    the exit code is 1.
    """
    with closing(target_store(app, into)) as database:
        files = dict.fromkeys(file for path in paths for file in files_to_merge(expanded_path(path), database.path))
        done = [merged_file(app, database, file, None if into else app.paths.host) for file in files]
    if style == "table":
        print(table(MERGED_COLUMNS, [(str(one.path), *map(str, merged_counts(one))) for one in done]))
    else:
        print_records(
            style, [{"schema_version": SCHEMA_VERSION} | as_dict(one) | {"path": str(one.path)} for one in done]
        )
    return int(any(one.problem is not None or one.refused or one.damaged_rows for one in done))


def merged_counts(one: Merged) -> tuple[int | str, ...]:
    return (ABSENT,) * 4 if one.problem else (one.added, one.completed, one.known, one.waiting)


def merged_file(app: App, database: Database, file: Path, own_host: str | None) -> Merged:
    with progress_bar(file.name) as progress:
        done = merge(database, file, own_host, progress)
    if done.problem is not None:
        app.warn(f"left out: {done.problem}")
    if done.refused:
        app.warn(f"left out: {number_of(done.refused, 'job')} of {file} that cannot be read ({done.reason})")
    if done.damaged_rows:
        rows = number_of(done.damaged_rows, "damaged row")
        app.warn(f"left out: {rows} of {file} ({done.damaged_tables}); jobtop store check {file} names them")
    return done


def target_store(app: App, into: str | None) -> Database:
    """Open the store to merge into; create it if it does not exist."""
    network = app.config.switch("store.network")
    if into is None:
        return open_to_write(app.paths, network)
    path = expanded_path(into)
    if path.suffix != SUFFIX or path.is_dir():
        raise BadValue(f"--into: {path}: name a file, NAME{SUFFIX}")
    if path.stem != app.paths.host and path.exists() and is_store_of(path, path.stem):
        raise UsageError(f"--into: {path}: {path.stem} records into it; merge there, or into a file of another name")
    return open_to_write(StatePaths(path.parent, path.stem), network)


def is_store_of(path: Path, host: str) -> bool:
    """Return whether a store has jobs of this host."""
    with closing(open_to_read(path)) as database:
        return Jobs(database).has_host(host)


def files_to_merge(path: Path, target: Path) -> list[Path]:
    """Return the file itself, or all stores of a directory except the target."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.glob(f"*{SUFFIX}") if file.is_file() and not file.samefile(target))
    if not found:
        raise UsageError(f"{path}: there is no other store (HOST{SUFFIX}) in this directory")
    return found


def existing_store(app: App, path: str | None) -> Path:
    """Return the store at this path, by default this host's; UsageError if it does not exist."""
    file = app.paths.store if path is None else expanded_path(path)
    if not file.exists():
        hint = "" if path else " yet (jobtop run -- COMMAND creates it)"
        raise UsageError(f"{file}: there is no such store{hint}")
    return file


@contextmanager
def progress_bar(label: str) -> Iterator[Progress]:
    """Yield a function of done and total that updates a progress bar; the bar is hidden where there is no terminal."""
    with click.progressbar(length=1, label=label, file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:

        def update(done: int, total: int) -> None:
            bar.length = max(1, total)
            bar.update(done - bar.pos)

        yield update
