"""Parameters of workflow files: their values, all combinations, and how they are put into texts. Pure."""

from __future__ import annotations

import ast
import itertools
import math
import re
from typing import Any

from jobtop.core.errors import BadValue
from jobtop.core.units import printable

Scalar = str | int | float | bool
Combination = dict[str, Scalar]

MOST_VALUES = 100_000
LONGEST_TEXT = 100_000
SUCH_AS = 'such as "1:100", "0.0:1.0:0.1", "[1,5,10]" or "[\'adam\',\'sgd\']"'
# `${name}` is a variable of the shell.
PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)(?::([^{}]*))?\}")
FORMAT = re.compile(r"[<>^]?[+ ]?0?[0-9]{0,2}(?:\.[0-9]{1,2})?[dfeEgGsxX]?")


def parameter_values(value: Any) -> list[Scalar]:
    """The values of a parameter: a range, a list in a text, a list, or one value; BadValue if it is none of these."""
    if isinstance(value, list):
        return [_scalar(each) for each in value] or _empty()
    if not isinstance(value, str):
        return [_scalar(value)]
    text = value.strip()
    if len(text) > LONGEST_TEXT:
        raise BadValue(f"is longer than {LONGEST_TEXT:,} characters")
    if text.startswith("[") and text.endswith("]"):
        return _listed(text) or _empty()
    if ":" in text:
        return _range(text)
    return [_number(text) if _number(text) is not None else text]  # type: ignore[list-item]


def is_too_large(number: int) -> bool:
    """Whether a whole number has more than 64 bits: such numbers can be slow to handle, and nothing needs them."""
    return number.bit_length() > 63


def _scalar(value: Any) -> Scalar:
    if isinstance(value, int) and is_too_large(value):
        raise BadValue("has a number that is too large")
    if isinstance(value, str | int | float | bool):
        return value
    raise BadValue(f"has a value that is no text and no number; {SUCH_AS}")


def _empty() -> list[Scalar]:
    raise BadValue(f"has no values; {SUCH_AS}")


def _listed(text: str) -> list[Scalar]:
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        words = [word.strip().strip("\"'") for word in text[1:-1].split(",")]
        return [word if (number := _number(word)) is None else number for word in words if word]
    return [_scalar(each) for each in found]


def _range(text: str) -> list[Scalar]:
    """`first:last` or `first:last:step`; the last value is part of it."""
    parts = [_number(part) for part in text.split(":")]
    if len(parts) not in (2, 3) or None in parts:
        raise BadValue(f'"{printable(text[:60])}" is no range; {SUCH_AS}')
    first, last, step = (*parts, 1)[:3]
    assert first is not None
    assert last is not None
    assert step is not None
    if step == 0 or (last - first) * step < 0:
        raise BadValue(f'"{printable(text[:60])}" is an empty range: its step leads away from its end')
    steps = (last - first) / step + 1e-9
    if steps >= MOST_VALUES:
        raise BadValue(f"has {steps + 1:,.0f} values; {MOST_VALUES:,} are the most")
    count = math.floor(steps) + 1
    values = [first + number * step for number in range(count)]
    return [round(value, 10) if isinstance(value, float) else value for value in values]


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            number = kind(text.strip())
        except ValueError:
            continue
        fits = math.isfinite(number) if isinstance(number, float) else not is_too_large(number)
        return number if fits else None
    return None


def combinations(parameters: dict[str, list[Scalar]], is_zipped: bool) -> list[Combination]:
    """Each combination of values, the last parameter changes first; zipped: the first values, the second ones, …"""
    if not parameters:
        return [{}]
    names = list(parameters)
    if is_zipped:
        lengths = {name: len(values) for name, values in parameters.items()}
        if len(set(lengths.values())) > 1:
            words = ", ".join(f"{printable(name)} has {count}" for name, count in lengths.items())
            raise BadValue(f"zip needs lists of the same length: {words}")
        return [dict(zip(names, values, strict=True)) for values in zip(*parameters.values(), strict=True)]
    count = math.prod(len(values) for values in parameters.values())
    if count > MOST_VALUES:
        raise BadValue(f"{count:,} combinations are too many; {MOST_VALUES:,} are the most")
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*parameters.values())]


def substitute(text: str, values: Combination) -> str:
    """The text with `{name}` and `{name:03d}` replaced; braces around other words are left alone."""
    if "{" not in text:
        return text

    def replaced(match: re.Match[str]) -> str:
        name, form = match[1], match[2]
        if name not in values:
            return match[0]
        value = values[name]
        if not form:
            return str(value)
        if not FORMAT.fullmatch(form):
            raise BadValue(f'"{printable(match[0])}": the format is not known; such as {{i:03d}} or {{lr:.4f}}')
        if form[-1] in "dxX" and isinstance(value, float) and value.is_integer():
            value = int(value)
        try:
            return format(value, form)
        except ValueError:
            raise BadValue(f'"{printable(match[0])}" does not fit the value {printable(str(value))}') from None

    return PLACEHOLDER.sub(replaced, text)


def placeholders(text: str) -> set[str]:
    """The names between braces."""
    return {match[1] for match in PLACEHOLDER.finditer(text)} if "{" in text else set()
