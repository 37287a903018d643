"""What jobs hold: samples, snapshots, log marks in the file, and their output beside it; read job by job."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from jobtop.core.model import LIVE, Kept
from jobtop.core.retention import SETTLING_SECONDS, Holding

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from jobtop.core.paths import StatePaths

_LIVE = ", ".join(f"'{status}'" for status in sorted(LIVE))
BLOCK_BYTES = 512  # of st_blocks
MARK_BYTES = 20  # about
# A job that is to be tried again needs what it was run with.
IS_OVER = (
    f"settled AND status NOT IN ({_LIVE}) AND NOT (coalesce(json_extract(queue, '$.retries'), 0) > 0"
    " AND json_extract(queue, '$.retried_by') IS NULL)"
)
BEGUN = "coalesce(start_time, submitted_at)"
COLUMNS = (
    f"seq, id, name, kept, {BEGUN} AS begun, pinned, tags, host, {IS_OVER} AS is_over,"
    f" coalesce(end_time, start_time + duration_seconds, {BEGUN}) AS ended"
)


def numbers(connection: sqlite3.Connection, before: float = float("inf")) -> Sequence[int]:
    """The jobs begun before a moment of which more than the record is kept, the oldest first."""
    from array import array

    # The second condition is the one that the index is for.
    sql = "SELECT seq FROM jobs WHERE start_time < ? AND kept <> 'record' ORDER BY start_time, seq"
    return array("q", (row[0] for row in connection.execute(sql, (before,))))


def holding_of(
    connection: sqlite3.Connection, paths: StatePaths, seq: int, now: float, raw_seconds: float
) -> Holding | None:
    """What a job holds; None if it is gone, or only its record is kept."""
    row = connection.execute(f"SELECT {COLUMNS} FROM jobs WHERE seq = ? AND kept <> 'record'", (seq,)).fetchone()
    if row is None or row["begun"] is None:
        return None
    old = now - raw_seconds - row["begun"]
    stored = (*_samples(connection, seq, old), *_others(connection, seq))
    is_ours = row["host"] == paths.host
    files = (directory_bytes(paths, row["id"]), file_bytes(str(paths.spec(row["id"])))) if is_ours else (0, 0)
    ended = row["ended"] if row["is_over"] and row["ended"] <= now - SETTLING_SECONDS else None
    tags = json.loads(row["tags"])
    return Holding(
        seq, row["id"], row["name"], Kept(row["kept"]), row["begun"], ended, bool(row["pinned"]), tags, *stored, *files
    )


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
        "SELECT (SELECT coalesce(sum(length(members)), 0) FROM snapshots WHERE job_seq = ?1),"
        f" (SELECT count(*) FROM log_marks WHERE job_seq = ?1) * {MARK_BYTES}",
        (seq,),
    ).fetchone()
    return row[0], row[1]


def directory_bytes(paths: StatePaths, job_id: str) -> int:
    """What the files of a job take, as the file system counts it: the hole in a long log takes nothing."""
    try:
        with os.scandir(paths.job(job_id)) as entries:
            return sum(entry.stat(follow_symlinks=False).st_blocks for entry in entries) * BLOCK_BYTES
    except OSError:  # there is none, or it goes just now
        return 0


def file_bytes(path: str) -> int:
    try:
        return os.stat(path).st_blocks * BLOCK_BYTES
    except OSError:
        return 0


def files_of(connection: sqlite3.Connection, paths: StatePaths, seqs: Sequence[int]) -> int:
    """What some jobs have beside the store, if they are of this host."""
    sql = f"SELECT id FROM jobs WHERE seq IN ({', '.join('?' * len(seqs))}) AND host = ?"
    ids = [row[0] for row in connection.execute(sql, (*seqs, paths.host)).fetchall()]
    return sum(directory_bytes(paths, job_id) + file_bytes(str(paths.spec(job_id))) for job_id in ids)


def used_bytes(connection: sqlite3.Connection) -> int:
    """What is in the store, without its free pages."""
    count, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((count - free) * size)
