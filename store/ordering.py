"""The order of jobs: sort keys, and SQL that finds one page of 100,000 jobs without reading all of them.

In SQLite a `+` before a column or an expression keeps that term from using an index.
"""

from __future__ import annotations

from jobtop.core.errors import BadValue, did_you_mean
from jobtop.core.units import printable
from jobtop.store.costs import JOB_COST, JOB_ENERGY
from jobtop.store.jobs import BEGIN_TIME, SEQ_IN_LIST

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from typing import Any

    from jobtop.store.jobs import Query

    Term = tuple[str, list[Any]]  # an SQL condition, and the values of its placeholders

SORT_KEYS = {
    "begun": BEGIN_TIME,
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
    "energy": JOB_ENERGY,
    "cost": JOB_COST,
    "name": "name COLLATE NOCASE",
    "tool": "tool COLLATE NOCASE",
    "host": "host",
    "user": "user",
    "status": "status",
    "exit": "exit_code",
}
SORT_ALIASES = {"mem": "memory", "time": "duration", "newest": "begun"}  # the names in filters and in the console
# The sort keys with an index in their order, and the fields of a filter that these indexes have.
INDEXED_SORTS = ("memory", "duration")
INDEXED_FIELDS = frozenset(("status", "tool", "host", "name", "begun"))
NEAR_JOBS = 5000  # are searched before all others
FEW_CANDIDATES = 300  # of the search index


def shown_keys() -> list[str]:
    """The sort keys as users type them."""
    return ["newest" if key == "begun" else key for key in SORT_KEYS]


def sort_key(word: str) -> str:
    """The sort key of a word or its alias; BadValue for any other word."""
    word = SORT_ALIASES.get(word, word)
    if word not in SORT_KEYS:
        names = shown_keys()
        hint = did_you_mean(word, names)
        raise BadValue(f'--sort: "{printable(word)}" is not a sort key{hint}; use {", ".join(names)}')
    return word


def order_of(query: Query, where: str) -> str:
    """The ORDER BY clause of a query; jobs without the value they are sorted by come last."""
    direction = "ASC" if query.reverse else "DESC"
    return f"ORDER BY {_order_key(query, where)} {direction} NULLS LAST, seq {direction}"


def _order_key(query: Query, where: str) -> str:
    """The expression that jobs are sorted by.

    With a plus SQLite reads the index that has all needed columns, and sorts. Without a plus it walks an index in this
    order and can stop early. That is faster for the newest few of all jobs, or if that index has all needed columns.
    """
    key = SORT_KEYS[query.sort]
    if query.sort == "seq":
        return key if query.limit is not None and (not where or SEQ_IN_LIST in where) else f"+{key}"
    if query.sort == "begun":
        return key if not where or f"+{SEQ_IN_LIST}" in where else f"+{key}"
    return f"+{key}" if query.sort in INDEXED_SORTS and not _uses_only(query, INDEXED_FIELDS) else key


def _uses_only(query: Query, fields: frozenset[str]) -> bool:
    conditions = () if query.filter is None else query.filter.conditions
    return query.tag is None and all(field in fields for condition in conditions for field, _ in condition.parts)


def page_conditions(connection: sqlite3.Connection, query: Query, where: str) -> list[Term]:
    """Conditions that together select the jobs of a page; the jobs of each one precede those of the next.

    Jobs without the value they are sorted by come last.
    """
    key, compared = _order_key(query, where), ">" if query.reverse else "<"
    if query.sort == "seq" and query.limit is not None and key != "seq":
        return _near_and_far_by_seq(connection, query)
    if query.after is None and (query.sort != "begun" or query.limit is None or not where):
        return [("", [])]
    if query.sort == "seq":
        return [(f"{key} {compared} ?", [query.after])]
    if query.sort == "begun":
        return _near_and_far_by_begin_time(connection, query, where)
    row = connection.execute(f"SELECT {key} IS NULL FROM jobs WHERE seq = ?", (query.after,)).fetchone()
    if row is None or row[0]:
        return [(f"{key} IS NULL AND seq {compared} ?", [query.after])]
    following = f"({key}, seq) {compared} (SELECT {SORT_KEYS[query.sort]}, seq FROM jobs WHERE seq = ?)"
    return [(following, [query.after]), (f"{key} IS NULL", [])]


def _near_and_far_by_seq(connection: sqlite3.Connection, query: Query) -> list[Term]:
    """The next NEAR_JOBS jobs by number, which often fill a page, and then the others."""
    if query.reverse:
        begin = query.after or 0
        return [("seq > ? AND seq <= ?", [begin, begin + NEAR_JOBS]), ("+seq > ?", [begin + NEAR_JOBS])]
    begin = query.after or connection.execute("SELECT coalesce(max(seq), 0) + 1 FROM jobs").fetchone()[0]
    return [("seq < ? AND seq >= ?", [begin, begin - NEAR_JOBS]), ("+seq < ?", [begin - NEAR_JOBS])]


def _near_and_far_by_begin_time(connection: sqlite3.Connection, query: Query, where: str) -> list[Term]:
    """The next NEAR_JOBS jobs by begin time, then the others, then those without a begin time."""
    compared, back, direction = (">", "<", "ASC") if query.reverse else ("<", ">", "DESC")
    following, values = f"{BEGIN_TIME} IS NOT NULL", []
    if query.after is not None:
        row = connection.execute(f"SELECT {BEGIN_TIME} FROM jobs WHERE seq = ?", (query.after,)).fetchone()
        if row is None or row[0] is None:
            return [(f"{BEGIN_TIME} IS NULL AND +seq {compared} ?", [query.after])]
        # Not a comparison of row values: SQLite uses no index of an expression for those.
        following = f"{BEGIN_TIME} {compared}= ? AND ({BEGIN_TIME} {compared} ? OR +seq {compared} ?)"
        values = [row[0], row[0], query.after]
    without_time: Term = (f"{BEGIN_TIME} IS NULL", [])
    row = None
    if where and query.limit is not None and SEQ_IN_LIST not in where:
        sql = f"SELECT {BEGIN_TIME} FROM jobs WHERE {following} ORDER BY 1 {direction} LIMIT 1 OFFSET {NEAR_JOBS}"
        row = connection.execute(sql, values).fetchone()
    if row is None:
        return [(following, values), without_time]
    near = (f"{following} AND {BEGIN_TIME} {back}= ?", [*values, row[0]])
    return [near, (f"+{BEGIN_TIME} {compared} ?", [row[0]]), without_time]


def prefer_walking(query: Query, where: str, values: Sequence[Any]) -> str:
    """The WHERE clause, with a plus before the candidates of the search index if they are many.

    SQLite then walks the jobs from the newest on, and soon finds enough of many candidates to fill a page.
    """
    if query.sort != "begun" or query.limit is None or SEQ_IN_LIST not in where:
        return where
    candidates = values[where[: where.index(SEQ_IN_LIST)].count("?")]
    return where if candidates.count(",") < FEW_CANDIDATES else where.replace(SEQ_IN_LIST, f"+{SEQ_IN_LIST}")
