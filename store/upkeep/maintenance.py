"""The store as a file: what is in it, whether it is sound, giving its free space back, copying it while jobs run."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from jobtop.core.errors import BlockDamaged, StoreBusy, StoreDamaged, StoreUnavailable
from jobtop.core.record import fresh, record
from jobtop.core.series.blocks import open_block
from jobtop.store.database import REMEDIES, SETTING_ASIDE, Database, open_to_read
from jobtop.store.rows import event_of, is_number, job_of, mark_of
from jobtop.store.samples.head import HOSTS, JOBS, Layout
from jobtop.store.samples.hosts import unpacked_detail
from jobtop.store.samples.snapshots import unpacked_members
from jobtop.store.schema import has_tables_of
from jobtop.store.upkeep.inspection import quick_check
from jobtop.store.upkeep.tables import Columns, expected_tables, triggers, wrong_tables, wrong_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Progress = Callable[[int, int], object]

PATIENCE_SECONDS = 5.0
ROWS_AT_ONCE = 200
PAGES_AT_ONCE = 1000
FREED_AT_ONCE = 200  # pages, in a few milliseconds
PAUSE_SECONDS = 0.002  # so that who waits to write comes in between
MOST_PROBLEMS = 100
CHECKPOINT_MILLISECONDS = 1000  # who reads longer is named
LOOKED_AT = 1000  # rows from which the size of all is estimated
INCREMENTAL = 2  # of PRAGMA auto_vacuum
KEPT_SINCE = 6  # the version
KINDS = {
    "jobs": "jobs",
    "head": "samples",
    "series": "samples",
    "blocks": "samples",
    "hosts": "machine",
    "host_head": "machine",
    "host_series": "machine",
    "host_blocks": "machine",
    "host_details": "machine",
    "snapshots": "snapshots",
    "events": "events",
    "log_marks": "log marks",
    "search_data": "search",
    "search_idx": "search",
    "search_content": "search",
    "search_config": "search",
} | dict.fromkeys(("leases", "groups", "touches", "agent", "sqlite_schema", "sqlite_sequence"), "other")

ROWS: dict[str, tuple[str, Callable[[Any], object]]] = {  # of which each is checked as what it stands for
    "jobs": ("SELECT * FROM jobs", job_of),
    "events": ("SELECT at, kind, detail FROM events", event_of),
    "log_marks": ("SELECT elapsed_seconds, stdout_bytes, stderr_bytes FROM log_marks", mark_of),
}


@record
class Files:
    """Files of the jobs of a store that are beside it; bytes as the file system counts them."""

    count: int = 0
    size_bytes: int = 0


@record
class Description:
    """What is in a store; what a damaged one cannot tell is absent."""

    size_bytes: int
    integrity: str
    problem: str | None = None
    notice: str | None = None
    version: int | None = None
    journal: str | None = None
    free_bytes: int | None = None
    jobs: dict[str, int] = fresh(default_factory=dict)
    oldest: float | None = None
    newest: float | None = None
    kept: dict[str, int] = fresh(default_factory=dict)
    pinned: int | None = None
    raw_samples: int | None = None
    sealed_samples: int | None = None
    minutes: int | None = None
    machine_samples: int | None = None
    snapshots: int | None = None
    events: int | None = None
    logs: Files = Files()
    specs: Files = Files()
    bytes_by_kind: dict[str, int] = fresh(default_factory=dict)
    bytes_by_tier: dict[str, int] = fresh(default_factory=dict)  # what is packed, without the pages it is in
    are_bytes_exact: bool = True


@record
class Problem:
    """Something that is wrong in a store: where, what, and of which job and when, as far as that is known."""

    where: str
    what: str
    job_id: str | None = None
    name: str | None = None
    first_elapsed: float | None = None
    last_elapsed: float | None = None
    samples: int | None = None


@record
class Vacuumed:
    """What a file took before and after; `readers` keep some of it from being given back until they end."""

    before_bytes: int
    after_bytes: int
    readers: tuple[str, ...] = ()


def describe(path: Path, patience_seconds: float = PATIENCE_SECONDS) -> Description:
    """Count and look, without changing anything."""
    size = file_bytes(path)
    try:
        database = open_to_read(path)
    except StoreDamaged as error:
        return Description(size, "damaged", str(error))
    try:
        with database.reading() as connection:
            check = quick_check(connection, patience_seconds)
            integrity = {None: "unknown", "ok": "ok"}.get(check, "damaged")
            facts = {} if integrity == "damaged" else _facts(connection, path)
        problem = check if integrity == "damaged" else None
        return Description(size, integrity, problem, database.notice, **facts)
    except StoreDamaged as error:
        return Description(size, "damaged", str(error))
    finally:
        database.close()


def _facts(connection: sqlite3.Connection, path: Path) -> dict[str, Any]:
    def number(sql: str, *tables: str) -> int | None:
        return int(connection.execute(sql).fetchone()[0]) if there.issuperset(tables) else None

    there = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    facts: dict[str, Any] = {
        "version": number("PRAGMA user_version"),
        "journal": connection.execute("PRAGMA journal_mode").fetchone()[0],
        "free_bytes": (number("PRAGMA freelist_count") or 0) * (number("PRAGMA page_size") or 0),
    }
    if "jobs" not in there:
        return facts
    begun = "coalesce(start_time, submitted_at)"
    oldest, newest = connection.execute(f"SELECT min({begun}), max({begun}) FROM jobs").fetchone()
    ids = {row[0] for row in connection.execute("SELECT id FROM jobs")}
    facts |= {
        "jobs": dict(
            connection.execute("SELECT status, count(*) FROM jobs GROUP BY status ORDER BY 2 DESC").fetchall()
        ),
        "oldest": oldest,
        "newest": newest,
        "raw_samples": number(
            "SELECT count(*) FROM head JOIN series USING (job_seq) WHERE id > sealed_until", "head", "series"
        ),
        "machine_samples": number(
            "SELECT (SELECT coalesce(sum(samples), 0) FROM host_blocks) + (SELECT count(*) FROM host_head"
            " JOIN host_series USING (host_seq) WHERE id > sealed_until)",
            *("host_blocks", "host_head", "host_series"),
        ),
        "snapshots": number("SELECT count(*) FROM snapshots", "snapshots"),
        "events": number("SELECT count(*) FROM events", "events"),
        "logs": _files(path.parent / "jobs", ids, ".log"),
        "specs": _files(path.parent / "specs", {f"{job_id}.json" for job_id in ids}, ".json"),
    }
    facts |= _tiers(connection, number)
    facts["bytes_by_tier"] |= {"logs": facts["logs"].size_bytes, "specs": facts["specs"].size_bytes}
    sizes, is_exact = table_bytes(connection)
    kinds: dict[str, int] = {}
    for table, size in sizes.items():
        kind = KINDS.get(table, table)
        kinds[kind] = kinds.get(kind, 0) + size
    return facts | {"bytes_by_kind": kinds, "are_bytes_exact": is_exact}


def _tiers(connection: sqlite3.Connection, number: Callable[..., int | None]) -> dict[str, Any]:
    """How much there is of each tier: samples, minutes, snapshots; and of how many jobs."""
    if not has_tables_of(connection, KEPT_SINCE):
        return {
            "sealed_samples": number("SELECT coalesce(sum(samples), 0) FROM blocks", "blocks"),
            "bytes_by_tier": {},
        }
    columns = "coalesce(sum(samples), 0), coalesce(sum(length(data)), 0) FROM blocks JOIN series USING (job_seq)"
    samples, raw = connection.execute(f"SELECT {columns} WHERE last_id > rolled_until").fetchone()
    minutes, thinned = connection.execute(f"SELECT {columns} WHERE last_id <= rolled_until").fetchone()
    snapshots = number("SELECT coalesce(sum(length(members)), 0) FROM snapshots")
    return {
        "kept": dict(connection.execute("SELECT kept, count(*) FROM jobs GROUP BY kept ORDER BY 2 DESC").fetchall()),
        "pinned": number("SELECT count(*) FROM jobs WHERE pinned"),
        "sealed_samples": samples,
        "minutes": minutes,
        "bytes_by_tier": {"samples": raw, "minutes": thinned, "snapshots": snapshots},
    }


def table_bytes(connection: sqlite3.Connection) -> tuple[dict[str, int], bool]:
    """What each table takes with its indexes; estimated, and then False, where SQLite was built without dbstat."""
    try:
        sizes: dict[str, int] = dict(
            connection.execute("SELECT name, pgsize FROM dbstat WHERE aggregate = TRUE").fetchall()
        )
    except sqlite3.OperationalError:
        return estimated_bytes(connection), False
    tables: dict[str, str] = dict(connection.execute("SELECT name, tbl_name FROM sqlite_master").fetchall())
    found: dict[str, int] = {}
    for name, size in sizes.items():
        table = tables.get(name, name)
        found[table] = found.get(table, 0) + size
    return found, True


def estimated_bytes(connection: sqlite3.Connection) -> dict[str, int]:
    """How many rows a table has, by what some of them hold; indexes are not in it."""
    found = {}
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    for (table,) in connection.execute(tables).fetchall():
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        length = " + ".join(f"coalesce(length({name}), 0) + 1" for name in names)
        count = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        mean = connection.execute(f"SELECT avg({length}) FROM (SELECT * FROM {table} LIMIT {LOOKED_AT})").fetchone()[0]
        found[table] = round(count * (mean or 0))
    return found


def file_bytes(path: Path) -> int:
    """What a store and its journal take."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _files(directory: Path, names: set[str], suffix: str) -> Files:
    """The files of some names, or in directories of these names; holes of a log take nothing."""
    count = size = 0
    try:
        entries = [entry for entry in os.scandir(directory) if entry.name in names]
    except OSError:
        return Files()
    for entry in entries:
        with suppress(OSError):  # removed meanwhile
            for file in list(os.scandir(entry)) if entry.is_dir() else [entry]:
                if file.name.endswith(suffix):
                    count, size = count + 1, size + file.stat().st_blocks * 512
    return Files(count, size)


def check(path: Path, progress: Progress | None = None) -> Iterator[Problem]:
    """Everything that is wrong with a store: its pages, tables, references, values, blocks and snapshots."""
    try:
        database = open_to_read(path)
    except StoreDamaged as error:
        yield Problem("file", str(error).removesuffix(SETTING_ASIDE))
        return
    try:
        expected = expected_tables(database.version)
        with database.reading() as connection:
            for (found,) in connection.execute(f"PRAGMA integrity_check({MOST_PROBLEMS})").fetchall():
                lines = [line for line in found.splitlines() if line != "ok" and not line.startswith("***")]
                yield from (Problem("file", line) for line in lines)
            wrong = dict(wrong_tables(connection, expected))
            yield from (Problem(table, what) for table, what in wrong.items())
            for table, name in triggers(connection):
                yield Problem(table, f"it has the trigger {name}; jobtop makes none")
        whole = {table: columns for table, columns in expected.items() if table not in wrong}
        yield from _damaged_rows(database, whole)
        if "jobs" in whole:  # they name the jobs of what follows
            yield from _damaged_samples(database, whole, progress)
    except StoreDamaged as error:
        yield Problem("file", str(error).removesuffix(SETTING_ASIDE))
    finally:
        database.close()


def _damaged_rows(database: Database, tables: Mapping[str, Columns]) -> Iterator[Problem]:
    """Rows that belong to none, and values that jobtop never writes."""
    with database.reading() as connection:
        if "jobs" in tables:
            yield from _lost_rows(connection)
        for table, (sql, decode) in ROWS.items():
            if table in tables:
                database.sound(connection.execute(sql), decode)
    yield from (Problem("row", why) for why in database.damaged)
    for table in sorted(tables.keys() - ROWS.keys()):
        with database.reading() as connection:
            wrong = list(wrong_values(connection, table, tables[table]))
        yield from (Problem(table, what) for what in wrong)


def _lost_rows(connection: sqlite3.Connection) -> Iterator[Problem]:
    """Rows that refer to a job or a machine that is not there."""
    try:
        for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(MOST_PROBLEMS):
            yield Problem(table, f"row {row} belongs to one that is not in {parent}")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        yield Problem("file", str(error))  # a table without the key that another one refers to


def _damaged_samples(database: Database, tables: Mapping[str, Columns], progress: Progress | None) -> Iterator[Problem]:
    """Blocks and snapshots that are not what was written."""
    for layout in (JOBS, HOSTS):
        if layout.blocks in tables:
            yield from _damaged_blocks(database, layout, progress)
    if "snapshots" in tables:
        yield from _damaged_values(database, "snapshots", JOBS, "members", unpacked_members)
    if "host_details" in tables:
        yield from _damaged_values(database, "host_details", HOSTS, "detail", unpacked_detail)


def _damaged_blocks(database: Database, layout: Layout, progress: Progress | None) -> Iterator[Problem]:
    """Blocks that are not what was written, some at a time so that no other process waits for us.

    Those with values of a wrong type are named by their column already.
    """
    last = done = 0
    columns = f"id, {layout.owner}, first_elapsed, last_elapsed, samples, data"
    with database.reading() as connection:
        total = connection.execute(f"SELECT count(*) FROM {layout.blocks}").fetchone()[0]
    while True:
        with database.reading() as connection:
            sql = f"SELECT {columns} FROM {layout.blocks} WHERE id > ? ORDER BY id LIMIT {ROWS_AT_ONCE}"
            rows = connection.execute(sql, (last,)).fetchall()
            problems = [
                Problem(layout.blocks, what, *_owner(connection, layout, owner), first, end, samples)
                for _, owner, first, end, samples, data in rows
                if is_number(first) and is_number(end) and type(samples) is int and type(data) is bytes
                if (what := _damage(data, samples)) is not None
            ]
        yield from problems
        if not rows:
            return
        last, done = rows[-1][0], done + len(rows)
        if progress is not None:
            progress(done, total)


def _damage(data: bytes, samples: int) -> str | None:
    try:
        opened = open_block(data)
        opened.decoded()
    except BlockDamaged as error:
        return str(error)
    return None if opened.count == samples else f"a block has {opened.count} samples instead of {samples}"


def _damaged_values(
    database: Database, table: str, layout: Layout, column: str, unpacked: Callable[[bytes], object]
) -> Iterator[Problem]:
    with database.reading() as connection:
        rows = connection.execute(f"SELECT {layout.owner}, elapsed, {column} FROM {table}")
        damaged = [(owner, elapsed) for owner, elapsed, data in rows if unpacked(data) is None]
        named = [(elapsed, _owner(connection, layout, owner)) for owner, elapsed in damaged]
    for elapsed, owner in named:
        at = elapsed if is_number(elapsed) else None
        yield Problem(table, "it is not what was written", *owner, at, at)


def _owner(connection: sqlite3.Connection, layout: Layout, seq: object) -> tuple[str | None, str | None]:
    """The id and the name of a job; of a machine, neither."""
    if layout is not JOBS:
        return None, None
    row = connection.execute("SELECT id, name FROM jobs WHERE seq = ?", (seq,)).fetchone()
    return (row[0], row[1]) if row and {str}.issuperset(map(type, row)) else (None, None)


def vacuum(database: Database, is_full: bool = False, progress: Progress | None = None) -> Vacuumed:
    """Give free pages back to the file system, some at a time so that jobs go on; in full, write the file anew."""
    path = database.path
    before = file_bytes(path)
    with database.alone() as connection:
        is_full = is_full or connection.execute("PRAGMA auto_vacuum").fetchone()[0] != INCREMENTAL
        others = holders(path)
        if is_full and others:
            raise StoreBusy(f"{path}: {', '.join(others)} has it open; try again when that has ended")
        try:
            if is_full:
                connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
                connection.execute("VACUUM")
            else:
                _give_back(database, progress)
            connection.execute(f"PRAGMA busy_timeout = {CHECKPOINT_MILLISECONDS}")
            is_held = bool(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY and others:
                raise StoreBusy(f"{path}: {', '.join(others)} holds it; try again") from error
            raise
    return Vacuumed(before, file_bytes(path), tuple(others) if is_held else ())


def _give_back(database: Database, progress: Progress | None) -> None:
    total = left = free_pages(database)
    while left:
        after = give_back_some(database)
        if after >= left:  # somebody deletes as fast
            return
        left = after
        if progress is not None:
            progress(total - left, total)
        time.sleep(PAUSE_SECONDS)


def free_pages(database: Database) -> int:
    """How many pages of the file hold nothing."""
    with database.alone() as connection:
        return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def give_back_some(database: Database) -> int:
    """Cut some free pages off the file, in one short transaction; how many are left."""
    with database.alone() as connection:
        # Every page is a row without columns, of which execute() fetches only the first.
        connection.executescript(f"PRAGMA incremental_vacuum({FREED_AT_ONCE})")
        return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def holders(path: Path, proc: Path = Path("/proc")) -> list[str]:
    """The other processes that have a file open, as far as we may look."""
    target, found = os.path.realpath(path), []
    for pid in filter(str.isdecimal, os.listdir(proc) if proc.is_dir() else ()):
        with suppress(OSError):  # it has ended, or is somebody else's
            files = os.listdir(proc / pid / "fd")
            if int(pid) != os.getpid() and any(_is_link_to(proc / pid / "fd" / file, target) for file in files):
                found.append(f"process {pid} ({(proc / pid / 'comm').read_text().strip()})")
    return found


def _is_link_to(link: Path, target: str) -> bool:
    try:
        return os.readlink(link) == target
    except OSError:
        return False


def backup(source: Database, target: Path, progress: Progress | None = None) -> None:
    """A copy of a store as it is at one moment, whoever writes meanwhile; StoreDamaged if the copy is not sound."""
    with source.reading() as connection:
        # From here on this connection sees no change: otherwise each one would begin the copy anew.
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()

        def tell(_: int, left: int, total: int) -> None:
            if progress is not None:
                progress(total - left, total)

        copy = sqlite3.connect(target, isolation_level=None)
        try:
            connection.backup(copy, pages=PAGES_AT_ONCE, progress=tell, sleep=0)
            answer = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.Error as error:
            if error.sqlite_errorcode in REMEDIES:
                raise StoreUnavailable(f"{target}: {REMEDIES[error.sqlite_errorcode]}") from error
            raise
        finally:
            copy.close()
    if answer != "ok":
        raise StoreDamaged(f"{target}: the copy is not sound ({answer}); check the store: jobtop store check")
