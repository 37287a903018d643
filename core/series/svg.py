"""Charts of a job as one SVG file, written by hand: no library, no script, no font but the reader's own."""

from collections.abc import Iterator, Sequence
from html import escape

from jobtop.core.series.downsample import kept_positions
from jobtop.core.series.drawing import Curve, Points, segments, time_marks, value_marks
from jobtop.core.text.metric_text import format_shown
from jobtop.core.units import format_duration, printable

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
FONT = "system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif"
LEFT, RIGHT, TOP, BOTTOM = 96, 24, 34, 30
HEADING = 64
# U+FFFE and U+FFFF are the two characters that are printable to Python and forbidden in XML.
FORBIDDEN = str.maketrans({"\ufffe": "\ufffd", "\uffff": "\ufffd"})


def svg(title: str, subtitle: str, curves: Sequence[Curve], end: float, width: int = 960, height: int = 220) -> str:
    """One chart a curve, below each other, over the same time."""
    total = HEADING + height * len(curves) + 8
    size = f'width="{width}" height="{total}" viewBox="0 0 {width} {total}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" font-size="12">',
        f"<title>{text(title)}</title>",
        f'<rect width="{width}" height="{total}" fill="#ffffff"/>',
        f'<text x="24" y="30" font-size="18" font-weight="600" fill="#1c2330">{text(title)}</text>',
        f'<text x="24" y="50" fill="#5b6472">{text(subtitle)}</text>',
    ]
    for number, curve in enumerate(curves):
        box = Box(LEFT, HEADING + height * number + TOP, width - LEFT - RIGHT, height - TOP - BOTTOM)
        lines += chart(curve, box, end, COLORS[number % len(COLORS)])
    return "\n".join([*lines, "</svg>", ""])


class Box:
    """Where a chart is, and where in it a moment and a value are."""

    def __init__(self, left: int, top: int, width: int, height: int) -> None:
        self.left, self.top, self.width, self.height = left, top, width, height
        self.right, self.bottom = left + width, top + height

    def x(self, moment: float, end: float) -> str:
        return f"{self.left + self.width * moment / end:.1f}"

    def y(self, value: float, top: float) -> str:
        return f"{self.bottom - self.height * value / top:.1f}"


def chart(curve: Curve, box: Box, end: float, color: str) -> Iterator[str]:
    """The lines of one chart: its title, the marks of both axes, the curve."""
    known = curve.known()
    peak = max(known, default=0.0)
    marks = value_marks(curve.metric, peak)
    top, end = max(marks[-1], peak) or 1.0, end or 1.0
    words = f"peak {format_shown(curve.metric, peak)}" if known else "not known of this job"
    yield f'<text x="{box.left}" y="{box.top - 12}" font-weight="600" fill="#1c2330">{text(curve.metric.title)}'
    yield f'<tspan font-weight="400" fill="#5b6472" dx="6">· {text(curve.metric.key)} · {text(words)}</tspan></text>'
    for mark in marks:
        y = box.y(mark, top)
        label = text(format_shown(curve.metric, mark))
        yield f'<path d="M{box.left} {y}H{box.right}" stroke="{"#9aa3b0" if mark == 0 else "#e6e9ee"}"/>'
        yield f'<text x="{box.left - 8}" y="{y}" dy="4" text-anchor="end" fill="#5b6472">{label}</text>'
    for mark in time_marks(end, 8):
        x = box.x(mark, end)
        label = text(moment_words(mark))
        yield f'<path d="M{x} {box.bottom}v4" stroke="#9aa3b0"/>'
        yield f'<text x="{x}" y="{box.bottom + 18}" text-anchor="middle" fill="#5b6472">{label}</text>'
    for segment in segments(curve):
        yield stroke(thinned(segment, 2 * box.width), box, top, end, color)


def stroke(points: Points, box: Box, top: float, end: float, color: str) -> str:
    """One unbroken part of a curve; a lone point is a dot."""
    places = [(box.x(moment, end), box.y(value, top)) for moment, value in points]
    if len(places) == 1:
        return f'<circle cx="{places[0][0]}" cy="{places[0][1]}" r="2.5" fill="{color}"/>'
    line = "L".join(f"{x} {y}" for x, y in places)
    area = f"M{places[0][0]} {box.bottom}L{line}V{box.bottom}Z"
    return (
        f'<path d="{area}" fill="{color}" fill-opacity="0.12"/>'
        f'<path d="M{line}" fill="none" stroke="{color}" stroke-width="1.5" stroke-linejoin="round"/>'
    )


def thinned(points: Points, count: int) -> Points:
    """At most so many of the points, the peaks among them."""
    if len(points) <= count:
        return points
    times, values = zip(*points, strict=True)
    return [points[position] for position in kept_positions(times, [values], count)]


def moment_words(moment: float) -> str:
    """A mark of the time axis; its beginning needs no unit."""
    return format_duration(moment) if moment else "0"


def text(words: str) -> str:
    """Whatever the words hold, characters that XML allows and no markup."""
    return escape(printable(words).translate(FORBIDDEN))
