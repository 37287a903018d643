"""Option values a user types: durations, sizes, pairs."""

from typing import Any

import click

from jobtop.core.errors import BadValue
from jobtop.core.units import parse_duration, parse_size


class Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """90, 90s, 10m, 1h30m, as seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return value if isinstance(value, float) else parse_duration(value)
        except BadValue as error:
            self.fail(str(error), param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "D"


class Size(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """512M, 8G, 8GiB or plain bytes, as bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return value if isinstance(value, int) else parse_size(value)
        except BadValue as error:
            self.fail(str(error), param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "SIZE"


class KeyValue(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """KEY=VALUE, as a pair."""

    name = "pair"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, equals, text = value.partition("=")
        if not equals or not key:
            self.fail(f'"{value}" is not of the form KEY=VALUE', param, ctx)
        return key, text

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "K=V"
