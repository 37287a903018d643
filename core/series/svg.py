"""Draws charts of a job as one SVG file without a library; the file has no scripts and no fonts."""

from collections.abc import Iterator, Sequence
from html import escape

from jobtop.core.series.downsample import select_positions
from jobtop.core.series.drawing import Curve, Points, segments, time_marks, value_marks
from jobtop.core.text.metric_text import format_shown
from jobtop.core.units import format_duration, printable

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
FONT = "system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif"
LEFT, RIGHT, TOP, BOTTOM = 96, 24, 34, 30
HEADING = 64
# U+FFFE and U+FFFF are printable for Python and forbidden in XML.
NOT_XML = str.maketrans({"\ufffe": "\ufffd", "\uffff": "\ufffd"})


def svg(title: str, subtitle: str, curves: Sequence[Curve], end: float, width: int = 960, height: int = 220) -> str:
    """Return an SVG with one chart per curve, below each other, over the same time."""
    total = HEADING + height * len(curves) + 8
    size = f'width="{width}" height="{total}" viewBox="0 0 {width} {total}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" font-size="12">',
        f"<title>{escaped(title)}</title>",
        f'<rect width="{width}" height="{total}" fill="#ffffff"/>',
        f'<text x="24" y="30" font-size="18" font-weight="600" fill="#1c2330">{escaped(title)}</text>',
        f'<text x="24" y="50" fill="#5b6472">{escaped(subtitle)}</text>',
    ]
    for number, curve in enumerate(curves):
        box = Box(LEFT, HEADING + height * number + TOP, width - LEFT - RIGHT, height - TOP - BOTTOM)
        lines += chart(curve, box, end, COLORS[number % len(COLORS)])
    return "\n".join([*lines, "</svg>", ""])


class Box:
    """The rectangle of a chart; converts times and values to coordinates."""

    def __init__(self, left: int, top: int, width: int, height: int) -> None:
        self.left, self.top, self.width, self.height = left, top, width, height
        self.right, self.bottom = left + width, top + height

    def x(self, moment: float, end: float) -> str:
        return f"{self.left + self.width * moment / end:.1f}"

    def y(self, value: float, top: float) -> str:
        return f"{self.bottom - self.height * value / top:.1f}"


def chart(curve: Curve, box: Box, end: float, color: str) -> Iterator[str]:
    """Yield the SVG of one chart: its title, the marks of both axes, the curve."""
    known = curve.known()
    peak = max(known, default=0.0)
    marks = value_marks(curve.metric, peak)
    top, end = max(marks[-1], peak) or 1.0, end or 1.0
    peak_text = f"peak {format_shown(curve.metric, peak)}" if known else "not known"
    yield f'<text x="{box.left}" y="{box.top - 12}" font-weight="600" fill="#1c2330">{escaped(curve.metric.title)}'
    details = f"· {escaped(curve.metric.key)} · {escaped(peak_text)}"
    yield f'<tspan font-weight="400" fill="#5b6472" dx="6">{details}</tspan></text>'
    for mark in marks:
        y = box.y(mark, top)
        label = escaped(format_shown(curve.metric, mark))
        yield f'<path d="M{box.left} {y}H{box.right}" stroke="{"#9aa3b0" if mark == 0 else "#e6e9ee"}"/>'
        yield f'<text x="{box.left - 8}" y="{y}" dy="4" text-anchor="end" fill="#5b6472">{label}</text>'
    for mark in time_marks(end, 8):
        x = box.x(mark, end)
        label = escaped(time_label(mark))
        yield f'<path d="M{x} {box.bottom}v4" stroke="#9aa3b0"/>'
        yield f'<text x="{x}" y="{box.bottom + 18}" text-anchor="middle" fill="#5b6472">{label}</text>'
    for segment in segments(curve):
        yield stroke(thin_points(segment, 2 * box.width), box, top, end, color)


def stroke(points: Points, box: Box, top: float, end: float, color: str) -> str:
    """Return the SVG of one unbroken part of a curve; a single point is a dot."""
    places = [(box.x(moment, end), box.y(value, top)) for moment, value in points]
    if len(places) == 1:
        return f'<circle cx="{places[0][0]}" cy="{places[0][1]}" r="2.5" fill="{color}"/>'
    line = "L".join(f"{x} {y}" for x, y in places)
    area = f"M{places[0][0]} {box.bottom}L{line}V{box.bottom}Z"
    return (
        f'<path d="{area}" fill="{color}" fill-opacity="0.12"/>'
        f'<path d="M{line}" fill="none" stroke="{color}" stroke-width="1.5" stroke-linejoin="round"/>'
    )


def thin_points(points: Points, count: int) -> Points:
    """Return at most `count` of the points, including the peaks."""
    if len(points) <= count:
        return points
    times, values = zip(*points, strict=True)
    return [points[position] for position in select_positions(times, [values], count)]


def time_label(moment: float) -> str:
    """Return the label of a mark on the time axis; 0 has no unit."""
    return format_duration(moment) if moment else "0"


def escaped(text: str) -> str:
    """Return the text escaped for XML, without characters that XML forbids."""
    return escape(printable(text).translate(NOT_XML))
