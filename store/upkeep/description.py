"""Describe a store: counts of jobs and samples, and the disk space of each table, without changing anything."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from jobtop.core.errors import StoreDamaged
from jobtop.core.model import Kept, Status
from jobtop.core.record import fresh, record
from jobtop.store.database import open_to_read
from jobtop.store.jobs import BEGIN_TIME
from jobtop.store.samples.head import DEVICES, HOSTS, JOBS, NAMED, Layout, unsealed_samples
from jobtop.store.samples.sealed import SAMPLES_SUM
from jobtop.store.schema import has_tables_of
from jobtop.store.upkeep.inspection import file_bytes, quick_check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STATUSES, TIERS = frozenset(map(str, Status)), frozenset(map(str, Kept))
UNREADABLE = "unreadable"

CHECK_SECONDS = 5.0
ESTIMATE_ROWS = 1000  # rows; their mean length gives the estimated size of a table
BLOCK_BYTES = 512  # the unit of st_blocks
TIERS_SINCE_VERSION = 6  # of the schema: the columns `kept`, `pinned` and `rolled_until`
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
    "devices": "devices",
    "device_head": "devices",
    "device_series": "devices",
    "device_blocks": "devices",
    "named": "named series",
    "named_head": "named series",
    "named_series": "named series",
    "named_blocks": "named series",
    "snapshots": "snapshots",
    "events": "events",
    "log_marks": "log marks",
    "alerts": "alerts",
    "messages": "alerts",
    "alert_marks": "alerts",
    "search_data": "search",
    "search_idx": "search",
    "search_content": "search",
    "search_config": "search",
} | dict.fromkeys(
    (
        "leases",
        "groups",
        "touches",
        "agent",
        "container_follows",
        "workflows",
        "workflow_runs",
        "workflow_jobs",
        "sqlite_schema",
        "sqlite_sequence",
    ),
    "other",
)


@record
class Files:
    """The number and the allocated disk space of the files that jobs have beside their store."""

    count: int = 0
    size_bytes: int = 0


@record
class Description:
    """The contents of a store; values that a damaged store does not give are absent."""

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
    device_samples: int | None = None
    named_samples: int | None = None
    snapshots: int | None = None
    events: int | None = None
    alerts: int | None = None
    logs: Files = Files()
    specs: Files = Files()
    bytes_by_kind: dict[str, int] = fresh(default_factory=dict)
    bytes_by_tier: dict[str, int] = fresh(default_factory=dict)  # of the packed values alone, not of their pages
    are_bytes_exact: bool = True


def describe(path: Path, check_seconds: float = CHECK_SECONDS) -> Description:
    """Check a store for at most this long and count its contents."""
    size = file_bytes(path)
    try:
        database = open_to_read(path)
    except StoreDamaged as error:
        return Description(size, "damaged", str(error))
    try:
        with database.reading() as connection:
            result = quick_check(connection, check_seconds)
            integrity = {None: "unknown", "ok": "ok"}.get(result, "damaged")
            contents = {} if integrity == "damaged" else _contents(connection, path)
        problem = result if integrity == "damaged" else None
        return Description(size, integrity, problem, database.notice, **contents)
    except StoreDamaged as error:
        return Description(size, "damaged", str(error))
    finally:
        database.close()


def _contents(connection: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """The fields of a Description that are read from the tables."""

    def number(sql: str, *needed_tables: str) -> int | None:
        return int(connection.execute(sql).fetchone()[0]) if tables.issuperset(needed_tables) else None

    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    contents: dict[str, Any] = {
        "version": number("PRAGMA user_version"),
        "journal": connection.execute("PRAGMA journal_mode").fetchone()[0],
        "free_bytes": (number("PRAGMA freelist_count") or 0) * (number("PRAGMA page_size") or 0),
    }
    if "jobs" not in tables:
        return contents
    oldest, newest = connection.execute(
        f"SELECT min({BEGIN_TIME}), max({BEGIN_TIME}) FROM jobs WHERE typeof({BEGIN_TIME}) IN ('integer', 'real')"
    ).fetchone()
    ids = {row[0] for row in connection.execute("SELECT id FROM jobs")}
    contents |= {
        "jobs": _counts(
            connection.execute("SELECT status, count(*) FROM jobs GROUP BY status ORDER BY 2 DESC"), STATUSES
        ),
        "oldest": oldest,
        "newest": newest,
        "raw_samples": unsealed_samples(connection, JOBS) if tables.issuperset((JOBS.head, JOBS.series)) else None,
        "machine_samples": _samples(connection, HOSTS, tables),
        "device_samples": _samples(connection, DEVICES, tables),
        "named_samples": _samples(connection, NAMED, tables),
        "snapshots": number("SELECT count(*) FROM snapshots", "snapshots"),
        "events": number("SELECT count(*) FROM events", "events"),
        "alerts": number("SELECT count(*) FROM alerts", "alerts"),
        "logs": _files(path.parent / "jobs", ids, ".log"),
        "specs": _files(path.parent / "specs", {f"{job_id}.json" for job_id in ids}, ".json"),
    }
    contents |= _tiers(connection, number)
    contents["bytes_by_tier"] |= {"logs": contents["logs"].size_bytes, "specs": contents["specs"].size_bytes}
    sizes, is_exact = table_bytes(connection)
    return contents | {"bytes_by_kind": _summed_by(KINDS, sizes), "are_bytes_exact": is_exact}


def _samples(connection: sqlite3.Connection, layout: Layout, tables: set[str]) -> int | None:
    """The number of samples in blocks and behind them; None if the store has no such tables."""
    if not tables.issuperset((layout.head, layout.series, layout.blocks)):
        return None
    in_blocks = connection.execute(f"SELECT {SAMPLES_SUM} FROM {layout.blocks}").fetchone()[0]
    return int(in_blocks) + unsealed_samples(connection, layout)


def _tiers(connection: sqlite3.Connection, number: Callable[..., int | None]) -> dict[str, Any]:
    """The numbers and sizes of samples, one-minute samples and snapshots, and the number of jobs in each tier."""
    if not has_tables_of(connection, TIERS_SINCE_VERSION):
        return {
            "sealed_samples": number(f"SELECT {SAMPLES_SUM} FROM blocks", "blocks"),
            "bytes_by_tier": {},
        }
    columns = f"{SAMPLES_SUM}, coalesce(sum(length(data)), 0) FROM blocks JOIN series USING (job_seq)"
    samples, sample_bytes = connection.execute(f"SELECT {columns} WHERE last_id > rolled_until").fetchone()
    minutes, minute_bytes = connection.execute(f"SELECT {columns} WHERE last_id <= rolled_until").fetchone()
    snapshot_bytes = number("SELECT coalesce(sum(length(members)), 0) FROM snapshots")
    return {
        "kept": _counts(connection.execute("SELECT kept, count(*) FROM jobs GROUP BY kept ORDER BY 2 DESC"), TIERS),
        "pinned": number("SELECT count(*) FROM jobs WHERE pinned"),
        "sealed_samples": samples,
        "minutes": minutes,
        "bytes_by_tier": {"samples": sample_bytes, "minutes": minute_bytes, "snapshots": snapshot_bytes},
    }


def table_bytes(connection: sqlite3.Connection) -> tuple[dict[str, int], bool]:
    """The size of each table with its indexes, and whether the sizes are exact: without dbstat they are estimates."""
    try:
        sizes: dict[str, int] = dict(
            connection.execute("SELECT name, pgsize FROM dbstat WHERE aggregate = TRUE").fetchall()
        )
    except sqlite3.OperationalError:
        return estimated_bytes(connection), False
    tables: dict[str, str] = dict(connection.execute("SELECT name, tbl_name FROM sqlite_master").fetchall())
    return _summed_by(tables, sizes), True


def _summed_by(groups: Mapping[str, str], sizes: Mapping[str, int]) -> dict[str, int]:
    """The sum of the sizes in each group; a name without a group is a group of its own."""
    sums: dict[str, int] = {}
    for name, size in sizes.items():
        group = groups.get(name, name)
        sums[group] = sums.get(group, 0) + size
    return sums


def estimated_bytes(connection: sqlite3.Connection) -> dict[str, int]:
    """The size of each table without its indexes: the number of rows times the mean length of the first ones."""
    sizes = {}
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    for (table,) in connection.execute(tables).fetchall():
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        length = " + ".join(f"coalesce(length({name}), 0) + 1" for name in names)
        count = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        sql = f"SELECT avg({length}) FROM (SELECT * FROM {table} LIMIT {ESTIMATE_ROWS})"
        mean = connection.execute(sql).fetchone()[0]
        sizes[table] = round(count * (mean or 0))
    return sizes


def _files(directory: Path, names: set[str], suffix: str) -> Files:
    """Count the files with a suffix that have one of these names, or are in a directory with one of these names."""
    count = size = 0
    try:
        entries = [entry for entry in os.scandir(directory) if entry.name in names]
    except OSError:
        return Files()
    for entry in entries:
        with suppress(OSError):  # deleted in the meantime
            for file in list(os.scandir(entry)) if entry.is_dir() else [entry]:
                if file.name.endswith(suffix):
                    count, size = count + 1, size + file.stat().st_blocks * BLOCK_BYTES  # a hole takes no blocks
    return Files(count, size)


def _counts(rows: Iterable[tuple[object, int]], words: Collection[str]) -> dict[str, int]:
    """Counts by these words; other values are counted as unreadable."""
    counts: dict[str, int] = {}
    for word, count in rows:
        known = word if isinstance(word, str) and word in words else UNREADABLE
        counts[known] = counts.get(known, 0) + count
    return counts
