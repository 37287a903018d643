"""Finds the message with which a program ended, if it is of no known kind: the last line that it wrote. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST_MESSAGE = 200
# `cat: x: No such file or directory`, `psql: error: …`, `./run.sh: …`
_NAMED = re.compile(r"^[\w./+-]*[A-Za-z][\w./+-]*(?:\[\d+\])?: (?![\d.+-]+\s*\S{0,4}$)\S")
_WORDS = re.compile(
    r"(?i)error|fail(?:ed|ure)|cannot|can't|could not|no such|not found|invalid|denied|refused|missing|\busage\b"
)
_LOG_LEVEL = re.compile(r"(?i)^\W{0,2}(?:info|debug|trace|verbose|note|notice|hint|warn|warning)\b")
_HELP = re.compile(
    r"(?i)^(?:usage: |(?:try|see|run|use) .*(?:help|--help|man \w)|for more (?:information|help|details))"
)
_BAR = re.compile(
    r"[\u2580-\u259f\u2501\u2578-\u257b]{2}|%\s*\||\[[=#>*. -]{3,}\]|\|[=#>*. -]{5,}\||-:--|\d\s*/\s*\d+ \[|\bETA\b"
)
_COUNT = re.compile(r"^[^:]*:?\s*\d+(?:\.\d+)?(?:\s?%|\s*/\s*\d)")  # `Downloading: 45 %`, `Epoch 3/10`
_PROMPT = re.compile(
    r"(?i)[:>$#]$|[(\[]y(?:es)?/no?\b"
    r"|^(?:\[sudo\] )?(?:enter |your )?(?:password|passphrase|user ?name|login|pin)\b[^:]*:"
)


def last_message(lines: Sequence[str], is_all: bool) -> str | None:
    """The last line if it looks like a message; `is_all` says that all lines of standard error are given.

    Hints to read the help, and the usage, are passed over if a message is above them.
    """
    lines = [stripped for line in lines if (stripped := line.strip())]
    above = list(lines)
    while above and _HELP.match(above[-1]):
        above.pop()
    for rest in (above, lines):
        if rest and (found := _message(rest[-1], is_only=is_all and len(rest) == 1)) is not None:
            return found
    return None


def last_line(lines: Sequence[str]) -> str | None:
    """The last line if it is a text of some words: what a program says last may be why it ends, or not."""
    text = next((stripped for line in reversed(lines) if (stripped := line.strip())), "")
    return _message(text, is_only=True) if len(text.split()) > 1 and not _HELP.match(text) else None


def _message(text: str, is_only: bool) -> str | None:
    if len(text) > LONGEST_MESSAGE or not any(map(str.isalpha, text)):
        return None
    if _BAR.search(text) or _PROMPT.search(text) or _LOG_LEVEL.match(text):
        return None
    if text.endswith("?") and "error: " not in text.lower():
        return None
    if _WORDS.search(text):
        return text
    return text if not _COUNT.match(text) and (is_only or _NAMED.match(text)) else None
