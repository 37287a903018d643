"""Arrays and sweeps: the values of each job, and the commands and environments with these values. Pure."""

from __future__ import annotations

import re
from itertools import product

from jobtop.core.errors import BadValue
from jobtop.core.record import replace
from jobtop.core.run.request import MOST, typed
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobtop.core.run.request import Request

    Sweep = tuple[str, tuple[str, ...]]  # a name and its values

MOST_JOBS = 10_000
INDEX, ARRAY = "index", "array"  # the name of the number in arguments and params; the key of the tag
RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})(?::([0-9]{1,9}))?")
NUMBERS = re.compile(r"(-?[0-9]{1,9})\.\.(-?[0-9]{1,9})")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
ARRAY_FORMS = "give 1-30, 0-90:10 (a step) or 1,4,7"
SWEEP_FORMS = "give lr=0.1,0.2 or seed=1..5"


def array_numbers(text: str) -> tuple[int, ...]:
    """The numbers of `1-30`, `0-90:10` or `1,4,7-9`; BadValue names the part that is wrong."""
    found: list[int] = []
    for part in text.split(","):
        if part.isascii() and part.isdecimal() and len(part) <= len(str(MOST)):
            found.append(int(part))
        elif match := RANGE.fullmatch(part):
            first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
            if last < first:
                raise BadValue(f'"{part}" ends before it begins: {ARRAY_FORMS}')
            if step < 1:
                raise BadValue(f'"{part}" has a step of 0: {ARRAY_FORMS}')
            check_count(len(found) + (last - first) // step + 1)
            found += range(first, last + 1, step)
        else:
            raise BadValue(f'"{printable(part[:40])}" is not a range: {ARRAY_FORMS}')
    if len(set(found)) < len(found):
        raise BadValue(f'"{printable(text[:40])}" has a number twice: {ARRAY_FORMS}')
    check_count(len(found))
    return tuple(found)


def sweep_values(text: str) -> Sweep:
    """The name and the values of `lr=0.1,0.2` or `seed=1..5`."""
    name, equals, values = text.partition("=")
    if not equals or not NAME.fullmatch(name):
        raise BadValue(f'"{printable(text[:40])}" is not NAME=VALUES: {SWEEP_FORMS}')
    if name == INDEX:
        raise BadValue(f'"{INDEX}" is the number of the job: choose another name, or use --array')
    found: list[str] = []
    for value in values.split(","):
        if match := NUMBERS.fullmatch(value):
            first, last = int(match[1]), int(match[2])
            if last < first:
                raise BadValue(f'"{value}" ends before it begins: {SWEEP_FORMS}')
            check_count(len(found) + last - first + 1)
            found += map(str, range(first, last + 1))
        elif value:
            found.append(value)
        else:
            raise BadValue(f'"{printable(text[:40])}" has an empty value: {SWEEP_FORMS}')
    if len(set(found)) < len(found):
        raise BadValue(f'"{printable(text[:40])}" has a value twice')
    return name, tuple(found)


def check_count(count: int) -> None:
    if count > MOST_JOBS:
        raise BadValue(f"that is {count:,} jobs; at most {MOST_JOBS:,} can be submitted at once".replace(",", " "))


def requests_of(request: Request, numbers: Sequence[int], sweeps: Sequence[Sweep], array_id: str) -> list[Request]:
    """One request for each combination of values, the last sweep and then the numbers of the array changing fastest."""
    names = [name for name, _ in sweeps]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadValue(f"--sweep {twice} is given twice: give all its values in one, such as {twice}=1,2")
    count = max(1, len(numbers))
    for _, values in sweeps:
        count *= len(values)
        check_count(count)
    combinations = [dict(zip(names, values, strict=True)) for values in product(*(values for _, values in sweeps))]
    if numbers:
        chosen = [(number, combination) for combination in combinations for number in numbers]
    else:
        chosen = list(enumerate(combinations, 1))
    return [one_of(request, number, values, array_id, bool(numbers)) for number, values in chosen]


def one_of(request: Request, number: int, values: Mapping[str, str], array_id: str, has_array: bool) -> Request:
    """The request with these values in its arguments, its name, its environment and its params."""
    texts = {INDEX: str(number), **values}
    env = {"JOBTOP_ARRAY_INDEX": str(number)} | {variable_name(name): value for name, value in values.items()}
    params = {name: typed(value) for name, value in values.items()} | ({INDEX: number} if has_array else {})
    container = request.container
    return replace(
        request,
        command=tuple(filled(word, texts) for word in request.command),
        name=None if request.name is None else filled(request.name, texts),
        external_id=None if request.external_id is None else filled(request.external_id, texts),
        env=filled_values(request.env, texts) | (env if container is None else {}),
        container=container and replace(container, env=filled_values(container.env or {}, texts) | env),
        params=request.params | params,
        tags={ARRAY: array_id} | request.tags,
    )


def filled(text: str, texts: Mapping[str, str]) -> str:
    """The text with `{lr}` and `{index}` replaced in one pass; other braces stay as they are."""
    if "{" not in text:
        return text
    return re.sub(r"\{([A-Za-z_][A-Za-z0-9_.-]*)\}", lambda found: texts.get(found[1], found[0]), text)


def filled_values(variables: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, str]:
    return {name: filled(value, texts) for name, value in variables.items()}


def variable_name(name: str) -> str:
    """`JOBTOP_PARAM_LR` for `lr`."""
    return "JOBTOP_PARAM_" + re.sub("[^A-Z0-9]", "_", name.upper())
