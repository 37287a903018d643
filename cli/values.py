"""Option values a user types, for click."""

from typing import Any

import click

from jobtop.core.errors import BadValue
from jobtop.core.units import parse_duration


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
