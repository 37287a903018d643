"""The levels of alert rules as lines on the charts of a job. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jobtop.core.alerts.expressions.expression import format_value
from jobtop.core.alerts.model import RuleKind
from jobtop.core.metrics import Kind, Scope, find_metric
from jobtop.tui.chart.plotting import Threshold
from jobtop.tui.palette import SEVERITY_GLYPHS

if TYPE_CHECKING:
    from jobtop.core.alerts.model import Rule
    from jobtop.store.alerts.alert_rows import StoredAlert

MOST_LINES = 2  # on one side of a chart
OF_MEMORY_LIMIT = "mem.used/limit.memory"


def thresholds(
    keys: Sequence[str], rules: Mapping[str, Rule], alerts: Sequence[StoredAlert], memory_limit: float | None
) -> tuple[Threshold, ...]:
    """The lines of the rules about these curves: those with alerts of the job first, then by severity.

    A rule with a filter, or of a project, may not be about this job: it is drawn only if it has an alert of the job.
    The level of an alert is the one that its rule had then.
    """
    levels = {alert.rule: alert.level for alert in reversed(alerts) if alert.level is not None}
    found: list[tuple[bool, int, Threshold]] = []
    for rule in rules.values():
        has_fired = rule.name in levels
        is_for_all = rule.is_enabled and not rule.filter_text and rule.directory is None
        if rule.kind is not RuleKind.LEVEL or rule.scope is not Scope.JOB or not (has_fired or is_for_all):
            continue
        level = levels.get(rule.name, rule.level)
        value = value_on_chart(rule, level, keys, memory_limit)
        if value is not None and rule.expression is not None:
            words = format_value(rule.expression, level).replace(".0 %", " %")
            tone = SEVERITY_GLYPHS[str(rule.severity)][1]
            rank = list(SEVERITY_GLYPHS).index(str(rule.severity))
            found.append((not has_fired, rank, Threshold(value, f"{rule.name} {words}", tone)))
    found.sort(key=lambda entry: entry[:2])
    return tuple(line for _, _, line in found[:MOST_LINES])


def value_on_chart(rule: Rule, level: float | None, keys: Sequence[str], memory_limit: float | None) -> float | None:
    """Where the level is on the axis of these curves; None if the rule is about something else."""
    if rule.expression is None or level is None:
        return None
    text = rule.expression.text.replace(" ", "")
    if text == OF_MEMORY_LIMIT:
        return level * memory_limit if "mem.used" in keys and memory_limit else None
    for key in keys:
        drawn = f"rate({key})" if find_metric(key).kind is Kind.COUNTER else key
        if text == drawn:
            return level
    return None
