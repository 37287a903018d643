"""A filter as SQL: SQLite compares numbers and statuses, and calls the filter's own test functions for text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

from jobtop.core.errors import RowDamaged
from jobtop.core.model import AT_WORK, BEAT_SECONDS, MISSED_BEATS
from jobtop.core.query.conditions import (
    ALERTS,
    FINDINGS,
    Condition,
    ContainsText,
    Filter,
    HasAlert,
    IsOneOf,
    JoinedWords,
    MatchesPattern,
    NamedPair,
    NumberComparison,
    NumberParameter,
    NumberRange,
)
from jobtop.core.run.containers.facts import FINDING as CONTAINER
from jobtop.store.costs import JOB_COST, JOB_ENERGY
from jobtop.store.jobs import BEGIN_TIME, LIVE_STATUSES, SEQ_IN_LIST, placeholders, sql_list
from jobtop.store.query_sql import columns_of_jobs
from jobtop.store.rows import parse_mapping, parse_texts
from jobtop.store.schema import has_tables_of
from jobtop.store.search import candidates

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    from jobtop.core.query.conditions import Test

    Term = tuple[str, list[Any]]  # an SQL condition, and the values of its placeholders
    Function = Callable[[Any], bool]

COMPUTED_FIELDS = {
    "begun": BEGIN_TIME,
    "energy": JOB_ENERGY,
    "cost": JOB_COST,
    "elapsed": f"coalesce(duration_seconds, CASE WHEN status IN ({LIVE_STATUSES}) THEN ? - start_time END)",
    "stale": f"CASE WHEN status NOT IN ({sql_list(sorted(AT_WORK))}) OR host = ? THEN 0"
    f" ELSE ? - heartbeat > {MISSED_BEATS}"
    f" * max({BEAT_SECONDS}, coalesce(iif(json_valid(monitor), json_extract(monitor, '$.interval_seconds'), 0), 0))"
    " END",
}
JSON_FIELDS: dict[str, Callable[[Any], Any]] = {
    "command": lambda text: list(parse_texts(text, "command")),
    "flags": lambda text: list(parse_texts(text, "flags")),
    "params": lambda text: parse_mapping(text, "params"),
    "tags": lambda text: parse_mapping(text, "tags"),
    FINDINGS: lambda text: parse_mapping(text, FINDINGS),
}
ALERTS_SINCE_VERSION = 10  # of the schema
CACHED_RESULTS = 10_000
# A command is stored as a JSON list in ASCII. If that JSON has no escapes, plain text is in it exactly when it is in
# the command; plain text has no blanks, quotes, commas, brackets or wildcards. So LIKE decides for most commands, and
# few have to be parsed.
HAS_ESCAPE = r"instr(command, '\')"
LIKE = r"command LIKE ? ESCAPE '\'"
UNESCAPED = r"[ !#-\[\]-~]*"
PLAIN = r"[!#-)+\-->@-Z^-~]+"
LONGEST_LIKE = 100


@contextmanager
def filter_terms(connection: sqlite3.Connection, wanted: Filter) -> Iterator[list[Term]]:
    """The conditions of a filter as SQL; the functions they call are registered until the context ends."""
    functions: list[Function] = []
    stored = columns_of_jobs(connection)
    if has_tables_of(connection, ALERTS_SINCE_VERSION):
        stored |= {ALERTS}
    terms = [_term(_known(condition, stored), wanted, functions) for condition in wanted.conditions]
    for number, function in enumerate(functions):
        connection.create_function(_function_name(number), 1, function, deterministic=True)
    seqs = candidates(connection, wanted.conditions)
    if seqs is not None:
        terms.append((SEQ_IN_LIST, [json.dumps(seqs)]))
    try:
        yield sorted(terms, key=lambda term: _function_name("") in term[0])  # function calls are the slowest
    finally:
        for number in range(len(functions)):
            connection.create_function(_function_name(number), 1, None)


def _function_name(number: int | str) -> str:
    return f"fits_{number}"


def _known(condition: Condition, stored: frozenset[str]) -> Condition:
    """The condition without fields that an older store does not have: these are absent, and so never match."""
    known = stored | COMPUTED_FIELDS.keys()
    return Condition(tuple(part for part in condition.parts if part[0] in known), condition.negated)


def _term(condition: Condition, wanted: Filter, functions: list[Function]) -> Term:
    """A condition as SQL; the functions that the SQL calls are appended to `functions`."""
    tests: dict[str, list[Test]] = {}
    for field, test in condition.parts:
        tests.setdefault(field, []).append(test)
    parts = [_part(field, several, wanted, functions) for field, several in tests.items()]
    sql = f"({' OR '.join(sql for sql, _ in parts) or 'FALSE'})"
    return f"{sql} IS NOT TRUE" if condition.negated else sql, [value for _, values in parts for value in values]


def _part(field: str, tests: list[Test], wanted: Filter, functions: list[Function]) -> Term:
    """Whether a field passes at least one of some tests."""
    if field == ALERTS:
        return _alert_part([test for test in tests if isinstance(test, HasAlert)])
    match field, *tests:
        # The plus keeps SQLite from the index by this number, which lacks other columns; another has them all.
        case _, NumberComparison() | NumberRange() as test:
            sql, numbers = _comparison(f"+{COMPUTED_FIELDS.get(field, field)}", test)
            return sql, [*_values_of(field, wanted), *numbers]
        case "status" | "kept" | "limited_by" | "kind", IsOneOf(words):
            return f"{field} IN ({placeholders(words)})", [*words]
    call = f"{_function_name(len(functions))}({field if field in JSON_FIELDS else f'CAST({field} AS BLOB)'})"
    functions.append(_function(tests, JSON_FIELDS.get(field)))
    if field == FINDINGS:  # few jobs ran in a container
        return f"CASE WHEN instr({field}, ?) THEN {call} END", [f'"{CONTAINER}"']
    if (key := _pair_key(tests)) is not None:
        match tests:
            case [NumberParameter(_, NumberComparison() | NumberRange() as test)]:
                sql, values = _comparison(f"json_extract({field}, ?)", test)
                is_plain = rf"json_valid({field}) AND NOT instr({field}, '\')"
                is_number = f"json_type({field}, ?) IN ('integer', 'real')"
                path = f'$."{key}"'
                return f"CASE WHEN {is_plain} THEN {is_number} AND {sql} ELSE {call} END", [path, path, *values]
        return rf"CASE WHEN instr({field}, '\') OR instr({field}, ?) THEN {call} END", [f'"{key}"']
    match tests:
        case [JoinedWords(ContainsText(text))] if len(text) <= LONGEST_LIKE and re.fullmatch(PLAIN, text):
            return f"CASE WHEN {HAS_ESCAPE} THEN {call} ELSE {LIKE} END", [_like_pattern(text)]
        case [JoinedWords(ContainsText(text) | MatchesPattern(text) | IsOneOf((text,)))]:
            return f"CASE WHEN {HAS_ESCAPE} OR {LIKE} THEN {call} END", [_like_pattern(_plain_part(text))]
    return call, []


def _alert_part(tests: list[HasAlert]) -> Term:
    """Whether a job has one of some alerts; the list of such jobs is read once, since few jobs have alerts."""
    conditions: list[str] = []
    values: list[Any] = []
    for test in tests:
        match test:
            case HasAlert(state=str(state)):
                conditions.append("state = ?")
                values.append(state)
            case HasAlert(severity=str(severity)):
                conditions.append("(severity = ? AND fired_at IS NOT NULL)")
                values.append(severity)
            case HasAlert(rule=MatchesPattern(pattern)):
                conditions.append("(rule GLOB CAST(? AS TEXT) AND fired_at IS NOT NULL)")
                values.append(pattern.replace("[", "[[]"))
            case HasAlert(rule=IsOneOf(names)):
                conditions.append(f"(rule IN ({', '.join(['CAST(? AS TEXT)'] * len(names))}) AND fired_at IS NOT NULL)")
                values += names
            case _:
                conditions.append("fired_at IS NOT NULL")
    return f"seq IN (SELECT job_seq FROM alerts WHERE job_seq IS NOT NULL AND ({' OR '.join(conditions)}))", values


def _comparison(value: str, test: NumberComparison | NumberRange) -> Term:
    """Whether an SQL value passes a test of numbers."""
    match test:
        case NumberComparison(by, number):
            return f"{value} {by} ?", [number]
        case NumberRange(low, high):
            return f"{value} BETWEEN ? AND ?", [low, high]


def _values_of(field: str, wanted: Filter) -> list[Any]:
    """The values of the placeholders of a computed field."""
    values: dict[str, list[Any]] = {"elapsed": [wanted.now], "stale": [wanted.caretaker, wanted.now]}
    return values.get(field, [])


def _function(tests: list[Test], parse: Function | None) -> Function:
    """Tests as a function for SQLite: it gets text as bytes, because Python refuses other than UTF-8, or JSON."""

    @lru_cache(CACHED_RESULTS)
    def passes(stored: Any) -> bool:
        if stored is None:
            return False
        try:
            value = parse(stored) if parse is not None else stored.decode("utf-8", "surrogateescape")
        except RowDamaged:
            return False
        return any(test(value) for test in tests)

    return passes


def _pair_key(tests: list[Test]) -> str | None:
    """The key of a tag or parameter that all tests are about, if JSON has it as it is; without it none can pass."""
    keys = {test.key if isinstance(test, NamedPair) else _only_key(test) for test in tests}
    key = keys.pop() if len(keys) == 1 else None
    return key if key is not None and re.fullmatch(r"[\w.-]+", key, re.ASCII) else None


def _only_key(test: Test) -> str | None:
    match test:
        case NumberParameter(IsOneOf((key,)), _):
            return str(key)
    return None


def _plain_part(text: str) -> str:
    """A text that the JSON of every matching command contains: the longest plain part, or the start of an escape."""
    if not re.fullmatch(UNESCAPED, text):
        return "\\"
    return max(re.findall(PLAIN, text), key=len, default="")[:LONGEST_LIKE]


def _like_pattern(text: str) -> str:
    """The LIKE pattern for values that contain a text."""
    return "%" + re.sub(r"([%_\\])", r"\\\1", text) + "%"
