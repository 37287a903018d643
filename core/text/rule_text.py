"""What an alert rule looks for, in words: `memory above 90.0 % of its limit for 10s`. Pure."""

from __future__ import annotations

from jobtop.core.alerts.expressions.expression import format_value
from jobtop.core.alerts.expressions.extra_keys import BY_EXTRA_KEY
from jobtop.core.alerts.expressions.measures import RATIO
from jobtop.core.alerts.model import RuleKind
from jobtop.core.metrics import BY_KEY, Scope
from jobtop.core.text.alert_text import SHORT_TITLES, WHOLES
from jobtop.core.text.shell_text import shell_text
from jobtop.core.units import format_duration, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.alerts.expressions.expression import Expression
    from jobtop.core.alerts.model import Rule

EVENTS = {
    "failed": "fails",
    "error": "cannot start",
    "timeout": "is stopped after its timeout",
    "oom_killed": "loses a process to the kernel's OOM killer",
    "lost": "is lost: its supervisor died",
    "gpu_lost": "does not answer",
    "throttled": "is slowed down by its CPU limit",
    "success": "ends well",
    "cancelled": "is cancelled",
    "limit_reached": "reaches its memory limit",
    "left_running": "leaves processes running",
    "disk_full": "finds its disk full",
    "gpu_throttled": "is slowed down",
}
FIGURES = {
    "duration_seconds": "it runs",
    "memory_peak_bytes": "its memory peak is",
    "cpu_total_seconds": "its CPU time is",
}


def not_armed_text(name: str) -> str:
    """Return what to type so that a rule may do what it says to jobs."""
    return f"not armed: jobtop alerts arm {shell_text([name])}"


def condition_text(rule: Rule) -> str:
    """Return when a rule fires; rules of jobs do not say so, others begin with what they are of."""
    scope = "" if rule.scope is Scope.JOB else f"{'GPU' if rule.scope is Scope.GPU else rule.scope}: "
    chosen = f", jobs with {printable(rule.filter_text)}" if rule.filter_text else ""
    return f"{scope}{_condition(rule)}{chosen}"


def _condition(rule: Rule) -> str:
    match rule.kind:
        case RuleKind.FORECAST:
            return f"{_subject(rule.expression)} reaches {_subject(rule.limit)} within {_time(rule.within_seconds)}"
        case RuleKind.LEAK:
            return f"{_subject(rule.expression)} grows steadily for {_time(rule.window_seconds)}"
        case RuleKind.STALL:
            return f"no CPU time, no I/O and no output for {_time(rule.for_seconds)}"
        case RuleKind.DEVIATION:
            key = rule.expression.text if rule.expression is not None else ""
            figure = FIGURES.get(key, f"its {printable(key).replace('_', ' ')} is")
            unit = "longer" if key == "duration_seconds" else "above usual"
            return f"{figure} {100 * ((rule.factor or 1.0) - 1):.0f} % {unit}{' than usual' * (unit == 'longer')}"
        case RuleKind.ABSENCE:
            return f"no value of {_subject(rule.expression)} for {_time(rule.window_seconds)}"
        case RuleKind.EVENT:
            words = [EVENTS.get(event, printable(event).replace("_", " ")) for event in rule.events]
            return f"it {' or '.join(words)}"
    return _level(rule)


def _level(rule: Rule) -> str:
    expression = rule.expression
    side = "above" if rule.above is not None else "below"
    level = "" if expression is None else format_value(expression, rule.level).replace(".0 %", " %")
    whole = None if expression is None else _whole(expression)
    of_what = "" if whole is None else f" {WHOLES[whole]}" if whole in WHOLES else ""
    lasting = f" for {_time(rule.for_seconds)}" if rule.for_seconds else ""
    return f"{_subject(expression)} {side} {level}{of_what}{lasting}"


def _subject(expression: Expression | None) -> str:
    """Return what is measured: the title of its only key, or of the part of a share; else the expression."""
    if expression is None:
        return "it"
    if len(expression.keys) == 1 or _whole(expression) is not None:
        return _title(expression.keys[0])
    return printable(expression.text)


def _whole(expression: Expression) -> str | None:
    """Return the key that another one is divided by, if that is the whole expression."""
    tree = expression.tree
    is_share = tree.kind == "/" and expression.measure == RATIO and all(part.kind == "key" for part in tree.parts)
    return tree.parts[1].key if is_share else None


def _title(key: str) -> str:
    metric = BY_KEY.get(key) or BY_EXTRA_KEY.get(key)
    if key == "limit.memory":
        return "its limit"
    return SHORT_TITLES.get(key, key if metric is None else metric.title)


def _time(seconds: float | None) -> str:
    words = format_duration(seconds)
    return words[:-3] if words[-3:] in ("00s", "00m") and len(words) > 3 else words
