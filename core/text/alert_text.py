"""One line of text for each change of an alert, and message templates, filled safely. Pure."""

from __future__ import annotations

import re

from jobtop.core.alerts.expressions.expression import format_key, format_value
from jobtop.core.alerts.expressions.extra_keys import BY_EXTRA_KEY
from jobtop.core.alerts.expressions.measures import RATIO
from jobtop.core.measure.live.newest_gpus import gpu_number
from jobtop.core.metrics import BY_KEY, Unit
from jobtop.core.units import format_duration, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobtop.core.alerts.expressions.expression import Expression
    from jobtop.core.alerts.model import Rule
    from jobtop.core.measure.device import Device

LONGEST_TEXT = 400
# Where the title of the catalogue is too long for the start of a sentence.
SHORT_TITLES = {
    "mem.used": "memory",
    "mem.rss": "resident memory",
    "mem.available": "available memory",
    "proc.fds": "open files",
    "swap.used": "swap",
    "disk.used": "disk space",
    "cwd.disk_used": "the disk of its directory",
    "store.used": "the history",
    "store.disk_used": "the disk of the history",
    "elapsed": "running time",
    "cpu.throttled": "throttled by its CPU limit",
    "cpu.iowait": "waiting for I/O",
    "cpu.pressure": "stalled for CPU",
    "mem.pressure": "stalled for memory",
    "io.pressure": "stalled for I/O",
    "gpu.temp": "temperature",
    "gpu.throttled": "slowed down by heat or power",
}
# What a share is of, by the key that it is divided by.
WHOLES = {
    "limit.memory": "of its limit",
    "limit.pids": "of its limit",
    "limit.fds": "of its limit",
    "limit.cpus": "of its limit",
    "store.limit": "of its largest size",
}
SINGLE_KINDS = ("key", "rate", "change")  # of a tree that is one key
PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([a-z0-9_.]{1,40})\}")


def level_text(rule: Rule, value: float | None, values: Mapping[str, float], seconds: float) -> str:
    """Return what is the matter: `memory 92.0 % of its limit (7.4 of 8.0 GiB) for 30s`."""
    expression = rule.expression
    if expression is None:
        return printable(rule.name)
    if expression.measure == Unit.FLAG:
        return f"{subject(expression)}{_lasting(rule, seconds)}"
    return f"{subject(expression)} {_amount(rule, expression, value, values)}{_lasting(rule, seconds)}"


def resolved_text(rule: Rule, value: float | None, seconds: float) -> str:
    """Return that a value is good again: `memory back to 61.0 % after 4m10s`."""
    if rule.expression is None or value is None:
        return f"over after {format_duration(seconds)}"
    if rule.expression.measure == Unit.FLAG:
        return f"{subject(rule.expression)}: over after {format_duration(seconds)}"
    shown = _shown(rule.expression, value)
    return f"{subject(rule.expression)} back to {shown} after {format_duration(seconds)}"


def absent_text(rule: Rule, seconds: float) -> str:
    """Return that an alert is over because nothing is known any more."""
    of_what = "" if rule.expression is None else f"{subject(rule.expression)}: "
    return f"{of_what}no values any more, after {format_duration(seconds)}"


def owner_label(device: Device | None) -> str:
    """Return a device or the host as it is named at the start of a line: `GPU 0`, `disk sda`, `host`."""
    if device is None:
        return "host"
    if device.kind == "gpu":
        return f"GPU {printable(gpu_number(device.name))}"
    return f"{device.kind} {printable(device.name)}"


def fill_template(template: str, fields: Mapping[str, str]) -> str:
    """Return a message with `{name}` replaced for known names only; `{{` is a brace, and anything else stays as it is.

    Not by `str.format`, which would follow `{job.__class__}`.
    """

    def replacement(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        return fields.get(match[1], match[0])

    filled = PLACEHOLDER.sub(replacement, template)
    return printable(filled if len(filled) <= LONGEST_TEXT else filled[: LONGEST_TEXT - 1] + "…")


def value_fields(rule: Rule, value: float | None, values: Mapping[str, float]) -> dict[str, str]:
    """Return the fields of a template that come from the rule and its values."""
    expression = rule.expression
    fields = {"rule": rule.name}
    if expression is not None:
        fields |= {key: format_key(expression, key, amount) for key, amount in values.items()}
        fields["value"] = format_value(expression, value)
        fields["level"] = format_value(expression, rule.level)
    return {name: printable(text) for name, text in fields.items()}


def subject(expression: Expression) -> str:
    """Return what is measured: the title of the first key, or the expression itself if it has several."""
    if expression.tree.kind in SINGLE_KINDS or _whole(expression) is not None:
        return _title(expression.keys[0])
    return expression.text


def _shown(expression: Expression, value: float | None) -> str:
    """Return a value; of a counter of seconds, which share of the time it grew."""
    is_time = expression.tree.kind == "rate" and expression.measure == RATIO
    return f"{format_value(expression, value)}{' of the time' if is_time else ''}"


def _title(key: str) -> str:
    metric = BY_KEY.get(key) or BY_EXTRA_KEY.get(key)
    title = key if metric is None else metric.title
    return SHORT_TITLES.get(key, title)


def _whole(expression: Expression) -> str | None:
    """Return the key that another one is divided by, if that is the whole expression."""
    tree = expression.tree
    is_share = tree.kind == "/" and expression.measure == RATIO and all(part.kind == "key" for part in tree.parts)
    return tree.parts[1].key if is_share else None


def _amount(rule: Rule, expression: Expression, value: float | None, values: Mapping[str, float]) -> str:
    shown = _shown(expression, value)
    whole = _whole(expression)
    if whole is None or whole not in values or expression.keys[0] not in values:
        word = "above" if rule.above is not None and (value is None or value > rule.above) else "below"
        level = rule.above if word == "above" else rule.below
        comma = "," if shown.endswith("time") else ""
        return f"{shown}{comma} {word} {format_value(expression, level)}"
    part, total = (format_key(expression, key, values[key]) for key in (expression.keys[0], whole))
    number, _, unit = part.rpartition(" ")
    if number and total.endswith(f" {unit}"):
        part = number
    of_what = f" {WHOLES[whole]}" if whole in WHOLES else ""
    return f"{shown}{of_what} ({part} of {total})"


def _lasting(rule: Rule, seconds: float) -> str:
    return f" for {format_duration(seconds)}" if rule.for_seconds and seconds >= 1 else ""
