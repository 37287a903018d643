"""Runs the parts of rules so that a mistake in one rule costs the alerts of this rule and no others. Pure."""

from __future__ import annotations

from contextlib import suppress

from jobtop.core.alerts.model import Transition
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import ParamSpec

    from jobtop.core.alerts.model import Rule
    from jobtop.core.alerts.rule_watch import RuleWatch

    P = ParamSpec("P")

FAILED = "the rule failed, and is not evaluated any more"
LONGEST_REASON = 160


class Isolation:
    """Evaluates rules one by one. A rule that raises is broken: its alerts end, and it is not called again."""

    def __init__(self) -> None:
        self.at = 0.0  # the wall clock, for the ends of alerts
        self._failures: list[tuple[Rule, str]] = []

    def run(
        self,
        watch: RuleWatch,
        call: Callable[P, Transition | Iterable[Transition | None] | None],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> list[Transition]:
        """Return the changes that a call of a rule gives; if it raises, the ends of the open alerts of the rule."""
        if watch.is_broken:
            return []
        try:
            found = call(*args, **kwargs)
            if found is None or isinstance(found, Transition):
                return [] if found is None else [found]
            return [change for change in found if change is not None]
        except Exception as error:  # noqa: BLE001 - a border: a mistake in one rule must not cost the others
            watch.is_broken = True
            self.note(watch.rule, error)
        with suppress(Exception):
            return watch.close_all(self.at, FAILED)
        return []

    def note(self, rule: Rule, error: Exception) -> None:
        """Remember that a rule failed, and why."""
        self._failures.append((rule, reason_of(error)))

    def take_failures(self) -> list[tuple[Rule, str]]:
        """Return the rules that failed since the last call, each with the reason."""
        taken, self._failures = self._failures, []
        return taken


def digest_of(rule: Rule) -> str:
    """Return a text that changes when what a rule evaluates changes: then its failure is no longer true."""
    from zlib import crc32

    texts = [None if one is None else one.text for one in (rule.expression, rule.limit)]
    levels = rule.above, rule.below, rule.clear, rule.for_seconds, rule.within_seconds, rule.window_seconds, rule.factor
    words = str(rule.kind), str(rule.scope), rule.events, rule.filter_text, rule.message, rule.directory
    return f"{crc32(repr((texts, levels, words)).encode(errors='surrogatepass')):08x}"


def reason_of(error: Exception) -> str:
    """Return what went wrong, in one line."""
    words = printable(f"{type(error).__name__}: {error}".rstrip(": "))
    return f"jobtop failed to evaluate it ({words[:LONGEST_REASON]})"
