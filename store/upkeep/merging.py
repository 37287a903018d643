"""Merge the jobs of other stores into one: each job once, by its id, with its samples, snapshots, events and marks.

SQLite copies the rows from the attached source file. Every table that refers to jobs or hosts is copied.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jobtop.core.errors import StoreDamaged, StoreError
from jobtop.core.job_id import JobId
from jobtop.core.model import LIVE, Status
from jobtop.core.paths import StatePaths
from jobtop.core.procfs import boot_id
from jobtop.core.record import record
from jobtop.core.series.blocks import MAX_SECONDS
from jobtop.store.database import DAMAGED, Database, open_to_read, store_uri
from jobtop.store.jobs import LIVE_STATUSES, NEXT_TOUCH, placeholders
from jobtop.store.rows import job_from_row
from jobtop.store.samples import head, sealed
from jobtop.store.samples.head import DEVICES, HOSTS, JOBS, LAYOUTS, NAMED, Layout
from jobtop.store.samples.sealed import Unsealed
from jobtop.store.upkeep.inspection import quick_check
from jobtop.store.upkeep.valid_rows import register_functions, valid_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    Progress = Callable[[int, int], object]  # the number of jobs merged, and of all jobs
    Rank = tuple[bool, bool, float]
    Summary = tuple[int, str, str, str, int, float, int]  # the columns SUMMARY of a job

JOBS_AT_ONCE = 200
REASON_LOST = "it was running in a copy of this host''s store; how it ended is not known"
CHECK_SECONDS = 3600.0
# Job ids are random. With SQLite's default cache of 2 MiB and checkpoint of 1,000 pages, each job reads and writes
# other pages of the index by id.
CACHE_KIB, JOURNAL_PAGES = 64 * 1024, 10_000
# The source file must not say which processes of this host belong to a job: jobtop would send them signals.
CLEAR_PROCESSES = (
    "UPDATE main.jobs SET shim_boot = NULL, shim_pid = NULL, shim_start = NULL,"
    " recorder_boot = NULL, recorder_pid = NULL, recorder_start = NULL WHERE seq = ?"
)
CLOSE = (
    "UPDATE main.jobs SET settled = 1,"
    f" reason = CASE WHEN status IN ({LIVE_STATUSES}) THEN '{REASON_LOST}' ELSE reason END,"
    f" status = CASE WHEN status IN ({LIVE_STATUSES}) THEN '{Status.LOST}' ELSE status END WHERE seq = ?"
)
OWNERS = frozenset(layout.owner for layout in LAYOUTS)
OUTCOME_UNKNOWN = (*LIVE, Status.LOST, Status.UNKNOWN)
NESTED = {JOBS.owners: NAMED, HOSTS.owners: DEVICES}  # jobs have named series, hosts have devices
SUMMARY = "seq, id, host, status, settled, coalesce(heartbeat, end_time, 0), shim_pid IS NULL AND recorder_pid IS NULL"


@record
class Merged:
    """How many jobs of a file were `added`, `completed`, `known` already, or left out because they are `waiting`.

    `refused` jobs have values that jobtop never writes; `reason` is the defect of one of them. `damaged_rows` counts
    the blocks, events, marks and snapshots that were left out of merged jobs; `damaged_tables` names their tables.
    """

    path: Path
    added: int = 0
    completed: int = 0
    known: int = 0
    waiting: int = 0
    problem: str | None = None
    refused: int = 0
    reason: str | None = None
    damaged_rows: int = 0
    damaged_tables: str | None = None


def merge(into: Database, path: Path, own_host: str | None = None, progress: Progress | None = None) -> Merged:
    """Merge a file into a store. An unreadable file gives a `problem` and changes nothing.

    Jobs of `own_host` are added, but never overwritten: the store of a host knows its jobs best.
    """
    if path.exists() and os.path.samefile(path, into.path):
        return Merged(path, problem=f"{path}: it is the store to merge into")
    try:
        source = open_to_read(path)
    except StoreError as error:
        return Merged(path, problem=str(error))
    try:
        with source.reading() as connection:
            answer = quick_check(connection, CHECK_SECONDS)
            is_empty = not connection.execute("PRAGMA user_version").fetchone()[0]
        if answer not in ("ok", None):
            return Merged(path, problem=f"{path}: it is damaged ({answer})")
        if is_empty:
            return Merged(path)
        with _attached(into, source):
            return _Merge(into, source, own_host).run(progress)
    except StoreError as error:
        if str(error).startswith(f"{into.path}: "):
            raise
        return Merged(path, problem=str(error))
    finally:
        source.close()


@contextmanager
def _attached(into: Database, source: Database) -> Iterator[None]:
    """Attach the source file to the writing connection, as the schema `source`."""
    options = "mode=ro" if source.notice is None else "mode=ro&immutable=1"
    with into.alone() as connection:
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {JOURNAL_PAGES}")
        register_functions(connection)
        connection.execute("ATTACH ? AS source", (store_uri(source.path, options),))
    try:
        yield
    finally:
        with into.alone() as connection:
            connection.execute("DETACH source")


class _Merge:
    """The merge of one file into a store."""

    def __init__(self, into: Database, source: Database, own_host: str | None) -> None:
        self.into, self.source, self.own_host = into, source, own_host
        self.added = self.completed = self.known = self.waiting = 0
        self.damaged: dict[str, int] = {}  # the number of rows left out, by table
        self.unsealed: dict[str, set[int]] = {}  # by head: the owners with samples that are in no block yet

    def run(self, progress: Progress | None) -> Merged:
        """Merge all jobs and hosts, some jobs in each transaction, so that other writers do not wait long."""
        with self.source.reading() as connection:
            total = connection.execute("SELECT count(*) FROM jobs").fetchone()[0]
            self.unsealed = {layout.head: _unsealed_owners(connection, layout) for layout in LAYOUTS}
        last_seq = done = 0
        while True:
            with self._writing() as connection:
                sql = f"SELECT * FROM source.jobs WHERE seq > ? ORDER BY seq LIMIT {JOBS_AT_ONCE}"
                rows = connection.execute(sql, (last_seq,)).fetchall()
                if readable := self.source.decode_rows(rows, _readable_seq):
                    sql = f"SELECT {SUMMARY} FROM source.jobs WHERE seq IN ({placeholders(readable)}) ORDER BY seq"
                    jobs: list[Summary] = [tuple(row) for row in connection.execute(sql, readable)]
                    self._merge_jobs(connection, jobs)
            if not rows:
                break
            last_seq, done = rows[-1]["seq"], done + len(rows)
            if progress is not None:
                progress(done, total)
        self._merge_hosts()
        counts = self.added, self.completed, self.known, self.waiting
        reason = next(iter(self.source.damaged), None)
        tables = ", ".join(f"{count} in {table}" for table, count in self.damaged.items()) or None
        return Merged(
            self.source.path, *counts, None, len(self.source.damaged), reason, sum(self.damaged.values()), tables
        )

    def _merge_jobs(self, connection: sqlite3.Connection, jobs: Sequence[Summary]) -> None:
        """Add or overwrite some jobs, each with its rows in other tables."""
        pairs: list[tuple[int, int]] = []
        columns = _shared_columns(connection, "jobs", {"seq", "touched"})
        for seq, job_id, host, status, settled, last, has_no_process in jobs:
            if status in LIVE and has_no_process:
                self.waiting += 1
                continue
            present = connection.execute(f"SELECT {SUMMARY} FROM main.jobs WHERE id = ?", (job_id,)).fetchone()
            if present is None:
                sql = f"INSERT INTO main.jobs ({columns}, touched) SELECT {columns}, {NEXT_TOUCH} FROM source.jobs"
                pairs.append((seq, connection.execute(f"{sql} WHERE seq = ?", (seq,)).lastrowid or 0))
                self.added += 1
                if host == self.own_host:
                    self._clean_own_job(connection, pairs[-1][1], JobId(job_id))
            elif self.own_host not in (host, present[2]) and _rank(status, settled, last) > _rank(*tuple(present)[3:6]):
                _overwrite(connection, columns, seq, present[0])
                pairs.append((seq, present[0]))
                self.completed += 1
            else:
                self.known += 1
        self._copy_rows(connection, JOBS, pairs, {seq for seq, _ in pairs} & self.unsealed[JOBS.head])

    def _clean_own_job(self, connection: sqlite3.Connection, seq: int, job_id: JobId) -> None:
        """Clear the processes of an added job of this host, as from a backup, and close it unless its files are here.

        The files of its supervisor say whether such a job runs; the source file cannot know.
        """
        connection.execute(CLEAR_PROCESSES, (seq,))
        if not os.path.exists(StatePaths(self.into.path.parent, "").job(job_id) / "started"):
            connection.execute(CLOSE, (seq,))

    def _copy_rows(
        self, connection: sqlite3.Connection, layout: Layout, pairs: Sequence[tuple[int, int]], unsealed: set[int]
    ) -> None:
        """Replace all rows of some owners; a pair is an owner's number in the source and its number in this store."""
        if not pairs:
            return
        # The head is read before the blocks are copied: samples that are sealed in between are in both, none is lost.
        rows = {seq: self._unsealed_rows(layout, seq) for seq in unsealed}
        connection.execute("CREATE TEMP TABLE IF NOT EXISTS pairs (source_seq INTEGER PRIMARY KEY, own_seq INTEGER)")
        connection.execute("DELETE FROM temp.pairs")
        connection.executemany("INSERT INTO temp.pairs VALUES (?, ?)", pairs)
        nested = NESTED.get(layout.owners)
        for table in _tables_referring_to(connection, layout.owners):
            if nested is not None and table == nested.owners:
                continue
            columns = _copied_columns(connection, table, layout.owner)
            connection.execute(f"DELETE FROM main.{table} WHERE {layout.owner} IN (SELECT own_seq FROM temp.pairs)")
            if columns:
                rows_of_pairs = f"FROM temp.pairs JOIN source.{table} ON {layout.owner} = pairs.source_seq"
                count = connection.execute(f"SELECT count(*) {rows_of_pairs}").fetchone()[0]
                copied = connection.execute(
                    f"INSERT OR IGNORE INTO main.{table} ({layout.owner}, {columns})"
                    f" SELECT own_seq, {columns} {rows_of_pairs} WHERE {valid_row(connection, table, columns)}"
                    f"{_without_other_owners(connection, table, layout.owner)}"
                ).rowcount
                self._count_damaged(table, count - copied)
        for source_seq, own_seq in pairs:
            if source_seq in rows:
                _seal(connection, layout, own_seq, rows[source_seq])
        _raise_ids(connection, layout)
        if nested is not None:
            self._copy_nested(connection, layout, nested, pairs)

    def _copy_nested(
        self, connection: sqlite3.Connection, layout: Layout, nested: Layout, pairs: Sequence[tuple[int, int]]
    ) -> None:
        """Replace the named series of some jobs, or the devices of some hosts, with all their rows."""
        columns = _shared_columns(connection, nested.owners, {"seq", layout.owner})
        sql = f"DELETE FROM main.{nested.owners} WHERE {layout.owner} IN ({placeholders(pairs)})"
        connection.execute(sql, [own_seq for _, own_seq in pairs])
        if not columns:
            return
        select = f"SELECT seq FROM source.{nested.owners} WHERE {layout.owner} = ?"
        insert = f"INSERT OR IGNORE INTO main.{nested.owners} ({layout.owner}, {columns})"
        insert += f" SELECT ?, {columns} FROM source.{nested.owners}"
        insert += f" WHERE seq = ? AND typeof(seq) = 'integer' AND {valid_row(connection, nested.owners, columns)}"
        nested_pairs: list[tuple[int, int]] = []
        for source_seq, own_seq in pairs:
            for (seq,) in connection.execute(select, (source_seq,)).fetchall():
                inserted = connection.execute(insert, (own_seq, seq))
                if inserted.rowcount == 1:
                    nested_pairs.append((seq, inserted.lastrowid or 0))
                else:
                    self._count_damaged(nested.owners, 1)
        unsealed = self.unsealed[nested.head] & {seq for seq, _ in nested_pairs}
        self._copy_rows(connection, nested, nested_pairs, unsealed)

    def _unsealed_rows(self, layout: Layout, seq: int) -> Unsealed:
        """The samples of an owner that are only in the head of the source."""
        with self.source.reading() as connection:
            last_id = sealed.sealed_until(connection, layout, seq) or 0
            count = head.count(connection, layout, seq, last_id)
            rows = sealed.samples_after(connection, layout, seq, last_id, layout.keys)
        valid = [row for row in rows if abs(row[1].elapsed) <= MAX_SECONDS]
        self._count_damaged(layout.head, count - len(valid))
        return Unsealed(last_id, valid)

    def _count_damaged(self, table: str, count: int) -> None:
        """Count rows that are left out."""
        if count > 0:
            self.damaged[table] = self.damaged.get(table, 0) + count

    def _merge_hosts(self) -> None:
        """Copy the samples of hosts, boot by boot; this store records the current boot of this host itself."""
        with self.source.reading() as connection:
            if not _has_table(connection, "hosts"):
                return
            sql = "SELECT seq, boot FROM hosts WHERE typeof(boot) = 'text' AND typeof(boot_time) = 'real'"
            boots = [tuple(row) for row in connection.execute(sql)]
            ends = {seq: _last_second(connection, seq) for seq, _ in boots}
        for seq, boot in boots:
            if boot == boot_id() and self.own_host is not None:
                continue
            with self._writing() as connection:
                present = connection.execute("SELECT seq FROM main.hosts WHERE boot = ?", (boot,)).fetchone()
                if present is None:
                    # A number below all others: the greatest number is the boot that runs now.
                    has_name = "name" in _shared_columns(connection, "hosts", set()).split(", ")
                    name = "iif(typeof(name) = 'text', name, NULL)" if has_name else "NULL"
                    sql = "INSERT INTO main.hosts (seq, boot, boot_time, name) SELECT"
                    sql += f" (SELECT min(0, coalesce(min(seq), 0)) - 1 FROM main.hosts), boot, boot_time, {name}"
                    own_seq = connection.execute(f"{sql} FROM source.hosts WHERE seq = ?", (seq,)).lastrowid
                elif ends[seq] > _last_second(connection, present[0]):
                    own_seq = present[0]
                else:
                    continue
                self._copy_rows(connection, HOSTS, [(seq, own_seq or 0)], {seq} & self.unsealed[HOSTS.head])

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A write transaction in which damage is reported of the source file: this store is checked elsewhere."""
        with self.into.writing() as connection:
            try:
                yield connection
            except sqlite3.DatabaseError as error:
                if (error.sqlite_errorcode & 0xFF) in DAMAGED:
                    raise StoreDamaged(f"{self.source.path}: it is damaged ({error})") from error
                raise


def _rank(status: str, settled: int, last: float) -> Rank:
    """A greater rank means that more is known of a job."""
    return status not in OUTCOME_UNKNOWN, bool(settled), last


def _overwrite(connection: sqlite3.Connection, columns: str, source_seq: int, own_seq: int) -> None:
    connection.execute(
        f"UPDATE main.jobs SET ({columns}) = (SELECT {columns} FROM source.jobs WHERE seq = ?),"
        f" touched = {NEXT_TOUCH} WHERE seq = ?",
        (source_seq, own_seq),
    )


def _seal(connection: sqlite3.Connection, layout: Layout, owner: int, unsealed: Unsealed) -> None:
    """Store samples from the head of the source as blocks."""
    while (block := unsealed.packed(layout.keys)) is not None and sealed.keep(connection, layout, owner, block):
        unsealed.drop(block)


def _raise_ids(connection: sqlite3.Connection, layout: Layout) -> None:
    """Make the next id of the head greater than all copied ones: followers ask for greater ids."""
    greatest = connection.execute(f"SELECT coalesce(max(sealed_until), 0) FROM main.{layout.series}").fetchone()[0]
    if greatest > head.last_id(connection, layout):
        connection.execute("DELETE FROM main.sqlite_sequence WHERE name = ?", (layout.head,))
        connection.execute("INSERT INTO main.sqlite_sequence (name, seq) VALUES (?, ?)", (layout.head, greatest))


def _unsealed_owners(connection: sqlite3.Connection, layout: Layout) -> set[int]:
    """The owners with samples that are only in the head."""
    return head.unsealed_owners(connection, layout) if _has_table(connection, layout.head) else set()


def _last_second(connection: sqlite3.Connection, seq: int) -> float:
    """The time of a host's last sample since its boot, in whole seconds."""
    blocks, rows = (
        connection.execute(
            f"SELECT max({column}) FROM {table} WHERE host_seq = ? AND typeof({column}) = 'real'", (seq,)
        ).fetchone()[0]
        or 0.0
        for table, column in ((HOSTS.blocks, "last_elapsed"), (HOSTS.head, "elapsed"))
    )
    return float(max(blocks, rows) // 1)


def _has_table(connection: sqlite3.Connection, table: str) -> bool:
    sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
    return bool(connection.execute(sql, (table,)).fetchone()[0])


def _tables_referring_to(connection: sqlite3.Connection, owners: str) -> list[str]:
    """The tables with a foreign key to the table `owners`."""
    tables = [row[0] for row in connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'")]
    return [
        table
        for table in tables
        if any(row["table"] == owners for row in connection.execute(f"PRAGMA main.foreign_key_list({table})"))
    ]


def _readable_seq(row: sqlite3.Row) -> int:
    """The number of a job if its row can be decoded; else RowDamaged."""
    seq = job_from_row(row).seq
    assert seq is not None
    return seq


def _copied_columns(connection: sqlite3.Connection, table: str, owner: str) -> str:
    """The columns of a table to copy beside the owner; empty if an older source has no rows of such owners.

    SQLite gives a new `id`.
    """
    shared = _shared_columns(connection, table, {"id"}).split(", ")
    return ", ".join(name for name in shared if name not in OWNERS) if owner in shared else ""


def _without_other_owners(connection: sqlite3.Connection, table: str, owner: str) -> str:
    """The condition that a row has no second owner: in a crafted file that may be any number."""
    others = OWNERS.intersection(_shared_columns(connection, table, {owner}).split(", "))
    return "".join(f" AND {name} IS NULL" for name in sorted(others))


def _shared_columns(connection: sqlite3.Connection, table: str, excluded: set[str]) -> str:
    """The columns of a table that both files have; empty if the source lacks the table."""
    own, in_source = (
        [row["name"] for row in connection.execute(f"PRAGMA {schema}.table_info({table})")]
        for schema in ("main", "source")
    )
    return ", ".join(name for name in own if name in in_source and name not in excluded)
