"""Tests of a job's fields, and filters made of them. Pure.

Fields have the names of the store's columns, because the store evaluates the same tests in SQL.
"""

from __future__ import annotations

import json
import operator
import re
from functools import lru_cache

from jobtop.core.analysis.cost import Prices, cost_of
from jobtop.core.model import Usage
from jobtop.core.paths import hostname
from jobtop.core.record import fields, fresh, record
from jobtop.core.run.containers.facts import FINDING as CONTAINER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from jobtop.core.model import Job

    Test = Callable[[Any], bool]
    Parts = tuple[tuple[str, Test], ...]

OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "=": operator.eq}
ALERTS = "alerts"  # the field of HasAlert
FINDINGS = "findings"  # the field of InContainer
USAGE = frozenset(fields(Usage))


@record
class NumberComparison:
    """Compares a number by one of the OPERATORS."""

    by: str
    number: float

    def __call__(self, value: float) -> bool:
        return bool(OPERATORS[self.by](value, self.number))


@record
class NumberRange:
    """Whether a number is in a range, both ends included."""

    low: float
    high: float

    def __call__(self, value: float) -> bool:
        return self.low <= value <= self.high


@record
class IsOneOf:
    """Whether a word is one of some words."""

    words: tuple[str, ...]

    def __call__(self, value: str) -> bool:
        return value in self.words


@record
class MatchesPattern:
    """Whether text matches a pattern: `*` is any text, `?` any one character."""

    pattern: str

    def __call__(self, value: str) -> bool:
        # To compile a long pattern is expensive: a hundred thousand characters take a tenth of a second.
        shortest = len(self.pattern) - self.pattern.count("*")
        return shortest <= len(value) and _regex(self.pattern).fullmatch(value) is not None


@record
class ContainsText:
    """Whether text contains some other text, ignoring case; `*` and `?` match as in a pattern."""

    lowered: str

    def __call__(self, value: str) -> bool:
        text = value.lower()
        return self.lowered in text or (has_wildcards(self.lowered) and MatchesPattern(f"*{self.lowered}*")(text))


@record
class JoinedWords:
    """Tests the words of a command, joined by spaces."""

    test: Test

    def __call__(self, value: Sequence[str]) -> bool:
        return self.test(" ".join(value))


@record
class AnyWord:
    """Whether one of some words passes a test."""

    test: Test

    def __call__(self, value: Sequence[str]) -> bool:
        return any(map(self.test, value))


@record
class AnyPair:
    """Whether a tag or parameter passes a test, by its key, its value or as `key=value`."""

    test: Test

    def __call__(self, value: Mapping[str, Any]) -> bool:
        return any(
            self.test(key) or self.test(text := as_text(item)) or self.test(f"{key}={text}")
            for key, item in value.items()
        )


@record
class NamedPair:
    """Whether the tag or parameter with this key has a value that, as it is shown, passes a test."""

    key: str
    test: Test

    def __call__(self, value: Mapping[str, Any]) -> bool:
        return self.key in value and self.test(as_text(value[self.key]))


def as_text(value: Any) -> str:
    """Return the value of a tag or parameter as it is shown."""
    if isinstance(value, str):
        return value
    return repr(value) if type(value) in (int, float) else json.dumps(value)


@record
class NumberParameter:
    """Whether a parameter with a matching key has a number that passes a test, however it is written."""

    key: Test
    test: Test

    def __call__(self, value: Mapping[str, Any]) -> bool:
        return any(type(item) in (int, float) and self.test(item) and self.key(key) for key, item in value.items())


@record
class HasAlert:
    """Whether a job has an alert: of a `severity`, in a `state`, of a matching `rule`, or any that fired.

    The alerts of a job are in the store alone, so that a filter with this test needs one.
    """

    severity: str | None = None
    state: str | None = None
    rule: Test | None = None

    def __call__(self, value: object) -> bool:
        """A job in memory has no alerts."""
        return False


@record
class InContainer:
    """Whether one of some texts about the container of a job passes a test; takes the findings of the job."""

    keys: tuple[str, ...]
    test: Test

    def __call__(self, value: Mapping[str, Any]) -> bool:
        found = value.get(CONTAINER)
        texts = [found.get(key) for key in self.keys] if isinstance(found, dict) else ()
        return any(isinstance(text, str) and self.test(text) for text in texts)


@record
class Condition:
    """Holds if any field passes its test, or, if negated, none does; an absent field never passes."""

    parts: Parts
    negated: bool = False


@record
class Filter:
    """Selects jobs that meet all conditions, as of `now` and at the `prices` of now.

    Jobs of the host `caretaker` are never stale.
    """

    conditions: tuple[Condition, ...] = ()
    now: float = 0.0
    caretaker: str = fresh(default_factory=hostname)
    prices: Prices = Prices()

    def has(self, *names: str) -> bool:
        """Whether a condition is about one of these fields."""
        return any(field in names for condition in self.conditions for field, _ in condition.parts)

    def matches(self, job: Job) -> bool:
        return all(
            condition.negated
            != any((value := self._read(job, field)) is not None and test(value) for field, test in condition.parts)
            for condition in self.conditions
        )

    def _read(self, job: Job, field: str) -> Any:
        if field == "begun":
            return job.submitted_at if job.start_time is None else job.start_time
        if field == "elapsed":
            if job.duration_seconds is None and job.start_time is not None and not job.status.ended:
                return self.now - job.start_time
            return job.duration_seconds
        if field == "energy":
            return cost_of(job, self.prices).joules
        if field == "cost":
            return cost_of(job, self.prices).money
        if field == ALERTS:
            return None
        if field == "stale":
            return job.is_stale(self.now, self.caretaker)
        return getattr(job.usage if field in USAGE else job, field)


def has_wildcards(text: str) -> bool:
    return "*" in text or "?" in text


@lru_cache
def _regex(pattern: str) -> re.Pattern[str]:
    # Atomic groups: the first place where a piece matches is as good as any later one, so no backtracking is needed.
    pieces = ["".join("." if letter == "?" else re.escape(letter) for letter in part) for part in pattern.split("*")]
    middle = "".join(f"(?>.*?{piece})" for piece in pieces[1:-1])
    return re.compile(pieces[0] + middle + (f".*{pieces[-1]}" if len(pieces) > 1 else ""), re.DOTALL)


def tag_text(key: str, value: object) -> str:
    """Return a tag as it is given and shown: `KEY=VALUE`, or `KEY` if the value is empty."""
    return key if value == "" else f"{key}={as_text(value)}"
