"""Jobs of other files folded into one: each once, by its id, with its samples, snapshots, events and marks.

Rows are copied by SQLite from the attached file. Every table that refers to jobs or machines comes along.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jobtop.core.errors import BlockDamaged, StoreDamaged, StoreError
from jobtop.core.job_id import JobId
from jobtop.core.model import LIVE, Status
from jobtop.core.paths import StatePaths
from jobtop.core.procfs import boot_id
from jobtop.core.record import record
from jobtop.core.series.blocks import MOST_SECONDS, decode
from jobtop.store.database import DAMAGED, Database, open_to_read, store_uri
from jobtop.store.jobs import NEXT_TOUCH
from jobtop.store.rows import EARLIEST, LATEST, job_of
from jobtop.store.samples import head, sealed
from jobtop.store.samples.head import HOSTS, JOBS, Layout
from jobtop.store.samples.packed import unpack
from jobtop.store.samples.sealed import Unsealed
from jobtop.store.upkeep.inspection import quick_check

TYPE_CHECKING = False
if TYPE_CHECKING:
    Progress = Callable[[int, int], object]
    Rank = tuple[bool, bool, float]
    Standing = tuple[int, str, str, str, int, float, int]

JOBS_AT_ONCE = 200
NOT_HERE = "it was running in a copy of this host''s store; how it ended is not known"
_LIVE = ", ".join(f"'{status}'" for status in sorted(LIVE))
CHECK_SECONDS = 3600.0
# Ids are scattered: with the 2 MiB and 1,000 pages of SQLite every job reads pages of the index anew and writes them.
CACHE_KIB, JOURNAL_PAGES = 64 * 1024, 10_000
# A file from elsewhere cannot say which processes of this host belong to a job: they would be signalled.
WITHOUT_PROCESSES = (
    "UPDATE main.jobs SET shim_boot = NULL, shim_pid = NULL, shim_start = NULL,"
    " recorder_boot = NULL, recorder_pid = NULL, recorder_start = NULL WHERE seq = ?"
)
CLOSED = (
    "UPDATE main.jobs SET settled = 1,"
    f" reason = CASE WHEN status IN ({_LIVE}) THEN '{NOT_HERE}' ELSE reason END,"
    f" status = CASE WHEN status IN ({_LIVE}) THEN '{Status.LOST}' ELSE status END WHERE seq = ?"
)
NOT_KNOWN = (*LIVE, Status.LOST, Status.UNKNOWN)
STORED_AS = {"INTEGER": "'integer'", "REAL": "'real', 'integer'", "TEXT": "'text'", "BLOB": "'blob'"}
IS_OBJECT = "iif(json_valid(detail), json_type(detail), '') = 'object'"
SPAN = " AND ".join(f"{name} BETWEEN -{MOST_SECONDS} AND {MOST_SECONDS}" for name in ("first_elapsed", "last_elapsed"))
# SQLite may evaluate conditions in any order: a function must not get a value of another type.
IS_BLOCK = "iif(typeof(data) = 'blob' AND typeof(samples) = 'integer', is_block(data, samples), 0)"
SOUND = {
    "events": (IS_OBJECT, f"at BETWEEN {EARLIEST} AND {LATEST}"),
    "log_marks": (f"elapsed_seconds BETWEEN -{MOST_SECONDS} AND {MOST_SECONDS}",),
    "blocks": (IS_BLOCK, SPAN),
    "host_blocks": (IS_BLOCK, SPAN),
    "snapshots": ("iif(typeof(members) = 'blob', is_packed(members), 0)",),
    "host_details": ("iif(typeof(detail) = 'blob', is_packed(detail), 0)",),
}
STANDING = "seq, id, host, status, settled, coalesce(heartbeat, end_time, 0), shim_pid IS NULL AND recorder_pid IS NULL"


@record
class Merged:
    """What became of the jobs of one file; those that wait there are left to their host.

    `refused` have values that jobtop never writes, `reason` is what is wrong with one of them. `damaged_rows` counts
    blocks, events, marks and snapshots that were left out of jobs that were taken, `damaged_tables` says where.
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
    """Fold a file into a store; what cannot be read is told and leaves nothing. Jobs of `own_host` are only added."""
    if path.exists() and os.path.samefile(path, into.path):
        return Merged(path, problem=f"{path}: it is the store to merge into")
    try:
        theirs = open_to_read(path)
    except StoreError as error:
        return Merged(path, problem=str(error))
    try:
        with theirs.reading() as connection:
            answer = quick_check(connection, CHECK_SECONDS)
            is_empty = not connection.execute("PRAGMA user_version").fetchone()[0]
        if answer not in ("ok", None):
            return Merged(path, problem=f"{path}: it is damaged ({answer})")
        if is_empty:
            return Merged(path)
        with _attached(into, theirs):
            return _Merging(into, theirs, own_host).run(progress)
    except StoreError as error:
        if str(error).startswith(f"{into.path}: "):
            raise
        return Merged(path, problem=str(error))
    finally:
        theirs.close()


@contextmanager
def _attached(into: Database, theirs: Database) -> Iterator[None]:
    """The other file, to be read as `theirs` by the connection that writes."""
    options = "mode=ro" if theirs.notice is None else "mode=ro&immutable=1"
    with into.alone() as connection:
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {JOURNAL_PAGES}")
        connection.create_function("is_block", 2, _is_block)
        connection.create_function("is_packed", 1, _is_packed)
        connection.execute("ATTACH ? AS theirs", (store_uri(theirs.path, options),))
    try:
        yield
    finally:
        with into.alone() as connection:
            connection.execute("DETACH theirs")


class _Merging:
    """One file on its way into a store."""

    def __init__(self, into: Database, theirs: Database, own_host: str | None) -> None:
        self.into, self.theirs, self.own_host = into, theirs, own_host
        self.added = self.completed = self.known = self.waiting = 0
        self.damaged: dict[str, int] = {}  # rows that were left out, by table

    def run(self, progress: Progress | None) -> Merged:
        """Some jobs at a time, so that whoever else writes need not wait long."""
        with self.theirs.reading() as connection:
            total = connection.execute("SELECT count(*) FROM jobs").fetchone()[0]
            unsealed = _unsealed(connection, JOBS)
        last = done = 0
        while True:
            with self._writing() as connection:
                sql = f"SELECT * FROM theirs.jobs WHERE seq > ? ORDER BY seq LIMIT {JOBS_AT_ONCE}"
                rows = connection.execute(sql, (last,)).fetchall()
                if sound := self.theirs.sound(rows, _sound_number):
                    marks = ", ".join("?" * len(sound))
                    sql = f"SELECT {STANDING} FROM theirs.jobs WHERE seq IN ({marks}) ORDER BY seq"
                    standings: list[Standing] = [tuple(row) for row in connection.execute(sql, sound)]
                    self._take(connection, standings, unsealed)
            if not rows:
                break
            last, done = rows[-1]["seq"], done + len(rows)
            if progress is not None:
                progress(done, total)
        self._take_machines()
        counts = self.added, self.completed, self.known, self.waiting
        reason = next(iter(self.theirs.damaged), None)
        tables = ", ".join(f"{count} in {table}" for table, count in self.damaged.items()) or None
        return Merged(
            self.theirs.path, *counts, None, len(self.theirs.damaged), reason, sum(self.damaged.values()), tables
        )

    def _take(self, connection: sqlite3.Connection, rows: Sequence[Standing], unsealed: set[int]) -> None:
        pairs: list[tuple[int, int]] = []
        shared = _shared_columns(connection, "jobs", {"seq", "touched"})
        for seq, job_id, host, status, settled, last, has_nobody in rows:
            if status in LIVE and has_nobody:
                self.waiting += 1
                continue
            ours = connection.execute(f"SELECT {STANDING} FROM main.jobs WHERE id = ?", (job_id,)).fetchone()
            if ours is None:
                sql = f"INSERT INTO main.jobs ({shared}, touched) SELECT {shared}, {NEXT_TOUCH} FROM theirs.jobs"
                pairs.append((seq, connection.execute(f"{sql} WHERE seq = ?", (seq,)).lastrowid or 0))
                self.added += 1
                if host == self.own_host:
                    self._take_home(connection, pairs[-1][1], JobId(job_id))
            elif self.own_host not in (host, ours[2]) and _rank(status, settled, last) > _rank(*tuple(ours)[3:6]):
                _overwrite(connection, shared, seq, ours[0])
                pairs.append((seq, ours[0]))
                self.completed += 1
            else:
                self.known += 1
        self._take_rows(connection, JOBS, pairs, {seq for seq, _ in pairs} & unsealed)

    def _take_home(self, connection: sqlite3.Connection, seq: int, job_id: JobId) -> None:
        """A job of this host, as from a backup: what its supervisor left here says whether it runs, the file cannot."""
        connection.execute(WITHOUT_PROCESSES, (seq,))
        if not os.path.exists(StatePaths(self.into.path.parent, "").job(job_id) / "started"):
            connection.execute(CLOSED, (seq,))

    def _take_rows(
        self, connection: sqlite3.Connection, layout: Layout, pairs: Sequence[tuple[int, int]], unsealed: set[int]
    ) -> None:
        """What belongs to some jobs or machines, instead of what of it is there already."""
        if not pairs:
            return
        # Read before what is sealed is copied: what becomes sealed in between is then there twice, and taken once.
        rows = {seq: self._unsealed_rows(layout, seq) for seq in unsealed}
        connection.execute("CREATE TEMP TABLE IF NOT EXISTS pairs (theirs INTEGER PRIMARY KEY, ours INTEGER)")
        connection.execute("DELETE FROM temp.pairs")
        connection.executemany("INSERT INTO temp.pairs VALUES (?, ?)", pairs)
        for table in _referring(connection, layout.owners):
            # An id of its own is given anew.
            columns = _shared_columns(connection, table, {"id", layout.owner})
            connection.execute(f"DELETE FROM main.{table} WHERE {layout.owner} IN (SELECT ours FROM temp.pairs)")
            if columns:
                source = f"FROM temp.pairs JOIN theirs.{table} ON {layout.owner} = pairs.theirs"
                count = connection.execute(f"SELECT count(*) {source}").fetchone()[0]
                taken = connection.execute(
                    f"INSERT INTO main.{table} ({layout.owner}, {columns}) SELECT ours, {columns} {source}"
                    f" WHERE {_sound_rows(connection, table, columns)}"
                ).rowcount
                self._note_damaged(table, count - taken)
        for theirs, ours in pairs:
            if theirs in rows:
                _seal(connection, layout, ours, rows[theirs])
        _raise_ids(connection, layout)

    def _unsealed_rows(self, layout: Layout, seq: int) -> Unsealed:
        with self.theirs.reading() as connection:
            last_id = sealed.sealed_until(connection, layout, seq) or 0
            sql = f"SELECT count(*) FROM {layout.head} WHERE id > ? AND {layout.owner} = ?"
            count = connection.execute(sql, (last_id, seq)).fetchone()[0]
            rows = head.select(connection, layout, seq, last_id, layout.keys)
        sound = [row for row in rows if abs(row[1].elapsed) <= MOST_SECONDS]
        self._note_damaged(layout.head, count - len(sound))
        return Unsealed(last_id, sound)

    def _note_damaged(self, table: str, count: int) -> None:
        """Count rows that were left out."""
        if count > 0:
            self.damaged[table] = self.damaged.get(table, 0) + count

    def _take_machines(self) -> None:
        """The machines around the jobs, boot by boot; the one that runs here, and is recorded here, is our own."""
        with self.theirs.reading() as connection:
            if not _has_table(connection, "hosts"):
                return
            sql = "SELECT seq, boot FROM hosts WHERE typeof(boot) = 'text' AND typeof(boot_time) = 'real'"
            boots = [tuple(row) for row in connection.execute(sql)]
            unsealed = _unsealed(connection, HOSTS)
            ends = {seq: _end(connection, seq) for seq, _ in boots}
        for seq, boot in boots:
            if boot == boot_id() and self.own_host is not None:
                continue
            with self._writing() as connection:
                ours = connection.execute("SELECT seq FROM main.hosts WHERE boot = ?", (boot,)).fetchone()
                if ours is None:
                    # Before all others: the last is the one that runs.
                    sql = "SELECT (SELECT min(0, coalesce(min(seq), 0)) - 1 FROM main.hosts), boot, boot_time"
                    sql = f"INSERT INTO main.hosts (seq, boot, boot_time) {sql} FROM theirs.hosts WHERE seq = ?"
                    number = connection.execute(sql, (seq,)).lastrowid
                elif ends[seq] > _end(connection, ours[0]):
                    number = ours[0]
                else:
                    continue
                self._take_rows(connection, HOSTS, [(seq, number or 0)], {seq} & unsealed)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction in which damage is blamed on the file it is met in: theirs, for ours is checked by others."""
        with self.into.writing() as connection:
            try:
                yield connection
            except sqlite3.DatabaseError as error:
                if (error.sqlite_errorcode & 0xFF) in DAMAGED:
                    raise StoreDamaged(f"{self.theirs.path}: it is damaged ({error})") from error
                raise


def _rank(status: str, settled: int, last: float) -> Rank:
    """The greater, the more is known of a job."""
    return status not in NOT_KNOWN, bool(settled), last


def _overwrite(connection: sqlite3.Connection, columns: str, theirs: int, ours: int) -> None:
    connection.execute(
        f"UPDATE main.jobs SET ({columns}) = (SELECT {columns} FROM theirs.jobs WHERE seq = ?),"
        f" touched = {NEXT_TOUCH} WHERE seq = ?",
        (theirs, ours),
    )


def _seal(connection: sqlite3.Connection, layout: Layout, owner: int, unsealed: Unsealed) -> None:
    """Samples that were only in the head of their file as blocks of ours."""
    while (block := unsealed.packed(layout.keys)) is not None and sealed.keep(connection, layout, owner, block):
        unsealed.drop(block)


def _raise_ids(connection: sqlite3.Connection, layout: Layout) -> None:
    """Ids that are given from now on are behind all that were taken over: followers ask for greater ones."""
    greatest = connection.execute(f"SELECT coalesce(max(sealed_until), 0) FROM main.{layout.series}").fetchone()[0]
    if greatest > head.last_id(connection, layout):
        connection.execute("DELETE FROM main.sqlite_sequence WHERE name = ?", (layout.head,))
        connection.execute("INSERT INTO main.sqlite_sequence (name, seq) VALUES (?, ?)", (layout.head, greatest))


def _unsealed(connection: sqlite3.Connection, layout: Layout) -> set[int]:
    """Who has samples in the head only."""
    if not _has_table(connection, layout.head):
        return set()
    sql = f"SELECT DISTINCT {layout.owner} FROM {layout.head} JOIN {layout.series} USING ({layout.owner})"
    return {row[0] for row in connection.execute(f"{sql} WHERE id > sealed_until")}


def _end(connection: sqlite3.Connection, seq: int) -> float:
    """Until when a machine is known, to a second."""
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


def _referring(connection: sqlite3.Connection, owners: str) -> list[str]:
    """The tables of which rows go with those of `owners`."""
    tables = [row[0] for row in connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'")]
    return [
        table
        for table in tables
        if any(row["table"] == owners for row in connection.execute(f"PRAGMA main.foreign_key_list({table})"))
    ]


def _sound_number(row: sqlite3.Row) -> int:
    """The number of a job of which all can be read."""
    number = job_of(row).seq
    assert number is not None
    return number


def _sound_rows(connection: sqlite3.Connection, table: str, columns: str) -> str:
    """What holds of rows that our own table takes, and that can be read again: others are left behind."""
    named = set(columns.split(", "))
    conditions = [*SOUND.get(table, ())]
    for row in connection.execute(f"PRAGMA main.table_info({table})"):
        if row["name"] in named and row["type"] in STORED_AS:
            kinds = STORED_AS[row["type"]] if row["notnull"] else f"{STORED_AS[row['type']]}, 'null'"
            conditions.append(f"typeof({row['name']}) IN ({kinds})")
    return " AND ".join(conditions)


def _is_block(data: bytes, samples: int) -> bool:
    """Whether a block has its checksum, its table, its moments and as many samples as its row says.

    All columns would take twenty times as long; whoever reads one checks it.
    """
    try:
        return len(decode(data, ()).elapsed) == samples
    except BlockDamaged:
        return False


def _is_packed(data: bytes) -> bool:
    return unpack(data) is not None


def _shared_columns(connection: sqlite3.Connection, table: str, but: set[str]) -> str:
    """The columns that both files have; none if theirs has no such table."""
    ours, theirs = (
        [row["name"] for row in connection.execute(f"PRAGMA {schema}.table_info({table})")]
        for schema in ("main", "theirs")
    )
    return ", ".join(name for name in ours if name in theirs and name not in but)
