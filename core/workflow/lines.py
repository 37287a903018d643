"""Finds the lines of keys in JSON, JSON5 and TOML, which their parsers do not tell. Pure.

What is read is another parser's: a line may be missing here, never a value.
"""

from __future__ import annotations

import re

Place = tuple[str | int, ...]

# Possessive: without `+`, Python keeps a note of each character of a text, to go back to.
TOKENS = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<text>"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+')|(?P<mark>[{}\[\]:,])"""
    r"""|(?P<word>[^\s{}\[\]:,"'/]+|/)""",
    re.DOTALL,
)
HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?")
KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")


def json_lines(text: str) -> dict[Place, int]:
    """The line of each key and item of a JSON or JSON5 text."""
    found: dict[Place, int] = {}
    place: list[str | int] = []
    inside: list[str] = []  # the brackets that are open
    line, is_key, word = 1, False, ""
    for match in TOKENS.finditer(text):
        token, at = match[0], line
        line += token.count("\n")
        if match["space"]:
            continue
        if token in "{[" and match["mark"]:
            if inside and inside[-1] == "[":
                found[tuple(place)] = at
            inside.append(token)
            place.append(0 if token == "[" else "")
            is_key = token == "{"
        elif token in "}]" and match["mark"]:
            if inside:
                inside.pop()
                place.pop()
            is_key = False
        elif token == "," and match["mark"] and inside:
            last = place[-1]
            place[-1] = last + 1 if isinstance(last, int) else ""
            is_key = inside[-1] == "{"
        elif token == ":" and match["mark"]:
            is_key = False
        elif is_key:
            word = token[1:-1] if match["text"] else token
            place[-1] = word
            found[tuple(place)] = at
        elif inside and inside[-1] == "[":
            found[tuple(place)] = at
    return found


def toml_lines(text: str) -> dict[Place, int]:
    """The line of each table and key of a TOML text."""
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}  # of the tables in each list of tables
    prefix: Place = ()
    until = ""  # the quotes that end a text of several lines
    depth = 0
    for number, line in enumerate(text.splitlines(), 1):
        if until:
            until = "" if until in line else until
            continue
        header = HEADER.match(line) if depth == 0 else None
        if header:
            prefix = _table_place(header[1] == "[[", _parts(header[2]), counts)
            found[prefix] = number
            continue
        key = KEY.match(line) if depth == 0 else None
        if key:
            found[(*prefix, *_parts(key[1]))] = number
        until = next((quotes for quotes in ('"""', "'''") if line.count(quotes) % 2), "")
        if not until:
            plain = re.sub(r"\"(?:[^\"\\]++|\\.)*+\"|'[^']*+'|#.*", "", line)
            depth = max(0, depth + sum(plain.count(mark) for mark in "[{") - sum(plain.count(mark) for mark in "]}"))
    return found


def _table_place(is_list: bool, names: Place, counts: dict[Place, int]) -> Place:
    """The place of a table header; a name that is a list of tables stands for the last of them."""
    place: Place = ()
    for index, name in enumerate(names):
        place = (*place, name)
        if is_list and index == len(names) - 1:
            counts[place] = counts.get(place, -1) + 1
        if place in counts:
            place = (*place, counts[place])
    return place


def _parts(dotted: str) -> Place:
    return tuple(part.strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.\s]+", dotted))
