"""Measure how much disk space each job takes: samples, snapshots and log marks in the store, its files beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from jobtop.core.errors import RowDamaged
from jobtop.core.job_id import JobId, is_job_id
from jobtop.core.retention import SETTLE_SECONDS, JobSizes
from jobtop.store.jobs import BEGIN_TIME, LIVE_STATUSES, placeholders
from jobtop.store.queue_rows import TO_RETRY
from jobtop.store.rows import is_number, parse_kept, tags_or_empty

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    from jobtop.core.paths import StatePaths

STORE_FIELDS = (
    *("samples", "sample_bytes", "old_samples", "old_bytes", "minutes", "minute_bytes"),
    *("snapshot_bytes", "mark_bytes"),
)
FILE_FIELDS = ("file_bytes", "spec_bytes")
BLOCK_BYTES = 512  # the unit of st_blocks
MARK_BYTES = 20  # about
# A job that will be retried needs its spec.
HAS_ENDED = f"settled AND status NOT IN ({LIVE_STATUSES}) AND NOT coalesce({TO_RETRY}, 0)"
# The tag is checked first: few jobs are imported, and reading the events of all jobs takes long.
IMPORTED_AT = (
    "CASE WHEN instr(tags, '\"imported\"') THEN"
    " (SELECT max(at) FROM events WHERE job_seq = seq AND kind = 'imported') END"
)
COLUMNS = (
    f"seq, id, name, kept, {BEGIN_TIME} AS begun, pinned, tags, host, {HAS_ENDED} AS has_ended,"
    f" {IMPORTED_AT} AS imported_at,"
    f" coalesce(end_time, start_time + duration_seconds, {BEGIN_TIME}) AS ended,"
    " EXISTS (SELECT 1 FROM series WHERE job_seq = seq) OR EXISTS (SELECT 1 FROM snapshots WHERE job_seq = seq)"
    " OR EXISTS (SELECT 1 FROM log_marks WHERE job_seq = seq)"
    " OR EXISTS (SELECT 1 FROM named WHERE job_seq = jobs.seq) AS has_rows"
)


class JobFiles:
    """The directories with the files of this host's jobs; paths are text, which is fast for 100,000 jobs."""

    def __init__(self, paths: StatePaths) -> None:
        self.host, self.jobs, self.specs = paths.host, str(paths.jobs), str(paths.specs)

    def bytes_of(self, job_id: JobId) -> tuple[int, int]:
        """The disk space of a job's directory, and of its spec."""
        return directory_bytes(f"{self.jobs}/{job_id}"), file_disk_bytes(f"{self.specs}/{job_id}.json")


def prunable_seqs(connection: sqlite3.Connection, before: float = float("inf")) -> Sequence[int]:
    """The numbers of jobs that began before a moment and have more than their record, the oldest first."""
    from array import array

    # `kept <> 'record'` is the condition of the partial index.
    sql = "SELECT seq FROM jobs INDEXED BY jobs_by_kept WHERE start_time < ? AND kept <> 'record'"
    sql += " ORDER BY start_time, seq"
    return array("q", (row[0] for row in connection.execute(sql, (before,))))


def read_prunable(connection: sqlite3.Connection, seqs: Sequence[int]) -> list[sqlite3.Row]:
    """The rows of those of some jobs that have more than their record, the oldest first."""
    sql = f"SELECT {COLUMNS} FROM jobs WHERE seq IN ({placeholders(seqs)}) AND +kept <> 'record'"
    sql += " ORDER BY start_time, seq"
    return connection.execute(sql, seqs).fetchall()


def measure_job(
    connection: sqlite3.Connection, files: JobFiles, row: sqlite3.Row, now: float, raw_seconds: float
) -> JobSizes:
    """Measure the job of a row from `read_prunable`; samples older than `raw_seconds` count as old.

    Raises RowDamaged for a job that retention has to leave alone.
    """
    seq, imported_at = row["seq"], row["imported_at"]
    if (
        not is_job_id(row["id"])
        or not all(map(is_number, (row["begun"], row["ended"])))
        or type(row["name"]) is not str
    ):
        raise RowDamaged(f"job {seq}: its id, name or times are wrong")
    # An imported job ages as a whole from its import on: none of its samples is old before.
    old_until = now - raw_seconds - row["begun"] if imported_at is None else -float("inf")
    no_rows = (0,) * len(STORE_FIELDS)
    in_store = (*_samples(connection, seq, old_until), *_others(connection, seq)) if row["has_rows"] else no_rows
    beside = files.bytes_of(JobId(row["id"])) if row["host"] == files.host else (0, 0)
    sizes: dict[str, Any] = dict(zip((*STORE_FIELDS, *FILE_FIELDS), (*in_store, *beside), strict=True))
    ended = row["ended"] if imported_at is None else max(row["ended"], imported_at)
    settles = bool(row["has_ended"]) and ended > now - SETTLE_SECONDS
    return JobSizes(
        seq,
        JobId(row["id"]),
        row["name"],
        parse_kept(row["kept"]),
        row["begun"],
        ended if row["has_ended"] and not settles else None,
        pinned=bool(row["pinned"]),
        tags=tags_or_empty(row["tags"]),
        settles=settles,
        **sizes,
    )


def _samples(connection: sqlite3.Connection, seq: int, old_until: float) -> Sequence[int]:
    """The number and the bytes of a job's samples, of its samples up to a moment, and of its one-minute samples.

    The samples of its named series are counted with its own.
    """
    # length() does not read the value.
    row = connection.execute(
        "SELECT sum(samples) FILTER (WHERE is_raw), sum(size) FILTER (WHERE is_raw),"
        " sum(samples) FILTER (WHERE is_old), sum(size) FILTER (WHERE is_old),"
        " sum(samples) FILTER (WHERE NOT is_raw), sum(size) FILTER (WHERE NOT is_raw)"
        " FROM (SELECT samples, length(data) AS size, last_id > rolled_until AS is_raw,"
        " last_id > rolled_until AND last_elapsed <= :old AS is_old FROM blocks JOIN series USING (job_seq)"
        " WHERE job_seq = :seq"
        " UNION ALL SELECT samples, length(data), last_id > rolled_until,"
        " last_id > rolled_until AND last_elapsed <= :old FROM named JOIN named_series ON named_seq = named.seq"
        " JOIN named_blocks USING (named_seq) WHERE job_seq = :seq)",
        {"old": old_until, "seq": seq},
    ).fetchone()
    return [value or 0 for value in row]


def _others(connection: sqlite3.Connection, seq: int) -> tuple[int, int]:
    """The bytes of a job's snapshots, and of its log marks."""
    row = connection.execute(
        "SELECT (SELECT coalesce(sum(length(members)), 0) FROM snapshots WHERE job_seq = :seq),"
        f" (SELECT count(*) FROM log_marks WHERE job_seq = :seq) * {MARK_BYTES}",
        {"seq": seq},
    ).fetchone()
    return row[0], row[1]


def directory_bytes(path: str) -> int:
    """The allocated disk space of the files in a directory: the hole in a long log takes none."""
    try:
        with os.scandir(path) as entries:
            return sum(entry.stat(follow_symlinks=False).st_blocks for entry in entries) * BLOCK_BYTES
    except OSError:  # it does not exist, or is being deleted
        return 0


def file_disk_bytes(path: str) -> int:
    """The allocated disk space of a file; 0 if it does not exist."""
    try:
        return os.lstat(path).st_blocks * BLOCK_BYTES
    except OSError:
        return 0


def sum_file_bytes(connection: sqlite3.Connection, files: JobFiles, seqs: Sequence[int]) -> int:
    """The disk space of the files beside the store of those of some jobs that are of this host."""
    sql = f"SELECT id FROM jobs WHERE seq IN ({placeholders(seqs)}) AND host = ?"
    ids = [JobId(row[0]) for row in connection.execute(sql, (*seqs, files.host)) if is_job_id(row[0])]
    return sum(size for job_id in ids for size in files.bytes_of(job_id))


def used_page_bytes(connection: sqlite3.Connection) -> int:
    """The size of the store without its free pages."""
    count, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((count - free) * size)
