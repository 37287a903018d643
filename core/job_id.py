"""The id of a job: only a canonical UUID can become one, so that it is safe in a path, a cgroup name or a query."""

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
            from jobtop.core.errors import BadValue  # `run` starts its supervisor before it imports this

            raise BadValue(f"a job id has to be a UUID, not {text!r:.60}")
        return super().__new__(cls, text)


def is_job_id(text: object) -> bool:
    """Whether a value from outside has the only form that an id has."""
    if not isinstance(text, str) or len(text) != LENGTH or any(text[place] != "-" for place in DASHES):
        return False
    digits = text.replace("-", "")
    return len(digits) == LENGTH - len(DASHES) and HEX_DIGITS.issuperset(digits)


def are_job_ids(texts: Sequence[object]) -> bool:
    """Whether all values have that form: for many at once, three times as fast as one by one."""
    if set(map(type, texts)) - {str} or set(map(len, texts)) - {LENGTH}:  # type: ignore[arg-type]
        return False
    joined = "".join(texts)  # type: ignore[arg-type]
    dashes = "-" * len(texts)
    return (
        HEX_DIGITS.issuperset(joined.replace("-", ""))
        and joined.count("-") == len(DASHES) * len(texts)
        and all(joined[place::LENGTH] == dashes for place in DASHES)
    )


NO_ID = JobId("00000000-0000-0000-0000-000000000000")  # of a record that only stands for its columns
