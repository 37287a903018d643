"""What can be asked of a job: tests of its fields, and filters made of them. Pure.

The fields are named as the columns of the store are, which asks them the same.
"""

from __future__ import annotations

import json
import operator
import re
from functools import lru_cache

from jobtop.core.model import Usage
from jobtop.core.paths import hostname
from jobtop.core.record import fields, fresh, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from jobtop.core.model import Job

    Test = Callable[[Any], bool]
    Parts = tuple[tuple[str, Test], ...]

COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "=": operator.eq}
USAGE = frozenset(fields(Usage))


@record
class Compared:
    """A number, by one of the COMPARISONS."""

    by: str
    number: float

    def __call__(self, value: float) -> bool:
        return bool(COMPARISONS[self.by](value, self.number))


@record
class OneOf:
    """One of some words."""

    words: tuple[str, ...]

    def __call__(self, value: str) -> bool:
        return value in self.words


@record
class Like:
    """Text as a pattern says: `*` is anything, `?` any one character."""

    pattern: str

    def __call__(self, value: str) -> bool:
        return _regex(self.pattern).fullmatch(value) is not None


@record
class Containing:
    """Text in which some other is, in capitals or not; as it is or as a pattern."""

    lowered: str

    def __call__(self, value: str) -> bool:
        text = value.lower()
        return self.lowered in text or (has_wildcards(self.lowered) and Like(f"*{self.lowered}*")(text))


@record
class Joined:
    """The words of a command, as one text."""

    test: Test

    def __call__(self, value: Sequence[str]) -> bool:
        return self.test(" ".join(value))


@record
class AnyWord:
    """Words of which one passes a test."""

    test: Test

    def __call__(self, value: Sequence[str]) -> bool:
        return any(map(self.test, value))


@record
class AnyPair:
    """Tags or parameters of which one passes a test by its key, its value or as `key=value`."""

    test: Test

    def __call__(self, value: Mapping[str, Any]) -> bool:
        return any(
            self.test(key) or self.test(text := as_text(item)) or self.test(f"{key}={text}")
            for key, item in value.items()
        )


def as_text(value: Any) -> str:
    """The value of a tag or parameter as it is shown."""
    if isinstance(value, str):
        return value
    return repr(value) if type(value) in (int, float) else json.dumps(value)


@record
class Numbered:
    """Parameters of which one has such a key and this number, however that is written."""

    key: Test
    number: float

    def __call__(self, value: Mapping[str, Any]) -> bool:
        return any(type(item) in (int, float) and item == self.number and self.key(key) for key, item in value.items())


@record
class Condition:
    """Holds if a field passes its test, which one that is absent never does; negated, if none passes."""

    parts: Parts
    negated: bool = False


@record
class Filter:
    """Which jobs are wanted; `now` is when that was asked, `caretaker` the host that looks after its jobs there."""

    conditions: tuple[Condition, ...] = ()
    now: float = 0.0
    caretaker: str = fresh(default_factory=hostname)

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
        if field == "stale":
            return job.is_stale(self.now, self.caretaker)
        return getattr(job.usage if field in USAGE else job, field)


def has_wildcards(text: str) -> bool:
    return "*" in text or "?" in text


@lru_cache
def _regex(pattern: str) -> re.Pattern[str]:
    # Atomic: what a piece was found at first is as good as any later place, so that nothing is tried twice.
    pieces = ["".join("." if letter == "?" else re.escape(letter) for letter in part) for part in pattern.split("*")]
    middle = "".join(f"(?>.*?{piece})" for piece in pieces[1:-1])
    return re.compile(pieces[0] + middle + (f".*{pieces[-1]}" if len(pieces) > 1 else ""), re.DOTALL)
