"""Charts in a terminal by plotext; no other module imports it."""

from collections.abc import Sequence

import plotext

from jobtop.core.series.drawing import Curve, segments, time_marks, value_marks
from jobtop.core.series.svg import thin_points, time_label
from jobtop.core.text.metric_text import format_shown

BLUE, ORANGE, GREEN, PURPLE = (86, 180, 233), (230, 159, 0), (43, 181, 138), (204, 121, 167)
COLORS = (BLUE, ORANGE, GREEN, PURPLE)
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


def chart(curve: Curve, end: float, width: int, height: int, shade: tuple[int, int, int], color: bool) -> str:
    """A line of text and the chart below it; gaps stay empty."""
    known = curve.known()
    peak = max(known)
    marks = value_marks(curve.metric, peak, max(2, height // 2 - 1))
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limit_size(False, False)
    plotext.plotsize(width, height - 1)
    for segment in segments(curve):
        moments, values = zip(*thin_points(segment, POINTS_PER_COLUMN * width), strict=True)
        plotext.plot(moments, values, marker="braille", color=shade)
    plotext.ylim(min(0, *known), max(marks[-1], peak) or 1)  # a battery that is charged has a power below 0
    plotext.xlim(0, end or 1)
    plotext.yticks(marks, [format_shown(curve.metric, mark) for mark in marks])
    ticks = time_marks(end, max(2, width // 12))
    plotext.xticks(ticks, list(map(time_label, ticks)))
    text = plotext.build()
    text = text if color else plotext.uncolorize(text)
    lines = [line.rstrip() for line in text.rstrip("\n").split("\n")]
    return "\n".join([f"{heading_of(curve)}, peak {format_shown(curve.metric, peak)}", *lines])
