"""Charts in a terminal by plotext; no other module imports it."""

from collections.abc import Sequence
from string import ascii_lowercase

import plotext

from jobtop.core.series.drawing import Curve, segments, time_marks, value_marks
from jobtop.core.series.svg import thin_points, time_label
from jobtop.core.text.metric_text import format_shown

BLUE, ORANGE, GREEN, PURPLE = (86, 180, 233), (230, 159, 0), (43, 181, 138), (204, 121, 167)
COLORS = (BLUE, ORANGE, GREEN, PURPLE)
OVERLAY_COLORS = (*COLORS, (240, 112, 60), (240, 228, 66), (125, 135, 150))
POINTS_PER_COLUMN = 4


def charts(curves: Sequence[Curve], end: float, width: int, height: int, color: bool, empty: str) -> str:
    """One chart for each curve, below each other, over the same time; plain text without colour.

    `empty` says why a curve has no values.
    """
    drawn = [
        chart(curve, end, width, height, COLORS[number % len(COLORS)], color)
        if curve.known()
        else f"{heading_of(curve)}: {empty}"
        for number, curve in enumerate(curves)
    ]
    return "\n\n".join(drawn)


def heading_of(curve: Curve) -> str:
    return f"{curve.metric.key}: {curve.metric.title}"


def overlaid(curves: Sequence[Curve], end: float, width: int, height: int, color: bool, empty: str) -> str:
    """One chart with the same metric of several jobs; without colour each has its own letter."""
    known = [curve for curve in curves if curve.known()]
    if not known:
        return f"{heading_of(curves[0])}: {empty}"
    marks = [None if color else letter(number) for number in range(len(curves))]
    return drawn_chart(curves, end, width, height, [shade(number) for number in range(len(curves))], marks, color)


def legend_mark(number: int, color: bool) -> str:
    """What stands before the name of the nth of several jobs: a line in its colour, or its letter."""
    red, green, blue = shade(number)
    return f"\x1b[38;2;{red};{green};{blue}m━━\x1b[0m" if color else letter(number)


def letter(number: int) -> str:
    return ascii_lowercase[number % len(ascii_lowercase)]


def shade(number: int) -> tuple[int, int, int]:
    return OVERLAY_COLORS[number % len(OVERLAY_COLORS)]


def chart(curve: Curve, end: float, width: int, height: int, shade: tuple[int, int, int], color: bool) -> str:
    """A line of text and the chart below it; gaps stay empty."""
    return drawn_chart([curve], end, width, height, [shade], [None], color)


def drawn_chart(
    curves: Sequence[Curve],
    end: float,
    width: int,
    height: int,
    shades: Sequence[tuple[int, int, int]],
    letters: Sequence[str | None],
    color: bool,
) -> str:
    """Curves of one metric in one chart; a curve without a letter is drawn in braille dots."""
    known = [value for curve in curves for value in curve.known()]
    peak, metric = max(known), curves[0].metric
    marks = value_marks(metric, peak, max(2, height // 2 - 1))
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limit_size(False, False)
    plotext.plotsize(width, height - 1)
    for curve, color_of_curve, mark in zip(curves, shades, letters, strict=True):
        for segment in segments(curve):
            moments, values = zip(*thin_points(segment, POINTS_PER_COLUMN * width), strict=True)
            plotext.plot(moments, values, marker=mark or "braille", color=color_of_curve)
    plotext.ylim(min(0, *known), max(marks[-1], peak) or 1)  # a battery that is charged has a power below 0
    plotext.xlim(0, end or 1)
    plotext.yticks(marks, [format_shown(metric, mark) for mark in marks])
    ticks = time_marks(end, max(2, width // 12))
    plotext.xticks(ticks, list(map(time_label, ticks)))
    text = plotext.build()
    text = text if color else plotext.uncolorize(text)
    lines = [line.rstrip() for line in text.rstrip("\n").split("\n")]
    return "\n".join([f"{heading_of(curves[0])}, peak {format_shown(metric, peak)}", *lines])
