"""Parses a filter line, such as `name:train* status:failed since:7d mem:4G..`, into conditions. Pure."""

from __future__ import annotations

import re

from jobtop.core.analysis.cost import Prices
from jobtop.core.errors import BadValue, nearest_name
from jobtop.core.query.conditions import ALERTS, Condition, ContainsText, Filter, JoinedWords
from jobtop.core.query.keys import KEYS, find_key, shortened
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jobtop.core.query.conditions import Parts

# Possessive: otherwise a long quoted text would take hundreds of bytes of memory per character.
_PIECE = re.compile(
    r"""(?P<plain>[^ \t\r\n"'\\]+)|\\(?P<escaped>.?)"""
    r"""|(?P<quote>["'])(?P<quoted>(?:(?!(?P=quote))[^\\]|\\.)*+)(?P<end>(?P=quote)?)""",
    re.DOTALL,
)
_KEY = re.compile(r"((?:params?|tags?)\.[^\s:<>=!]+|[A-Za-z_]+)(:|>=|<=|!=|=|>|<)", re.IGNORECASE)
LANGUAGE = """\b
Filters: a job has to match every word.
  solver                   text in the name, the command or the note
  name:train*  tool:make   * is any text; also host, user, script, id
  command:resnet           text in the command; also note
  status:failed,timeout    one of these statuses
  tag:nightly  tag.team:x  a tag, or the value of a tag
  array:3f8a21b2           the jobs of one submit --array or --sweep
  param.lr:0.1..0.5        a parameter: a value or a range
  since:7d                 started since then; also since:today and before:2026-11-15
  started:2026-11-01..     started in a range of time; also ended
  mem:4G..  mem:..4G       at least, at most; time:1m..5m is from, to
                           also cpu, efficiency, read, write, energy, cost, exit, signal
  alert:critical           had such an alert; also alert:firing, alert:any, alert:RULE
  limited:storage          limited by storage; also cpu, memory, waiting, …
  image:postgres           ran in a container of this image; also container, project, kind
  'mem>4G'                 more than; also < >= <=; in quotes for the shell
  '!tool:make'             jobs that do not match; also -- -tool:make
"""


class FilterError(BadValue):
    """A word of a filter is wrong: `problem` names it and says why; `start` and `end` are its position in the text."""

    def __init__(self, text: str, start: int, end: int, problem: str) -> None:
        super().__init__(problem)
        self.text, self.start, self.end, self.problem = text, start, end, problem


@record
class Word:
    """A word of a filter without its quotes; its first `bare` characters were not quoted."""

    start: int
    end: int
    text: str
    bare: int
    is_closed: bool


def parse(text: str, now: float, prices: Prices | None = None, in_memory: bool = False) -> Filter:
    """Parse a filter line; FilterError marks the wrong word. Without prices no job has a cost.

    With `in_memory` the filter is for jobs without their store: what only a store knows is an error.
    """
    words = split(text)
    conditions = tuple(_condition(text, word, now) for word in words)
    for word, condition in zip(words, conditions, strict=True):
        if in_memory and any(field == ALERTS for field, _ in condition.parts):
            problem = "alert: is for the history (jobtop history); here no alerts of jobs are known"
            raise FilterError(text, word.start, word.end, problem)
    return Filter(conditions, now, prices=prices or Prices())


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
    base, dot, pair_key = found[1].partition(".")
    return negated, f"{base.lower()}{dot}{pair_key}", found[2], word.text[found.end() :]


def _as_line(argument: str) -> str:
    words = split(argument)
    is_line = len(words) < 2 or any(find_key(key_of(word)[1]) for word in words[1:])
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
            raise BadValue(f"{shortened(text[word.start : word.end])}: the quote is not closed")
        negated, name, by, value = key_of(word)
        if not name:
            looked_for = ContainsText(value.lower())
            return Condition(
                (("name", looked_for), ("note", looked_for), ("command", JoinedWords(looked_for))), negated
            )
        return Condition(_parts(name, by, value, now), negated != (by == "!="))
    except BadValue as error:
        raise FilterError(text, word.start, word.end, str(error)) from None


def _parts(name: str, by: str, value: str, now: float) -> Parts:
    """Read the value of a key; BadValue names the key."""
    key = find_key(name)
    if key is None:
        nearest = nearest_name(name.partition(".")[0], KEYS)
        hint = f" (did you mean {nearest}?)" if nearest else f" (there are {', '.join(KEYS)})"
        raise BadValue(f'Unknown filter "{shortened(name)}"{hint}. Quote it to search for the text')
    if not value:
        raise BadValue(f"{shortened(name)}{by} needs a value")
    if not key.is_compared and by not in (":", "=", "!="):
        raise BadValue(f"{shortened(name)} is not compared by {by} but by : or =")
    try:
        return key.read(value, "=" if by == "!=" else by, now)
    except BadValue as error:
        raise BadValue(f"{shortened(name)}: {error}") from None
