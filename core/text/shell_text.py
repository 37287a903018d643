"""A command as text that a shell can read, on one line. Pure."""

from __future__ import annotations

import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\x1b": "\\e", "\\": "\\\\", "'": "\\'"}


def shell_text(command: Sequence[str]) -> str:
    """Return a command quoted for a shell; an argument with control characters as bash and zsh read it: $'a\\nb'."""
    return " ".join(map(_word, command))


def _word(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_character, word)) + "'"


def _character(character: str) -> str:
    if character in ESCAPES:
        return ESCAPES[character]
    if character.isprintable():
        return character
    # A byte that is not UTF-8 is a surrogate here; three octal digits, so that a digit after it is not read with it.
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))
