"""The id of a job: always a canonical UUID, so that it is safe in a path, a cgroup name or a query."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

LENGTH = 36
DASHES = (8, 13, 18, 23)
HEX_DIGITS = frozenset("0123456789abcdef")


class JobId(str):
    """A UUID in lower case with dashes; anything else raises BadValue."""

    __slots__ = ()

    def __new__(cls, text: object) -> Self:
        if not is_job_id(text):
            from jobtop.core.errors import (
                BadValue,
            )  # imported late: `run` starts its supervisor before it loads this module

            raise BadValue(f"a job id has to be a UUID, not {text!r:.60}")
        return super().__new__(cls, text)


def is_job_id(text: object) -> bool:
    """Return whether an untrusted value is a canonical UUID."""
    if not isinstance(text, str) or len(text) != LENGTH or any(text[place] != "-" for place in DASHES):
        return False
    digits = text.replace("-", "")
    return len(digits) == LENGTH - len(DASHES) and HEX_DIGITS.issuperset(digits)


def are_job_ids(texts: Sequence[object]) -> bool:
    """Return whether all values are canonical UUIDs; three times as fast as `is_job_id` for each."""
    if set(map(type, texts)) - {str} or set(map(len, texts)) - {LENGTH}:  # type: ignore[arg-type]
        return False
    joined = "".join(texts)  # type: ignore[arg-type]
    dashes = "-" * len(texts)
    return (
        HEX_DIGITS.issuperset(joined.replace("-", ""))
        and joined.count("-") == len(DASHES) * len(texts)
        and all(joined[place::LENGTH] == dashes for place in DASHES)
    )


NO_ID = JobId("00000000-0000-0000-0000-000000000000")  # the id of an empty record, used to list the columns of CSV
