"""Option values a user types, for click."""

import time
from typing import Any

import click

from jobtop.core.errors import BadValue
from jobtop.core.units import parse_duration, printable

LONGEST_NUMBER = 19


class Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A duration such as 90, 90s, 10m or 1h30m; its value is in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return value if isinstance(value, float) else parse_duration(value)
        except BadValue as error:
            self.fail(str(error), param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "D"


class Count(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A whole number that is at least `least`, and at most `most` if that is given."""

    name = "count"

    def __init__(self, least: int, most: int | None = None) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            number = None
        if number is None or number < self.least:
            self.fail(f'"{printable(str(value))}" is not a whole number of at least {self.least}', param, ctx)
        if self.most is not None and number > self.most:
            self.fail(f"{printable(str(value))} is too large: at most {self.most}", param, ctx)
        return number


class Numbers(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Whole numbers separated by commas, such as 1,2; its value is a tuple, each number once."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        words = [word.strip() for word in str(value).split(",")]
        if not all(word.isascii() and word.isdigit() and len(word) < LONGEST_NUMBER for word in words):
            self.fail(f'"{printable(str(value))}" is not a list of numbers such as 1,2', param, ctx)
        return tuple(dict.fromkeys(map(int, words)))


class PastMoment(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A time in the past, as the filter `since:` takes it: 7d, 2026-11-15; its value is in seconds since the epoch."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from jobtop.core.query.moments import parse_past

        try:
            return value if isinstance(value, float) else parse_past(value, time.time())[0]
        except BadValue as error:
            self.fail(str(error), param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "T"


class LastOrSince(Duration):
    """The last part of a time, such as 5m, in seconds; or the time since a day or a moment, as a datetime."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from datetime import UTC, datetime

        if not isinstance(value, str) or (value[:1].isdecimal() and "-" not in value and ":" not in value):
            return super().convert(value, param, ctx)
        return datetime.fromtimestamp(PastMoment().convert(value, param, ctx), UTC)


class Statuses(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Statuses separated by commas, as the filter `status:` takes them."""

    name = "statuses"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        from jobtop.core.query.keys import statuses

        try:
            return value if isinstance(value, tuple) else statuses(value)
        except BadValue as error:
            self.fail(str(error), param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "S"
