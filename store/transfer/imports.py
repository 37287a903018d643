"""Import jobs of other programs: recognise the format of files, and insert their jobs into the store, each once."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import groupby, islice
from pathlib import Path

from jobtop.core.errors import BadValue
from jobtop.core.model import Sample
from jobtop.core.record import record
from jobtop.store.database import APPLICATION_ID, Database
from jobtop.store.jobs import NEXT_TOUCH, placeholders
from jobtop.store.samples.head import JOBS, last_id
from jobtop.store.samples.sealed import Unsealed, keep
from jobtop.store.transfer import duct, epochs, joblet, keystone, torc, workflows
from jobtop.store.transfer.values import IMPORTED, ImportContext, ImportedJob, UnpackedFile

HEAD_BYTES = 1024 * 1024  # the part of a file that its format is recognised by
HEAD_LINES = 20  # the first of them may be damaged
BATCH_JOBS, BATCH_SAMPLES = 25_000, 20_000  # are inserted within a second, while other writers wait
FEW_JOBS = 5000
IDS_AT_ONCE = 500  # in one statement
CACHE_KIB = 64 * 1024  # holds the indexes of 100,000 jobs: inserts change pages all over them
TEXT_COLUMNS = frozenset("external_id name tool script note host user cwd error".split())
SQLITE, GZIP = b"SQLite format 3\0", b"\x1f\x8b"
READERS: dict[str, Callable[[Sequence[Path], ImportContext], Iterator[ImportedJob]]] = {
    "torc": torc.read,
    "keystone": keystone.read,
    "epochs": epochs.read,
    "joblet": joblet.read,
    "con-duct": duct.read,
    "snakemake": workflows.read_snakemake,
    "nextflow": workflows.read_nextflow,
}
GROUPED_BY_DIRECTORY = ("epochs", "joblet")  # all files of a directory are one source
PROGRAMS = "Torc, Keystone, the OCR callback, Joblet, con-duct, Snakemake or Nextflow"


@record
class Source:
    """Files that are read together, and the program that wrote them."""

    kind: str
    paths: tuple[Path, ...]

    def jobs(self, context: ImportContext) -> Iterator[ImportedJob]:
        """The jobs in the files."""
        return READERS[self.kind](self.paths, context)

    def size(self) -> int:
        """The bytes of the files."""
        return sum(path.stat().st_size for path in self.paths)


@record
class FoundSources:
    """The sources to import, and the number of files with another format."""

    sources: tuple[Source, ...]
    passed_over: int


@record
class ImportCounts:
    """The number of inserted jobs and samples, and of jobs that were in the store already."""

    jobs: int = 0
    samples: int = 0
    known: int = 0

    def __add__(self, other: ImportCounts) -> ImportCounts:
        return ImportCounts(self.jobs + other.jobs, self.samples + other.samples, self.known + other.known)


def find_sources(paths: Iterable[Path]) -> FoundSources:
    """The sources in files and directories; BadValue for a path without any."""
    by_group: dict[tuple[str, str], dict[Path, None]] = {}
    passed_over = 0
    for given_path in paths:
        found = 0
        for path in files_in(given_path):
            kind = recognise_format(path)
            if kind is None:
                passed_over += 1
                continue
            found += 1
            files = duct.files_of_run(path) if kind == "con-duct" else (path,)
            group = str(path.absolute().parent) if kind in GROUPED_BY_DIRECTORY else str(files[0].absolute())
            by_group.setdefault((kind, group), {}).update(dict.fromkeys(files))
        if not found:
            raise BadValue(refusal(given_path))
    return FoundSources(tuple(Source(kind, tuple(files)) for (kind, _), files in by_group.items()), passed_over)


def files_in(path: Path) -> Iterator[Path]:
    """The file itself, or all files below a directory, in order."""
    if not path.is_dir():
        if not path.is_file():
            raise BadValue(f"{path}: {'it is not a file' if path.exists() else 'there is no such file'}")
        yield path
        return
    for directory, subdirectories, names in os.walk(path):
        subdirectories.sort()
        yield from (file for name in sorted(names) if (file := Path(directory, name)).is_file())


def recognise_format(path: Path) -> str | None:
    """The program that wrote a file, recognised by its contents; None for an unknown format."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        if head.startswith(SQLITE):
            return "torc" if torc.matches(path) else None
        if head.startswith(GZIP):
            head = UnpackedFile(io.BytesIO(head), HEAD_BYTES).read(HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return None
    lines = head.decode("utf-8", "replace").splitlines()[:HEAD_LINES]
    if not lines:
        # A killed con-duct leaves this file empty; its samples may be beside it.
        return "con-duct" if path.name.endswith(f"_{duct.INFO}") else None
    return _json_format(lines) if lines[0].lstrip().startswith("{") else _table_format(lines[0])


def refusal(path: Path) -> str:
    """The message for a path from which nothing can be imported."""
    if path.is_dir():
        return f"{path}: it has no file of {PROGRAMS}"
    if not os.access(path, os.R_OK):
        return f"{path}: it may not be read"
    if _is_store(path):
        return f"{path}: it is a store of jobtop (jobtop store merge imports it)"
    return f"{path}: it is not a file of {PROGRAMS}"


def batches(jobs: Iterable[ImportedJob]) -> Iterator[list[ImportedJob]]:
    """Jobs in batches, each of which is inserted within a second."""
    batch, samples = [], 0
    for job in jobs:
        batch.append(job)
        samples += len(job.samples)
        if len(batch) >= BATCH_JOBS or samples >= BATCH_SAMPLES:
            yield batch
            batch, samples = [], 0
    if batch:
        yield batch


def insert_batch(database: Database, batch: Sequence[ImportedJob]) -> ImportCounts:
    """Insert the jobs of a batch that are not in the store, in one transaction."""
    with database.writing() as connection:
        new = new_jobs(connection, batch)
        with without_indexes(connection) if should_rebuild_indexes(connection, new) else nullcontext():
            touch = connection.execute(f"SELECT {NEXT_TOUCH}").fetchone()[0]
            for (columns, _), alike in groupby(new, key=lambda job: (tuple(job.columns), id(job.shared_columns))):
                touch = _insert(connection, columns, list(alike), touch)
        for job in new:
            if job.samples:
                _seal(connection, job.columns["id"], job.samples)
    return count_batch(new, batch)


def should_rebuild_indexes(connection: sqlite3.Connection, new: Sequence[ImportedJob]) -> bool:
    """Whether there are so many new jobs that rebuilding the indexes is cheaper than adding to them."""
    return len(new) > FEW_JOBS and 2 * len(new) >= connection.execute("SELECT count(*) FROM jobs").fetchone()[0]


@contextmanager
def without_indexes(connection: sqlite3.Connection) -> Iterator[None]:
    """Drop the indexes of `jobs`, and create them again afterwards, which sorts their entries once."""
    indexes = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'jobs' AND sql IS NOT NULL"
    ).fetchall()
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {name}")
    yield
    for _, sql in indexes:
        connection.execute(sql)


def enlarge_cache(database: Database) -> None:
    """Let a connection cache more pages, until it is closed."""
    with database.reading() as connection:
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")


def preview_batch(database: Database | None, batch: Sequence[ImportedJob]) -> ImportCounts:
    """The counts that `insert_batch` would return; None stands for a store that does not exist yet."""
    if database is None:
        return count_batch(list({job.columns["id"]: job for job in batch}.values()), batch)
    with database.reading() as connection:
        return count_batch(new_jobs(connection, batch), batch)


def new_jobs(connection: sqlite3.Connection, batch: Sequence[ImportedJob]) -> list[ImportedJob]:
    """The jobs of a batch that are not in the store, each once."""
    new = {job.columns["id"]: job for job in reversed(batch)}
    ids = iter(list(new))
    while some := list(islice(ids, IDS_AT_ONCE)):
        for (known,) in connection.execute(f"SELECT id FROM jobs WHERE id IN ({placeholders(some)})", some):
            del new[known]
    return list(new.values())[::-1]


def count_batch(new: Sequence[ImportedJob], batch: Sequence[ImportedJob]) -> ImportCounts:
    """The counts of a batch with these new jobs."""
    return ImportCounts(len(new), sum(len(job.samples) for job in new), len(batch) - len(new))


def _insert(connection: sqlite3.Connection, columns: Sequence[str], jobs: Sequence[ImportedJob], touch: int) -> int:
    """Insert jobs with the same columns and the same shared columns; return the next change number."""
    shared = {
        name: connection.execute("SELECT quote(?)", (value,)).fetchone()[0]
        for name, value in jobs[0].shared_columns.items()
    }
    expressions = dict.fromkeys(columns, "?") | shared
    # Text that is not UTF-8 is given as bytes.
    values = (f"CAST({value} AS TEXT)" if name in TEXT_COLUMNS else value for name, value in expressions.items())
    rows = ((number, *job.columns.values()) for number, job in enumerate(jobs, start=touch))
    sql = f"INSERT INTO jobs (touched, {', '.join(expressions)}) VALUES (?, {', '.join(values)})"
    connection.executemany(sql, rows)
    return touch + len(jobs)


def _seal(connection: sqlite3.Connection, job_id: str, samples: Sequence[Sample]) -> None:
    """Insert samples as blocks; their ids are reserved in the head, so that no other sample gets them."""
    owner = connection.execute("SELECT seq FROM jobs WHERE id = ?", (job_id,)).fetchone()[0]
    begin = last_id(connection, JOBS)
    end = begin + len(samples)
    if connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (end, JOBS.head)).rowcount == 0:
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (JOBS.head, end))
    connection.execute(f"INSERT INTO {JOBS.series} ({JOBS.owner}, sealed_until) VALUES (?, ?)", (owner, begin))
    # The age of samples counts from this event on. Jobs without samples, perhaps 100,000, need no event.
    event = (owner, time.time(), IMPORTED)
    connection.execute("INSERT INTO events (job_seq, at, kind, detail) VALUES (?, ?, ?, '{}')", event)
    unsealed = Unsealed(begin, list(zip(range(begin + 1, end + 1), samples, strict=True)))
    while (block := unsealed.packed(JOBS.keys)) is not None:
        keep(connection, JOBS, owner, block)
        unsealed.drop(block)


def _json_format(lines: Sequence[str]) -> str | None:
    """The format of JSON Lines, or of an object that spans several lines."""
    for line in lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(entry, dict):
            return None
        tests = {"keystone": keystone.matches, "joblet": joblet.matches, "con-duct": duct.matches}
        matching = [kind for kind, matches in tests.items() if matches(entry)]
        return matching[0] if matching else "snakemake" if workflows.is_snakemake(list(entry)) else None
    return "con-duct" if any('"execution_summary"' in line for line in lines) else None


def _table_format(header: str) -> str | None:
    """The format of a table, by its header."""
    names = [name.strip() for name in header.split("\t")]
    if workflows.is_snakemake(names):
        return "snakemake"
    if workflows.is_nextflow(names) and len(names) > 1:
        return "nextflow"
    try:
        columns = next(csv.reader([header]), [])
    except csv.Error:
        return None
    return "epochs" if epochs.matches(columns) else None


def _is_store(path: Path) -> bool:
    """Whether a file is a store of jobtop."""
    with path.open("rb") as file:
        header = file.read(72)
    return header.startswith(SQLITE) and int.from_bytes(header[68:72], "big") == APPLICATION_ID
