"""Completes the words of a filter. Pure."""

from __future__ import annotations

from jobtop.core.query.filter import Word, key_of, quoted, split
from jobtop.core.query.keys import ALERT_WORDS, CHOICES, KEYS, KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LISTS = ("alert", "status", "flag", "limited", "kept", "kind")  # keys with values separated by commas

MORE_WORDS = {"alert": ALERT_WORDS, "kind": KINDS}  # beside those that the store knows


def word_at(text: str, cursor: int) -> tuple[int, int]:
    """Return begin and end of the word at the cursor, which a candidate replaces."""
    touching = ((word.start, word.end) for word in split(text) if word.start <= cursor <= word.end)
    return next(touching, (cursor, cursor))


def complete(text: str, cursor: int, values: Mapping[str, Iterable[str]]) -> list[str]:
    """Return candidates for the word that ends at the cursor: keys, or the known values of its key."""
    typed = split(text[:cursor])
    word = typed[-1] if typed and typed[-1].end == cursor else Word(cursor, cursor, "", 0, True)
    negated, key, operator, value = key_of(word)
    mark = word.text[:1] if negated or word.text in ("-", "!") else ""
    if not key and word.bare < len(word.text):
        return []
    if not key:
        begin = word.text.removeprefix(mark).lower()
        return [f"{mark}{name}:" for name in KEYS if name.startswith(begin)]
    before, _, begin = value.rpartition(",") if key in LISTS else ("", "", value)
    before = f"{before}," if before else ""
    known = CHOICES.get(key) or _known_values(key, values)
    known = (*MORE_WORDS.get(key, ()), *known)
    fitting = [one for one in known if one.lower().startswith(begin.lower())]
    return [f"{mark}{key}{operator}{before}{quoted(one)}" for one in dict.fromkeys(fitting)]


def _known_values(key: str, values: Mapping[str, Iterable[str]]) -> Iterable[str]:
    """Return the known values of a key; those of `tag.team` are among the known pairs of `tag`."""
    base, dot, pair_key = key.partition(".")
    if not dot:
        return values.get(key, ())
    pairs = (pair.partition("=") for pair in values.get(base, ()))
    return [value for name, equals, value in pairs if equals and name == pair_key]
