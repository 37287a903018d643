"""Formats values and rates of metrics by their unit."""

from collections.abc import Callable

from jobtop.core.metrics import Kind, Metric, Unit
from jobtop.core.units import ABSENT, format_bytes, format_duration, format_percent

Number = float | int
MOST_DECIMALS = 9


def format_value(metric: Metric, value: Number | None) -> str:
    """Format a value of a metric: `214.2 MiB`, `98.7 %`, `1 204`."""
    if value is None:
        return ABSENT
    return FORMATS[metric.unit](value)


def format_rate(metric: Metric, rate: Number | None) -> str:
    """Format the rate of a counter: bytes and counts per second; seconds per second in percent, joules in watts."""
    if rate is None:
        return ABSENT
    match metric.unit:
        case Unit.BYTES:
            return f"{format_bytes(rate)}/s"
        case Unit.SECONDS:
            return format_percent(rate)
        case Unit.JOULES:
            return format_si(rate, "W")
        case _:
            return f"{format_count(rate)}/s"


def format_shown(metric: Metric, value: Number | None) -> str:
    """Format what a chart draws: a gauge as its value, a counter as its rate."""
    return format_rate(metric, value) if metric.kind is Kind.COUNTER else format_value(metric, value)


def format_count(value: Number) -> str:
    """Format a count as `58 478`, `0.4` or `2.5`: thousands separated, decimals only for small fractions."""
    if abs(value) >= 99.95 or value == int(value):
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if abs(value) >= 0.05 else f"{value:.1g}"


def format_amount(value: Number) -> str:
    """Format a positive number of any size with at least two digits that are not 0, never as 1e-05."""
    if value >= 99.5 or value == 0:
        return f"{value:.0f}"
    if value >= 1:
        return f"{value:.1f}"
    decimals = 2
    while decimals < MOST_DECIMALS and value < 10 ** (1 - decimals):
        decimals += 1
    return f"{value:.{decimals}f}"


def format_si(value: Number, unit: str) -> str:
    """Format a value with a decimal prefix: `45.2 W`, `1.4 GHz`, `12.0 kJ`."""
    for prefix in ("", "k", "M"):
        if abs(value) < 999.95:
            return f"{value:.1f} {prefix}{unit}"
        value /= 1000
    return f"{value:.1f} G{unit}"


FORMATS: dict[Unit, Callable[[Number], str]] = {
    Unit.BYTES: format_bytes,
    Unit.SECONDS: format_duration,
    Unit.PERCENT: lambda value: format_percent(value / 100),
    Unit.COUNT: format_count,
    Unit.CORES: format_count,
    Unit.CELSIUS: lambda value: f"{value:.1f} °C",
    Unit.FLAG: lambda value: "yes" if value else "no",
    Unit.WATTS: lambda value: format_si(value, "W"),
    Unit.JOULES: lambda value: format_si(value, "J"),
    Unit.HERTZ: lambda value: format_si(value, "Hz"),
    Unit.RPM: lambda value: f"{format_count(value)} rpm",
    Unit.BYTES_PER_SECOND: lambda value: f"{format_bytes(value)}/s",
}
