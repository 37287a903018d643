"""Parses a filter line, such as `name:train* status:failed since:7d mem>4G`, into conditions. Pure."""

from __future__ import annotations

import re
from functools import partial

from jobtop.core.errors import BadValue, did_you_mean
from jobtop.core.model import Kept, Status
from jobtop.core.query.conditions import (
    AnyPair,
    AnyWord,
    Condition,
    ContainsText,
    Filter,
    IsOneOf,
    JoinedWords,
    MatchesPattern,
    NumberComparison,
    NumberParameter,
    has_wildcards,
)
from jobtop.core.record import record
from jobtop.core.units import parse_duration, parse_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jobtop.core.query.conditions import Parts, Test

    Reader = Callable[[str, str, float], Parts]  # takes the value, the operator and the current time

SHOWN = 40
# Possessive: otherwise a long quoted text would take hundreds of bytes of memory per character.
_PIECE = re.compile(
    r"""(?P<plain>[^ \t\r\n"'\\]+)|\\(?P<escaped>.?)"""
    r"""|(?P<quote>["'])(?P<quoted>(?:(?!(?P=quote))[^\\]|\\.)*+)(?P<end>(?P=quote)?)""",
    re.DOTALL,
)
_KEY = re.compile(r"([A-Za-z_]+)(:|>=|<=|!=|=|>|<)")


class FilterError(BadValue):
    """A word of a filter is wrong: `problem` says why, `start` and `end` are its position in the text."""

    def __init__(self, text: str, start: int, end: int, problem: str) -> None:
        before = text[:start] if start <= SHOWN else "…" + text[start - SHOWN : start]
        super().__init__(f"{before}»{shortened(text[start:end])}«{shortened(text[end:])}: {problem}")
        self.start, self.end, self.problem = start, end, problem


@record
class Word:
    """A word of a filter without its quotes; its first `bare` characters were not quoted."""

    start: int
    end: int
    text: str
    bare: int
    is_closed: bool


@record
class Key:
    """A key of the filter language: the reader of its value, and the operator that usually follows."""

    read: Reader
    operator: str = ":"


def parse(text: str, now: float) -> Filter:
    """Parse a filter line; FilterError marks the wrong word."""
    return Filter(tuple(_condition(text, word, now) for word in split(text)), now)


def split(text: str) -> list[Word]:
    """Split a line into words; quotes keep spaces in a word, a backslash escapes the next character."""
    words: list[list[re.Match[str]]] = []
    for piece in _PIECE.finditer(text):
        if words and words[-1][-1].end() == piece.start():
            words[-1].append(piece)
        else:
            words.append([piece])
    return list(map(_word, words))


def line_of(arguments: Iterable[str]) -> str:
    """Join arguments into a filter line; an argument with spaces is one word, unless a key follows a space."""
    return " ".join(map(_as_line, arguments))


def quoted(text: str) -> str:
    """Quote text as the value of a key; after a colon, `*` and `?` in it still match anything."""
    if text and not re.search(r"""[ \t\r\n"'\\]""", text):
        return text
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def key_of(word: Word) -> tuple[bool, str, str, str]:
    """Return whether a word is negated, its key and operator, both empty if it has none, and its value."""
    negated = word.bare > 0 and len(word.text) > 1 and word.text[0] in "-!"
    found = _KEY.match(word.text, negated, word.bare)
    if found is None:
        return negated, "", "", word.text[negated:]
    return negated, found[1].lower(), found[2], word.text[found.end() :]


def find_key(name: str) -> Key | None:
    """Return the key of the filter language with this name."""
    return KEYS.get(name)


def shortened(text: str) -> str:
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def _as_line(argument: str) -> str:
    words = split(argument)
    is_line = len(words) < 2 or any(key_of(word)[1] in KEYS for word in words[1:])
    if is_line and all(word.is_closed for word in words):
        return argument
    begin = re.match(rf"[-!]?({_KEY.pattern})?", argument)
    end = begin.end() if begin else 0
    return argument[:end] + quoted(argument[end:])


def _word(pieces: Sequence[re.Match[str]]) -> Word:
    text, bare = "", None
    for piece in pieces:
        if piece["plain"] is not None:
            text += piece["plain"]
            continue
        bare = len(text) if bare is None else bare
        text += re.sub(r"(?s)\\(.)", r"\1", piece["quoted"]) if piece["quote"] else piece["escaped"] or "\\"
    is_closed = all(piece["end"] != "" for piece in pieces)
    return Word(pieces[0].start(), pieces[-1].end(), text, len(text) if bare is None else bare, is_closed)


def _condition(text: str, word: Word, now: float) -> Condition:
    try:
        if not word.is_closed:
            raise BadValue("its quote is not closed")
        negated, name, by, value = key_of(word)
        if not name:
            looked_for = ContainsText(value.lower())
            return Condition(
                (("name", looked_for), ("note", looked_for), ("command", JoinedWords(looked_for))), negated
            )
        if name not in KEYS:
            hint = did_you_mean(name, KEYS) or f"; there are {', '.join(KEYS)}"
            raise BadValue(f'"{shortened(name)}" is no key{hint}; in quotes the word is looked for as it is')
        if not value:
            raise BadValue(f"{name}{by} needs a value")
        if KEYS[name].operator == ":" and by not in (":", "=", "!="):
            raise BadValue(f"{name} is not compared by {by} but by : or =")
        parts = KEYS[name].read(value, "=" if by == "!=" else by, now)
    except BadValue as error:
        raise FilterError(text, word.start, word.end, str(error)) from None
    return Condition(parts, negated != (by == "!="))


def _pattern(value: str, by: str) -> Test:
    return MatchesPattern(value) if by == ":" and has_wildcards(value) else IsOneOf((value,))


def _text(field: str) -> Key:
    return Key(lambda value, by, _now: ((field, _pattern(value, by)),))


def _id(value: str, by: str, _now: float) -> Parts:
    """Match the beginning of an id, or an external id."""
    own = MatchesPattern(f"{value.lower()}*") if by == ":" else _pattern(value, by)
    return ("id", own), ("external_id", _pattern(value, by))


def _command(value: str, by: str, _now: float) -> Parts:
    return (("command", JoinedWords(_pattern(value, by))),)


def _tag(value: str, by: str, _now: float) -> Parts:
    return (("tags", AnyPair(_pattern(value, by))),)


def _param(value: str, by: str, _now: float) -> Parts:
    key, _, number = value.partition("=")
    parts: Parts = (("params", AnyPair(_pattern(value, by))),)
    try:
        return (*parts, ("params", NumberParameter(_pattern(key, by), float(number))))
    except ValueError:
        return parts


def _flag(value: str, by: str, _now: float) -> Parts:
    return tuple(("flags", AnyWord(_pattern(word, by))) for word in value.split(","))


def _chosen(key: str, what: str, value: str) -> tuple[str, ...]:
    """Split a value at commas; BadValue if a word is not one of the key's choices."""
    words = tuple(value.split(","))
    for word in words:
        if word not in CHOICES[key]:
            hint = did_you_mean(word, CHOICES[key])
            raise BadValue(f'"{shortened(word)}" is no {what}{hint}; there are {", ".join(CHOICES[key])}')
    return words


def _status(value: str, _by: str, _now: float) -> Parts:
    return (("status", IsOneOf(_chosen("status", "status", value))),)


def _kept(value: str, _by: str, _now: float) -> Parts:
    """Match what is kept of a job: every sample, one per minute, or the record."""
    return (("kept", IsOneOf(_chosen("kept", "part of a job", value))),)


def _pinned(value: str, _by: str, _now: float) -> Parts:
    return tuple(("pinned", NumberComparison("=", word == "yes")) for word in _chosen("pinned", "answer", value))


def _stale(value: str, _by: str, _now: float) -> Parts:
    """Match live jobs of other hosts by whether they have been silent for long."""
    return tuple(("stale", NumberComparison("=", word == "yes")) for word in _chosen("stale", "answer", value))


def _begun(by: str, value: str, _by: str, now: float) -> Parts:
    return (("begun", NumberComparison(by, _moment(value, now))),)


def _moment(text: str, now: float) -> float:
    """Parse a duration before now, or a date and time, local unless it names a zone."""
    from datetime import datetime

    try:
        return now - parse_duration(text)
    except BadValue:
        pass
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError):
        raise BadValue(
            f'"{shortened(text)}" is neither a duration such as 7d nor a date such as 2026-01-31 or 2026-01-31T09:30'
        ) from None


def _number(field: str, read: Callable[[str], float], usually: str = ">") -> Key:
    return Key(lambda value, by, _now: ((field, NumberComparison("=" if by == ":" else by, read(value))),), usually)


def _share(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?%", text):
        raise BadValue(f'"{shortened(text)}" is not a share (use 20% or 12.5%)')
    return float(text[:-1]) / 100


def _exit_code(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise BadValue(f'"{shortened(text)}" is not an exit code, such as 0 or 137')
    return int(text)


def _signal(text: str) -> int:
    from signal import Signals

    if re.fullmatch("[0-9]{1,9}", text):
        return int(text)
    try:
        return Signals[f"SIG{text.upper().removeprefix('SIG')}"]
    except KeyError:
        raise BadValue(f'"{shortened(text)}" is no signal, such as 9 or KILL') from None


CHOICES = {
    "status": tuple(map(str, Status)),
    "kept": tuple(map(str, Kept)),
    "pinned": ("yes", "no"),
    "stale": ("yes", "no"),
}
KEYS = {
    **{field: _text(field) for field in ("name", "tool", "host", "user", "script", "note")},
    "id": Key(_id),
    "command": Key(_command),
    "status": Key(_status),
    "flag": Key(_flag),
    "tag": Key(_tag),
    "param": Key(_param),
    "since": Key(partial(_begun, ">=")),
    "before": Key(partial(_begun, "<")),
    "time": _number("elapsed", parse_duration),
    "cpu": _number("cpu_total_seconds", parse_duration),
    "efficiency": _number("cpu_efficiency", _share, "<"),
    "mem": _number("memory_peak_bytes", parse_size),
    "read": _number("io_read_bytes", parse_size),
    "write": _number("io_write_bytes", parse_size),
    "exit": _number("exit_code", _exit_code, "="),
    "signal": _number("signal", _signal, "="),
    "kept": Key(_kept),
    "pinned": Key(_pinned),
    "stale": Key(_stale),
}
