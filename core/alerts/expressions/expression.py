"""Expressions over catalogue keys, such as `mem.used / limit.memory` and `rate(io.write_bytes)`. Pure.

An expression is evaluated on two moments: `before`, `after` and the seconds between them. Values of a job are tuples in
the order of `JOB_COLUMNS`; values of the host, a device or a container are mappings by key. A value that is absent
makes the whole expression absent, and so do a division by 0, a counter that fell, and a rate without time between.
"""

from __future__ import annotations

from functools import lru_cache

from jobtop.core.alerts.expressions.expression_parser import Node, keys_of, parse_tree
from jobtop.core.alerts.expressions.expression_source import Source, source_of
from jobtop.core.alerts.expressions.extra_keys import SLOW_JOB_KEYS
from jobtop.core.alerts.expressions.measures import NUMBER, format_measured
from jobtop.core.metrics import JOB_COLUMNS, Scope, derived_of
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeVar

    Number = float | int
    Key = TypeVar("Key")
    Values = tuple[Number | None, ...]
    # A key of the caller (a job), values after, values before, seconds between them, seconds since the job started.
    Row = tuple[Key, Values, Values, float, float]
    ByKey = Mapping[str, Number | None]

JOB_POSITIONS = {key: position for position, key in enumerate(JOB_COLUMNS)}
MAX_COMPILED = 1024
NOTHING = Node("number", NUMBER)


@record
class Expression:
    """An expression that was checked: its text, the keys it reads, and what its value is measured in."""

    text: str
    keys: tuple[str, ...]
    scope: Scope = Scope.JOB
    measure: str = NUMBER
    tree: Node = NOTHING

    @property
    def is_slow(self) -> bool:
        """Whether it reads keys of a job that are not in its samples: it is evaluated by key when they are given."""
        return bool(self.keys) and self.keys[0] in SLOW_JOB_KEYS

    def job_source(self) -> Source:
        """Return Python source on `a` (values after), `b` (before), `d` (seconds between) and `e` (elapsed)."""
        return source_of(self.tree, Scope.JOB, JOB_POSITIONS)

    def key_source(self) -> Source:
        """Return the same source on mappings by key."""
        return source_of(self.tree, self.scope, None)

    def job_value(self, before: Values, after: Values, seconds: float, elapsed: float = 0.0) -> float | None:
        """Return the value from two samples of a job; None if it is absent."""
        return _function(self.tree, Scope.JOB, is_by_key=False)(after, before, seconds, elapsed)

    def value(self, before: ByKey, after: ByKey, seconds: float, elapsed: float = 0.0) -> float | None:
        """Return the value from two moments of the host, a device or a container; None if it is absent."""
        return _function(self.tree, self.scope, is_by_key=True)(after, before, seconds, elapsed)

    def job_values_of(self, before: Values, after: Values, seconds: float, elapsed: float = 0.0) -> dict[str, float]:
        """Return the values of the keys it reads that are known, for messages; a key in rate() has its rate."""
        found = {
            node.key: _function(node, Scope.JOB, is_by_key=False)(after, before, seconds, elapsed)
            for node in key_nodes(self.tree)
        }
        return {key: value for key, value in found.items() if value is not None}

    def values_of(self, before: ByKey, after: ByKey, seconds: float, elapsed: float = 0.0) -> dict[str, float]:
        """Return the same from mappings by key."""
        found = {
            node.key: _function(node, self.scope, is_by_key=True)(after, before, seconds, elapsed)
            for node in key_nodes(self.tree)
        }
        return {key: value for key, value in found.items() if value is not None}


def parse(text: str, scope: Scope) -> Expression:
    """Parse and check an expression; BadValue names the wrong part and the nearest valid key."""
    tree = parse_tree(text, scope)
    return Expression(text.strip(), keys_of(tree), scope, tree.measure, tree)


def format_value(expression: Expression, value: float | None) -> str:
    """Format a value of an expression by what it is measured in: `90.0 %`, `18.0 MiB/s`."""
    return format_measured(expression.measure, value)


def format_key(expression: Expression, key: str, value: float | None) -> str:
    """Format a value that `values_of` gives for a key."""
    measures = {node.key: node.measure for node in key_nodes(expression.tree)}
    return format_measured(measures.get(key, NUMBER), value)


def supplying_keys(expression: Expression) -> tuple[str, ...]:
    """Return the stored keys that an expression needs: a derived key needs what it is made of."""
    derived = derived_of(expression.scope)
    return tuple(dict.fromkeys(part for key in expression.keys for part in derived.get(key, (key,))))


def compile_tripped(
    expression: Expression, above: float | None, below: float | None
) -> Callable[[Sequence[Row[Key]]], list[tuple[Key, float]]]:
    """Return a function from rows of jobs to key and value of those above or below the level.

    One loop of generated source: a thousand rows take a tenth of a millisecond.
    """
    source = expression.job_source()
    tests = [f"v > {above!r}"] if above is not None else []
    tests += [f"v < {below!r}"] if below is not None else []
    text = f"""
def tripped(rows):
    found = []
    for key, a, b, d, e in rows:
        if {source.guards}:
            v = {source.value}
            if {" or ".join(tests) or "False"}:
                found.append((key, v))
    return found
"""
    return _compiled_text(text, "tripped")  # type: ignore[return-value]


def compile_fed(
    expression: Expression, limit: Expression | None
) -> Callable[[Sequence[Row[Key]]], list[tuple[Key, float, float]]]:
    """Return a function from rows of jobs to key, elapsed time and value, of those with a value and a limit."""
    source = expression.job_source()
    # The limit comes first: both assign to the same names, and the value is made of those of the expression.
    guards = source.guards if limit is None else f"{limit.job_source().guards} and {source.guards}"
    text = f"""
def fed(rows):
    return [(key, e, {source.value}) for key, a, b, d, e in rows if {guards}]
"""
    return _compiled_text(text, "fed")  # type: ignore[return-value]


def compile_value(expression: Expression, *, is_by_key: bool) -> Callable[..., float | None]:
    """Return a function of values after, values before, seconds between and seconds since the start: its value."""
    return _function(expression.tree, expression.scope if is_by_key else Scope.JOB, is_by_key=is_by_key)


def key_nodes(tree: Node) -> list[Node]:
    """Return one part for each key: the key itself if it is used plainly, else its rate."""
    found: dict[str, Node] = {}
    for node in _all_nodes(tree):
        if node.key and (node.key not in found or node.kind == "key"):
            found[node.key] = node
    return [*found.values()]


def _all_nodes(tree: Node) -> list[Node]:
    return [tree, *(node for part in tree.parts for node in _all_nodes(part))]


@lru_cache(maxsize=MAX_COMPILED)
def _function(tree: Node, scope: Scope, *, is_by_key: bool) -> Callable[..., float | None]:
    source = source_of(tree, scope, None if is_by_key else JOB_POSITIONS)
    return _compiled_text(f"def value(a, b, d, e):\n    return {source.whole}\n", "value")  # type: ignore[return-value]


def _compiled_text(text: str, name: str) -> Callable[..., object]:
    """Compile a function from source that consists of positions, known keys and numbers, never of text from outside."""
    space: dict[str, Callable[..., object]] = {}
    exec(compile(text, "<alert rule>", "exec"), {"__builtins__": {"min": min, "max": max}}, space)
    return space[name]
