"""A filter as SQL: numbers and statuses are compared by SQLite, text by functions that are the filter's own tests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

from jobtop.core.errors import RowDamaged
from jobtop.core.model import AT_WORK, BEAT_SECONDS, LIVE, MISSED_BEATS
from jobtop.core.query.conditions import Compared, Condition, Containing, Filter, Joined, Like, OneOf
from jobtop.store.jobs import KNOWN_JOBS
from jobtop.store.rows import parse_mapping, parse_texts
from jobtop.store.search import may_have

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    from jobtop.core.query.conditions import Test

    Term = tuple[str, list[Any]]
    Function = Callable[[Any], bool]

_LIVE, _BEGUN = (", ".join(f"'{status}'" for status in sorted(several)) for several in (LIVE, AT_WORK))
COMPUTED = {
    "begun": "coalesce(start_time, submitted_at)",
    "elapsed": f"coalesce(duration_seconds, CASE WHEN status IN ({_LIVE}) THEN ? - start_time END)",
    "stale": f"CASE WHEN status NOT IN ({_BEGUN}) OR host = ? THEN 0 ELSE ? - heartbeat > {MISSED_BEATS}"
    f" * max({BEAT_SECONDS}, coalesce(iif(json_valid(monitor), json_extract(monitor, '$.interval_seconds'), 0), 0))"
    " END",
}
AS_JSON: dict[str, Callable[[Any], Any]] = {
    "command": lambda text: list(parse_texts(text, "command")),
    "flags": lambda text: list(parse_texts(text, "flags")),
    "params": lambda text: parse_mapping(text, "params"),
    "tags": lambda text: parse_mapping(text, "tags"),
}
REMEMBERED = 10_000
# A command is kept as a JSON list, in ASCII. Where that has no escapes, plain text, without blanks, quotes, commas,
# brackets and wildcards, is in the list if it is in the command, so that few commands have to be taken apart.
ESCAPED = r"instr(command, '\')"
LIKE = r"command LIKE ? ESCAPE '\'"
UNESCAPED = r"[ !#-\[\]-~]*"
PLAIN = r"[!#-)+\-->@-Z^-~]+"
LONGEST_HINT = 100


@contextmanager
def filtering(connection: sqlite3.Connection, wanted: Filter) -> Iterator[list[Term]]:
    """What has to hold of a row, each with its values; until the end the connection knows the functions they call."""
    functions: list[Function] = []
    terms = [_term(condition, wanted, functions) for condition in wanted.conditions]
    for number, function in enumerate(functions):
        connection.create_function(_name(number), 1, function, deterministic=True)
    found = may_have(connection, wanted.conditions)
    if found is not None:
        terms.append((KNOWN_JOBS, [json.dumps(found)]))
    try:
        yield sorted(terms, key=lambda term: _name("") in term[0])
    finally:
        for number in range(len(functions)):
            connection.create_function(_name(number), 1, None)


def _name(number: int | str) -> str:
    return f"fits_{number}"


def _term(condition: Condition, wanted: Filter, functions: list[Function]) -> Term:
    tests: dict[str, list[Test]] = {}
    for field, test in condition.parts:
        tests.setdefault(field, []).append(test)
    parts = [_part(field, several, wanted, functions) for field, several in tests.items()]
    sql = f"({' OR '.join(sql for sql, _ in parts)})"
    return f"{sql} IS NOT TRUE" if condition.negated else sql, [value for _, values in parts for value in values]


def _part(field: str, tests: list[Test], wanted: Filter, functions: list[Function]) -> Term:
    """Whether a field passes one of some tests."""
    match field, *tests:
        case _, Compared(by, number):
            # The plus: an index in the order of this number has not the others, and one that has them all is there.
            known: dict[str, list[Any]] = {"elapsed": [wanted.now], "stale": [wanted.caretaker, wanted.now]}
            return f"+{COMPUTED.get(field, field)} {by} ?", [*known.get(field, []), number]
        case "status" | "kept", OneOf(words):
            return f"{field} IN ({', '.join('?' * len(words))})", [*words]
    call = f"{_name(len(functions))}({field if field in AS_JSON else f'CAST({field} AS BLOB)'})"
    functions.append(_function(tests, AS_JSON.get(field)))
    match tests:
        case [Joined(Containing(text))] if len(text) <= LONGEST_HINT and re.fullmatch(PLAIN, text):
            return f"CASE WHEN {ESCAPED} THEN {call} ELSE {LIKE} END", [_like(text)]
        case [Joined(Containing(text) | Like(text) | OneOf((text,)))]:
            return f"CASE WHEN {ESCAPED} OR {LIKE} THEN {call} END", [_like(_hint(text))]
    return call, []


def _function(tests: list[Test], shaped: Function | None) -> Function:
    """Tests as SQLite calls them: with text as bytes, for Python would insist on UTF-8, or as JSON, which is ASCII."""

    @lru_cache(REMEMBERED)
    def passes(value: Any) -> bool:
        if value is None:
            return False
        try:
            read = shaped(value) if shaped is not None else value.decode("utf-8", "surrogateescape")
        except RowDamaged:
            return False
        return any(test(read) for test in tests)

    return passes


def _hint(text: str) -> str:
    """What the list of a command has in it if the command fits: the longest plain part of this, or an escape."""
    if not re.fullmatch(UNESCAPED, text):
        return "\\"
    return max(re.findall(PLAIN, text), key=len, default="")[:LONGEST_HINT]


def _like(text: str) -> str:
    """The pattern of LIKE for text that contains this."""
    return "%" + re.sub(r"([%_\\])", r"\\\1", text) + "%"
