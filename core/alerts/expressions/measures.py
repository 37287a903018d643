"""What the value of an expression is measured in, as a word: `bytes`, `ratio`, `bytes/s`, `number` … Pure.

The words are the units of the catalogue, `ratio` (a share, shown in percent), `number`, and `UNIT/s`.
"""

from __future__ import annotations

from jobtop.core.metrics import Unit
from jobtop.core.text.metric_text import FORMATS, format_count
from jobtop.core.units import ABSENT, format_percent

RATIO, NUMBER = "ratio", "number"
PER_SECOND = "/s"
BYTES, SECONDS, PERCENT = str(Unit.BYTES), str(Unit.SECONDS), str(Unit.PERCENT)
COUNTED = frozenset({str(Unit.COUNT), str(Unit.CORES), str(Unit.FLAG)})


def measure_of(unit: Unit) -> str:
    """Return the measure of a value of a metric."""
    return BYTES + PER_SECOND if unit is Unit.BYTES_PER_SECOND else str(unit)


def measure_of_rate(unit: Unit) -> str:
    """Return the measure of a rate: seconds per second are a share of the time, joules per second are watts."""
    if unit is Unit.SECONDS:
        return RATIO
    return str(Unit.WATTS) if unit is Unit.JOULES else measure_of(unit) + PER_SECOND


def sum_measure(left: str, right: str) -> str | None:
    """Return the measure of a sum; None if the two cannot be added. A plain number takes the measure of the other."""
    if right in (left, NUMBER):
        return left
    if left == NUMBER:
        return right
    return NUMBER if {left, right} <= COUNTED | {NUMBER} else None


def product(left: str, right: str) -> str:
    """Return the measure of a product."""
    for one, other in ((left, right), (right, left)):
        if one in (NUMBER, RATIO):
            return RATIO if NUMBER in (one, other) and RATIO in (one, other) else other
        if one == SECONDS and other.endswith(PER_SECOND):
            return other.removesuffix(PER_SECOND)
    if left in COUNTED or right in COUNTED:
        return right if left in COUNTED else left
    return NUMBER


def quotient(left: str, right: str) -> str:
    """Return the measure of a quotient: of two values alike it is a ratio."""
    if right == NUMBER or (right == RATIO and left != RATIO):
        return left
    if left == right:
        return RATIO
    if left == right.removesuffix(PER_SECOND):
        return SECONDS
    if right == SECONDS:
        return str(Unit.WATTS) if left == Unit.JOULES else left + PER_SECOND
    if right in COUNTED and left not in COUNTED:
        return left
    return NUMBER


def format_measured(measure: str, value: float | None) -> str:
    """Format a value by its measure: `90.0 %`, `214.2 MiB`, `18.0 MiB/s`."""
    if value is None:
        return ABSENT
    if measure.endswith(PER_SECOND):
        return f"{format_measured(measure.removesuffix(PER_SECOND), value)}/s"
    if measure == RATIO:
        return format_percent(value)
    return format_count(value) if measure == NUMBER else FORMATS[Unit(measure)](value)
