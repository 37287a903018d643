"""Jobs of other programs, moved into the store: which files are whose, and how their jobs get in, each once."""

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
from jobtop.store.jobs import NEXT_TOUCH
from jobtop.store.samples.head import JOBS, last_id
from jobtop.store.samples.sealed import Unsealed, keep
from jobtop.store.transfer import duct, epochs, joblet, keystone, torc, workflows
from jobtop.store.transfer.values import IMPORTED, Intake, Taken, Unpacked

HEAD_BYTES = 1024 * 1024  # enough of a file to know it by
TRIED_LINES = 20  # the first of them may be torn
BATCH_JOBS, BATCH_SAMPLES = 25_000, 20_000  # so that whoever else writes waits for a second at most
FEW_JOBS = 5000
ASKED_IDS = 500
CACHE_KIB = 64 * 1024  # the indexes of a hundred thousand jobs: what is inserted falls all over them
FREE_TEXTS = frozenset("external_id name tool script note host user cwd error".split())
SQLITE, GZIP = b"SQLite format 3\0", b"\x1f\x8b"
READERS: dict[str, Callable[[Sequence[Path], Intake], Iterator[Taken]]] = {
    "torc": torc.read,
    "keystone": keystone.read,
    "epochs": epochs.read,
    "joblet": joblet.read,
    "con-duct": duct.read,
    "snakemake": workflows.read_snakemake,
    "nextflow": workflows.read_nextflow,
}
TOGETHER = ("epochs", "joblet")  # what lies in one directory belongs together
PROGRAMS = "Torc, Keystone, the OCR callback, Joblet, con-duct, Snakemake or Nextflow"


@record
class Source:
    """Files that are read together, and whose they are."""

    kind: str
    paths: tuple[Path, ...]

    def jobs(self, intake: Intake) -> Iterator[Taken]:
        return READERS[self.kind](self.paths, intake)

    def size(self) -> int:
        return sum(path.stat().st_size for path in self.paths)


@record
class Found:
    """What there is to import, and how many files in the directories were somebody else's."""

    sources: tuple[Source, ...]
    passed_over: int


@record
class Kept:
    """How much of a batch was new."""

    jobs: int = 0
    samples: int = 0
    known: int = 0

    def __add__(self, other: Kept) -> Kept:
        return Kept(self.jobs + other.jobs, self.samples + other.samples, self.known + other.known)


def find_sources(paths: Iterable[Path]) -> Found:
    """The sources in files and directories; BadValue for a file of another kind, or where there is nothing."""
    by_group: dict[tuple[str, str], dict[Path, None]] = {}
    passed_over = 0
    for named in paths:
        found = 0
        for path in files_in(named):
            kind = recognise(path)
            if kind is None:
                passed_over += 1
                continue
            found += 1
            files = duct.files_of_run(path) if kind == "con-duct" else (path,)
            group = str(path.absolute().parent) if kind in TOGETHER else str(files[0].absolute())
            by_group.setdefault((kind, group), {}).update(dict.fromkeys(files))
        if not found:
            raise BadValue(refusal(named))
    return Found(tuple(Source(kind, tuple(files)) for (kind, _), files in by_group.items()), passed_over)


def files_in(path: Path) -> Iterator[Path]:
    """The file itself, or all in a directory, in order."""
    if not path.is_dir():
        if not path.is_file():
            raise BadValue(f"{path}: {'it is no file' if path.exists() else 'there is no such file'}")
        yield path
        return
    for directory, below, names in os.walk(path):
        below.sort()
        yield from (file for name in sorted(names) if (file := Path(directory, name)).is_file())


def recognise(path: Path) -> str | None:
    """Which program wrote a file, by what is in it; None for any other."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        if head.startswith(SQLITE):
            return "torc" if torc.fits(path) else None
        if head.startswith(GZIP):
            head = Unpacked(io.BytesIO(head), HEAD_BYTES).read(HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return None
    lines = head.decode("utf-8", "replace").splitlines()[:TRIED_LINES]
    if not lines:
        # What con-duct leaves when it is killed; its samples may be beside it.
        return "con-duct" if path.name.endswith(f"_{duct.INFO}") else None
    return _of_json(lines) if lines[0].lstrip().startswith("{") else _of_table(lines[0])


def refusal(path: Path) -> str:
    """Why there is nothing to take from a path."""
    if path.is_dir():
        return f"{path}: there is no file of {PROGRAMS} in it"
    if not os.access(path, os.R_OK):
        return f"{path}: it may not be read"
    if _is_store(path):
        return f"{path}: it is a store of jobtop (jobtop store merge folds it in)"
    return f"{path}: it is no file of {PROGRAMS}"


def batches(taken: Iterable[Taken]) -> Iterator[list[Taken]]:
    """Jobs in portions that are written in a moment."""
    waiting, samples = [], 0
    for item in taken:
        waiting.append(item)
        samples += len(item.samples)
        if len(waiting) >= BATCH_JOBS or samples >= BATCH_SAMPLES:
            yield waiting
            waiting, samples = [], 0
    if waiting:
        yield waiting


def keep_batch(database: Database, batch: Sequence[Taken]) -> Kept:
    """Put those that are not there yet into the store, in one transaction."""
    with database.writing() as connection:
        new = unknown(connection, batch)
        with without_indexes(connection) if outnumber(connection, new) else nullcontext():
            touch = connection.execute(f"SELECT {NEXT_TOUCH}").fetchone()[0]
            for (columns, _), alike in groupby(new, key=lambda job: (tuple(job.row), id(job.common))):
                touch = _insert(connection, columns, list(alike), touch)
        for job in new:
            if job.samples:
                _seal(connection, job.row["id"], job.samples)
    return counted(new, batch)


def outnumber(connection: sqlite3.Connection, new: Sequence[Taken]) -> bool:
    """Whether new jobs are so many that making the indexes anew is cheaper than adding to them."""
    return len(new) > FEW_JOBS and 2 * len(new) >= connection.execute("SELECT count(*) FROM jobs").fetchone()[0]


@contextmanager
def without_indexes(connection: sqlite3.Connection) -> Iterator[None]:
    """Take the indexes of jobs away, and make them again, in one go: sorted instead of in the order of the jobs."""
    indexes = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'jobs' AND sql IS NOT NULL"
    ).fetchall()
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {name}")
    yield
    for _, sql in indexes:
        connection.execute(sql)


def make_roomy(database: Database) -> None:
    """Let a connection remember more pages, until it is closed."""
    with database.reading() as connection:
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")


def look_at_batch(database: Database | None, batch: Sequence[Taken]) -> Kept:
    """What keeping it would do, in a store that there may not be."""
    if database is None:
        return counted(list({job.row["id"]: job for job in batch}.values()), batch)
    with database.reading() as connection:
        return counted(unknown(connection, batch), batch)


def unknown(connection: sqlite3.Connection, batch: Sequence[Taken]) -> list[Taken]:
    """Those that are not in the store, each once."""
    new = {job.row["id"]: job for job in reversed(batch)}
    ids = iter(list(new))
    while some := list(islice(ids, ASKED_IDS)):
        marks = ", ".join("?" * len(some))
        for (known,) in connection.execute(f"SELECT id FROM jobs WHERE id IN ({marks})", some):
            del new[known]
    return list(new.values())[::-1]


def counted(new: Sequence[Taken], batch: Sequence[Taken]) -> Kept:
    return Kept(len(new), sum(len(job.samples) for job in new), len(batch) - len(new))


def _insert(connection: sqlite3.Connection, columns: Sequence[str], jobs: Sequence[Taken], touch: int) -> int:
    """Jobs with these columns, and others in common; the next number to touch a job with."""
    common = jobs[0].common
    shared = {name: connection.execute("SELECT quote(?)", (value,)).fetchone()[0] for name, value in common.items()}
    values = dict.fromkeys(columns, "?") | shared
    # A text that SQLite would not take as such comes as bytes.
    marks = (f"CAST({value} AS TEXT)" if name in FREE_TEXTS else value for name, value in values.items())
    rows = ((number, *job.row.values()) for number, job in enumerate(jobs, start=touch))
    connection.executemany(f"INSERT INTO jobs (touched, {', '.join(values)}) VALUES (?, {', '.join(marks)})", rows)
    return touch + len(jobs)


def _seal(connection: sqlite3.Connection, job_id: str, samples: Sequence[Sample]) -> None:
    """Samples as blocks; their ids are those the head would have given, and gives to nobody else now."""
    owner = connection.execute("SELECT seq FROM jobs WHERE id = ?", (job_id,)).fetchone()[0]
    begin = last_id(connection, JOBS)
    end = begin + len(samples)
    if connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (end, JOBS.head)).rowcount == 0:
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (JOBS.head, end))
    connection.execute(f"INSERT INTO {JOBS.series} ({JOBS.owner}, sealed_until) VALUES (?, ?)", (owner, begin))
    # Samples grow old from now on; jobs without any need no event, and there may be 100,000 of them.
    happened = (owner, time.time(), IMPORTED)
    connection.execute("INSERT INTO events (job_seq, at, kind, detail) VALUES (?, ?, ?, '{}')", happened)
    unsealed = Unsealed(begin, list(zip(range(begin + 1, end + 1), samples, strict=True)))
    while (block := unsealed.packed(JOBS.keys)) is not None:
        keep(connection, JOBS, owner, block)
        unsealed.drop(block)


def _of_json(lines: Sequence[str]) -> str | None:
    for line in lines:
        try:
            shape = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(shape, dict):
            return None
        tests = {"keystone": keystone.fits, "joblet": joblet.fits, "con-duct": duct.fits}
        fitting = [kind for kind, fits in tests.items() if fits(shape)]
        return fitting[0] if fitting else "snakemake" if workflows.is_snakemake(list(shape)) else None
    return _of_whole_json(lines)


def _of_whole_json(lines: Sequence[str]) -> str | None:
    """An object over several lines."""
    return "con-duct" if any('"execution_summary"' in line for line in lines) else None


def _of_table(header: str) -> str | None:
    names = [name.strip() for name in header.split("\t")]
    if workflows.is_snakemake(names):
        return "snakemake"
    if workflows.is_nextflow(names) and len(names) > 1:
        return "nextflow"
    try:
        columns = next(csv.reader([header]), [])
    except csv.Error:
        return None
    return "epochs" if epochs.fits(columns) else None


def _is_store(path: Path) -> bool:
    with path.open("rb") as file:
        header = file.read(72)
    return header.startswith(SQLITE) and int.from_bytes(header[68:72], "big") == APPLICATION_ID
