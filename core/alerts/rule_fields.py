"""The fields of an `[[alert]]` table: how each is parsed, and which kind of rule has it. Pure."""

from __future__ import annotations

import re

from jobtop.core.alerts.expressions.expression_parser import parse_number
from jobtop.core.alerts.expressions.measures import BYTES, PER_SECOND, PERCENT, RATIO, SECONDS
from jobtop.core.alerts.model import RuleKind, Severity, Step
from jobtop.core.config import boolean, choice, duration, finite_number, quoted, texts
from jobtop.core.errors import BadValue, did_you_mean
from jobtop.core.metrics import Scope
from jobtop.core.units import parse_duration, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LONGEST_NAME = 60
LONGEST_TEXT = 400
MAX_STEPS = 10
# What an action may do to the job. The first four need `jobtop alerts arm`.
JOB_ACTIONS = ("stop", "kill", "pause", "signal", "interval", "capture")
WARN = "warn"
EVENTS = (
    *("failed", "timeout", "error", "lost", "oom_killed", "disk_full"),
    *("success", "cancelled", "throttled", "gpu_lost", "left_running"),
)
# The figures of the record of a job that a deviation can be about, with what each is measured in.
DEVIATION_FIGURES = {
    "duration_seconds": SECONDS,
    "memory_peak_bytes": BYTES,
    "cpu_total_seconds": SECONDS,
    "cpu_percent_mean": PERCENT,
    "io_read_bytes": BYTES,
    "io_write_bytes": BYTES,
    "gpu_memory_peak_bytes": BYTES,
    "energy_cpu_joules": "joules",
    "energy_gpu_joules": "joules",
    "net_rx_bytes": BYTES,
    "net_tx_bytes": BYTES,
}
COMMON = ("name", "kind", "scope", "severity", "cooldown", "filter", "message", "remedy", "actions", "enabled", "steps")
KIND_FIELDS: dict[RuleKind, tuple[str, ...]] = {
    RuleKind.LEVEL: ("metric", "above", "below", "clear", "for"),
    RuleKind.FORECAST: ("metric", "limit", "within", "window", "for"),
    RuleKind.LEAK: ("metric", "window", "above", "for"),
    RuleKind.STALL: ("for",),
    RuleKind.DEVIATION: ("metric", "factor"),
    RuleKind.ABSENCE: ("metric", "window"),
    RuleKind.EVENT: ("event",),
}
REQUIRED: dict[RuleKind, tuple[str, ...]] = {
    RuleKind.LEVEL: ("metric",),
    RuleKind.FORECAST: ("metric", "limit"),
    RuleKind.LEAK: ("metric",),
    RuleKind.ABSENCE: ("metric",),
    RuleKind.EVENT: ("event",),
}
# What a kind uses for a field that is not given, as a user would write it.
KIND_DEFAULTS: dict[RuleKind, dict[str, object]] = {
    RuleKind.FORECAST: {"within": "10m", "window": "15m"},
    RuleKind.LEAK: {"window": "1h"},
    RuleKind.STALL: {"for": "15m"},
    RuleKind.DEVIATION: {"metric": "duration_seconds", "factor": 1.3},
    RuleKind.ABSENCE: {"window": "60s"},
}
ALERT_FIELDS = tuple(dict.fromkeys((*COMMON, *(name for names in KIND_FIELDS.values() for name in names))))


def rule_name(raw: object) -> str:
    """Check that a value is the name of a rule: a short text in one line."""
    if not isinstance(raw, str) or not raw.strip() or len(raw) > LONGEST_NAME:
        raise BadValue(f"{quoted(raw)} is not a text of at most {LONGEST_NAME} characters")
    if not raw.isprintable():
        raise BadValue(f"{quoted(raw)} has a line break or another character that cannot be printed")
    return raw.strip()


def line(raw: object) -> str:
    """Check that a value is a text of bounded length; control characters are made visible."""
    if not isinstance(raw, str) or not raw.strip() or len(raw) > LONGEST_TEXT:
        raise BadValue(f"{quoted(raw)} is not a text of at most {LONGEST_TEXT} characters")
    return printable(raw.strip())


def kind(raw: object) -> RuleKind:
    return RuleKind(str(choice(*RuleKind)(raw)))


def scope(raw: object) -> Scope:
    return Scope(str(choice(*Scope)(raw)))


def severity(raw: object) -> Severity:
    return Severity(str(choice(*Severity)(raw)))


def factor(raw: object) -> float:
    """Parse a factor above 1; `130%` is 1.3."""
    value = parse_number(raw.strip())[1] if isinstance(raw, str) and raw.strip() else finite_number(raw)
    if not 1 < value <= 1000:
        raise BadValue(f"{quoted(raw)} is not a factor above 1, such as 1.3")
    return value


def positive_duration(raw: object) -> float:
    seconds = duration(raw)
    if seconds <= 0:
        raise BadValue(f"{quoted(raw)} is not above 0")
    return seconds


def events(raw: object) -> tuple[str, ...]:
    """Parse a list of events, or a single one."""
    found = texts(raw)
    if not found:
        raise BadValue(f"{quoted(raw)} names no event (use {', '.join(EVENTS[:3])}, …)")
    for name in found:
        one_of(name, EVENTS, "an event")
    return found


def steps(raw: object) -> tuple[Step, ...]:
    """Parse a list of tables such as `{after = "60m", do = "stop"}`; each comes after the one before."""
    if not isinstance(raw, list) or not all(isinstance(entry, dict) for entry in raw) or len(raw) > MAX_STEPS:
        raise BadValue(f'{quoted(raw)} is not a list of at most {MAX_STEPS} steps (use [{{after = "60m"}}, …])')
    found: list[Step] = []
    for entry in raw:
        for name in entry:
            one_of(name, ("after", "do"), "a field of a step")
        if "after" not in entry:
            raise BadValue('a step has no after (use {after = "60m"})')
        step = Step(duration(entry["after"]), step_action(entry.get("do", WARN)))
        if found and step.after_seconds <= found[-1].after_seconds:
            raise BadValue(f"{quoted(entry['after'])} does not come after the step before it")
        found.append(step)
    return tuple(found)


def step_action(raw: object) -> str:
    if not isinstance(raw, str):
        raise BadValue(f"{quoted(raw)} is not one of {WARN}, {', '.join(JOB_ACTIONS)}")
    return WARN if raw.strip() == WARN else job_action(raw.strip(), (WARN, *JOB_ACTIONS))


def job_action(word: str, names: Iterable[str] = JOB_ACTIONS) -> str:
    """Check an action on the job: `stop`, `pause`, `signal:USR1`, `interval:0.2s`, `capture`."""
    name, colon, value = word.partition(":")
    one_of(name, names, "an action on a job")
    if name == "signal":
        signal_number(value)
    elif name == "interval":
        if parse_duration(value) < 0.1:
            raise BadValue(f"{quoted(word)} is shorter than 0.1s")
    elif colon:
        raise BadValue(f"{quoted(word)} has a value that {name} does not take")
    return word


def signal_number(name: str) -> int:
    """Return the number of a signal such as USR1 or SIGUSR1; BadValue with the nearest name."""
    from signal import Signals

    numbers = {number.name.removeprefix("SIG"): int(number) for number in Signals}
    wanted = name.upper().removeprefix("SIG")
    one_of(wanted, numbers, "a signal")
    return numbers[wanted]


def is_job_action(word: str) -> bool:
    """Return whether an action acts on the job and is no message."""
    return word.partition(":")[0] in JOB_ACTIONS


def one_of(name: str, names: Iterable[str], what: str) -> None:
    """Raise BadValue with the nearest name unless the name is one of these."""
    known = tuple(names)
    if name not in known:
        raise BadValue(f"{quoted(name)} is not {what}{did_you_mean(name, known)}")


def level(raw: object, measure: str) -> float:
    """Parse a level for a value of a measure: a number, or text such as "90%", "4GiB", "30s" or "100MiB/s"."""
    if not isinstance(raw, str):
        return finite_number(raw)
    word = raw.strip()
    is_rate = word.endswith(PER_SECOND)
    sign, word = (-1, word[1:]) if word.startswith("-") else (1, word)
    number = word.removesuffix(PER_SECOND).replace(" ", "") if is_rate else word.replace(" ", "")
    if not re.match(r"[0-9.]", number):
        raise BadValue(f"{quoted(raw)} is not a number")
    given, value = parse_number(number)
    given += PER_SECOND if is_rate else ""
    if given == RATIO and measure in (PERCENT, "percent"):
        return sign * value * 100
    if given not in (measure, "number") and (given, measure) != (BYTES, BYTES + PER_SECOND):
        raise BadValue(f"{quoted(raw)} is {words_of(given)}, but the metric is {words_of(measure)}")
    return sign * value


def words_of(measure: str) -> str:
    """Return a measure as messages name it, after `is`: `a share`, `in bytes`."""
    return {RATIO: "a share", "number": "a plain number"}.get(
        measure, f"in {measure.replace(PER_SECOND, ' per second')}"
    )


PARSERS: dict[str, Callable[[object], object]] = {
    "name": rule_name,
    "kind": kind,
    "scope": scope,
    "severity": severity,
    "for": duration,
    "cooldown": duration,
    "within": positive_duration,
    "window": positive_duration,
    "factor": factor,
    "event": events,
    "filter": line,
    "message": line,
    "remedy": line,
    "actions": texts,
    "enabled": boolean,
    "steps": steps,
    "metric": line,
    "limit": line,
}
