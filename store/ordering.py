"""The order of jobs: what they can be sorted by, and how a page of 100,000 is found without looking at all of them."""

from __future__ import annotations

from jobtop.core.errors import BadValue, did_you_mean
from jobtop.core.units import printable
from jobtop.store.jobs import BEGUN, KNOWN_JOBS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from typing import Any

    from jobtop.store.jobs import Query

    Stretch = tuple[str, list[Any]]  # a condition, and the values in it

SORT_KEYS = {
    "begun": BEGUN,
    "seq": "seq",
    "start": "start_time",
    "end": "end_time",
    "duration": "duration_seconds",
    "cpu": "cpu_total_seconds",
    "efficiency": "cpu_efficiency",
    "memory": "memory_peak_bytes",
    "read": "io_read_bytes",
    "write": "io_write_bytes",
    "io": "io_read_bytes + io_write_bytes",
    "name": "name COLLATE NOCASE",
    "tool": "tool COLLATE NOCASE",
    "host": "host",
    "user": "user",
    "status": "status",
    "exit": "exit_code",
}
SORT_ALIASES = {"mem": "memory", "time": "duration", "newest": "begun"}  # what filters and the console call them
# What there are indexes in the order of, and the fields of a filter that are in those.
IN_ORDER = ("memory", "duration")
IN_ORDER_WITH = frozenset(("status", "tool", "host", "name", "begun"))
NEAR, FEW_KNOWN = 5000, 300


def sort_key(word: str) -> str:
    """One of the keys jobs can be sorted by."""
    word = SORT_ALIASES.get(word, word)
    if word not in SORT_KEYS:
        hint = did_you_mean(word, SORT_KEYS)
        raise BadValue(f'--sort: "{printable(word)}" is no key{hint}; there are {", ".join(SORT_KEYS)}')
    return word


def order_of(query: Query, where: str) -> str:
    """The order of a query; those without what it is by come last."""
    direction = "ASC" if query.reverse else "DESC"
    return f"ORDER BY {_order_key(query, where)} {direction} NULLS LAST, seq {direction}"


def _order_key(query: Query, where: str) -> str:
    """What jobs are sorted by.

    With a plus SQLite finds them in the index that has all it takes and sorts them. It need not where it walks through
    an index in this order and stops early: to the newest few of all jobs, or where that index has all that is asked.
    """
    key = SORT_KEYS[query.sort]
    if query.sort == "seq":
        return key if query.limit is not None and (not where or KNOWN_JOBS in where) else f"+{key}"
    if query.sort == "begun":
        return key if not where or f"+{KNOWN_JOBS}" in where else f"+{key}"
    return f"+{key}" if query.sort in IN_ORDER and not _asks_only(query, IN_ORDER_WITH) else key


def _asks_only(query: Query, fields: frozenset[str]) -> bool:
    conditions = () if query.filter is None else query.filter.conditions
    return query.tag is None and all(field in fields for condition in conditions for field, _ in condition.parts)


def stretches(connection: sqlite3.Connection, query: Query, where: str) -> list[Stretch]:
    """The conditions, one after the other, for jobs behind one; those without what they are sorted by come last."""
    key, compared = _order_key(query, where), ">" if query.reverse else "<"
    if query.sort == "seq" and query.limit is not None and key != "seq":
        return _near_and_far(connection, query)
    if query.after is None and (query.sort != "begun" or query.limit is None or not where):
        return [("", [])]
    if query.sort == "seq":
        return [(f"{key} {compared} ?", [query.after])]
    if query.sort == "begun":
        return _begun_next(connection, query, where)
    row = connection.execute(f"SELECT {key} IS NULL FROM jobs WHERE seq = ?", (query.after,)).fetchone()
    if row is None or row[0]:
        return [(f"{key} IS NULL AND seq {compared} ?", [query.after])]
    behind = f"({key}, seq) {compared} (SELECT {SORT_KEYS[query.sort]}, seq FROM jobs WHERE seq = ?)"
    return [(behind, [query.after]), (f"{key} IS NULL", [])]


def _near_and_far(connection: sqlite3.Connection, query: Query) -> list[Stretch]:
    """The jobs next in the order of their numbers, among which there often are enough that fit, and then the others."""
    if query.reverse:
        begin = query.after or 0
        return [("seq > ? AND seq <= ?", [begin, begin + NEAR]), ("+seq > ?", [begin + NEAR])]
    begin = query.after or connection.execute("SELECT coalesce(max(seq), 0) + 1 FROM jobs").fetchone()[0]
    return [("seq < ? AND seq >= ?", [begin, begin - NEAR]), ("+seq < ?", [begin - NEAR])]


def _begun_next(connection: sqlite3.Connection, query: Query, where: str) -> list[Stretch]:
    """The same in the order of when jobs began; those of which that is not known come last."""
    compared, back, direction = (">", "<", "ASC") if query.reverse else ("<", ">", "DESC")
    next_ones, values = f"{BEGUN} IS NOT NULL", []
    if query.after is not None:
        row = connection.execute(f"SELECT {BEGUN} FROM jobs WHERE seq = ?", (query.after,)).fetchone()
        if row is None or row[0] is None:
            return [(f"{BEGUN} IS NULL AND +seq {compared} ?", [query.after])]
        # Not as a row of values: SQLite does not look for those in an index of an expression.
        next_ones = f"{BEGUN} {compared}= ? AND ({BEGUN} {compared} ? OR +seq {compared} ?)"
        values = [row[0], row[0], query.after]
    unknown_ones: Stretch = (f"{BEGUN} IS NULL", [])
    row = None
    if where and query.limit is not None and KNOWN_JOBS not in where:
        sql = f"SELECT {BEGUN} FROM jobs WHERE {next_ones} ORDER BY 1 {direction} LIMIT 1 OFFSET {NEAR}"
        row = connection.execute(sql, values).fetchone()
    if row is None:
        return [(next_ones, values), unknown_ones]
    near = (f"{next_ones} AND {BEGUN} {back}= ?", [*values, row[0]])
    return [near, (f"+{BEGUN} {compared} ?", [row[0]]), unknown_ones]


def walking(query: Query, where: str, values: Sequence[Any]) -> str:
    """The condition, with a plus where so many jobs may fit that enough are met by walking from the newest on."""
    if query.sort != "begun" or query.limit is None or KNOWN_JOBS not in where:
        return where
    known = values[where[: where.index(KNOWN_JOBS)].count("?")]
    return where if known.count(",") < FEW_KNOWN else where.replace(KNOWN_JOBS, f"+{KNOWN_JOBS}")
