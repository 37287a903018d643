"""An index of what names, notes and commands say, which tells where a word of three letters or more may be found.

It only helps: jobs that it names are looked at all the same, and so are those that changed after it was made. Whoever
searches a store that can be written brings it up to date; where SQLite has no FTS5 there is none.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time

from jobtop.core.errors import RowDamaged, StoreError
from jobtop.core.query.conditions import Containing, Joined, Like, OneOf
from jobtop.store.rows import parse_json, parse_texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobtop.core.query.conditions import Condition, Test
    from jobtop.store.database import Database

# Without positions the index is a third as large; the texts are kept to take out what was put in.
TABLE = """CREATE VIRTUAL TABLE IF NOT EXISTS search
USING fts5(text, tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0)"""
FIELDS = frozenset(("name", "note", "command"))
LENGTH = 3  # of the parts of a text that are in the index
MOST_PARTS = 32
MOST_FOUND = 10_000  # of more, going through all jobs is as fast
MANY = 500  # changes: fewer are looked at in a millisecond or two
JOBS_AT_ONCE = 500  # some milliseconds, in which nobody else writes
SECONDS = 0.5
HOW_FAR = 0  # the number of no job: of the row that says how far the index goes
NOWHERE = (-1, 0, 0)
CHANGED = "FROM jobs WHERE (touched, seq) > (?, ?)"

# The last change that is in the index, the job it was of, and what the last change had been when a job was deleted.
Place = tuple[int, int, int]


def can_help(conditions: Iterable[Condition]) -> bool:
    """Whether the index can tell where any of these may hold."""
    return any(map(_parts, conditions))


def catch_up(database: Database, seconds: float = SECONDS) -> None:
    """Take in what changed, if that is much, for so long at most; a store that cannot be written stays as it is."""
    deadline = time.monotonic() + seconds
    try:
        with database.reading() as connection:
            is_behind = _is_behind(connection)
        while is_behind and time.monotonic() < deadline:
            with database.writing() as connection:
                is_behind = _take_in(connection)
    except (StoreError, sqlite3.Error):  # the latter within a transaction of the caller
        return


def may_have(connection: sqlite3.Connection, conditions: Iterable[Condition]) -> list[int] | None:
    """The numbers of all jobs of which some conditions may hold; None if the index does not tell, or they are many."""
    parts = list(dict.fromkeys(part for condition in conditions for part in _parts(condition)))[:MOST_PARTS]
    if not parts:
        return None
    if not _is_ours(connection):
        return None
    words = " AND ".join('"' + part.replace('"', '""') + '"' for part in parts)
    try:
        place = _place(connection)
        sql = f"SELECT rowid FROM search WHERE search MATCH ? LIMIT {MOST_FOUND}"
        found = [seq for (seq,) in connection.execute(sql, (words,))]
        sql = f"SELECT seq {CHANGED} LIMIT {MOST_FOUND}"
        found += [seq for (seq,) in connection.execute(sql, place[:2])]
    except (sqlite3.DatabaseError, RowDamaged):  # there is none, or it is damaged
        return None
    return found if len(found) < MOST_FOUND else None


def _is_ours(connection: sqlite3.Connection) -> bool:
    """Whether the index is one that we made: in a file from elsewhere another thing may have its name."""
    row = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'search'").fetchone()
    return row is not None and row[0] == TABLE.replace(" IF NOT EXISTS", "")


def _parts(condition: Condition) -> list[str]:
    """What is in the index of every job of which a condition holds; nothing if that cannot be said."""
    if condition.negated or not FIELDS.issuperset(field for field, _ in condition.parts):
        return []
    texts = {_texts(test) for _, test in condition.parts}
    common = texts.pop() if len(texts) == 1 else ()
    return [text[begin : begin + LENGTH] for text in map(_plain, common) for begin in range(len(text) - LENGTH + 1)]


def _texts(test: Test) -> tuple[str, ...]:
    """What every text that passes a test has in it, in small letters."""
    match test:
        case Joined(inner):
            return _texts(inner)
        case Containing(text):
            return tuple(re.split("[*?]", text))
        case Like(text) | OneOf((text,)):
            # Other letters may become several, or different ones at the end of a word.
            return tuple(re.findall(r"[\x00-)+->@-\x7f]+", text.lower()))
    return ()


def _take_in(connection: sqlite3.Connection) -> bool:
    """Take in some of the jobs that changed; whether there may be more."""
    connection.execute(TABLE)
    touched, seq, removed = _place(connection)
    sql = f"SELECT touched, seq, name, note, command {CHANGED} ORDER BY touched, seq LIMIT {JOBS_AT_ONCE}"
    rows = connection.execute(sql, (touched, seq)).fetchall()
    texts = {row["seq"]: _text(row) for row in rows}
    sql = "SELECT rowid, text FROM search WHERE rowid IN (SELECT value FROM json_each(?))"
    known = dict(connection.execute(sql, (json.dumps([*texts]),)).fetchall())
    if removed != _last_removal(connection):
        connection.execute("DELETE FROM search WHERE rowid <> ? AND rowid NOT IN (SELECT seq FROM jobs)", (HOW_FAR,))
    touched, seq = (rows[-1]["touched"], rows[-1]["seq"]) if rows else (touched, seq)
    texts[HOW_FAR] = json.dumps((touched, seq, _last_removal(connection)))
    changed = [(number, text) for number, text in texts.items() if known.get(number) != text]
    connection.executemany("INSERT OR REPLACE INTO search (rowid, text) VALUES (?, ?)", changed)
    return len(rows) == JOBS_AT_ONCE


def _is_behind(connection: sqlite3.Connection) -> bool:
    """Whether many jobs changed after the index was made, or one of those in it is gone."""
    try:
        touched, seq, removed = _place(connection)
    except (sqlite3.DatabaseError, RowDamaged):
        touched, seq, removed = NOWHERE
    changed = connection.execute(f"SELECT count(*) FROM (SELECT 1 {CHANGED} LIMIT {MANY})", (touched, seq)).fetchone()
    return changed[0] >= MANY or (touched >= 0 and removed != _last_removal(connection))


def _place(connection: sqlite3.Connection) -> Place:
    row = connection.execute("SELECT text FROM search WHERE rowid = ?", (HOW_FAR,)).fetchone()
    if row is None:
        return NOWHERE
    place = parse_json(row[0], "search")
    if type(place) is not list or [type(number) for number in place] != [int, int, int]:
        raise RowDamaged("search does not say how far it goes")
    return place[0], place[1], place[2]


def _last_removal(connection: sqlite3.Connection) -> int:
    """What is another number after a job was deleted."""
    return int(connection.execute("SELECT last FROM touches").fetchone()[0])


def _text(row: sqlite3.Row) -> str:
    try:
        command = parse_texts(row["command"], "command")
    except RowDamaged:
        command = ()
    parts = (str(row["name"]), str(row["note"] or ""), " ".join(command))
    return _plain("\n".join(part.lower() for part in parts))


def _plain(text: str) -> str:
    """Text as the index takes it, letter by letter: without what is no Unicode, and NUL, at which it would end."""
    return text.replace("\0", "?").encode("utf-8", "replace").decode()
