"""Parses the text of an expression into a checked tree: keys, numbers, + - * / ( ), rate(), min() and max(). Pure.

The text may come from a file of another user: its length, its depth and the number of its parts are bounded.
"""

from __future__ import annotations

import re

from jobtop.core.alerts.expressions.extra_keys import BY_EXTRA_KEY, SLOW_JOB_KEYS
from jobtop.core.alerts.expressions.measures import (
    NUMBER,
    RATIO,
    measure_of,
    measure_of_rate,
    product,
    quotient,
    sum_measure,
)
from jobtop.core.errors import BadValue, did_you_mean
from jobtop.core.metrics import BY_KEY, Kind, Metric, Scope, Unit, derived_of
from jobtop.core.record import record
from jobtop.core.units import parse_duration, parse_size, printable

MAX_LENGTH = 300
MAX_DEPTH = 20
MAX_PARTS = 16  # keys and numbers: the product of as many counters is still a number that a float can hold
LONGEST_SHOWN = 40
FUNCTIONS = ("rate", "min", "max")
TOKEN = re.compile(r"\s*(?:([A-Za-z_][A-Za-z0-9_.]*)|([0-9][0-9A-Za-z.]*%?|\.[0-9]+%?)|([-+*/(),])|(\S))")
# A lower-case m is minutes.
SIZE_WORD = re.compile(r"[0-9.]+(?:[kKmMgGtT]?[iI]?[bB]|[kKmMgGtT]i|[kKMgGtT])")


@record
class Node:
    """A part of an expression: a `number`, a `key`, a `rate` of a key, `-` of one part, or an operation on parts."""

    kind: str
    measure: str
    parts: tuple[Node, ...] = ()
    key: str = ""
    number: float = 0.0


def parse_tree(text: str, scope: Scope) -> Node:
    """Parse a text into a tree; BadValue names the wrong part and the nearest valid key."""
    if len(text) > MAX_LENGTH:
        raise BadValue(f'"{_shown(text)}" is longer than {MAX_LENGTH} characters')
    parser = _Parser(text, scope)
    tree = parser.sum(0)
    if parser.token != "":
        raise BadValue(f'{parser.place()}: unexpected "{_shown(parser.token)}"')
    check_slow_keys(tree)
    return tree


def keys_of(node: Node) -> tuple[str, ...]:
    """Return the keys that a tree reads, each once, in order."""
    own = (node.key,) if node.key else ()
    return tuple(dict.fromkeys((*own, *(key for part in node.parts for key in keys_of(part)))))


def find_key(key: str, scope: Scope) -> Metric:
    """Return the row of a key that an expression of a scope may use; BadValue names the nearest one."""
    found = BY_KEY.get(key) or BY_EXTRA_KEY.get(key)
    rows = (*BY_KEY.values(), *BY_EXTRA_KEY.values())
    if found is None:
        own = [row.key for row in rows if scope in row.scopes]
        hint = did_you_mean(key, own) or did_you_mean(key, [row.key for row in rows])
        raise BadValue(f'unknown metric "{_shown(key)}"{hint}')
    if scope not in found.scopes:
        raise BadValue(f'"{key}" is not measured for {scope}, only for {", ".join(found.scopes)}')
    return found


def check_slow_keys(tree: Node) -> None:
    """Raise BadValue for an expression that mixes keys of samples with keys that are read once a minute."""
    keys = keys_of(tree)
    slow = [key for key in keys if key in SLOW_JOB_KEYS]
    fast = [key for key in keys if key not in SLOW_JOB_KEYS]
    if slow and fast:
        raise BadValue(f'"{slow[0]}" cannot be combined with "{fast[0]}", because it is not read with the samples')


class _Parser:
    """A recursive descent over the tokens of one text."""

    def __init__(self, text: str, scope: Scope) -> None:
        self.text, self.scope = text, scope
        self.position, self.end, self.token, self.kind = 0, 0, "", ""
        self.left = MAX_PARTS
        self.advance()

    def advance(self) -> str:
        """Move to the next token and return the one before; the token at the end is empty."""
        before = self.token
        match = TOKEN.match(self.text, self.end)
        if match is None:
            self.position, self.token, self.kind = len(self.text), "", ""
            return before
        group = match.lastindex or 0
        self.position, self.end = match.start(group), match.end()
        self.token, self.kind = match[group], ("", "name", "number", "sign", "unknown")[group]
        if self.kind == "unknown":
            raise BadValue(f'{self.place()}: unexpected "{_shown(self.token)}"')
        return before

    def place(self) -> str:
        return f'"{_shown(self.text)}", character {self.position + 1}'

    def expect(self, sign: str) -> None:
        if self.token != sign:
            found = f'"{_shown(self.token)}"' if self.token else "the end"
            raise BadValue(f'{self.place()}: expected "{sign}", not {found}')
        self.advance()

    def sum(self, depth: int) -> Node:
        left = self.product(depth)
        while self.token in ("+", "-") and self.token:
            sign, place = self.advance(), self.place()
            right = self.product(depth)
            left = Node(sign, self.same_measure(left, right, place), (left, right))
        return left

    def product(self, depth: int) -> Node:
        left = self.factor(depth)
        while self.token in ("*", "/") and self.token:
            sign = self.advance()
            right = self.factor(depth)
            combine = product if sign == "*" else quotient
            left = Node(sign, combine(left.measure, right.measure), (left, right))
        return left

    def factor(self, depth: int) -> Node:
        if depth >= MAX_DEPTH:
            raise BadValue(f"{self.place()}: nested more than {MAX_DEPTH} deep")
        if self.token == "(":
            self.advance()
            inner = self.sum(depth + 1)
            self.expect(")")
            return inner
        if self.token == "-":
            self.advance()
            inner = self.factor(depth + 1)
            return Node("negative", inner.measure, (inner,))
        if self.kind in ("name", "number"):
            return self.name(depth) if self.kind == "name" else self.number()
        found = f'"{self.token}"' if self.token else "the end"
        raise BadValue(f"{self.place()}: expected a metric or a number, not {found}")

    def count_part(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise BadValue(f'"{_shown(self.text)}" has more than {MAX_PARTS} metrics and numbers')

    def number(self) -> Node:
        self.count_part()
        place, word = self.place(), self.advance()
        try:
            measure, value = parse_number(word)
        except BadValue as error:
            raise BadValue(f"{place}: {error}") from None
        return Node("number", measure, number=value)

    def name(self, depth: int) -> Node:
        place, word = self.place(), self.advance()
        if self.token != "(":
            self.count_part()
            metric = find_key(word, self.scope)
            return Node("key", measure_of(metric.unit), key=metric.key)
        if word not in FUNCTIONS:
            raise BadValue(f'{place}: unknown function "{_shown(word)}"{did_you_mean(word, FUNCTIONS)}')
        self.advance()
        return self.rate(place) if word == "rate" else self.extreme(word, depth)

    def rate(self, place: str) -> Node:
        if self.kind != "name":
            raise BadValue(f"{place}: rate() needs one metric, such as rate(io.write_bytes)")
        self.count_part()
        metric = find_key(self.advance(), self.scope)
        if metric.key in derived_of(self.scope) or metric.key in SLOW_JOB_KEYS or metric.key == "elapsed":
            raise BadValue(f'{place}: "{metric.key}" has no rate')
        self.expect(")")
        kind = "rate" if metric.kind is Kind.COUNTER else "change"
        return Node(kind, measure_of_rate(metric.unit), key=metric.key)

    def extreme(self, word: str, depth: int) -> Node:
        parts = [self.sum(depth + 1)]
        while self.token == ",":
            self.advance()
            place = self.place()
            parts.append(self.sum(depth + 1))
            self.same_measure(parts[0], parts[-1], place)
        self.expect(")")
        if len(parts) == 1:
            raise BadValue(f'"{_shown(self.text)}": {word}() needs two or more values, such as {word}(a, b)')
        measure = parts[0].measure
        for part in parts[1:]:
            measure = sum_measure(measure, part.measure) or measure
        return Node(word, measure, tuple(parts))

    def same_measure(self, left: Node, right: Node, place: str) -> str:
        measure = sum_measure(left.measure, right.measure)
        if measure is None:
            raise BadValue(f"{place}: {left.measure} and {right.measure} cannot be combined")
        return measure


def parse_number(word: str) -> tuple[str, float]:
    """Parse `0.9`, `90%`, `4GiB` or `30s` into measure and value: a share, bytes or seconds."""
    if word.endswith("%"):
        return RATIO, parse_plain(word[:-1]) / 100
    if word[-1].isdigit() or word[-1] == ".":
        return NUMBER, parse_plain(word)
    if SIZE_WORD.fullmatch(word):
        return measure_of(Unit.BYTES), float(parse_size(word))
    try:
        return measure_of(Unit.SECONDS), parse_duration(word)
    except BadValue:
        raise BadValue(f'"{_shown(word)}" is not a number (use 0.9, 90%, 4GiB or 30s)') from None


def parse_plain(word: str) -> float:
    """Parse a plain number that a float holds."""
    try:
        value = float(word)
    except ValueError:
        raise BadValue(f'"{_shown(word)}" is not a number') from None
    if abs(value) > 1e18:
        raise BadValue(f'"{_shown(word)}" is too large')
    return value


def _shown(text: str) -> str:
    return printable(text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…")
