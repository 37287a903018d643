"""A full-text index of jobs by the three-letter parts of their names, notes and commands.

The index only narrows a search: the conditions are still tested for the jobs that it returns, and for jobs that changed
after it was updated. A search updates the index of a store that it may write. A SQLite without FTS5 has no index.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time

from jobtop.core.errors import RowDamaged, StoreError
from jobtop.core.query.conditions import ContainsText, IsOneOf, JoinedWords, MatchesPattern
from jobtop.store.rows import parse_json, parse_texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobtop.core.query.conditions import Condition, Test
    from jobtop.store.database import Database

# Without positions (detail = none) the index is a third as large. FTS5 needs the stored texts to delete an entry.
TABLE = """CREATE VIRTUAL TABLE IF NOT EXISTS search
USING fts5(text, tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0)"""
FIELDS = frozenset(("name", "note", "command"))
TRIGRAM_LENGTH = 3
MOST_TRIGRAMS = 32
MOST_CANDIDATES = 10_000  # with more of them, reading all jobs is as fast
MANY_CHANGES = 500  # fewer changed jobs are tested in a millisecond or two
JOBS_AT_ONCE = 500  # take some milliseconds, in which no other process can write
UPDATE_SECONDS = 0.5
PROGRESS_ROW = 0  # not the number of a job: the row with the Progress of the index
NOT_STARTED = (-1, 0, 0)
CHANGED_JOBS = "FROM jobs WHERE (touched, seq) > (?, ?)"

# The number of the last indexed change, the number of its job, and `touches.last`, which a deletion raises.
Progress = tuple[int, int, int]


def can_narrow(conditions: Iterable[Condition]) -> bool:
    """Whether the index can tell for any of these conditions which jobs may meet it."""
    return any(map(_trigrams, conditions))


def update_index(database: Database, seconds: float = UPDATE_SECONDS) -> None:
    """Index changed jobs, if they are many, for at most so long; a read-only store stays as it is."""
    deadline = time.monotonic() + seconds
    try:
        with database.reading() as connection:
            is_outdated = _is_outdated(connection)
        while is_outdated and time.monotonic() < deadline:
            with database.writing() as connection:
                is_outdated = _index_some(connection)
    except (StoreError, sqlite3.Error):  # sqlite3.Error: within a transaction of the caller
        return


def candidates(connection: sqlite3.Connection, conditions: Iterable[Condition]) -> list[int] | None:
    """The numbers of all jobs that may meet some conditions; None if the index cannot tell, or they are too many."""
    trigrams = list(dict.fromkeys(part for condition in conditions for part in _trigrams(condition)))[:MOST_TRIGRAMS]
    if not trigrams:
        return None
    if not _is_own_index(connection):
        return None
    words = " AND ".join('"' + trigram.replace('"', '""') + '"' for trigram in trigrams)
    try:
        progress = _progress(connection)
        sql = f"SELECT rowid FROM search WHERE search MATCH ? LIMIT {MOST_CANDIDATES}"
        seqs = [seq for (seq,) in connection.execute(sql, (words,))]
        sql = f"SELECT seq {CHANGED_JOBS} LIMIT {MOST_CANDIDATES}"
        seqs += [seq for (seq,) in connection.execute(sql, progress[:2])]
    except (sqlite3.DatabaseError, RowDamaged):  # the index is missing or damaged
        return None
    return seqs if len(seqs) < MOST_CANDIDATES else None


def _is_own_index(connection: sqlite3.Connection) -> bool:
    """Whether jobtop created the index: in a file from another source the name may be that of something else."""
    row = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'search'").fetchone()
    return row is not None and row[0] == TABLE.replace(" IF NOT EXISTS", "")


def _trigrams(condition: Condition) -> list[str]:
    """The trigrams that the text of every job that meets a condition has; empty if none are known."""
    if condition.negated or not FIELDS.issuperset(field for field, _ in condition.parts):
        return []
    texts = {_contained_texts(test) for _, test in condition.parts}
    common = texts.pop() if len(texts) == 1 else ()
    return [
        text[begin : begin + TRIGRAM_LENGTH]
        for text in map(_indexable, common)
        for begin in range(len(text) - TRIGRAM_LENGTH + 1)
    ]


def _contained_texts(test: Test) -> tuple[str, ...]:
    """Texts, in lower case, that every text that passes a test contains."""
    match test:
        case JoinedWords(inner):
            return _contained_texts(inner)
        case ContainsText(text):
            return tuple(re.split("[*?]", text))
        case MatchesPattern(text) | IsOneOf((text,)):
            # Only ASCII: in lower case another letter may become several, or a different one at the end of a word.
            return tuple(re.findall(r"[\x00-)+->@-\x7f]+", text.lower()))
    return ()


def _index_some(connection: sqlite3.Connection) -> bool:
    """Index some of the changed jobs; whether there may be more."""
    connection.execute(TABLE)
    touched, seq, deletion = _progress(connection)
    sql = f"SELECT touched, seq, name, note, command {CHANGED_JOBS} ORDER BY touched, seq LIMIT {JOBS_AT_ONCE}"
    rows = connection.execute(sql, (touched, seq)).fetchall()
    texts = {row["seq"]: _text(row) for row in rows}
    sql = "SELECT rowid, text FROM search WHERE rowid IN (SELECT value FROM json_each(?))"
    indexed = dict(connection.execute(sql, (json.dumps([*texts]),)).fetchall())
    if deletion != _last_deletion(connection):
        sql = "DELETE FROM search WHERE rowid <> ? AND rowid NOT IN (SELECT seq FROM jobs)"
        connection.execute(sql, (PROGRESS_ROW,))
    touched, seq = (rows[-1]["touched"], rows[-1]["seq"]) if rows else (touched, seq)
    texts[PROGRESS_ROW] = json.dumps((touched, seq, _last_deletion(connection)))
    changed = [(rowid, text) for rowid, text in texts.items() if indexed.get(rowid) != text]
    connection.executemany("INSERT OR REPLACE INTO search (rowid, text) VALUES (?, ?)", changed)
    return len(rows) == JOBS_AT_ONCE


def _is_outdated(connection: sqlite3.Connection) -> bool:
    """Whether many jobs changed after the index was updated, or an indexed job was deleted."""
    try:
        touched, seq, deletion = _progress(connection)
    except (sqlite3.DatabaseError, RowDamaged):
        touched, seq, deletion = NOT_STARTED
    sql = f"SELECT count(*) FROM (SELECT 1 {CHANGED_JOBS} LIMIT {MANY_CHANGES})"
    changes = connection.execute(sql, (touched, seq)).fetchone()[0]
    return changes >= MANY_CHANGES or (touched >= 0 and deletion != _last_deletion(connection))


def _progress(connection: sqlite3.Connection) -> Progress:
    row = connection.execute("SELECT text FROM search WHERE rowid = ?", (PROGRESS_ROW,)).fetchone()
    if row is None:
        return NOT_STARTED
    progress = parse_json(row[0], "search")
    if type(progress) is not list or [type(number) for number in progress] != [int, int, int]:
        raise RowDamaged("search has no valid progress")
    return progress[0], progress[1], progress[2]


def _last_deletion(connection: sqlite3.Connection) -> int:
    """A number that changes when a job is deleted."""
    return int(connection.execute("SELECT last FROM touches").fetchone()[0])


def _text(row: sqlite3.Row) -> str:
    """The text of a job as it is indexed: name, note and command, in lower case."""
    try:
        command = parse_texts(row["command"], "command")
    except RowDamaged:
        command = ()
    parts = (str(row["name"]), str(row["note"] or ""), " ".join(command))
    return _indexable("\n".join(part.lower() for part in parts))


def _indexable(text: str) -> str:
    """The text with `?` for characters that FTS5 does not accept: NUL, which ends a text, and lone surrogates."""
    return text.replace("\0", "?").encode("utf-8", "replace").decode()
