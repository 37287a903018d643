"""What jobs hold: samples, snapshots, log marks in the file, and their output beside it; read job by job."""

from __future__ import annotations

import os
from collections.abc import Sequence

from jobtop.core.errors import RowDamaged
from jobtop.core.job_id import JobId, is_job_id
from jobtop.core.model import LIVE
from jobtop.core.retention import SETTLING_SECONDS, Holding
from jobtop.store.queue_rows import TO_RETRY
from jobtop.store.rows import is_number, kept_in, tags_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    from jobtop.core.paths import StatePaths

_LIVE = ", ".join(f"'{status}'" for status in sorted(LIVE))
STORED = (
    *("samples", "sample_bytes", "old_samples", "old_bytes", "minutes", "minute_bytes"),
    *("snapshot_bytes", "mark_bytes"),
)
BESIDE = ("file_bytes", "spec_bytes")
BLOCK_BYTES = 512  # of st_blocks
MARK_BYTES = 20  # about
# A job that is to be tried again needs what it was run with.
IS_OVER = f"settled AND status NOT IN ({_LIVE}) AND NOT coalesce({TO_RETRY}, 0)"
# Most jobs have the tag not, and many events.
IMPORTED_AT = (
    "CASE WHEN instr(tags, '\"imported\"') THEN"
    " (SELECT max(at) FROM events WHERE job_seq = seq AND kind = 'imported') END"
)
BEGUN = "coalesce(start_time, submitted_at)"
COLUMNS = (
    f"seq, id, name, kept, {BEGUN} AS begun, pinned, tags, host, {IS_OVER} AS is_over,"
    f" {IMPORTED_AT} AS imported_at,"
    f" coalesce(end_time, start_time + duration_seconds, {BEGUN}) AS ended,"
    " EXISTS (SELECT 1 FROM series WHERE job_seq = seq) OR EXISTS (SELECT 1 FROM snapshots WHERE job_seq = seq)"
    " OR EXISTS (SELECT 1 FROM log_marks WHERE job_seq = seq) AS holds"
)


class Places:
    """Where a host keeps what its jobs have beside the store; as text, for there may be 100,000."""

    def __init__(self, paths: StatePaths) -> None:
        self.host, self.jobs, self.specs = paths.host, str(paths.jobs), str(paths.specs)

    def bytes_of(self, job_id: JobId) -> tuple[int, int]:
        """What the directory and the spec of a job take."""
        return directory_bytes(f"{self.jobs}/{job_id}"), taken_bytes(f"{self.specs}/{job_id}.json")


def numbers(connection: sqlite3.Connection, before: float = float("inf")) -> Sequence[int]:
    """The jobs begun before a moment of which more than the record is kept, the oldest first."""
    from array import array

    # The second condition is the one that the index is for.
    sql = "SELECT seq FROM jobs INDEXED BY jobs_by_kept WHERE start_time < ? AND kept <> 'record'"
    sql += " ORDER BY start_time, seq"
    return array("q", (row[0] for row in connection.execute(sql, (before,))))


def rows_of(connection: sqlite3.Connection, seqs: Sequence[int]) -> list[sqlite3.Row]:
    """Some jobs, those of them of which more than the record is kept, the oldest first."""
    marks = ", ".join("?" * len(seqs))
    sql = f"SELECT {COLUMNS} FROM jobs WHERE seq IN ({marks}) AND +kept <> 'record' ORDER BY start_time, seq"
    return connection.execute(sql, seqs).fetchall()


def holding_of(connection: sqlite3.Connection, places: Places, row: sqlite3.Row, now: float, raw: float) -> Holding:
    """What one of these jobs holds, with samples that are old after `raw` seconds; RowDamaged: it is left alone."""
    seq, imported = row["seq"], row["imported_at"]
    if (
        not is_job_id(row["id"])
        or not all(map(is_number, (row["begun"], row["ended"])))
        or type(row["name"]) is not str
    ):
        raise RowDamaged(f"job {seq}: its id, name or times are wrong")
    old = now - raw - row["begun"] if imported is None else -float("inf")  # such a job grows old as a whole
    stored = (*_samples(connection, seq, old), *_others(connection, seq)) if row["holds"] else (0,) * len(STORED)
    files = places.bytes_of(JobId(row["id"])) if row["host"] == places.host else (0, 0)
    rest: dict[str, Any] = dict(zip((*STORED, *BESIDE), (*stored, *files), strict=True))
    rest |= {"pinned": bool(row["pinned"]), "tags": tags_in(row["tags"])}
    ended = row["ended"] if imported is None else max(row["ended"], imported)
    rest["settles"] = bool(row["is_over"]) and ended > now - SETTLING_SECONDS
    is_over = row["is_over"] and not rest["settles"]
    who = (JobId(row["id"]), row["name"])
    return Holding(seq, *who, kept_in(row["kept"]), row["begun"], ended if is_over else None, **rest)


def _samples(connection: sqlite3.Connection, seq: int, old: float) -> Sequence[int]:
    """How many and how large: samples, those of them up to a moment, minutes."""
    # length() does not read what it measures.
    row = connection.execute(
        "SELECT sum(samples) FILTER (WHERE is_raw), sum(size) FILTER (WHERE is_raw),"
        " sum(samples) FILTER (WHERE is_old), sum(size) FILTER (WHERE is_old),"
        " sum(samples) FILTER (WHERE NOT is_raw), sum(size) FILTER (WHERE NOT is_raw)"
        " FROM (SELECT samples, length(data) AS size, last_id > rolled_until AS is_raw,"
        " last_id > rolled_until AND last_elapsed <= ? AS is_old FROM blocks JOIN series USING (job_seq)"
        " WHERE job_seq = ?)",
        (old, seq),
    ).fetchone()
    return [value or 0 for value in row]


def _others(connection: sqlite3.Connection, seq: int) -> tuple[int, int]:
    """What the snapshots and the log marks of a job take."""
    row = connection.execute(
        "SELECT (SELECT coalesce(sum(length(members)), 0) FROM snapshots WHERE job_seq = :seq),"
        f" (SELECT count(*) FROM log_marks WHERE job_seq = :seq) * {MARK_BYTES}",
        {"seq": seq},
    ).fetchone()
    return row[0], row[1]


def directory_bytes(path: str) -> int:
    """What the files of a job take, as the file system counts it: the hole in a long log takes nothing."""
    try:
        with os.scandir(path) as entries:
            return sum(entry.stat(follow_symlinks=False).st_blocks for entry in entries) * BLOCK_BYTES
    except OSError:  # there is none, or it goes just now
        return 0


def taken_bytes(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * BLOCK_BYTES
    except OSError:
        return 0


def files_of(connection: sqlite3.Connection, places: Places, seqs: Sequence[int]) -> int:
    """What some jobs have beside the store, if they are of this host."""
    sql = f"SELECT id FROM jobs WHERE seq IN ({', '.join('?' * len(seqs))}) AND host = ?"
    ids = [JobId(row[0]) for row in connection.execute(sql, (*seqs, places.host)) if is_job_id(row[0])]
    return sum(size for job_id in ids for size in places.bytes_of(job_id))


def used_bytes(connection: sqlite3.Connection) -> int:
    """What is in the store, without its free pages."""
    count, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((count - free) * size)
