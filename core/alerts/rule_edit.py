"""Changes one `[[alert]]` table in the text of a configuration file; every other character stays as it is. Pure."""

from __future__ import annotations

import copy
import json
import math

from jobtop.core.alerts.toml_places import Assignment, Section, assignments_of, items_of, sections
from jobtop.core.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from jobtop.core.alerts.toml_places import Span

    Field = str | int | float | bool

TABLE = "alert"


def edit_rule(text: str, name: str, changes: Mapping[str, Field]) -> str:
    """Return the text with these fields of the rule changed; a rule that it does not have is added at its end.

    If several tables have the name, the last is changed, because it is the one that counts. Raises ConfigError if the
    text is not valid TOML.
    """
    before = _parsed(text)
    tables = before.get(TABLE, [])
    if not isinstance(tables, list):
        raise ConfigError(f"{TABLE} is not a list of tables (use [[{TABLE}]])")
    places = [place for place, table in enumerate(tables) if isinstance(table, dict) and table.get("name") == name]
    if places:
        after = _changed(text, places[-1], changes)
    else:
        after = _added(text, {"name": name, **changes}, _has_inline_list(text))
    if _parsed(after) != _expected(before, places[-1] if places else None, {"name": name, **changes}):
        raise ConfigError(f"the rule {_literal(name)} is written in a form that cannot be changed here: edit the file")
    return after


def _parsed(text: str) -> dict[str, Any]:
    import tomllib

    try:
        # tomllib changes \r\n into \n and refuses a lone \r, as a file does.
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"it is not valid TOML: {error}") from error


def _expected(before: dict[str, Any], place: int | None, fields: Mapping[str, Field]) -> dict[str, Any]:
    """What the changed text must mean."""
    wanted = copy.deepcopy(before)
    tables = wanted.setdefault(TABLE, [])
    if place is None:
        tables.append(dict(fields))
    else:
        tables[place].update(fields)
    return wanted


def _has_inline_list(text: str) -> bool:
    return any(assignment.key == (TABLE,) for assignment in sections(text)[0].assignments)


def _changed(text: str, place: int, changes: Mapping[str, Field]) -> str:
    for key, value in changes.items():
        text = _with_field(text, place, key, value)
    return text


def _with_field(text: str, place: int, key: str, value: Field) -> str:
    """The text with one field of a table set."""
    listed = [section for section in sections(text) if section.is_list and section.name == (TABLE,)]
    if listed:
        section = listed[place]
        known = _last(section.assignments, key)
        return _put(text, known.value, _literal(value)) if known else _insert_line(text, section, key, value)
    inline = _last(sections(text)[0].assignments, TABLE)
    if inline is None:
        raise ConfigError(f"the tables of {TABLE} are written in a form that cannot be changed here: edit the file")
    table = items_of(text, inline.value)[place]
    fields = assignments_of(text, table)
    if known := _last(fields, key):
        return _put(text, known.value, _literal(value))
    end = fields[-1].value[1]
    return _put(text, (end, end), f", {key} = {_literal(value)}")


def _last(assignments: tuple[Assignment, ...] | list[Assignment], key: str) -> Assignment | None:
    return next((found for found in reversed(assignments) if found.key == (key,)), None)


def _insert_line(text: str, section: Section, key: str, value: Field) -> str:
    """The text with a new line behind the last field of a table, indented as that is."""
    last = section.assignments[-1].place[0] if section.assignments else section.header[0]
    indent = text[text.rfind("\n", 0, last) + 1 : last]
    indent = indent if not indent.strip() else ""
    end = text.find("\n", section.end)
    newline = _newline(text)
    if end < 0:
        return f"{text}{newline}{indent}{key} = {_literal(value)}{newline}"
    return f"{text[: end + 1]}{indent}{key} = {_literal(value)}{newline}{text[end + 1 :]}"


def _added(text: str, fields: Mapping[str, Field], is_inline: bool) -> str:
    """The text with a new table at its end, or at the end of its list of inline tables."""
    if is_inline:
        inline = _last(sections(text)[0].assignments, TABLE)
        assert inline is not None
        table = f"{{{', '.join(f'{key} = {_literal(value)}' for key, value in fields.items())}}}"
        items = items_of(text, inline.value)
        end = items[-1][1] if items else inline.value[0] + 1
        return _put(text, (end, end), f", {table}" if items else table)
    newline = _newline(text)
    lines = [f"[[{TABLE}]]", *(f"{key} = {_literal(value)}" for key, value in fields.items())]
    gap = "" if not text or text.endswith(2 * newline) else newline if text.endswith("\n") else 2 * newline
    return text + gap + "".join(line + newline for line in lines)


def _put(text: str, place: Span, words: str) -> str:
    return text[: place[0]] + words + text[place[1] :]


def _newline(text: str) -> str:
    """The line end that the file uses first."""
    end = text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def _literal(value: Field) -> str:
    """A value as TOML; its strings are those of JSON, with DEL escaped too."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{value} is not a number that a rule can have")
    return repr(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(value)
