"""Writes a checked tree of an expression as Python source, to be compiled once and run for each sample. Pure.

The source has known keys, positions and numbers only. It refers to `a` (values after), `b` (values before),
`d` (seconds between them) and `e` (seconds since the job started).
"""

from __future__ import annotations

from jobtop.core.alerts.expressions.extra_keys import ELAPSED
from jobtop.core.metrics import Scope, derived_of
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobtop.core.alerts.expressions.expression_parser import Node

SIGNS = {"+": "+", "-": "-", "*": "*", "/": "/"}


@record
class Source:
    """Python source of an expression: `guards` is true where the value is known, and then `value` may be evaluated."""

    guards: str
    value: str

    @property
    def whole(self) -> str:
        """One expression: the value, or None where it is absent."""
        return f"({self.value} if {self.guards} else None)"


def source_of(tree: Node, scope: Scope, positions: Mapping[str, int] | None) -> Source:
    """Return the source of a tree; values are at `positions` of tuples, or by key in mappings if there are none."""
    writer = _Writer(scope, positions)
    value = writer.write(tree)
    return Source(" and ".join(writer.guards) or "True", value)


class _Writer:
    """Collects guards, in the order in which they have to be evaluated; each value is read once."""

    def __init__(self, scope: Scope, positions: Mapping[str, int] | None) -> None:
        self.derived, self.positions = derived_of(scope), positions
        self.guards: list[str] = []
        self.names: dict[str, str] = {}

    def write(self, node: Node) -> str:
        match node.kind:
            case "number":
                return repr(node.number)
            case "key":
                return self.key(node.key)
            case "rate":
                return f"({self.growth(node.key)} / d)"
            case "change":
                after, before = self.read("a", node.key), self.read("b", node.key)
                self.guard("d > 0")
                return f"(({after} - {before}) / d)"
            case "negative":
                return f"(-{self.write(node.parts[0])})"
            case "min" | "max":
                return f"{node.kind}({', '.join(map(self.write, node.parts))})"
            case _:
                return self.operation(node)

    def operation(self, node: Node) -> str:
        left, right = map(self.write, node.parts)
        if node.kind == "/":
            name = self.name(right)
            self.guard(f"({name} := {right}) != 0")
            right = name
        return f"({left} {SIGNS[node.kind]} {right})"

    def key(self, key: str) -> str:
        if key in self.derived:
            growth = " + ".join([self.growth(part) for part in self.derived[key]])
            return f"(100 * ({growth}) / d)"
        return self.read("a", key)

    def growth(self, key: str) -> str:
        after, before = self.read("a", key), self.read("b", key)
        self.guard("d > 0")
        self.guard(f"{after} >= {before}")
        return f"({after} - {before})"

    def read(self, side: str, key: str) -> str:
        """Return the name of a value that is read, and known, once the guards are true."""
        if key == ELAPSED:
            return "e"
        place = f"{side}.get({key!r})" if self.positions is None else f"{side}[{self.positions[key]}]"
        name = self.name(place)
        self.guard(f"({name} := {place}) is not None")
        return name

    def name(self, place: str) -> str:
        return self.names.setdefault(place, f"v{len(self.names)}")

    def guard(self, condition: str) -> None:
        if condition not in self.guards:
            self.guards.append(condition)
