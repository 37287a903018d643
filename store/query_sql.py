"""A query as SQL: the WHERE clause of its conditions, and the read transaction in which it can be used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from jobtop.store.jobs import BEGIN_TIME, placeholders, stored_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    from jobtop.store.database import Database
    from jobtop.store.jobs import Query

    Term = tuple[str, list[Any]]  # an SQL condition, and the values of its placeholders


@contextmanager
def querying(database: Database, query: Query) -> Iterator[tuple[sqlite3.Connection, str, list[Any]]]:
    """A read transaction, the WHERE clause of a query, which may be empty, and the values of its placeholders."""
    if query.filter is None:
        with database.reading() as connection, query_costs(connection, query):
            yield connection, *_where(query)
        return
    from jobtop.store.filtering import filter_terms
    from jobtop.store.search import can_narrow, update_index

    if can_narrow(query.filter.conditions):
        update_index(database)
    with (
        database.reading() as connection,
        query_costs(connection, query),
        filter_terms(connection, query.filter) as terms,
    ):
        yield connection, *_where(query, terms)


@contextmanager
def query_costs(connection: sqlite3.Connection, query: Query) -> Iterator[None]:
    """The SQL functions for energy and cost of jobs, if a query calls them."""
    by_filter = query.filter is not None and query.filter.has("cost", "energy")
    if not by_filter and query.sort not in ("cost", "energy"):
        yield
        return
    from jobtop.store.costs import cost_functions

    prices = query.filter.prices if query.prices is None and query.filter is not None else query.prices
    with cost_functions(connection, columns_of_jobs(connection), prices):
        yield


def tuple_cursor(connection: sqlite3.Connection) -> sqlite3.Cursor:
    """A cursor that returns tuples: they are made faster than rows with names."""
    cursor = connection.cursor()
    cursor.row_factory = None
    return cursor


def columns_of_jobs(connection: sqlite3.Connection) -> frozenset[str]:
    """The columns of the table of jobs: an older store that is only read lacks some."""
    return frozenset(row[0] for row in tuple_cursor(connection).execute("SELECT name FROM pragma_table_info('jobs')"))


def _where(query: Query, terms: Iterable[Term] = ()) -> Term:
    conditions: list[Term] = []
    if query.tool is not None:
        conditions.append(("tool = CAST(? AS TEXT)", [query.tool]))
    if query.statuses:
        conditions.append((f"status IN ({placeholders(query.statuses)})", [*query.statuses]))
    if query.name_glob is not None:
        conditions.append(("name GLOB CAST(? AS TEXT)", [query.name_glob]))
    if query.since is not None:
        # The plus keeps SQLite from using the index by begin time, which has no other column that a query needs.
        conditions.append((f"+{BEGIN_TIME} >= ?", [query.since]))
    if query.tag is not None:
        conditions.append(_tag_condition(query.tag))
    conditions += terms
    values = [stored_text(value) if isinstance(value, str) else value for _, group in conditions for value in group]
    return ("WHERE " + " AND ".join(sql for sql, _ in conditions) if conditions else ""), values


def _tag_condition(tag: str) -> Term:
    """Whether a job has a tag `KEY` or `KEY=VALUE`."""
    key, has_value, value = tag.partition("=")
    tags = "json_each(iif(json_valid(jobs.tags), jobs.tags, '{}'))"
    sql = f"EXISTS (SELECT 1 FROM {tags} WHERE key = CAST(? AS TEXT)"
    sql += " AND value = CAST(? AS TEXT))" if has_value else ")"
    words = [key, value] if has_value else [key]
    # json_each returns a lone surrogate of a JSON text as three bytes.
    return sql, [word.encode("utf-8", "surrogatepass") for word in words]
