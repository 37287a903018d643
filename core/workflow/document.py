"""Reads a workflow file of YAML, TOML, JSON or JSON5 into plain values, with the line of each key.

The only file that uses the YAML and JSON5 parsers. Nothing in a file can make it slow or large: sizes, depths and
repeated parts are bounded.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jobtop.core.errors import ConfigError
from jobtop.core.plain_files import UnsafeFile, read_plain
from jobtop.core.record import record
from jobtop.core.units import format_bytes, printable
from jobtop.core.workflow.lines import json_lines, toml_lines
from jobtop.core.workflow.parameters import is_too_large

Place = tuple[str | int, ...]  # the keys and positions that lead to a value

MOST_BYTES = 16 << 20
MOST_JSON5_BYTES = 1 << 20  # its parser is slow
MOST_VALUES = 1_000_000
DEEPEST = 40
LONGEST_NUMBER = 40  # characters
TOO_LARGE = "a number in it is too large"
SECOND_DOCUMENT = "a file has one document; here is a second one"
KINDS = {".yaml": "YAML", ".yml": "YAML", ".toml": "TOML", ".json": "JSON", ".json5": "JSON5"}
UNNAMED_FORMAT = "a workflow file ends in .yaml, .yml, .toml, .json or .json5"


@record
class Document:
    """A file: its value, and the lines of its keys and items, counted from 1."""

    path: str
    value: Any
    lines: dict[Place, int]

    def line(self, place: Place) -> int | None:
        """The line of a value, or of the nearest thing around it that has one."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place)


def read_document(path: str) -> Document:
    """Read a file; ConfigError with one line that names the file, and the line where there is one."""
    kind = KINDS.get(Path(path).suffix.lower())
    if kind is None:
        raise ConfigError(f"{printable(path)}: {UNNAMED_FORMAT}")
    try:
        content = read_plain(Path(path), MOST_BYTES, may_be_owned_by_others=True)
    except FileNotFoundError:
        raise ConfigError(f"{printable(path)}: there is no such file") from None
    except (OSError, UnsafeFile) as error:
        raise ConfigError(f"{printable(path)}: {getattr(error, 'strerror', None) or error}") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{printable(path)}: byte {error.start} is not UTF-8") from None
    value, lines = parse(printable(path), text, kind)
    return Document(path, value, lines)


def parse(name: str, text: str, kind: str) -> tuple[Any, dict[Place, int]]:
    """The value of a text and its lines; ConfigError says in which line it is wrong."""
    try:
        if kind == "YAML":
            return _parse_yaml(name, text)
        if kind == "TOML":
            return _parse_toml(name, text), toml_lines(text)
        return _parse_json(name, text, kind), json_lines(text)
    except RecursionError:
        raise ConfigError(f"{name}: its values are nested too deeply") from None


def _parse_toml(name: str, text: str) -> Any:
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: {printable(str(error))}") from None
    except ValueError:  # Python refuses to read thousands of digits
        raise ConfigError(f"{name}: {TOO_LARGE}") from None
    inside: list[Any] = [value]
    while inside:
        each = inside.pop()
        if isinstance(each, dict | list):
            inside += each.values() if isinstance(each, dict) else each
        elif isinstance(each, int) and is_too_large(each):
            raise ConfigError(f"{name}: {TOO_LARGE}")
    return value


def _parse_json(name: str, text: str, kind: str) -> Any:
    def table(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        pairs = list(values)
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise ConfigError(f'{name}: the key "{printable(twice)}" is there twice in one table')
        return found

    def whole(digits: str, base: int = 10) -> int:
        if len(digits) > LONGEST_NUMBER or is_too_large(int(digits, base)):
            raise ConfigError(f"{name}: {TOO_LARGE}")
        return int(digits, base)

    try:
        return json.loads(text, object_pairs_hook=table, parse_int=whole)
    except ValueError as error:
        if kind == "JSON":
            line, why = getattr(error, "lineno", 1), getattr(error, "msg", error)
            raise ConfigError(f"{name}:{line}: {printable(str(why))}") from None
    if len(text) > MOST_JSON5_BYTES:
        raise ConfigError(f"{name}: a JSON5 file has at most {format_bytes(MOST_JSON5_BYTES)}; use JSON or YAML")
    import json5

    try:
        return json5.loads(text, object_pairs_hook=table, parse_int=whole)
    except ValueError as error:
        line, _, why = str(error).removeprefix("<string>:").partition(" ")
        raise ConfigError(f"{name}:{line.rstrip(':')}: {printable(why)}") from None


def _parse_yaml(name: str, text: str) -> tuple[Any, dict[Place, int]]:
    import yaml

    loader_class = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader = loader_class(text)
    try:
        root = loader.get_single_node()
        reader = _YamlReader(name, yaml, loader)
        if root is not None and "*" in text:
            reader.refuse_bombs(root)
        return (None if root is None else reader.value(root, ())), reader.lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        said = SECOND_DOCUMENT if error.problem == "but found another document" else error.problem or str(error)
        raise ConfigError(f"{name}:{line}: {printable(said)}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: {printable(str(error).splitlines()[0])}") from None
    finally:
        loader.dispose()


class _YamlReader:
    """Turns nodes into plain values as YAML 1.2 does: only true and false are booleans, `1:30` and dates are text."""

    def __init__(self, name: str, yaml: Any, loader: Any) -> None:
        self.name, self.yaml, self.loader = name, yaml, loader
        self.lines: dict[Place, int] = {}
        self.count = 0

    def refuse_bombs(self, root: Any) -> None:
        """Count the values that aliases would make, each node once: a bomb has more than could be made one by one."""
        sizes: dict[int, int] = {}
        path = [(root, iter(self._inside(root)))]
        while path:
            node, children = path[-1]
            child = next(children, None)
            if child is None:
                path.pop()
                sizes[id(node)] = 1 + sum(sizes[id(each)] for each in self._inside(node))
                if sizes[id(node)] > MOST_VALUES:
                    raise self._too_many(node)
            elif id(child) not in sizes:
                if len(path) > DEEPEST:
                    raise self._too_deep(child)
                path.append((child, iter(self._inside(child))))

    def _inside(self, node: Any) -> list[Any]:
        if isinstance(node, self.yaml.MappingNode):
            return [value for _, value in node.value]
        return list(node.value) if isinstance(node, self.yaml.SequenceNode) else []

    def _too_many(self, node: Any) -> ConfigError:
        line = node.start_mark.line + 1
        return ConfigError(f"{self.name}:{line}: it has more than {MOST_VALUES:,} values; aliases count as copies")

    def _too_deep(self, node: Any) -> ConfigError:
        line = node.start_mark.line + 1
        return ConfigError(f"{self.name}:{line}: its values are nested too deeply, or contain themselves")

    def value(self, node: Any, place: Place) -> Any:
        self.lines.setdefault(place, node.start_mark.line + 1)
        self.count += 1
        if self.count > MOST_VALUES:
            raise self._too_many(node)
        if len(place) > DEEPEST:
            raise self._too_deep(node)
        if isinstance(node, self.yaml.MappingNode):
            return self._table(node, place)
        if isinstance(node, self.yaml.SequenceNode):
            return [self.value(item, (*place, index)) for index, item in enumerate(node.value)]
        return self._scalar(node)

    def _table(self, node: Any, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: list[Any] = []
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == "tag:yaml.org,2002:merge":
                merged += value_node.value if isinstance(value_node, self.yaml.SequenceNode) else [value_node]
                continue
            if not isinstance(key_node, self.yaml.ScalarNode):
                raise ConfigError(f"{self.name}:{line}: a key has to be a word")
            key = str(key_node.value)
            if key in found:
                raise ConfigError(f'{self.name}:{line}: the key "{printable(key)}" is there twice in one table')
            self.lines[(*place, key)] = line
            found[key] = self.value(value_node, (*place, key))
        for each in merged:
            more = self.value(each, (*place, "<<"))
            if not isinstance(more, dict):
                raise ConfigError(f"{self.name}:{each.start_mark.line + 1}: << needs a table")
            found = more | found
        return found

    def _scalar(self, node: Any) -> Any:
        text, kind = node.value, node.tag.rpartition(":")[2]
        if kind == "bool":
            return text.lower() == "true" if text.lower() in ("true", "false") else text
        if kind in ("int", "float") and ":" not in text:
            return self._number(node)
        if kind == "null":
            return None
        return text

    def _number(self, node: Any) -> Any:
        try:
            number = self.loader.construct_object(node)
        except ValueError:  # Python refuses to read thousands of digits
            number = None
        if number is None or (isinstance(number, int) and is_too_large(number)):
            raise ConfigError(f"{self.name}:{node.start_mark.line + 1}: {TOO_LARGE}")
        return number
