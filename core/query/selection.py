"""Tells words that name one job from words of a filter, which selects any number of jobs. Pure."""

from __future__ import annotations

from jobtop.core.errors import UsageError
from jobtop.core.query.conditions import has_wildcards
from jobtop.core.query.filter import key_of, line_of, parse, split
from jobtop.core.query.keys import find_key, shortened
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobtop.core.query.conditions import Filter

NAMING_KEYS = ("id",)  # `id:3f2a` names one job, and is a word of a filter too


@record
class Selection:
    """The jobs that a user means: some words that each name one job, or a filter with its text."""

    references: tuple[str, ...] = ()
    filter: Filter | None = None
    text: str = ""


def read_selection(words: Sequence[str], filters: Sequence[str], now: float) -> Selection:
    """Read the arguments of a verb and its options `--filter`; UsageError if they mix names and a filter.

    Words of a filter have one of its keys: `train` names the newest job of this name, `name:train` selects all of them.
    """
    naming = [word for word in words if not _has_key(word)]
    selecting = [*filters, *(word for word in words if _has_key(word) and not _names_a_job(word))]
    if not selecting:
        return Selection(references=tuple(words))
    if naming:
        name, other = shortened(naming[0]), shortened(selecting[0])
        raise UsageError(
            f'"{name}" names one job, and "{other}" is a filter: use one or the other (name:{name} is a filter too)'
        )
    text = line_of([*filters, *words])
    return Selection(filter=parse(text, now), text=text)


def _keys(argument: str) -> list[str]:
    return [key for word in split(argument) if find_key(key := key_of(word)[1]) is not None]


def _has_key(argument: str) -> bool:
    return bool(_keys(argument))


def _names_a_job(argument: str) -> bool:
    begins = argument.startswith(tuple(f"{key}:" for key in NAMING_KEYS))
    return begins and len(_keys(argument)) == 1 and not has_wildcards(argument)
