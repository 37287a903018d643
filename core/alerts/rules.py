"""Makes rules of `[[alert]]` tables: each field checked, and what its kind requires and forbids. Pure.

A table with the name of another rule, one of jobtop or of a weaker file, changes only the fields that it gives.
"""

from __future__ import annotations

import re
import time

from jobtop.core.alerts.defaults import DEFAULT_NAMES
from jobtop.core.alerts.expressions.expression import Expression, parse
from jobtop.core.alerts.expressions.expression_parser import Node
from jobtop.core.alerts.expressions.measures import PERCENT, RATIO, sum_measure
from jobtop.core.alerts.model import BUILT_IN, Rule, RuleKind, Severity
from jobtop.core.alerts.rule_fields import (
    ALERT_FIELDS,
    COMMON,
    DEVIATION_FIGURES,
    KIND_DEFAULTS,
    KIND_FIELDS,
    PARSERS,
    REQUIRED,
    level,
    one_of,
    words_of,
)
from jobtop.core.errors import BadValue, ConfigError, did_you_mean
from jobtop.core.metrics import Scope
from jobtop.core.record import record
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    Table = Mapping[str, object]

JOB_SCOPES = (Scope.JOB, Scope.CONTAINER)
MESSAGE_FIELDS = ("job", "id", "name", "value", "level", "rule", "host", "device", "elapsed", "text")
KIND_MESSAGE_FIELDS = {
    RuleKind.FORECAST: ("limit", "left"),
    RuleKind.DEVIATION: ("usual",),
}
PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
COOLDOWN = "10m"
SMALLEST_PERCENTAGE = 10  # a share of 1,000 % and more is a percentage that was written as a plain number


@record
class Place:
    """Where a table stands, for messages: `config.toml: alert.busy`."""

    label: str
    origin: str = BUILT_IN
    directory: str | None = None


def parse_rule(table: Table, place: Place, default: Table | None = None) -> Rule:
    """Make a rule of a table; ConfigError names the file, the field, what is wrong and the nearest valid name."""
    _refuse_unknown(table, ALERT_FIELDS, place, "unknown field")
    merged = merged_table(default, table)
    kind = _field(merged, "kind", place, RuleKind.LEVEL)
    _refuse_unknown(merged, (*COMMON, *KIND_FIELDS[kind]), place, f"is not for rules of the kind {kind}")
    merged = KIND_DEFAULTS.get(kind, {}) | merged
    for name in ("name", *REQUIRED.get(kind, ())):
        if name not in merged:
            meant = did_you_mean(str(merged.get("name", "")), DEFAULT_NAMES)
            hint = f"; a rule of jobtop needs only what changes{meant}" if meant else ""
            raise ConfigError(f"{place.label}.{name}: is missing{hint}")
    scope = _field(merged, "scope", place, Scope.JOB)
    _check_scope(merged, kind, scope, place)
    expression = _expression(merged, "metric", kind, scope, place)
    levels = {name: _level(merged, name, expression, place) for name in ("above", "below", "clear")}
    _check_levels(kind, levels, place)
    limit = _expression(merged, "limit", kind, scope, place)
    _check_limit(expression, limit, place)
    filter_text = _field(merged, "filter", place, "")
    steps = _field(merged, "steps", place, ())
    return Rule(
        name=_field(merged, "name", place, ""),
        kind=kind,
        scope=scope,
        severity=_field(merged, "severity", place, Severity.WARNING),
        origin=place.origin,
        expression=expression,
        **levels,
        for_seconds=_field(merged, "for", place, steps[0].after_seconds if steps else 0.0),
        cooldown_seconds=_field(merged | {"cooldown": merged.get("cooldown", COOLDOWN)}, "cooldown", place, 0.0),
        limit=limit,
        within_seconds=_field(merged, "within", place, None),
        window_seconds=_field(merged, "window", place, None),
        factor=_field(merged, "factor", place, None),
        events=_field(merged, "event", place, ()),
        filter=_filter(filter_text, place),
        filter_text=filter_text,
        message=_message(merged, expression, kind, place),
        remedy=_field(merged, "remedy", place, None),
        actions=_field(merged, "actions", place, ()),
        steps=steps,
        is_enabled=_field(merged, "enabled", place, True),
        directory=place.directory,
    )


def merged_table(default: Table | None, table: Table) -> dict[str, object]:
    """Return a table with the fields that it does not give taken from another one.

    A new kind takes none of them; a new level also replaces the level on the other side and the clear level.
    """
    if default is None or ("kind" in table and table["kind"] != default.get("kind", RuleKind.LEVEL)):
        return dict(table)
    dropped = {"above", "below", "clear"} if {"above", "below"} & table.keys() else set()
    return {name: value for name, value in default.items() if name not in dropped} | dict(table)


def inactive_reason(rule: Rule, supplied: Mapping[Scope, Collection[str]] | None) -> str | None:
    """Return why a rule cannot work on this machine; None if it can, or if what the machine supplies is not known.

    `supplied` has the keys of each scope that this machine gives; a scope that it does not have is not known.
    """
    from jobtop.core.alerts.expressions.expression import supplying_keys

    if supplied is None or rule.scope not in supplied or rule.kind is RuleKind.DEVIATION:
        return None
    here = supplied[rule.scope]
    if not here and rule.scope is not Scope.JOB:
        what = "GPU" if rule.scope is Scope.GPU else str(rule.scope)
        return f"this machine has no {what} that can be read"
    wanted = [expression for expression in (rule.expression, rule.limit) if expression is not None]
    missing = [key for expression in wanted for key in supplying_keys(expression) if key not in here]
    return f"this machine does not supply {missing[0]}" if missing else None


def _refuse_unknown(table: Table, names: Collection[str], place: Place, problem: str) -> None:
    for name in table:
        if name not in names:
            shown = printable(name if len(name) <= 60 else name[:59] + "…")
            hint = "" if name in ALERT_FIELDS else did_you_mean(name, names)
            raise ConfigError(f"{place.label}.{shown}: {problem}{hint}")


def _field(table: Table, name: str, place: Place, default: Any) -> Any:
    if name not in table:
        return default
    try:
        return PARSERS[name](table[name])
    except BadValue as error:
        raise ConfigError(f"{place.label}.{name}: {error}") from error


def _check_scope(table: Table, kind: RuleKind, scope: Scope, place: Place) -> None:
    """Refuse what only jobs have for other scopes."""
    if scope in JOB_SCOPES:
        return
    if kind in (RuleKind.STALL, RuleKind.DEVIATION):
        raise ConfigError(f"{place.label}.scope: a rule of the kind {kind} is of a job, not of {scope}")
    for name in ("filter", "steps"):
        if table.get(name):
            raise ConfigError(f"{place.label}.{name}: is for rules of jobs, not of {scope}")


def _expression(table: Table, name: str, kind: RuleKind, scope: Scope, place: Place) -> Expression | None:
    if name not in table:
        return None
    raw = table[name]
    text = str(raw) if name == "limit" and type(raw) in (int, float) else _field(table, name, place, "")
    try:
        if kind is RuleKind.DEVIATION:
            one_of(text, DEVIATION_FIGURES, "a figure of a job's record")
            measure = DEVIATION_FIGURES[text]
            return Expression(text, (text,), scope, measure, Node("key", measure, key=text))
        return parse(text, scope)
    except BadValue as error:
        raise ConfigError(f"{place.label}.{name}: {error}") from error


def _level(table: Table, name: str, expression: Expression | None, place: Place) -> float | None:
    if name not in table or expression is None:
        return None
    try:
        value = level(table[name], expression.measure)
        _check_share(table[name], value, expression)
        return value
    except BadValue as error:
        raise ConfigError(f"{place.label}.{name}: {error}") from error


def _check_share(raw: object, value: float, expression: Expression) -> None:
    """Raise BadValue for a number that was meant as a percentage: the rule would never fire, or always."""
    if isinstance(raw, str):
        return
    is_quotient = expression.measure == RATIO and expression.tree.kind == "/"
    if is_quotient and abs(value) >= SMALLEST_PERCENTAGE:
        raise BadValue(f'{value:g} is a share of {value * 100:g} %; use "{value:g}%" or {value / 100:g}')
    if expression.measure == PERCENT and 0 < abs(value) < 1:
        raise BadValue(f'{value:g} is less than one percent; use {value * 100:g}, or "{value:g}%" if that is meant')


def _check_limit(expression: Expression | None, limit: Expression | None, place: Place) -> None:
    """Refuse a limit that values of the rule cannot be compared with."""
    if expression is None or limit is None:
        return
    if sum_measure(expression.measure, limit.measure) is None:
        limit_words, metric_words = words_of(limit.measure), words_of(expression.measure)
        raise ConfigError(f"{place.label}.limit: is {limit_words}, but the metric is {metric_words}")
    if limit.keys and expression.is_slow != limit.is_slow:
        slow = limit.keys[0] if limit.is_slow else expression.keys[0]
        raise ConfigError(f'{place.label}.limit: "{slow}" is not read with the samples, and the other one is')


def _check_levels(kind: RuleKind, levels: Mapping[str, float | None], place: Place) -> None:
    above, below, clear = levels["above"], levels["below"], levels["clear"]
    if kind is not RuleKind.LEVEL:
        return
    if above is None and below is None:
        raise ConfigError(f"{place.label}: needs above or below")
    if above is not None and below is not None:
        raise ConfigError(f"{place.label}: has above and below; make two rules of it")
    if clear is not None and ((above is not None and clear > above) or (below is not None and clear < below)):
        side = "above" if above is not None else "below"
        raise ConfigError(f"{place.label}.clear: {clear:g} is on the bad side of {side} = {above or below or 0:g}")


def _filter(text: str, place: Place) -> Any:
    if not text:
        return None
    from jobtop.core.query.filter import parse as parse_filter

    try:
        return parse_filter(text, time.time(), in_memory=True)
    except BadValue as error:
        raise ConfigError(f"{place.label}.filter: {error}") from error


def _message(table: Table, expression: Expression | None, kind: RuleKind, place: Place) -> str | None:
    """Return the template of a rule; ConfigError if it has a field that no message fills."""
    text: str | None = _field(table, "message", place, None)
    keys = () if expression is None else expression.keys
    names = (*MESSAGE_FIELDS, *KIND_MESSAGE_FIELDS.get(kind, ()), *keys)
    for match in PLACEHOLDER.finditer(text or ""):
        if match[1] is not None and match[1] not in names:
            shown = printable(match[1][:40])
            raise ConfigError(f'{place.label}.message: unknown field "{{{shown}}}"{did_you_mean(match[1], names)}')
    return text
