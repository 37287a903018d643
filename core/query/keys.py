"""The keys of the filter language: what each one reads from its value. Pure."""

from __future__ import annotations

import re
from functools import partial

from jobtop.core.alerts.model import Severity, State
from jobtop.core.analysis.limiting import Limit
from jobtop.core.errors import BadValue, did_you_mean
from jobtop.core.model import Kept, Status
from jobtop.core.query.conditions import (
    ALERTS,
    FINDINGS,
    AnyPair,
    AnyWord,
    ContainsText,
    HasAlert,
    InContainer,
    IsOneOf,
    JoinedWords,
    MatchesPattern,
    NamedPair,
    NumberComparison,
    NumberParameter,
    NumberRange,
    has_wildcards,
)
from jobtop.core.query.moments import parse_past
from jobtop.core.record import record
from jobtop.core.units import parse_duration, parse_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.core.query.conditions import Parts, Test

    Reader = Callable[[str, str, float], Parts]  # takes the value, the operator and the current time
    Bounds = tuple[float, float]

SHOWN = 40
RANGE = ".."
LAST_SIGNAL = 64
ANY_ALERT = "any"
ALERT_WORDS = (*map(str, Severity), *map(str, State), ANY_ALERT)
FLAGS = (
    *("left_running", "had_to_be_killed", "oom_killed", "over_limit", "impossible_cpu", "attached", "throttled"),
    *("over_memory", "over_cpus", "over_runtime"),
)
DIGEST = "sha256:"
KINDS = ("process", "attached", "container")


@record
class Key:
    """A key of the filter language: the reader of its value, and whether `<` and `>` compare it."""

    read: Reader
    is_compared: bool = False


def find_key(name: str) -> Key | None:
    """Return the key with this name, such as `mem` or `param.lr`."""
    base, dot, pair_key = name.partition(".")
    if not dot:
        return KEYS.get(name)
    readers = {"param": Key(partial(_named_parameter, pair_key), True), "tag": Key(partial(_named_tag, pair_key))}
    return readers.get(base) if pair_key else None


def shortened(text: str) -> str:
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def statuses(text: str) -> tuple[str, ...]:
    """Parse statuses separated by commas; BadValue names a wrong one."""
    return _chosen("status", "status", text)


def _pattern(value: str, by: str) -> Test:
    return MatchesPattern(value) if by == ":" and has_wildcards(value) else IsOneOf((value,))


def _part_or_pattern(value: str, by: str) -> Test:
    """Test whether text contains a value; one with wildcards has to match the whole text, and after `=` be equal."""
    return ContainsText(value.lower()) if by == ":" and not has_wildcards(value) else _pattern(value, by)


def _text(field: str) -> Key:
    return Key(lambda value, by, _now: ((field, _pattern(value, by)),))


def _note(value: str, by: str, _now: float) -> Parts:
    return (("note", _part_or_pattern(value, by)),)


def _id(value: str, by: str, _now: float) -> Parts:
    """Match the beginning of an id, or an external id."""
    own = MatchesPattern(f"{value.lower()}*") if by == ":" else _pattern(value, by)
    return ("id", own), ("external_id", _pattern(value, by))


def _command(value: str, by: str, _now: float) -> Parts:
    return (("command", JoinedWords(_part_or_pattern(value, by))),)


def _tag(value: str, by: str, _now: float) -> Parts:
    return (("tags", AnyPair(_pattern(value, by))),)


def _named_tag(key: str, value: str, by: str, _now: float) -> Parts:
    return (("tags", NamedPair(key, _pattern(value, by))),)


def _param(value: str, by: str, _now: float) -> Parts:
    key, _, number = value.partition("=")
    parts: Parts = (("params", AnyPair(_pattern(value, by))),)
    try:
        return (*parts, ("params", NumberParameter(_pattern(key, by), NumberComparison("=", float(number)))))
    except ValueError:
        return parts


def _named_parameter(key: str, value: str, by: str, _now: float) -> Parts:
    """Match the value of a parameter as text; a number however it is written, compared or in a range."""
    low, dots, high = value.partition(RANGE)
    if by == ":" and dots and _are_numbers(low, high):
        return (("params", NumberParameter(IsOneOf((key,)), _range(value, lambda text: (float(text), float(text))))),)
    if by in (":", "="):
        parts: Parts = (("params", NamedPair(key, _pattern(value, by))),)
        if not _are_numbers(value):
            return parts
        return (*parts, ("params", NumberParameter(IsOneOf((key,)), NumberComparison("=", float(value)))))
    if not _are_numbers(value):
        raise BadValue(f'"{shortened(value)}" is not a number')
    return (("params", NumberParameter(IsOneOf((key,)), NumberComparison(by, float(value)))),)


def _are_numbers(*texts: str) -> bool:
    """Return whether some text is there, and all of it are numbers."""
    number = r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?"
    return any(texts) and all(re.fullmatch(number, text[:SHOWN], re.ASCII | re.IGNORECASE) for text in texts if text)


def _flag(value: str, by: str, _now: float) -> Parts:
    """Match any of some flags; a word that is nearly one of FLAGS is an error, any other may come from an import."""
    for word in value.split(","):
        if word not in FLAGS and not has_wildcards(word) and (hint := did_you_mean(word, FLAGS)):
            raise BadValue(f'"{shortened(word)}" is not a flag{hint}; use {", ".join(FLAGS)}')
    return tuple(("flags", AnyWord(_pattern(word, by))) for word in value.split(","))


def _alert(value: str, by: str, _now: float) -> Parts:
    """Match jobs with an alert: of a severity, in a state, of a rule, or any; nearly one of these words is an error."""
    if by == ":" and value not in ALERT_WORDS and not has_wildcards(value) and "," in value:
        return tuple(part for word in value.split(",") for part in _alert(word, by, _now))
    if value == ANY_ALERT:
        return ((ALERTS, HasAlert()),)
    if value in tuple(Severity):
        return ((ALERTS, HasAlert(severity=value)),)
    if value in tuple(State):
        return ((ALERTS, HasAlert(state=value)),)
    if by == ":" and not has_wildcards(value) and (hint := did_you_mean(value, ALERT_WORDS)):
        raise BadValue(f'"{shortened(value)}" is no severity and no state of an alert{hint}; alert={value} is a rule')
    return ((ALERTS, HasAlert(rule=_pattern(value, by))),)


def _kind(value: str, by: str, _now: float) -> Parts:
    """Match any of some kinds of jobs; a word that is nearly one of KINDS is an error."""
    for word in value.split(","):
        if word not in KINDS and not has_wildcards(word) and (hint := did_you_mean(word, KINDS)):
            raise BadValue(f'"{shortened(word)}" is not a kind of job{hint}; use {", ".join(KINDS)}')
    return tuple(("kind", _pattern(word, by)) for word in value.split(","))


def _image(value: str, by: str, _now: float) -> Parts:
    """Match text in the name of the image, or the beginning of its id or digest."""
    ids = ("image_id", "digest")
    prefixed = value if value.startswith(DIGEST) else f"{DIGEST}{value}"
    return (
        (FINDINGS, InContainer(("image",), _part_or_pattern(value, by))),
        (FINDINGS, InContainer(ids, _begins(value, by))),
        (FINDINGS, InContainer(ids, _begins(prefixed, by))),
    )


def _container(value: str, by: str, _now: float) -> Parts:
    """Match the name of a container, its service in compose, or the beginning of its id."""
    named = InContainer(("name", "service"), _pattern(value, by))
    return (FINDINGS, named), (FINDINGS, InContainer(("id",), _begins(value, by)))


def _project(value: str, by: str, _now: float) -> Parts:
    return ((FINDINGS, InContainer(("project",), _pattern(value, by))),)


def _begins(value: str, by: str) -> Test:
    """Test whether an id begins with a value that is long enough to be a part of one."""
    is_part = by == ":" and re.fullmatch(f"({DIGEST})?[0-9a-f]{{4,64}}", value.lower(), re.ASCII)
    return MatchesPattern(f"{value.lower()}*") if is_part else IsOneOf((value,))


def _chosen(key: str, what: str, value: str) -> tuple[str, ...]:
    """Split a value at commas; BadValue if a word is not one of the key's choices."""
    words = tuple(value.split(","))
    for word in words:
        if word not in CHOICES[key]:
            hint = did_you_mean(word, CHOICES[key])
            raise BadValue(f'"{shortened(word)}" is not a {what}{hint}; use {", ".join(CHOICES[key])}')
    return words


def _status(value: str, _by: str, _now: float) -> Parts:
    return (("status", IsOneOf(statuses(value))),)


def _kept(value: str, _by: str, _now: float) -> Parts:
    """Match what is kept of a job: every sample, one per minute, or the record."""
    return (("kept", IsOneOf(_chosen("kept", "part of a job", value))),)


def _limited(value: str, _by: str, _now: float) -> Parts:
    """Match what limited a job."""
    return (("limited_by", IsOneOf(_chosen("limited", "limit", value))),)


def _pinned(value: str, _by: str, _now: float) -> Parts:
    return tuple(("pinned", NumberComparison("=", word == "yes")) for word in _chosen("pinned", "answer", value))


def _stale(value: str, _by: str, _now: float) -> Parts:
    """Match live jobs of other hosts by whether they have been silent for long."""
    return tuple(("stale", NumberComparison("=", word == "yes")) for word in _chosen("stale", "answer", value))


def _begun(name: str, compared: str, value: str, _by: str, now: float) -> Parts:
    if RANGE in value:
        raise BadValue(f"{name}: takes one time; for a range write started:{shortened(value)}")
    return (("begun", NumberComparison(compared, parse_past(value, now)[0])),)


def _moment(name: str, field: str) -> Key:
    """Return the key of a time: `A..B`, or a date, which is the whole day."""

    def read(value: str, by: str, now: float) -> Parts:
        def bounds(text: str) -> Bounds:
            return parse_past(text, now)

        if by != ":":
            begin, end = bounds(value)
            return ((field, NumberComparison(by, end if by in (">", "<=") else begin)),)
        if RANGE not in value and bounds(value)[0] == bounds(value)[1]:
            raise BadValue(_exact_problem(name, value))
        return ((field, _range(value if RANGE in value else f"{value}{RANGE}{value}", bounds)),)

    return Key(read, True)


def _number(name: str, field: str, read_number: Callable[[str], float], is_exact: bool = False) -> Key:
    """Return the key of a number; one that is not `is_exact` needs a range or a comparison."""

    def read(value: str, by: str, _now: float) -> Parts:
        if by == ":" and RANGE in value:
            return ((field, _range(value, lambda text: (read_number(text), read_number(text)))),)
        number = read_number(value)
        if by == ":" and not is_exact:
            raise BadValue(_exact_problem(name, value))
        if by == "<" and number == 0:
            raise BadValue(f"no job has less than {shortened(value)}")
        return ((field, NumberComparison("=" if by == ":" else by, number)),)

    return Key(read, True)


def _exact_problem(name: str, value: str) -> str:
    shown = shortened(value)
    return f"write {name}:{shown}.. (at least), {name}:..{shown} (at most) or {name}={shown} (exactly)"


def _range(value: str, bounds: Callable[[str], Bounds]) -> Test:
    """Read `A..B`, `A..` or `..B`, ends included; BadValue if nothing is in it."""
    low_text, _, high_text = value.partition(RANGE)
    if not low_text and not high_text:
        raise BadValue(f'"{value}" has no bounds (write 5.., ..5 or 1..5)')
    low = bounds(low_text)[0] if low_text else None
    high = bounds(high_text)[1] if high_text else None
    if low is None or high is None:
        return NumberComparison(">=", low) if low is not None else NumberComparison("<=", high or 0)
    if low > high:
        swapped = f"{shortened(high_text)}{RANGE}{shortened(low_text)}"
        raise BadValue(f'nothing is in the range "{shortened(value)}" (did you mean "{swapped}"?)')
    return NumberRange(low, high)


def _share(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?%", text):
        raise BadValue(f'"{shortened(text)}" is not a share (use 20% or 12.5%)')
    return float(text[:-1]) / 100


def _joules(text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(k|M|G)?(J|Wh)", text)
    if found is None:
        raise BadValue(f'"{shortened(text)}" is not an energy (use 500J, 12kJ or 0.5kWh)')
    number, prefix, unit = found.groups()
    return float(number) * {None: 1.0, "k": 1e3, "M": 1e6, "G": 1e9}[prefix] * {"J": 1.0, "Wh": 3600.0}[unit]


def _money(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text):
        raise BadValue(f'"{shortened(text)}" is not a cost: write a number without the currency, such as 1.50')
    return float(text)


def _exit_code(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise BadValue(f'"{shortened(text)}" is not an exit code, such as 0 or 137')
    return int(text)


def _signal(text: str) -> int:
    from signal import Signals

    if re.fullmatch("[0-9]{1,9}", text) and int(text) <= LAST_SIGNAL:
        return int(text)
    try:
        return Signals[f"SIG{text.upper().removeprefix('SIG')}"]
    except KeyError:
        names = [name.removeprefix("SIG") for name in Signals.__members__]
        hint = did_you_mean(text.upper().removeprefix("SIG"), names)
        raise BadValue(f'"{shortened(text)}" is not a signal, such as 9 or KILL{hint}') from None


CHOICES = {
    "status": tuple(map(str, Status)),
    "kept": tuple(map(str, Kept)),
    "limited": tuple(map(str, Limit)),
    "pinned": ("yes", "no"),
    "stale": ("yes", "no"),
}
KEYS = {
    **{field: _text(field) for field in ("name", "tool", "host", "user", "script")},
    "note": Key(_note),
    "id": Key(_id),
    "command": Key(_command),
    "status": Key(_status),
    "flag": Key(_flag),
    "tag": Key(_tag),
    "array": Key(partial(_named_tag, "array")),
    "param": Key(_param),
    "since": Key(partial(_begun, "since", ">=")),
    "before": Key(partial(_begun, "before", "<")),
    "started": _moment("started", "start_time"),
    "ended": _moment("ended", "end_time"),
    "time": _number("time", "elapsed", parse_duration),
    "cpu": _number("cpu", "cpu_total_seconds", parse_duration),
    "efficiency": _number("efficiency", "cpu_efficiency", _share),
    "mem": _number("mem", "memory_peak_bytes", parse_size),
    "read": _number("read", "io_read_bytes", parse_size),
    "write": _number("write", "io_write_bytes", parse_size),
    "energy": _number("energy", "energy", _joules),
    "cost": _number("cost", "cost", _money),
    "exit": _number("exit", "exit_code", _exit_code, is_exact=True),
    "signal": _number("signal", "signal", _signal, is_exact=True),
    "limited": Key(_limited),
    "kind": Key(_kind),
    "image": Key(_image),
    "container": Key(_container),
    "project": Key(_project),
    "alert": Key(_alert),
    "kept": Key(_kept),
    "pinned": Key(_pinned),
    "stale": Key(_stale),
}
